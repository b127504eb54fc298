//! Statements and commands in the order in which they were typed.

use std::rc::Rc;

use anabranch_model::Error;
use anabranch_server::{StatementText, split_statements};

use super::typing::{Typed, Typing};
use crate::console::Console;
use crate::failure::Failure;

#[derive(Debug)]
pub(super) enum Step {
    Statement {
        statement: StatementText,
        /// The lines with which it ended, for places in errors.
        piece: Rc<str>,
        /// Whether it is the first step of these lines.
        is_first: bool,
    },
    Command(String),
    /// A word that is meant as a command, within a statement.
    Misplaced(String),
    /// A text that cannot be divided into statements.
    Wrong {
        error: Error,
        piece: Rc<str>,
    },
}

impl Step {
    /// The typed text, for the history. If several statements were typed together, the first one has the
    /// whole text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Step::Statement { piece, is_first, .. } => is_first.then_some(piece.trim()),
            Step::Command(line) => Some(line),
            Step::Misplaced(_) => None,
            Step::Wrong { piece, .. } => Some(piece.trim()),
        }
    }

    /// The text that runs this step again.
    fn again(&self) -> String {
        match self {
            Step::Statement { statement, .. } => format!("{};", statement.text),
            Step::Command(line) | Step::Misplaced(line) => line.clone(),
            Step::Wrong { piece, .. } => piece.trim().to_owned(),
        }
    }
}

/// The steps that lines complete.
pub(super) fn steps(typing: &mut Typing, lines: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    // An empty text is a line too.
    for line in lines.split('\n') {
        match typing.push(line) {
            Typed::More => {}
            Typed::Statements(piece) => steps.extend(steps_of(piece)),
            Typed::Command(line) => steps.push(Step::Command(line)),
            Typed::Misplaced(line) => steps.push(Step::Misplaced(line)),
        }
    }
    steps
}

/// The statements of a piece.
pub(super) fn steps_of(piece: String) -> Vec<Step> {
    let piece: Rc<str> = piece.into();
    match split_statements(&piece) {
        Ok(statements) => {
            let step =
                |(index, statement)| Step::Statement { statement, piece: Rc::clone(&piece), is_first: index == 0 };
            statements.into_iter().enumerate().map(step).collect()
        }
        Err(error) => vec![Step::Wrong { error, piece }],
    }
}

/// Steps that stopped, because one failed or the user interrupted.
#[derive(Debug)]
pub(super) struct Halted {
    /// `None`: the user interrupted them.
    pub(super) failure: Option<Failure>,
    /// The steps that did not run.
    pub(super) left: Vec<Step>,
}

impl Halted {
    /// Reports to the user. Returns the statements that did not run, followed by the unfinished text.
    pub(super) fn report(&self, open: &str) -> Result<Option<String>, Error> {
        let mut error = Console::error();
        if let Some(failure) = &self.failure {
            error.line(failure.text.trim_end())?;
        }
        let mut left: Vec<String> = self.left.iter().map(Step::again).collect();
        let count = left.len() + usize::from(!open.trim().is_empty());
        left.extend(Some(open.trim().to_owned()).filter(|open| !open.is_empty()));
        let what = match count {
            0 => return Ok(None),
            1 => "the statement that follows did not run".to_owned(),
            count => format!("the {count} statements that follow did not run"),
        };
        error.line(&format!("{what}: the Up key brings it back"))?;
        Ok(Some(left.join("\n")))
    }
}
