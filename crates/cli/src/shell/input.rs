//! The line editor's knowledge of SQL: names that the Tab key completes.

use anabranch_server::{Vocabulary, http};
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper, Result};

use super::complete::complete;
use crate::jobs;

#[derive(Default)]
pub(crate) struct Statements {
    /// The names that the next statement may use.
    pub(crate) vocabulary: Vocabulary,
    /// The lines before this one, of the same statement.
    pub(crate) before: String,
    /// The coordinator for the names of jobs.
    pub(crate) coordinator: Option<http::Client>,
}

impl Helper for Statements {}
impl Highlighter for Statements {}
impl Validator for Statements {}
impl Hinter for Statements {
    type Hint = String;
}

impl Completer for Statements {
    type Candidate = String;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> Result<(usize, Vec<String>)> {
        let before = self.before.len();
        let text = format!("{}{line}", self.before);
        let complete = |vocabulary: &Vocabulary| complete(vocabulary, &text, before + cursor);
        let names_jobs = text.to_ascii_uppercase().contains("JOB");
        let (start, candidates) = match self.coordinator.as_ref().filter(|_| names_jobs) {
            Some(client) => complete(&Vocabulary { jobs: jobs::names(client), ..self.vocabulary.clone() }),
            None => complete(&self.vocabulary),
        };
        Ok((start.saturating_sub(before), candidates))
    }
}
