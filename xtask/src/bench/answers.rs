//! `bench forecast --only answers`: how long one of the four questions takes, in the library beside reading one row of the store's
//! SQLite, and over HTTP beside a request that asks for nothing, on one connection that is kept.
//!
//! Next: `crates/control/controller/examples/answers.rs`, which asks.

use super::attach::Bench;
use super::record::Record;
use super::row::Row;
use crate::shell;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;

/// Bars, times what stands beside it.
const LIBRARY_MAX: f64 = 2.0;
const HTTP_MAX: f64 = 2.0;

/// Asks, and judges.
pub fn run(bench: &Bench, record: &mut Record) -> Result<()> {
    let text = shell::read(&mut Command::new(bench.binary("examples/answers")))?;
    let line = text.lines().next_back().context("no question was asked")?;
    record.judge(rows(&serde_json::from_str(line).context("the answers are no JSON")?)?);
    Ok(())
}

fn rows(found: &Value) -> Result<Vec<Row>> {
    let (questions, rounds) = (list(found, "questions")?, list(found, "rounds")?);
    let number = |round: &Value, pointer: &str| round.pointer(pointer).and_then(Value::as_f64).context("no number");
    let ratios = |over: &str, beside: &str| -> Result<Vec<f64>> {
        let ratio = |round: &Value| Ok(number(round, over)? / number(round, beside)?);
        rounds.iter().map(ratio).collect()
    };
    let mut rows = Vec::new();
    for (at, question) in questions.iter().enumerate() {
        let name = question.as_str().context("a question has no name")?;
        let library = ratios(&format!("/library_s/{at}"), "/row_s")?;
        let what = format!("answers: {name} in the library, beside reading one row");
        rows.push(Row::median_at_most(what, "times", &library, LIBRARY_MAX));
        let http = ratios(&format!("/http_s/{at}"), "/nothing_s")?;
        let what = format!("answers: {name} over HTTP, beside a request of nothing");
        rows.push(Row::median_at_most(what, "times", &http, HTTP_MAX));
    }
    ensure!(!rows.is_empty(), "no question was asked");
    let stored = ratios("/from_store_s", "/row_s")?;
    rows.push(Row::no_bar("answers: comp with its model read anew, beside reading one row", "times", &stored));
    for (what, pointer) in [("reading one row", "/row_s"), ("a request of nothing", "/nothing_s")] {
        let each = rounds.iter().map(|round| Ok(1e6 * number(round, pointer)?)).collect::<Result<Vec<f64>>>()?;
        rows.push(Row::no_bar(format!("answers: {what}"), "us", &each));
    }
    Ok(rows)
}

fn list<'a>(found: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    found.get(name).and_then(Value::as_array).with_context(|| format!("the answers lack {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::Verdict;
    use serde_json::json;

    #[test]
    fn questions_are_held_to_their_bars() {
        let found = |library_s: f64, http_s: f64| {
            let round = json!({
                "row_s": 1e-5, "library_s": [library_s], "from_store_s": 1e-4, "nothing_s": 1e-4, "http_s": [http_s],
            });
            rows(&json!({ "questions": ["comp"], "rounds": [round] })).expect("rows")
        };
        let verdicts = |rows: Vec<Row>| rows.iter().map(|row| row.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(found(1.9e-5, 1.9e-4))[..2], [Verdict::Met, Verdict::Met]);
        assert_eq!(verdicts(found(2.1e-5, 2.1e-4))[..2], [Verdict::Missed, Verdict::Missed]);
        assert!(rows(&json!({ "questions": [], "rounds": [] })).is_err());
    }
}
