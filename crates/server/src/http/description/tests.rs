use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn the_file_for_users_has_the_description() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = serde_json::to_string_pretty(&description()).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(&path, &text).expect("writable");
    }
    let present = std::fs::read_to_string(&path).expect("readable");
    assert!(present == text, "docs/openapi.json is outdated: UPDATE_GOLDEN=1");
}

/// The names of the schemas that a part of the description refers to.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found.insert(reference.strip_prefix("#/components/schemas/").expect("a schema").to_owned());
            }
            fields.values().for_each(|field| references(field, found));
        }
        _ => {}
    }
}

#[test]
fn each_schema_has_a_name_of_its_own_and_is_used() {
    let (description, mut used) = (description(), BTreeSet::new());
    references(&description, &mut used);
    let schemas = description["components"]["schemas"].as_object().expect("schemas");
    let names: BTreeSet<String> = schemas.keys().cloned().collect();
    assert_eq!(names, used);
    // The generator numbers types that have the same name.
    assert!(!names.iter().any(|name| name.ends_with(|c: char| c.is_ascii_digit())), "{names:?}");
    assert!(schemas.values().all(|of| of["description"].is_string()));
}

#[test]
fn what_is_sent_has_all_fields_and_what_is_read_may_lack_those_with_defaults() {
    let description = description();
    let required = |name: &str| description["components"]["schemas"][name]["required"].clone();
    assert_eq!(required("Error"), json!(["error", "place", "remedy"]));
    assert_eq!(required("JobOrder"), json!(["name", "sql"]));
    assert_eq!(required("ReconfigureOrder"), Value::Null);
    let order = &description["components"]["schemas"]["BalanceOrder"];
    assert_eq!(
        (&order["properties"]["seconds"]["default"], &order["additionalProperties"]),
        (&json!(10.0), &json!(false))
    );
}
