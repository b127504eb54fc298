//! One error type for the project: whose fault it is, where it happened, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::display::{shortened, visible};

/// Characters of a message, a place or a remedy that are shown. They may quote data and SQL of any length.
const SHOWN_CHARS_MAX: usize = 2000;

/// Whose fault an error is, which decides what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The user's query, option or data: correct it.
    User,
    /// Something outside: a broker, a disk, a file. Trying again may help.
    Outside,
    /// What we stored is not there as we wrote it. Trying again does not help; an older copy may.
    Damaged,
    /// Another process has taken over. Only that process may continue.
    Fenced,
    /// Work that was given up because the job, or its present incarnation, ends. It is not reported.
    Cancelled,
    /// Our bug.
    Internal,
}

/// An error with its place and its remedy. Built up on the way out: the raiser knows what went wrong, its
/// callers know where.
#[derive(Debug, Serialize, Deserialize)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    places: Vec<String>,
    remedy: Option<String>,
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), places: Vec::new(), remedy: None }
    }

    /// An error in what the user wrote or sent.
    #[must_use]
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::User, message)
    }

    /// An error of something outside the process.
    #[must_use]
    pub fn outside(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Outside, message)
    }

    /// Something stored that is missing or changed.
    #[must_use]
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damaged, message)
    }

    /// Another process has taken over what this one had.
    #[must_use]
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Fenced, message)
    }

    /// What a task ends with that finds itself cancelled in the middle of its work.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }

    /// A broken assumption of our own.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds where it happened, innermost first: `line 3, column 7`, `table events`, `stage 2 task 0`. A place
    /// that equals the last one is not repeated, and an empty one is ignored.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        let place = place.into();
        if !place.is_empty() && self.places.last() != Some(&place) {
            self.places.push(place);
        }
        self
    }

    /// Replaces the known places by one place: they refer to another text than the user's.
    #[must_use]
    pub fn only_at(mut self, place: impl Into<String>) -> Self {
        self.places = vec![place.into()];
        self
    }

    /// Adds the remedy, unless there is one.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy.get_or_insert_with(|| remedy.into());
        self
    }

    /// Whose fault it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What went wrong, without place and remedy.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where it happened, outermost first, if that is known.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let places: Vec<&str> = self.places.iter().rev().map(String::as_str).collect();
        (!places.is_empty()).then(|| places.join(": "))
    }

    /// The remedy, if there is one.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

/// Safe to print: control characters are escaped, and very long text is cut.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.places.iter().rev() {
            write!(f, "{}: ", visible(&shortened(place, SHOWN_CHARS_MAX)))?;
        }
        if self.kind == ErrorKind::Internal {
            f.write_str("internal error (please report it): ")?;
        }
        f.write_str(&visible(&shortened(&self.message, SHOWN_CHARS_MAX)))?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  help: {}", visible(&shortened(remedy, SHOWN_CHARS_MAX)))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Error::user(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_once_and_nothing_steers_the_terminal() {
        let error = Error::user("bad value '\u{1b}[31m'").at("table t").at("table t").remedy("correct it");
        assert_eq!(error.to_string(), "table t: bad value '\\u{1b}[31m'\n  help: correct it");
        let error = error.at("stage 1");
        assert_eq!((error.place().as_deref(), error.help()), (Some("stage 1: table t"), Some("correct it")));
    }

    #[test]
    fn a_value_of_a_megabyte_does_not_bury_the_message() {
        let error = Error::user(format!("unknown column '{}'", "x".repeat(1 << 20))).to_string();
        assert!(error.starts_with("unknown column 'xxx") && error.len() < 2100, "{}", error.len());
    }
}
