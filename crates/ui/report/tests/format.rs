//! The JSON, its schema and its documentation say the same: a field that is added, renamed or allowed to be null in one
//! of them fails here until the others follow.

mod samples;

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use trimtab_types::report::Report;

const SCHEMA: &str = include_str!("../../../../docs/report.schema.json");
const DOCUMENT: &str = include_str!("../../../../docs/report.md");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

fn value_of(report: &Report) -> Value {
    serde_json::from_str(&trimtab_report::json(report).unwrap()).unwrap()
}

#[test]
fn samples_follow_the_schema() {
    let full = [("everything", "", samples::everything()), ("bare", "", samples::bare())];
    for (name, _, report) in samples::all().into_iter().chain(full) {
        assert_eq!(faults(&schema(), &schema(), &value_of(&report), "report"), [""; 0], "{name}");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let rows = [
        ("another version", "/schema", json!("trimtab.report/2"), "report.schema: not \"trimtab.report/1\""),
        ("text for a number", "/imbalance", json!("0.1"), "report.imbalance: a string"),
        ("number for text", "/job/program", json!(1), "report.job.program: a number"),
        ("null where it must be", "/window/valid", json!(null), "report.window.valid: a null"),
        ("negative count", "/functions/0/calls", json!(-1), "report.functions[0].calls: below 0"),
        ("fraction for a count", "/ranks/1/rank", json!(0.5), "report.ranks[1].rank: a number"),
        ("estimate without mean", "/communication_fraction", json!({}), "report.communication_fraction: fits nothing"),
        ("list of the wrong", "/warnings", json!([1]), "report.warnings[0]: a number"),
        ("missing field", "/cost", json!({}), "report.cost: no pause_us_max"),
    ];
    for (name, path, wrong, expected) in rows {
        let mut value = value_of(&samples::everything());
        *value.pointer_mut(path).unwrap() = wrong;
        let found = faults(&schema(), &schema(), &value, "report");
        assert_eq!(found.first().map(String::as_str), Some(expected), "{name}: {found:?}");
    }
}

#[test]
fn schema_and_types_have_the_same_fields() {
    let schema = schema();
    let (full, bare) = (value_of(&samples::everything()), value_of(&samples::bare()));
    let mut problems = Vec::new();
    compare(&schema, &schema, &[&full], &[&bare], "report", &mut problems);
    assert_eq!(problems, [""; 0]);
}

#[test]
fn every_field_is_documented_and_nothing_else() {
    let mut fields = BTreeSet::new();
    paths(&schema(), &schema(), "", &mut fields);
    assert!(fields.len() > 80, "{} fields", fields.len());
    let rows = DOCUMENT.split("\n## Fields\n").nth(1).and_then(|text| text.split("\n## ").next()).unwrap();
    let documented: BTreeSet<String> =
        rows.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_string())).collect();
    assert_eq!(fields, documented);
}

#[test]
fn null_is_explained_exactly_where_it_may_be() {
    let nullable: BTreeSet<String> = nullable_paths(&schema());
    let rows = DOCUMENT.split("\n## Fields\n").nth(1).and_then(|text| text.split("\n## ").next()).unwrap();
    let explained = rows.lines().filter(|line| line.starts_with("| `") && !line.ends_with("| - |"));
    let explained: BTreeSet<String> = explained.map(|line| line.split('`').nth(1).unwrap().to_string()).collect();
    assert_eq!(nullable, explained);
}

#[test]
fn json_is_stable_and_comes_back() {
    for (name, _, report) in samples::all() {
        let text = trimtab_report::json(&report).unwrap();
        let again: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(trimtab_report::json(&again).unwrap(), text, "{name}");
        assert!(
            text.starts_with("{\n  \"schema\": \"trimtab.report/1\",\n  \"job\": {\n    \"id\": ")
                && text.ends_with("}\n")
        );
    }
}

/// Reports of before wrote 0 for moments that were not known, and had no word for some numbers at all.
#[test]
fn older_reports_are_read() {
    let mut value = value_of(&samples::everything());
    value["job"]["started_unix_s"] = json!(0);
    value["window"]["started_unix_s"] = json!(0.0);
    value["nodes"][0]["places"][0].as_object_mut().unwrap().remove("stopped_s");
    let report: Report = serde_json::from_value(value).unwrap();
    assert_eq!((report.job.started_unix_s, report.window.started_unix_s), (None, None));
    assert_eq!(report.nodes[0].places[0].stopped_s, None);
    let again = value_of(&report);
    for field in ["/job/started_unix_s", "/window/started_unix_s", "/nodes/0/places/0/stopped_s"] {
        assert_eq!(again.pointer(field), Some(&json!(null)), "{field}");
    }
}

/// The schema itself, references followed.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => schema,
    }
}

/// The alternatives of a schema: itself, or each of `anyOf`.
fn alternatives<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(any) => any.iter().map(|one| resolve(root, one)).collect(),
        None => vec![resolve(root, schema)],
    }
}

