//! A statement while it is being typed: where it ends, and what may follow.

use anabranch_server::Vocabulary;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use super::complete::complete;

/// Lets the editor continue on another line until a statement is complete, and completes names.
#[derive(Default)]
pub(crate) struct Statements {
    /// The names that the next statement may use.
    pub(crate) vocabulary: Vocabulary,
}

impl Helper for Statements {}
impl Highlighter for Statements {}
impl Completer for Statements {
    type Candidate = String;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> Result<(usize, Vec<String>)> {
        Ok(complete(&self.vocabulary, line, cursor))
    }
}
impl Hinter for Statements {
    type Hint = String;
}

impl Validator for Statements {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let complete = is_complete(context.input());
        Ok(if complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// Whether the text is empty, a command of the shell, or ends in a `;` that ends a statement.
pub(crate) fn is_complete(text: &str) -> bool {
    let text = text.trim();
    if text.is_empty() || text.starts_with('\\') || is_command_word(text) {
        return true;
    }
    let code = code_of(text);
    if code.trim().is_empty() {
        return true;
    }
    let code = code.to_ascii_uppercase();
    let words: Vec<&str> = code.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    // The statements of a job follow `[EXPLAIN] ALTER JOB name AS`; a name in quotes is none of these words.
    let first = usize::from(words.first() == Some(&"EXPLAIN"));
    let of_job = words.get(first..first + 2) == Some(&["ALTER", "JOB"]);
    let begins =
        if of_job { words.iter().take(first + 4).position(|word| *word == "AS").map_or(0, |at| at + 1) } else { 0 };
    // Statements within BEGIN STATEMENT SET ... END end in `;` too.
    let is_set = [["BEGIN", "STATEMENT", "SET"], ["EXECUTE", "STATEMENT", "SET"]]
        .iter()
        .any(|set| words[begins..].starts_with(set));
    code.trim_end().ends_with(';') && (!is_set || words.last() == Some(&"END"))
}

/// Whether the text is a command of the shell that needs neither `\` nor `;`.
pub(crate) fn is_command_word(text: &str) -> bool {
    ["help", "exit", "quit"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The text without comments and with the contents of quotes blanked; an open quote or comment leaves a mark at the
/// end that is not `;`.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (taken, shown) = if let Some(comment) = rest.strip_prefix("--") {
            (2 + comment.find('\n').unwrap_or(comment.len()), " ")
        } else if let Some(comment) = rest.strip_prefix("/*") {
            match comment.find("*/") {
                Some(end) => (2 + end + 2, " "),
                None => (rest.len(), "?"),
            }
        } else if matches!(first, '\'' | '"' | '`') {
            match rest[1..].find(first) {
                Some(end) => (1 + end + 1, "?"),
                None => (rest.len(), "?"),
            }
        } else {
            code.push(first);
            (first.len_utf8(), "")
        };
        code.push_str(shown);
        rest = &rest[taken..];
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_texts() {
        for text in [
            "",
            "  \n",
            "\\q",
            "exit",
            " Quit\n",
            "HELP",
            "SELECT 1;",
            "SELECT 1; -- done",
            "SELECT ';' /* ; */ ;\n",
            "SELECT 'it''s';",
            "-- only a remark",
            "SET 'a' = 'b'; SELECT 1;",
            "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;",
            "ALTER JOB a AS BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;",
            "ALTER JOB a AS INSERT INTO b SELECT 1;",
            "select \"a;b\", `c;d`;",
        ] {
            assert!(is_complete(text), "{text:?}");
        }
    }

    #[test]
    fn texts_that_go_on() {
        for text in [
            "SELECT 1",
            "exit now",
            "SELECT 1; SELECT",
            "SELECT ';",
            "SELECT 'it''s;",
            "SELECT 1 -- ;",
            "SELECT 1 /* ;",
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
            "ALTER JOB 'a' AS EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
            "explain alter job a as begin statement set; insert into a select 1;",
            "SELECT `a;",
        ] {
            assert!(!is_complete(text), "{text:?}");
        }
    }
}
