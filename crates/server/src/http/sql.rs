//! Statements before they are a job: whether they can run and how, what may be written at a place, and the
//! first rows of a query.

pub(super) mod preview;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::Error;
use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::answers::{Answer, Answered, Api, REQUEST, json, on_thread, parsed, refused};
use super::documents::{ErrorDocument, PlanDocument};
use crate::report::position;
use crate::{Engine, Session, Settings, Step, complete as completed, split_statements};

pub(super) use preview::preview;

/// Statements to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckOrder {
    sql: String,
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

/// Whether statements can run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Checked {
    error: Option<PlacedError>,
    /// Of the first job or query.
    plan: Option<PlanDocument>,
    statements: Vec<Statement>,
}

/// An error and its place in the text.
#[derive(Debug, Serialize, JsonSchema)]
struct PlacedError {
    #[serde(flatten)]
    error: ErrorDocument,
    /// From 1.
    line: Option<usize>,
    /// From 1.
    column: Option<usize>,
}

/// A statement of a text.
#[derive(Debug, Serialize, JsonSchema)]
struct Statement {
    line: u64,
    /// Its first word, in capital letters.
    kind: String,
}

/// A text and a place in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteOrder {
    sql: String,
    /// In units of UTF-16, as a browser counts.
    cursor: usize,
}

/// What may be written at a place.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Completions {
    /// Where the word begins that is replaced, in units of UTF-16.
    from: usize,
    items: Vec<String>,
}

fn taken<T: DeserializeOwned>(body: &[u8], form: &str) -> Result<T, Box<Answer>> {
    parsed(body, "what this path takes", form).map_err(|error| refused(StatusCode::BAD_REQUEST, &error))
}

fn engine(api: &Api) -> Result<Engine, Box<Answer>> {
    let none = || Error::user("this process has no statements of its job, and plans none");
    let none = || none().remedy("send it to a coordinator, or to anabranch serve");
    api.jobs.engine().ok_or_else(|| refused(StatusCode::CONFLICT, &none()))
}

/// Answers whether statements can run, and how.
pub(super) async fn check(api: Arc<Api>, body: Bytes) -> Answered {
    let order: CheckOrder = taken(&body, "{\"sql\": \"STATEMENTS\", \"settings\": {\"OPTION\": \"VALUE\"}}")?;
    on_thread("check", REQUEST, move || Ok(json(StatusCode::OK, &checked(&engine(&api)?, order)))).await?
}

fn checked(engine: &Engine, order: CheckOrder) -> Checked {
    let statements = split_statements(&order.sql).unwrap_or_default();
    let kind = |text: &str| text.split_whitespace().next().unwrap_or_default().to_uppercase();
    let statements = statements.iter().map(|of| Statement { line: of.line, kind: kind(&of.text) }).collect();
    let settings = Settings { set: order.settings.into_iter().collect(), ..Settings::default() };
    match engine.plan_steps(&order.sql, &settings) {
        Ok(steps) => {
            let plan = |step: &Step| match step {
                Step::Job(job) => Some(PlanDocument::of_text(&job.plan)),
                Step::Query(query) => Some(PlanDocument::of_text(&query.query.plan)),
                Step::Report(_) => None,
            };
            Checked { error: None, plan: steps.steps.iter().find_map(plan), statements }
        }
        Err(error) => {
            let (line, column) = position(&error.to_string()).unzip();
            let error = ErrorDocument::without_secrets(&error, &order.sql);
            Checked { error: Some(PlacedError { error, line, column }), plan: None, statements }
        }
    }
}

/// Answers what may be written at a place.
pub(super) async fn complete(api: Arc<Api>, body: Bytes) -> Answered {
    let order: CompleteOrder = taken(&body, "{\"sql\": \"TEXT\", \"cursor\": PLACE}")?;
    on_thread("complete", REQUEST, move || {
        let cursor = byte_of(&order.sql, order.cursor);
        let vocabulary = declared(engine(&api)?, &order.sql, cursor).map(|session| session.vocabulary());
        let (from, items) = completed(&vocabulary.unwrap_or_default(), &order.sql, cursor);
        let from = order.sql[..from].encode_utf16().count();
        Ok(json(StatusCode::OK, &Completions { from, items }))
    })
    .await?
}

/// The byte at which a unit of UTF-16 begins; the end if the text is shorter.
fn byte_of(text: &str, unit: usize) -> usize {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        if units >= unit {
            return at;
        }
        units += c.len_utf16();
    }
    text.len()
}

/// A session that knows what the other statements of a text declare. Those that cannot be executed declare
/// nothing.
fn declared(engine: Engine, sql: &str, cursor: usize) -> Option<Session> {
    let mut session = Session::new(engine, &Settings::default()).ok()?;
    // The statement at the cursor is not complete: its quotes may be open.
    let before = &sql[..cursor];
    let before = before.rfind(';').map_or("", |end| &before[..=end]);
    let behind = &sql[cursor..];
    let behind = behind.find(';').map_or("", |end| &behind[end + 1..]);
    for text in [before, behind] {
        for statement in split_statements(text).unwrap_or_default() {
            if is_declaration(&statement.text) {
                let _ = session.execute_or_plan(&statement);
            }
        }
    }
    Some(session)
}

/// Whether a statement only declares something.
pub(super) fn is_declaration(statement: &str) -> bool {
    let first = statement.split_whitespace().next().unwrap_or_default();
    ["CREATE", "SET", "RESET", "USE", "DROP", "ALTER"].iter().any(|word| first.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_browsers_count() {
        let text = "aä𝄞b";
        assert_eq!([0, 1, 2, 4, 5, 9].map(|unit| byte_of(text, unit)), [0, 1, 3, 7, 8, 8]);
    }

    #[test]
    fn what_other_statements_declare_is_known() {
        let text =
            "CREATE TABLE a (x INT) WITH ('connector' = 'datagen'); SELECT  FROM a; CREATE VIEW v AS SELECT x FROM a;";
        let session = declared(Engine::default(), text, text.find("  FROM").expect("a place") + 1).expect("a session");
        let names: Vec<String> = session.vocabulary().relations.into_keys().collect();
        assert_eq!(names, ["a", "v"]);
    }

    #[test]
    fn an_error_has_its_place_and_no_secret() {
        let sql =
            "SET 'job-name' = 'x';\nCREATE TABLE a (x INT) WITH ('connector' = 'nothing', 'password' = 'longsecret');"
                .to_owned();
        let document = checked(&Engine::default(), CheckOrder { sql, settings: BTreeMap::new() });
        let error = document.error.expect("an error");
        assert_eq!((error.line, document.statements.len()), (Some(2), 2), "{error:?}");
        assert!(!format!("{error:?}").contains("longsecret"));
    }
}