/// The faults of a value, by the few words of JSON Schema that ours uses; any other word in it is a panic.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let options = alternatives(root, schema);
    if options.len() > 1 {
        let fits = options.iter().any(|option| faults(root, option, value, at).is_empty());
        return if fits { Vec::new() } else { vec![format!("{at}: fits nothing")] };
    }
    let mut found = Vec::new();
    let schema = options[0];
    for (word, wanted) in schema.as_object().unwrap() {
        match word.as_str() {
            "type" => found.extend((!type_fits(wanted, value)).then(|| format!("{at}: a {}", type_name(value)))),
            "const" => found.extend((wanted != value).then(|| format!("{at}: not {wanted}"))),
            "minimum" => {
                let below = value.as_f64().is_some_and(|number| number < wanted.as_f64().unwrap());
                found.extend(below.then(|| format!("{at}: below {wanted}")));
            }
            "required" => {
                let missing = wanted
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(Value::as_str)
                    .filter(|name| value.get(name).is_none());
                found.extend(missing.map(|name| format!("{at}: no {name}")));
            }
            "properties" => {
                for (name, inner) in wanted.as_object().unwrap() {
                    found.extend(
                        value
                            .get(name)
                            .into_iter()
                            .flat_map(|value| faults(root, inner, value, &format!("{at}.{name}"))),
                    );
                }
            }
            "items" => {
                for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(root, wanted, item, &format!("{at}[{place}]")));
                }
            }
            "description" | "title" | "$schema" | "$defs" | "$ref" => {}
            other => panic!("{at}: the schema uses {other:?}, which this test does not know"),
        }
    }
    found
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn type_fits(wanted: &Value, value: &Value) -> bool {
    let one = |name: &Value| match name.as_str().unwrap() {
        "integer" => value.is_u64() || value.is_i64(),
        name => name == type_name(value),
    };
    wanted.as_array().map_or_else(|| one(wanted), |names| names.iter().any(one))
}

fn may_be_null(root: &Value, schema: &Value) -> bool {
    alternatives(root, schema).iter().any(|option| type_fits(&option["type"], &Value::Null))
}

/// The alternative that is not null.
fn shape<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    alternatives(root, schema).into_iter().find(|option| option["type"] != json!("null")).unwrap()
}

/// Compares the fields of a schema with those of values that have everything, and of values that have nothing.
fn compare(root: &Value, schema: &Value, full: &[&Value], bare: &[&Value], at: &str, problems: &mut Vec<String>) {
    let schema = shape(root, schema);
    if let Some(items) = schema.get("items") {
        let inside = |values: &[&Value]| -> Vec<Value> {
            values.iter().flat_map(|value| value.as_array().cloned().unwrap()).collect()
        };
        let (full, bare) = (inside(full), inside(bare));
        let (full, bare): (Vec<_>, Vec<_>) = (full.iter().collect(), bare.iter().collect());
        return compare(root, items, &full, &bare, &format!("{at}[]"), problems);
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let names: BTreeSet<&String> = properties.keys().collect();
    for value in full {
        let present: BTreeSet<&String> = value.as_object().map(Map::keys).into_iter().flatten().collect();
        if present != names {
            problems.push(format!("{at}: schema and types differ in {:?}", names.symmetric_difference(&present)));
        }
    }
    for (name, inner) in properties {
        let of =
            |values: &[&Value]| -> Vec<Value> { values.iter().filter_map(|value| value.get(name)).cloned().collect() };
        let (full, bare) = (of(full), of(bare));
        let is_null = bare.iter().any(Value::is_null) || full.iter().any(Value::is_null);
        // The bare report keeps one estimate, so that the null inside of it is seen; of the other nothing is there to see.
        let unseen = bare.is_empty() || (at == "report" && name == "communication_fraction");
        if is_null != may_be_null(root, inner) && !unseen {
            problems.push(format!("{at}.{name}: null in the types {is_null}, in the schema {}", !is_null));
        }
        let (full, bare): (Vec<_>, Vec<_>) =
            (full.iter().collect(), bare.iter().filter(|value| !value.is_null()).collect());
        compare(root, inner, &full, &bare, &format!("{at}.{name}"), problems);
    }
}

/// Fields as the document writes them; those of estimates and of spreads over ranks are written once.
fn paths(root: &Value, schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    let schema = shape(root, schema);
    if let Some(items) = schema.get("items") {
        return paths(root, items, &format!("{}[].", at.trim_end_matches('.')), found);
    }
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        found.insert(format!("{at}{name}"));
        let inside = once(root, inner).map_or_else(|| format!("{at}{name}."), str::to_string);
        paths(root, inner, &inside, found);
    }
}

/// The way in which the fields of a kind of value are written, where that is once for all that are of this kind.
fn once(root: &Value, schema: &Value) -> Option<&'static str> {
    let kinds = [("Estimate", "(estimate)."), ("RankSpread", "(spread).")];
    let is_it = |kind: &str| std::ptr::eq(shape(root, schema), &root["$defs"][kind]);
    kinds.into_iter().find(|(kind, _)| is_it(kind)).map(|(_, written)| written)
}

/// Those that may be null.
fn nullable_paths(root: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    paths(root, root, "", &mut all);
    let holds = |path: &String| {
        let path = path.replace("(estimate).", "communication_fraction.").replace("(spread).", "reduced.duration_s.");
        let mut schema = root;
        for name in path.split('.') {
            schema = &shape(root, schema)["properties"][name.trim_end_matches("[]")];
            if name.ends_with("[]") {
                schema = &shape(root, schema)["items"];
            }
        }
        may_be_null(root, schema)
    };
    all.into_iter().filter(holds).collect()
}
