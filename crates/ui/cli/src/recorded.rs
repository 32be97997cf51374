//! Files that were recorded elsewhere, and numbers as tables show them.
//!
//! Next: `backtest` and `backtest_jobs`, which read and show them.

use anyhow::{Context, ensure};
use std::io::Read;
use std::path::Path;

/// The longest file that is read: a hundred times a year of values every five minutes.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// All of a file or of standard input.
pub(crate) fn bytes_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let input: Box<dyn Read> = match path {
        _ if path == Path::new("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).with_context(|| format!("cannot open {name}"))?),
    };
    let mut bytes = Vec::new();
    input.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    // A series that was cut is another series.
    ensure!(bytes.len() as u64 <= FILE_BYTES_MAX, "{name} is longer than {} MB", FILE_BYTES_MAX >> 20);
    Ok(bytes)
}

/// Four digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (0.001..100_000.0).contains(&size) => {
            let before = size.log10().floor().max(0.0) as usize + 1;
            format!("{value:.*}", 4usize.saturating_sub(before).max(usize::from(size < 1.0) * 4))
        }
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0251, "0.0251"),
            (1.4884, "1.488"),
            (37.756, "37.76"),
            (15268.8, "15269"),
            (9.17674e6, "9.177e6"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
