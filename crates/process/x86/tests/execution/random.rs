//! Random numbers that are the same on every machine, and how many cases to try.

/// Fixed, so that a failure is repeated by running the test again.
const SEED: u64 = 0x5851_f42d_4c95_7f2d;

/// `TRIMTAB_SEED`, or always the same.
pub fn seed() -> u64 {
    number("TRIMTAB_SEED").unwrap_or(SEED)
}

/// `TRIMTAB_CASES`, or `usual`.
pub fn cases(usual: u64) -> u64 {
    number("TRIMTAB_CASES").unwrap_or(usual)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// xorshift64*: enough to mix cases.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 32) % limit
    }

    pub fn interesting(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(3),
            1 => u64::MAX - self.below(3),
            _ => self.next(),
        }
    }

    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
