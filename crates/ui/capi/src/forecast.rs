//! Questions about what comes: of a site's controller, or of the program `trimtab` where there is none.
//!
//! Next: docs/api.md for questions, docs/forecasts.md for answers.

use crate::error::Error;
use crate::job::{Said, asked};
use serde_json::Value;
use std::path::PathBuf;
use trimtab_site::{CONTROLLER_VARIABLE, Client, IDENTITY_VARIABLE};

/// Fields of an answer that say why something in it is missing.
const NO_CLAIM: &[&str] = &["no_claim", "no_end", "no_slowdown"];

/// Asks.
pub(crate) fn forecast(what: &str, question: &str) -> Result<Said, Error> {
    let question: Value = serde_json::from_str(question)?;
    let Some(controller) = std::env::var(CONTROLLER_VARIABLE).ok().filter(|name| !name.is_empty()) else {
        return asked(&words(what, &question)?);
    };
    let named = std::env::var(IDENTITY_VARIABLE).ok().filter(|path| !path.is_empty()).map(PathBuf::from);
    let own = || PathBuf::from(std::env::var("HOME").unwrap_or_default()).join(".config/trimtab/identity.pem");
    let client = Client::of_command(&controller, &named.unwrap_or_else(own))?;
    let answer = client.forecast(what, &question)?;
    Ok((answer.to_string(), is_partial(&answer)))
}

/// True if the answer, or a job in it, says why something is missing.
fn is_partial(answer: &Value) -> bool {
    let jobs = answer["jobs"].as_array().into_iter().flatten();
    let is_silent = jobs.chain([answer]).any(|part| NO_CLAIM.iter().any(|field| part[*field].is_string()));
    let none_is_chosen = answer.get("chosen").is_some_and(Value::is_null);
    is_silent || none_is_chosen || answer["time"]["is_outside"] == true
}

/// The words of `trimtab forecast` for a question.
fn words(what: &str, question: &Value) -> Result<Vec<String>, Error> {
    let only_at_site = |part: &str| Error::OnlyAtSite(part.to_owned());
    let fields = question.as_object().ok_or_else(|| only_at_site("a question that is no object"))?;
    let mut words: Vec<String> = vec!["forecast".to_owned(), what.to_owned(), "--json=-".to_owned()];
    for (field, value) in fields {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match (what, field.as_str()) {
            ("job", "job") | ("comp" | "size" | "total" | "place", "model") | ("collective", "collective") => {
                words.push(text)
            }
            ("job", "newest_s") => words.push(format!("--newest={text}")),
            ("comp" | "size" | "total", "host") => words.push(format!("--host={text}")),
            ("comp" | "size" | "total" | "place", "args") | ("comm" | "total" | "place", "data" | "result") => {
                for (name, size) in value.as_object().into_iter().flatten() {
                    let size = size.as_str().map_or_else(|| size.to_string(), str::to_owned);
                    words.push(format!("--{field}={name}={size}"));
                }
            }
            ("comm" | "total" | "place", "in_turn") if value == true => words.push("--in-turn".to_owned()),
            ("comm" | "total" | "place", "in_turn") if value == false => {}
            ("comm" | "total" | "place", "age_s") => words.push(format!("--age={text}")),
            ("comm", "to") | ("collective", "ranks" | "bytes" | "mpi") => words.push(format!("--{field}={text}")),
            ("corun", "jobs" | "with") => {
                if field == "with" {
                    words.push("--with".to_owned());
                }
                words.extend(windows(value).ok_or_else(|| only_at_site("a report in a question"))?);
            }
            ("corun", "alone") => {
                let named = windows(value).ok_or_else(|| only_at_site("a report in a question"))?;
                let letters = value.as_array().into_iter().flatten().map(|one| one["job"].as_str().unwrap_or_default());
                words.extend(letters.zip(named).map(|(job, window)| format!("--alone={job}={window}")));
            }
            ("corun", "offset_s" | "on") | ("place", "on") | ("collective", "hosts") => {
                let all = value.as_array().into_iter().flatten();
                let all: Vec<String> =
                    all.map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
                words.push(format!("--{}={}", field.trim_end_matches("_s"), all.join(",")));
            }
            ("queue", "time_s") => words.push(format!("--time={text}s")),
            ("queue", "nodes" | "processors" | "partition" | "qos" | "user") => words.push(format!("--{field}={text}")),
            _ => return Err(only_at_site(&format!("{field:?} in a question about {what:?}"))),
        }
    }
    Ok(words)
}

/// The names of windows in a list.
fn windows(list: &Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|one| one["window"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn questions_become_words() {
        for (what, question, expected) in [
            ("job", json!({ "job": "4711", "newest_s": 30 }), "4711 --newest=30"),
            (
                "comp",
                json!({ "model": "sort", "host": "n1", "args": { "n": 10, "m": 2 } }),
                "--args=m=2 --args=n=10 --host=n1 sort",
            ),
            (
                "corun",
                json!({ "jobs": [{ "window": "a-1" }, { "window": "b-2/0" }], "alone": [{ "job": "A", "window": "a-1/0" }] }),
                "--alone=A=a-1/0 a-1 b-2/0",
            ),
            (
                "corun",
                json!({ "jobs": [{ "window": "a-1" }], "on": ["n1", "n2"], "with": [{ "window": "b-2" }] }),
                "a-1 --on=n1,n2 --with b-2",
            ),
            ("queue", json!({ "nodes": 4, "time_s": 7200 }), "--nodes=4 --time=7200s"),
            ("comm", json!({ "data": { "A": "bytes:10MB@n1" }, "to": "n2" }), "--data=A=bytes:10MB@n1 --to=n2"),
            (
                "place",
                json!({ "model": "sort", "args": { "n": "A.rows" }, "on": ["n1", "n2"], "in_turn": true }),
                "--args=n=A.rows --in-turn sort --on=n1,n2",
            ),
            (
                "collective",
                json!({ "collective": "alltoall", "ranks": 16, "bytes": 1024, "hosts": ["n1"] }),
                "--bytes=1024 alltoall --hosts=n1 --ranks=16",
            ),
        ] {
            let found = words(what, &question).expect(what);
            assert_eq!(found[3..].join(" "), expected, "{what}");
        }
        for question in [json!({ "jobs": [{ "report": {} }] }), json!({ "together": true }), json!(5)] {
            assert!(matches!(words("corun", &question), Err(Error::OnlyAtSite(_))), "{question}");
        }
    }

    #[test]
    fn an_answer_that_claims_nothing_is_partial() {
        assert!(is_partial(&json!({ "no_claim": "why" })) && !is_partial(&json!({ "no_claim": null })));
        assert!(is_partial(&json!({ "jobs": [{ "no_end": null }, { "no_end": "why" }] })));
    }
}
