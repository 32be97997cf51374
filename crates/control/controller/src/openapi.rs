//! The API as an OpenAPI 3.1 document, made of the table of requests and of the types that are asked and answered.
//!
//! docs/openapi.json is this document; a test fails where it is not, and `TRIMTAB_WRITE_OPENAPI=1` has that test write it.
//!
//! Next: `table` for the requests.

use crate::route::{Described, Route};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use trimtab_site::API_PORT;
use trimtab_site::api::Problem;

/// Parts of a path, each with what it is and its type.
const PARTS: &[(&str, &str, &str)] = &[
    ("id", "The number that was given for it.", "integer"),
    ("job", "The job's name at the site; for a window also Slurm's id, and for a call that or HOST:PID.", "string"),
    ("window", "The window's number in the job.", "integer"),
    ("host", "The host, as the site's tree names it.", "string"),
    ("peer", "The other host.", "string"),
    ("uid", "The number of the user as which the scheduler runs.", "integer"),
    ("nice", "The nice level of a new process, from -20 to 19.", "integer"),
];
/// Answers that say no.
const REFUSALS: &[(&str, &str)] = &[
    ("400", "It can't be understood."),
    ("403", "The certificate's role may not."),
    ("404", "There is no such thing, or it is somebody else's."),
    ("409", "Another version of trimtab, nothing to file, or what is known is of a time that is over."),
    ("413", "It is too long."),
    ("422", "It is understood and contradicts itself, or what is known."),
    ("503", "Too much at once, or somebody does not answer: try again."),
];

/// The document of all requests.
pub(crate) fn document(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route, &mut generator);
    }
    let problem = generator.subschema_for::<Problem>();
    let refusal = |(status, why): &(&str, &str)| {
        let content = json!({ "application/json": { "schema": problem } });
        (refusal_name(status), json!({ "description": why, "content": content }))
    };
    let refusals: Map<String, Value> = REFUSALS.iter().map(refusal).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "trimtab's controller",
            "version": "1",
            "description": "Everything below /v1 stays as it is: fields are added, never changed or taken away; whoever reads \
                            ignores those it doesn't know. docs/api.md says how to ask.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": format!("https://controller.trimtab.internal:{API_PORT}") }],
        "security": [{ "site": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": refusals,
            "securitySchemes": {
                "site": { "type": "mutualTLS", "description": "A certificate of the site's authority; its role says who asks." },
            },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut schema = |described: Option<Described>| described.map(|described| described(generator));
    let (asked, answered) = (schema(route.asked), schema(route.answer));
    let refused = |status: &str| json!({ "$ref": format!("#/components/responses/{}", refusal_name(status)) });
    let mut responses: Map<String, Value> =
        REFUSALS.iter().map(|(status, _)| ((*status).to_owned(), refused(status))).collect();
    let mut said = json!({ "description": route.says });
    if let Some(schema) = answered {
        let kind = if route.is_text { "text/plain" } else { "application/json" };
        said["content"] = json!({ kind: { "schema": schema } });
    }
    responses.insert("200".to_owned(), said);
    let mut operation = json!({
        "operationId": name_of(route),
        "summary": route.says,
        "description": format!("Who may: {}.", route.may),
        "parameters": parts(route.path),
        "responses": responses,
    });
    if let Some(schema) = asked {
        let mut content = json!({ "schema": schema });
        if let Some(example) = &route.example {
            content["example"] = example.clone();
        }
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": content } });
    }
    operation
}

fn refusal_name(status: &str) -> String {
    format!("refused_{status}")
}

/// The method and the path's words, as a name for a function.
fn name_of(route: &Route) -> String {
    let words = route
        .path
        .trim_start_matches("/v1")
        .trim_start_matches('/')
        .split('/')
        .map(|word| word.trim_matches(['{', '}']).replace('.', "_"));
    std::iter::once(route.method.to_owned()).chain(words).collect::<Vec<_>>().join("_")
}

fn parts(path: &str) -> Vec<Value> {
    let is_in = |name: &str| path.contains(&format!("{{{name}}}"));
    let part = |(name, description, kind): &(&str, &str, &str)| json!({ "name": name, "in": "path", "required": true, "description": description, "schema": { "type": kind } });
    PARTS.iter().filter(|(name, ..)| is_in(name)).map(part).collect()
}
