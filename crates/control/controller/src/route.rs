//! One request of the API: who may, what is asked and answered, and what answers it.
//!
//! Next: `table` for all of them.

use crate::state::Controller;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::sync::Arc;

/// Makes a schema.
pub(crate) type Described = fn(&mut SchemaGenerator) -> Schema;

/// One request.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) may: &'static str,
    pub(crate) says: &'static str,
    pub(crate) asked: Option<Described>,
    pub(crate) answer: Option<Described>,
    /// The answer is text.
    pub(crate) is_text: bool,
    pub(crate) example: Option<Value>,
    pub(crate) handler: MethodRouter<Arc<Controller>>,
}

impl Route {
    pub(crate) fn new(
        method: &'static str,
        path: &'static str,
        may: &'static str,
        says: &'static str,
        handler: MethodRouter<Arc<Controller>>,
    ) -> Route {
        Route { method, path, may, says, asked: None, answer: None, is_text: false, example: None, handler }
    }

    pub(crate) fn asks<T: JsonSchema>(self) -> Route {
        Route { asked: Some(|generator| generator.subschema_for::<T>()), ..self }
    }

    pub(crate) fn answers<T: JsonSchema>(self) -> Route {
        Route { answer: Some(|generator| generator.subschema_for::<T>()), ..self }
    }

    pub(crate) fn answers_report(self) -> Route {
        Route { answer: Some(|_| json_schema!({ "$ref": "report.schema.json" })), ..self }
    }

    /// Text in place of JSON.
    pub(crate) fn answers_text(self) -> Route {
        Route { is_text: true, answer: Some(|_| json_schema!({ "type": "string" })), ..self }
    }

    /// A question that a test puts to a controller.
    pub(crate) fn example(self, example: Value) -> Route {
        Route { example: Some(example), ..self }
    }
}

pub(crate) fn getting<H: Handler<T, Arc<Controller>>, T: 'static>(
    path: &'static str,
    may: &'static str,
    says: &'static str,
    handler: H,
) -> Route {
    Route::new("get", path, may, says, get(handler))
}

pub(crate) fn posting<H: Handler<T, Arc<Controller>>, T: 'static>(
    path: &'static str,
    may: &'static str,
    says: &'static str,
    handler: H,
) -> Route {
    Route::new("post", path, may, says, post(handler))
}

pub(crate) fn deleting<H: Handler<T, Arc<Controller>>, T: 'static>(
    path: &'static str,
    may: &'static str,
    says: &'static str,
    handler: H,
) -> Route {
    Route::new("delete", path, may, says, delete(handler))
}
