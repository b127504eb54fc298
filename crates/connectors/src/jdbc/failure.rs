//! A failure, and whether a retry may succeed.

use anabranch_model::Error;
use tokio_postgres::error::DbError;

/// A failure of an attempt.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another attempt would fail in the same way.
    Final(Error),
    /// Transient, with its reason; another attempt, with a new connection, may succeed.
    Passing(String),
    /// The database refuses a value. The remedy depends on the origin of the rows.
    Value(String),
}

impl Failure {
    /// Adds the remedy for refused values.
    pub(super) fn of_values(self, remedy: &str) -> Failure {
        match self {
            Failure::Value(reason) => {
                Failure::Final(Error::user(format!("the database refuses a row: {reason}")).remedy(remedy))
            }
            other => other,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        match error.as_db_error() {
            Some(refusal) => classify(refusal),
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

/// Classifies errors by the classes of the server's codes.
fn classify(refusal: &DbError) -> Failure {
    let code = refusal.code().code();
    let mut reason = refusal.message().to_owned();
    for more in [refusal.detail(), refusal.where_()].into_iter().flatten() {
        reason = format!("{reason} ({more})");
    }
    let class = &code[..code.len().min(2)];
    if code == "55P03" {
        reason = format!("another connection holds a lock that it needs: {reason}");
    }
    if passes(code) {
        return Failure::Passing(reason);
    }
    let error = match class {
        "22" | "23" => return Failure::Value(reason),
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

/// Whether an error of this code may be transient: the server is starting, stopping or on standby, lacks
/// resources, has aborted a transaction for another one, or had an internal failure.
fn passes(code: &str) -> bool {
    matches!(&code[..code.len().min(2)], "08" | "40" | "53" | "57" | "58" | "XX") || matches!(code, "25006" | "55P03")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_server_pass_and_those_of_statements_do_not() {
        for code in ["08006", "25006", "40P01", "53100", "55P03", "57P01", "58030", "XX000"] {
            assert!(passes(code), "{code}");
        }
        for code in ["22021", "23505", "25001", "28P01", "42501", "42P10", ""] {
            assert!(!passes(code), "{code}");
        }
    }

    #[test]
    fn what_to_do_about_a_value_depends_on_where_it_comes_from() {
        let Failure::Final(error) = Failure::Value("too long".to_owned()).of_values("shorten it") else { panic!() };
        let error = error.to_string();
        assert!(error.contains("refuses a row: too long") && error.contains("shorten it"), "{error}");
        assert!(
            matches!(Failure::Passing("busy".to_owned()).of_values("x"), Failure::Passing(reason) if reason == "busy")
        );
    }
}
