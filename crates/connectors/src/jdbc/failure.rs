//! What has failed, and whether it may succeed later.

use anabranch_model::Error;
use tokio_postgres::error::DbError;

/// A failure of an attempt.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another attempt would fail in the same way.
    Final(Error),
    /// For this reason; another attempt, with a new connection, may succeed.
    Passing(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        match error.as_db_error() {
            Some(refusal) => judge(refusal),
            None => of_client(&error),
        }
    }
}

/// Errors of the connection, without an answer of the server.
fn of_client(error: &tokio_postgres::Error) -> Failure {
    let mut reasons = vec![error.to_string()];
    let mut source = std::error::Error::source(error);
    let mut is_io = error.is_closed();
    while let Some(inner) = source {
        is_io |= inner.is::<std::io::Error>();
        let text = inner.to_string();
        if !reasons.iter().any(|known| known.contains(&text)) {
            reasons.push(text);
        }
        source = inner.source();
    }
    let reason = reasons.join(": ");
    if is_io && !reason.contains("certificate") {
        return Failure::Passing(reason);
    }
    Failure::Final(Error::outside(format!("the connection to the database failed: {reason}")))
}

/// By the classes of the server's codes.
fn judge(refusal: &DbError) -> Failure {
    let code = refusal.code().code();
    let mut reason = refusal.message().to_owned();
    for more in [refusal.detail(), refusal.where_()].into_iter().flatten() {
        reason = format!("{reason} ({more})");
    }
    let class = &code[..code.len().min(2)];
    // The server starts or stops, lacks something for a while, or had to choose between transactions.
    if matches!(class, "08" | "40" | "53" | "57") || code == "55P03" {
        return Failure::Passing(reason);
    }
    let error = match class {
        "22" | "23" => Error::user(format!("the database refuses a row: {reason}"))
            .remedy("filter such rows out in the query, or change the columns of the database's table"),
        "28" => Error::user(format!("the database refuses the login: {reason}"))
            .remedy("give 'username' and 'password' as the database knows them"),
        _ if code == "42P10" => Error::user("the database has no unique index of the columns of the primary key")
            .remedy("let the primary key of the database's table have the same columns, or CREATE UNIQUE INDEX"),
        _ if code == "42501" => {
            Error::user(format!("the database refuses: {reason}")).remedy("GRANT the right to this user")
        }
        _ => Error::user(format!("the database refuses: {reason} [{code}]")),
    };
    Failure::Final(error)
}
