//! Random scripts that mean something, as machine code and by the reference: both must leave the same areas behind.
//!
//! Bytes choose what a script is made of, so that every input is a script. Next: `script` for those that mean nothing.

use crate::agree::{LEAVES, OPERATORS, PREFIXES, compare, state};
use crate::common::survive::{ALL, facts};
use crate::hostile::Target;
use crate::mutate::Mutator;
use crate::world::World;
use anyhow::Result;
use trimtab_snippet::compile;

/// Deepest nest of a random expression.
const DEPTH_MAX: u32 = 4;
/// Statements of a script at most.
const STATEMENTS_MAX: u8 = 4;
/// Bytes for the registers, before those for the script.
const STATE_BYTES: usize = 33;

/// The target, with the memory in which code runs.
pub struct Code {
    world: World,
}

impl Code {
    /// Makes the memory.
    pub fn new() -> Code {
        Code { world: World::new() }
    }
}

impl Target for Code {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        Ok((0..32_u8).map(|first| (0..160_u8).map(|at| at.wrapping_mul(first * 2 + 37) ^ first).collect()).collect())
    }

    fn length_max(&self) -> usize {
        512
    }

    /// Short scripts more often than long ones: they take less time, and what differs in a long one mostly differs in a
    /// part of it.
    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        mutator.change(input, other, &[]);
        let room = self.length_max() - STATE_BYTES;
        let longest = mutator.random.below(room as u64 + 1);
        input.truncate(STATE_BYTES + mutator.random.below(longest + 1) as usize);
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((numbers, choices)) = input.split_at_checked(STATE_BYTES) else { return false };
        let mut choices = Choices(choices);
        let statements: Vec<String> = (0..=choices.below(STATEMENTS_MAX)).map(|_| choices.statement()).collect();
        let script = format!("process int k; entry solve {{ {} }}", statements.join("; "));
        let Ok(compiled) = compile(&script, facts(), ALL) else { return false };
        let seeds = std::array::from_fn(|at| {
            numbers[8 * at..8 * at + 8].try_into().map(u64::from_le_bytes).unwrap_or_default()
        });
        let state = state(&self.world, seeds, i64::from(numbers[32] % 10) - 5);
        compare(&mut self.world, &compiled.unit, &state, &script);
        true
    }
}

/// Bytes as choices; when they run out, always the first.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, count: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first % count
    }

    fn choose(&mut self, from: &[&'static str]) -> &'static str {
        from[usize::from(self.below(from.len() as u8))]
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth == DEPTH_MAX || self.0.is_empty() {
            return self.choose(LEAVES).to_string();
        }
        let depth = depth + 1;
        match self.below(9) {
            0..=2 => self.choose(LEAVES).to_string(),
            3 => format!("{} {} {}", self.expression(depth), self.choose(OPERATORS), self.expression(depth)),
            4 => format!("({}) - {}", self.expression(depth), self.expression(depth)),
            5 => {
                let (a, b) = (self.expression(depth), self.expression(depth));
                format!("max({a}, {b}) + min({b}, {a})")
            }
            6 => format!("{}({})", self.choose(PREFIXES), self.expression(depth)),
            7 => format!("({} ? {} : {})", self.expression(depth), self.expression(depth), self.expression(depth)),
            _ => format!("abs({})", self.expression(depth)),
        }
    }

    fn statement(&mut self) -> String {
        let which = self.below(15);
        let a = self.expression(0);
        match which {
            0 => format!("x = {a}"),
            1 => format!("n += {a}"),
            2 => format!("k += {a}"),
            3 => format!("h = hist({a})"),
            4 => format!("lo = min({a})"),
            5 => format!("hi = max({a})"),
            6 => format!("av = mean({a})"),
            7 => "st = stack()".to_string(),
            8 => "if (n > 5) stop()".to_string(),
            9 => format!("if ({a}) {{ y = {} }} else y = 1", self.expression(0)),
            10 => format!("while ({a}) limit 3 {{ z -= {}; if (z < 4) break; }}", self.expression(0)),
            11 => format!("repeat 2 {{ let t = {a}; w = mean(t) }}"),
            12 => format!("if ({a}) return"),
            13 => format!("for (let i = 0; i < 3; i++) {{ f += {a} }}"),
            _ => format!("eq += (char *)({a}) == \"abc\""),
        }
    }
}
