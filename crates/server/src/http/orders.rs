//! Orders of clients, and the answers to a new job.

use std::collections::BTreeMap;

use anabranch_model::{Error, Secrets};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::documents::ErrorDocument;
use crate::{TableOption, render};

/// A new job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobOrder {
    /// Its name, unique among the jobs of the coordinator: at most 100 letters of ASCII, digits, hyphens and
    /// underscores.
    pub name: String,
    /// Statements of SQL. Their INSERTs become the job.
    pub sql: String,
    /// Options as by SET, by their names. They override those of the statements.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Options of tables, which override their WITH clauses.
    #[serde(default)]
    pub options: Vec<TableOption>,
    /// Made by the client, and different for each submission. An order that is sent again under it, because
    /// an answer was lost, is taken once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<String>,
}

/// An identifier for the submission of a job that no other submission has.
#[must_use]
pub fn new_submission() -> String {
    format!("{:016x}", anabranch_runtime::random_seed())
}

/// A job that was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Submitted {
    pub(super) name: String,
}

/// Why a job was not taken or not changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrderError")]
pub(super) struct OrderErrorDocument {
    #[serde(flatten)]
    error: ErrorDocument,
    /// All of it for people, with the line of the SQL.
    text: String,
}

/// The request for a savepoint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SavepointOrder {
    /// An empty or new directory of the process' machine, or such a place in an object store.
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
        OrderErrorDocument { error: ErrorDocument::without_secrets(error, sql), text: render(error, sql) }
    }
}
