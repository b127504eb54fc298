//! Orders of clients, and the answers to a new job.

use std::collections::BTreeMap;

use anabranch_model::{Error, Secrets};
use serde::{Deserialize, Serialize};

use super::documents::ErrorDocument;
use crate::{TableOption, render};

/// A new job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobOrder {
    /// Its name, unique among the jobs of the coordinator.
    pub name: String,
    /// Statements of SQL. Their INSERTs become the job.
    pub sql: String,
    /// Options as by SET, by their names. They override those of the statements.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Options of tables, which override their WITH clauses.
    #[serde(default)]
    pub options: Vec<TableOption>,
    /// Made by the client, and different for each submission: sent again under it, because an answer was
    /// lost, the job is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<String>,
}

/// An identifier for the submission of a job that no other submission has.
#[must_use]
pub fn new_submission() -> String {
    format!("{:016x}", anabranch_runtime::random_seed())
}

/// A job that was taken.
#[derive(Debug, Serialize)]
pub(super) struct Submitted {
    pub(super) name: String,
}

/// An error in the order of a job.
#[derive(Debug, Serialize)]
pub(super) struct OrderErrorDocument {
    error: String,
    place: Option<String>,
    remedy: Option<String>,
    text: String,
}

/// The request for a savepoint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavepointOrder {
    pub(super) place: String,
}

impl ErrorDocument {
    /// Of an error in a text, without the secrets of the text.
    pub(super) fn without_secrets(error: &Error, sql: &str) -> Self {
        let ErrorDocument { error, place, remedy } = ErrorDocument::from(error);
        let secrets = Secrets::of_sql(sql);
        let [place, remedy] = [place, remedy].map(|text| text.map(|text| secrets.hide(&text)));
        ErrorDocument { error: secrets.hide(&error), place, remedy }
    }
}

impl OrderErrorDocument {
    pub(super) fn of(error: &Error, sql: &str) -> Self {
        let ErrorDocument { error: message, place, remedy } = ErrorDocument::without_secrets(error, sql);
        OrderErrorDocument { error: message, place, remedy, text: render(error, sql) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;
    use crate::http::balance::BalanceOrder;
    use crate::http::functions::FunctionOrder;
    use crate::http::reconfigure::{MoveOrder, ReconfigureOrder};
    use crate::http::removal::RemovalOrder;
    use crate::http::sql::preview::PreviewOrder;
    use crate::http::sql::{CheckOrder, CompleteOrder};

    /// The fields that a type takes, as it says when it refuses another one.
    fn fields<T: DeserializeOwned>() -> BTreeSet<String> {
        let error = serde_json::from_str::<T>("{\"?\": 0}").err().expect("an unknown field").to_string();
        let (_, expected) = error.split_once("expected ").expect("the known ones");
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn assert_described<T: DeserializeOwned>(name: &str, schema: &Value) {
        let described: BTreeSet<String> = schema["properties"].as_object().expect(name).keys().cloned().collect();
        assert_eq!(fields::<T>(), described, "{name}");
        let required = schema["required"].as_array().is_some_and(|names| !names.is_empty());
        assert_eq!(serde_json::from_str::<T>("{}").is_err(), required, "{name}: fields that must be there");
    }

    /// Answers are compared with the description while jobs run; what clients send is compared here.
    #[test]
    fn the_description_has_the_fields_of_each_order() {
        let description: Value = serde_json::from_str(include_str!("openapi.json")).expect("JSON");
        let schemas = &description["components"]["schemas"];
        assert_described::<JobOrder>("JobOrder", &schemas["JobOrder"]);
        assert_described::<SavepointOrder>("SavepointOrder", &schemas["SavepointOrder"]);
        assert_described::<ReconfigureOrder>("ReconfigureOrder", &schemas["ReconfigureOrder"]);
        assert_described::<MoveOrder>("Move", &schemas["Move"]);
        assert_described::<BalanceOrder>("BalanceOrder", &schemas["BalanceOrder"]);
        assert_described::<FunctionOrder>("FunctionOrder", &schemas["FunctionOrder"]);
        assert_described::<RemovalOrder>("RemovalOrder", &schemas["RemovalOrder"]);
        assert_described::<CheckOrder>("CheckOrder", &schemas["CheckOrder"]);
        assert_described::<CompleteOrder>("CompleteOrder", &schemas["CompleteOrder"]);
        assert_described::<PreviewOrder>("PreviewOrder", &schemas["PreviewOrder"]);
    }
}
