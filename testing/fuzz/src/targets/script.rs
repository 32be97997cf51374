//! Any text as a probe script: refused with sense, or compiled, run by the reference within its promised cost, and made
//! into machine code.
//!
//! Next: `code`, which runs that machine code.

use crate::common::survive::{ALL, SOUND, WORDS, facts, survive};
use crate::hostile::Target;
use crate::mutate::Mutator;
use anyhow::Result;
use trimtab_snippet::compile;
use trimtab_snippet::emit::{Areas, Environment, ThreadKey, shared_routines};
use trimtab_types::ProcAddr;

/// Where the code is thought to lie; it is not run.
const CODE: u64 = 0x7f00_0000_1000;

/// Points that there are.
const POINTS: [&str; 5] = ["entry solve", "exit norm", "at solver.c:214", "entry move, log_line", "every 1s"];

/// The target.
pub struct Script;

impl Target for Script {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let page = include_str!("../../../../docs/probe-language.md").split("\n```");
        let examples = page.filter_map(|block| block.strip_prefix("probe")?.split_once('\n').map(|(_, script)| script));
        Ok(std::iter::once(SOUND).chain(examples).map(|script| script.as_bytes().to_vec()).collect())
    }

    fn length_max(&self) -> usize {
        2048
    }

    /// Joined from words of the language now and then, else changed with such words.
    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        let words: Vec<&[u8]> = WORDS.iter().map(|word| word.as_bytes()).collect();
        if mutator.random.below(4) > 0 {
            return mutator.change(input, other, &words);
        }
        let count = mutator.random.below(30);
        let body: String = (0..count).map(|_| mutator.random.choose(WORDS)).collect();
        let point = mutator.random.choose(&POINTS);
        *input = format!("{point} {{ {body} }}").into_bytes();
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let script = String::from_utf8_lossy(input);
        if !survive(&script) {
            return false;
        }
        let Ok(compiled) = compile(&script, facts(), ALL) else { return false };
        let areas = Areas {
            process: ProcAddr(CODE + 0x10_0000),
            threads: ProcAddr(CODE + 0x20_0000),
            thread_count: 64,
            thread_stride: compiled.unit.thread_bytes.next_multiple_of(64),
            key: ThreadKey::SelfPointer,
            multiplier: trimtab_stub::layout::SLOT_HASH_MULTIPLIER,
            thread_id_at: None,
        };
        let routines = shared_routines(ProcAddr(CODE), &areas).expect("routines fit");
        for body in &compiled.unit.bodies {
            let (at, point, gate) = (ProcAddr(CODE + 0x8000), ProcAddr(0x1234_5678), ProcAddr(CODE - 0x1000));
            let environment = Environment::cautious(body.when, at, point, gate, &areas, &routines.addresses);
            // A script that can't be emitted is refused with its reason.
            let _ = trimtab_snippet::emit::compile(&compiled.unit, body, &environment);
        }
        true
    }
}
