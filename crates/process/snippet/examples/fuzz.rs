//! Compiles and runs hostile scripts for as long as one likes: `fuzz COUNT [SEED]`, best with `--release`.
//!
//! Scripts are joined from words of the language, or are sound ones with parts cut, doubled or exchanged. The same
//! count and seed make the same scripts; one that panics is printed. Next: `tests/hostile.rs`, the short run of this.

#[path = "../tests/common/mod.rs"]
mod common;

use common::survive::{SOUND, WORDS, survive};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Some(Ok(count)), Ok(seed)) = (arguments.next(), arguments.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: fuzz COUNT [SEED]");
        return ExitCode::from(2);
    };
    println!("fuzz: {count} scripts, seed {seed}");
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut compiled = 0_u64;
    for number in 0..count {
        let script = make(&mut random);
        match std::panic::catch_unwind(|| survive(&script)) {
            Ok(sound) => compiled += u64::from(sound),
            Err(_) => {
                eprintln!("script {number} panics:\n{script}");
                return ExitCode::from(1);
            }
        }
    }
    println!("fuzz: {compiled} compiled and ran, {} were refused", count - compiled);
    ExitCode::SUCCESS
}

/// Marsaglia's xorshift, 64 bits.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }
}

fn make(random: &mut Random) -> String {
    match random.below(3) {
        0 => (0..random.below(60)).map(|_| random.word()).collect(),
        1 => {
            let point = ["entry solve", "exit norm", "at solver.c:214", "entry move, log_line", "every 1s"];
            let body: String = (0..random.below(30)).map(|_| random.word()).collect();
            format!("{} {{ {body} }}", point[random.below(point.len())])
        }
        _ => spoiled(random),
    }
}

/// The sound script with a few changes.
fn spoiled(random: &mut Random) -> String {
    let mut script = SOUND.to_string();
    for _ in 0..=random.below(4) {
        let length = script.len();
        let start = random.below(length);
        let end = (start + random.below(40)).min(length);
        let part = script[start..end].to_string();
        match random.below(4) {
            0 => script.replace_range(start..end, ""),
            1 => script.insert_str(start, &part.repeat(random.below(30))),
            2 => script.insert_str(start, random.word()),
            _ => {
                let at = random.below(script.len());
                script.insert_str(at, &part);
            }
        }
        if script.is_empty() {
            return script;
        }
    }
    script
}
