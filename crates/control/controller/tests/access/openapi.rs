//! docs/openapi.json: it is what the code says, its examples are questions that a controller answers, and answers have its shapes.

use super::forecasts::{now_s, ring, sort};
use super::{Site, status};
use serde_json::{Value, json};
use std::path::Path;
use trimtab_controller::openapi;

/// Has the test write the document in place of comparing it.
const WRITE: &str = "TRIMTAB_WRITE_OPENAPI";

#[test]
fn the_document_in_docs_is_the_code_s() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/openapi.json");
    let own = serde_json::to_string_pretty(&openapi()).expect("JSON") + "\n";
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &own).expect("it is written");
    }
    let kept = std::fs::read_to_string(&path).expect("it is there");
    assert!(kept == own, "docs/openapi.json is not what the code says: run this test with {WRITE}=1");
}

/// Checks a value against a schema of the document, as far as such schemas go.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        // The report's own schema has a test of its own.
        let Some(pointer) = reference.strip_prefix('#') else { return Ok(()) };
        let found = document.pointer(pointer).ok_or_else(|| format!("{at}: {reference} is not there"))?;
        return check(document, found, value, at);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let all: Vec<_> = any.iter().map(|one| check(document, one, value, at)).collect();
        return if all.iter().any(Result::is_ok) { Ok(()) } else { Err(format!("{at}: {all:?}")) };
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !(kinds.is_empty() || kinds.contains(&own) || (own == "integer" && kinds.contains(&"number"))) {
        return Err(format!("{at} is {own} and not {kinds:?}"));
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate().filter(|_| schema["items"].is_object()) {
        check(document, &schema["items"], item, &format!("{at}/{place}"))?;
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        object.get(name).ok_or_else(|| format!("{at} has no {name}"))?;
    }
    for (name, item) in object {
        match schema["properties"].get(name).or(schema.get("additionalProperties")) {
            Some(described) if described.is_object() => check(document, described, item, &format!("{at}/{name}"))?,
            None if schema["properties"].is_object() => return Err(format!("{at}/{name} is not described")),
            _ => {}
        }
    }
    Ok(())
}

fn answer_of<'a>(document: &'a Value, path: &str, method: &str) -> &'a Value {
    &document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
}

/// A site with a job, two of its windows and a model, of which the examples speak.
fn site() -> Site {
    let site = Site::start();
    let agent = site.agent("n1");
    let now = now_s();
    assert_eq!(site.keeps(7, "ring", ring(now - 310.0, now - 110.0, 200)), "ring-1");
    site.keeps(7, "ring", ring(now - 310.0, now - 10.0, 300));
    site.client("administrator:0").post::<()>("/v1/models", &sort()).expect("it is kept");
    drop(agent);
    site
}

#[test]
fn examples_are_answered_as_the_document_says() {
    let (site, document) = (site(), openapi());
    let ann = site.client("user:7");
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        let content = &item["post"]["requestBody"]["content"]["application/json"];
        let Some(example) = content.get("example") else { continue };
        check(&document, &content["schema"], example, path).unwrap_or_else(|why| panic!("the example: {why}"));
        // Slurm's name of a job of hers.
        let asked_at = path.replace("{job}", "4711");
        let found: Value = ann.post(&asked_at, example).unwrap_or_else(|error| panic!("{path}: {error}"));
        let schema = answer_of(&document, path, "post");
        assert!(schema.is_object(), "{path}");
        check(&document, schema, &found, path).unwrap_or_else(|why| panic!("{why}: {found}"));
        asked += 1;
    }
    assert!(asked >= 6, "{asked} examples");
}

#[test]
fn what_is_asked_for_has_the_shape_that_the_document_says() {
    let (site, document) = (site(), openapi());
    let ann = site.client("user:7");
    for (path, asked) in [
        ("/v1/tree", "/v1/tree"),
        ("/v1/jobs", "/v1/jobs"),
        ("/v1/jobs/{job}", "/v1/jobs/ring-1"),
        ("/v1/jobs/{job}/windows/{window}", "/v1/jobs/ring-1/windows/1"),
        ("/v1/schedulers", "/v1/schedulers"),
        ("/v1/pairs", "/v1/pairs"),
    ] {
        let found: Value = ann.get(asked).unwrap_or_else(|error| panic!("{asked}: {error}"));
        check(&document, answer_of(&document, path, "get"), &found, path)
            .unwrap_or_else(|why| panic!("{why}: {found}"));
    }
    let shown: Value = ann.get("/v1/openapi.json").expect("it is shown");
    assert_eq!(shown, document);
    assert_eq!(status(site.client("node:n1").get::<Value>("/v1/openapi.json")), 403);
}

#[test]
fn every_request_says_who_may_and_has_a_name_of_its_own() {
    let document = openapi();
    let mut names = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            assert!(operation["description"].as_str().is_some_and(|text| text.starts_with("Who may: ")), "{path}");
            let parts = operation["parameters"].as_array().map_or(0, Vec::len);
            assert_eq!(parts, path.matches('{').count(), "{method} {path}: every part is described");
            names.push(operation["operationId"].as_str().expect("a name").to_owned());
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), document["openapi"].as_str()), (count, Some("3.1.0")));
    assert_eq!(document["components"]["schemas"]["Problem"]["required"], json!(["error"]));
}
