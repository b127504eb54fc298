//! The description of the API for programs, in OpenAPI 3.1. Operations come from the table of routes, schemas
//! from the types of the documents.
//!
//! What the process sends is described as it is written: each field is always there, unless it may be
//! skipped. What clients send is described as it is read: a field with a default may be left out. A type that
//! is in both is described as it is read, which is also true of it when it is written.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use hyper::Method;
use hyper::body::Bytes;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::documents::ErrorDocument;
use super::routes::{Content, ROUTES, Route, Token};

/// The description as it is sent.
pub(super) static DESCRIPTION: LazyLock<Bytes> = LazyLock::new(|| format!("{}\n", description()).into());

/// An object whose fields are not described.
pub(super) type OpenObject = Map<String, Value>;

/// Why a request may be refused with or without a token.
pub(super) const FOREIGN: &str =
    "The request comes from a page of another site, or names a host that is not this machine.";
const NO_JOB: &str = "There is no job of this name; the answer lists those that exist.";

/// The values of a field that may be null.
pub(super) fn or_null<const N: usize>(names: [&str; N]) -> Vec<Option<&str>> {
    names.into_iter().map(Some).chain([None]).collect()
}

fn description() -> Value {
    let settings = || SchemaSettings::draft2020_12().with(|of| of.definitions_path = "/components/schemas".into());
    let mut written = settings().for_serialize().into_generator();
    let mut read = settings().for_deserialize().into_generator();
    let mut paths = json!({});
    for route in ROUTES.iter() {
        let method = route.method.as_str().to_lowercase();
        paths[route.path][method] = operation(route, &mut written, &mut read);
    }
    let mut schemas = written.take_definitions(true);
    schemas.extend(read.take_definitions(true));
    let token = "The content of --token-file. Processes without one answer requests without a token.";
    let mut description = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Anabranch",
            "version": "1",
            "description": "Jobs and workers of a running process. Every error has the schema Error.",
        },
        "security": [{ "token": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "description": token } },
            "schemas": schemas,
        },
    });
    finish(&mut description);
    description
}

fn operation(route: &Route, written: &mut SchemaGenerator, read: &mut SchemaGenerator) -> Value {
    let mut operation = json!({ "operationId": route.id, "summary": route.summary });
    operation["responses"] = Value::Object(responses(route, written));
    let named = json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } });
    let parameters = route.parameters.iter().map(|of| {
        let schema = json!({ "type": of.kind });
        json!({ "name": of.name, "in": "query", "required": false, "description": of.text, "schema": schema })
    });
    let named = route.path.contains("{name}").then_some(named);
    let parameters: Vec<Value> = named.into_iter().chain(parameters).collect();
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = &route.body {
        let content = json!({ "application/json": { "schema": (body.schema)(read) } });
        operation["requestBody"] = json!({ "required": body.required, "content": content });
    }
    if route.token == Token::Unused {
        operation["security"] = json!([]);
    }
    operation
}

/// The answers of a route by their statuses. What the route says of one goes before what follows from its
/// form.
fn responses(route: &Route, written: &mut SchemaGenerator) -> Map<String, Value> {
    let (takes_numbers, posts) = (route.parameters.iter().any(|of| of.kind == "integer"), route.method == Method::POST);
    let needs_token = route.token == Token::Needed;
    let of_form = [
        (takes_numbers, 400, "A parameter is not a number."),
        (needs_token, 401, "The token is missing or wrong."),
        (needs_token, 403, FOREIGN),
        (route.path.starts_with("/api/v1/jobs/{name}"), 404, NO_JOB),
        (posts, 408, "The body did not arrive in time."),
        (posts, 413, "The body is too large."),
    ];
    let of_form = of_form.into_iter().filter(|(applies, ..)| *applies);
    let error = Content::Json(SchemaGenerator::subschema_for::<ErrorDocument>);
    let of_form = of_form.map(|(_, status, text)| (status, text, error));
    let own = route.answers.iter().map(|of| (of.status, of.text, of.content));
    let answer = |(status, text, content): (u16, &str, Content)| {
        let (media_type, schema) = match content {
            Content::Json(schema) => ("application/json", json!(schema(written))),
            Content::Text(media_type) => (media_type, json!({ "type": "string" })),
        };
        (status.to_string(), json!({ "description": text, "content": { media_type: { "schema": schema } } }))
    };
    of_form.chain(own).map(answer).collect()
}

/// Objects have no other fields than those that are described, and the lines of comments become sentences.
fn finish(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(finish),
        Value::Object(fields) => {
            if fields.contains_key("properties") {
                fields.entry("additionalProperties").or_insert(json!(false));
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(finish);
        }
        _ => {}
    }
}
