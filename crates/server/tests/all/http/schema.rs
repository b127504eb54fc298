//! Compares documents with the description of the API: what a route answers has the type that its description
//! names.

use std::collections::BTreeSet;

use serde_json::Value;

/// The description, as the server gives it.
pub(crate) struct Description(pub(crate) Value);

impl Description {
    /// What is wrong with a document that shall have the schema of this answer.
    pub(crate) fn check(&self, (path, method, status): (&str, &str, u16), document: &Value) -> Vec<String> {
        let answer = &self.0["paths"][path][method]["responses"][status.to_string()];
        let schema = &answer["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} is not described for {status}");
        self.differences("", schema, document)
    }

    fn differences(&self, at: &str, schema: &Value, value: &Value) -> Vec<String> {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/components/schemas/").expect("a schema of this document");
            let named = &self.0["components"]["schemas"][name];
            assert!(named.is_object(), "there is no schema {name}");
            return self.differences(at, named, value);
        }
        if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let wrong: Vec<_> = choices.iter().map(|choice| self.differences(at, choice, value)).collect();
            return if wrong.iter().any(Vec::is_empty) { Vec::new() } else { wrong.concat() };
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            single => single.as_str().into_iter().collect(),
        };
        let is = |name: &str| match name {
            "null" => value.is_null(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{at}: unknown type {other}"),
        };
        if !types.iter().any(|name| is(name)) {
            return vec![format!("{at}: {value} is not one of {types:?}")];
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            return vec![format!("{at}: {value} is not one of {}", schema["enum"])];
        }
        if schema["const"].is_string() && schema["const"] != *value {
            return vec![format!("{at}: {value} is not {}", schema["const"])];
        }
        match value {
            Value::Array(items) => {
                let item = |(index, item)| self.differences(&format!("{at}[{index}]"), &schema["items"], item);
                items.iter().enumerate().flat_map(item).collect()
            }
            Value::Object(fields) => {
                let Some(described) = schema["properties"].as_object() else { return Vec::new() };
                let names: BTreeSet<&String> = fields.keys().chain(described.keys()).collect();
                let is_required =
                    |name: &String| schema["required"].as_array().is_some_and(|of| of.iter().any(|of| of == name));
                let field = |name: &String| match (described.get(name), fields.get(name)) {
                    (Some(schema), Some(value)) => self.differences(&format!("{at}.{name}"), schema, value),
                    (None, _) => vec![format!("{at}.{name} is not described")],
                    (_, None) if is_required(name) => vec![format!("{at}.{name} is missing")],
                    (_, None) => Vec::new(),
                };
                names.into_iter().flat_map(field).collect()
            }
            _ => Vec::new(),
        }
    }
}
