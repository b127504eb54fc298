//! A text while it is being typed: lines are gathered until a statement ends.

use anabranch_server::{Ending, ending};

use super::command;

/// The typed text with one more line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// The statement is unfinished.
    More,
    /// Complete statements.
    Statements(String),
    /// A command of the shell. An unfinished statement stays.
    Command(String),
    /// A word that is meant as a command, within a statement: it was ignored.
    Misplaced(String),
}

/// The lines of a statement that has not ended.
#[derive(Default)]
pub(super) struct Typing {
    text: String,
    /// Number of lines so far, if errors name the lines of a script.
    lines: Option<usize>,
}

impl Typing {
    /// For a script: errors name its lines.
    pub(super) fn of_script() -> Self {
        Typing { text: String::new(), lines: Some(0) }
    }

    /// Adds the next line, with or without its end.
    pub(super) fn push(&mut self, line: &str) -> Typed {
        let is_script = self.lines.is_some();
        let before = self.lines.unwrap_or(0);
        self.lines = self.lines.map(|lines| lines + 1);
        let state = ending(&self.text);
        let begins = state == Ending::Nothing;
        let is_command = match state {
            Ending::Nothing => command::command(line).is_some(),
            Ending::Quoted => false,
            // In SQL no line begins so.
            Ending::Open | Ending::Statement => line.trim_start().starts_with('\\'),
        };
        if is_command {
            return Typed::Command(line.trim().to_owned());
        }
        if state == Ending::Open && !is_script && command::looks_like_one(line) {
            return Typed::Misplaced(line.trim().to_owned());
        }
        if begins && self.text.is_empty() {
            self.text = "\n".repeat(before);
        }
        self.text.push_str(line.strip_suffix('\n').unwrap_or(line));
        match ending(&self.text) {
            Ending::Nothing => {
                // Comments before a statement do not belong to it.
                self.text.clear();
                Typed::More
            }
            Ending::Statement => Typed::Statements(std::mem::take(&mut self.text)),
            Ending::Open | Ending::Quoted => {
                self.text.push('\n');
                Typed::More
            }
        }
    }

    /// The text of an unfinished statement.
    pub(super) fn open(&self) -> &str {
        self.text.trim_start_matches('\n')
    }

    /// Takes the unfinished text: the last statement of a script needs no `;`.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    pub(super) fn prompt(&self) -> &'static str {
        match ending(&self.text) {
            _ if self.text.is_empty() => "sql> ",
            Ending::Quoted => "  '> ",
            _ => "  -> ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(lines: &[&str], typing: &mut Typing) -> Vec<Typed> {
        lines.iter().map(|line| typing.push(line)).collect()
    }

    fn statements(text: &str) -> Typed {
        Typed::Statements(text.to_owned())
    }

    #[test]
    fn lines_are_gathered_until_a_statement_ends() {
        let mut typing = Typing::default();
        assert_eq!(typing.prompt(), "sql> ");
        let lines = ["EXPLAIN STATEMENT SET BEGIN", "INSERT INTO a SELECT 'x", "y';"];
        assert_eq!(typed(&lines[..1], &mut typing), [Typed::More]);
        assert_eq!(typing.prompt(), "  -> ");
        assert_eq!(typed(&lines[1..2], &mut typing), [Typed::More]);
        assert_eq!(typing.prompt(), "  '> ");
        assert_eq!(typed(&lines[2..], &mut typing), [Typed::More]);
        assert_eq!(typing.push("END;"), statements(&(lines.join("\n") + "\nEND;")));
        assert_eq!(typing.open(), "");
    }

    #[test]
    fn commands_amid_a_statement_are_not_swallowed() {
        let mut typing = Typing::default();
        let seen = typed(&["SELECT 1", "quit", ".tables", "\\dt", ";"], &mut typing);
        let expected = [
            Typed::More,
            Typed::Misplaced("quit".to_owned()),
            Typed::Misplaced(".tables".to_owned()),
            Typed::Command("\\dt".to_owned()),
            statements("SELECT 1\n;"),
        ];
        assert_eq!(seen, expected);
        // Within quotes everything is text.
        assert_eq!(typed(&["SELECT '", "quit", "\\q", "';"], &mut typing)[3], statements("SELECT '\nquit\n\\q\n';"));
    }

    #[test]
    fn a_script_is_cut_where_its_statements_end() {
        let mut typing = Typing::of_script();
        let script = "SET 'a' = 'b'; SELECT\n1;\n-- no statement\n\\q\n\nSELECT 2\nexit";
        let seen = typed(&script.lines().collect::<Vec<_>>(), &mut typing);
        let more = || Typed::More;
        let first = statements("SET 'a' = 'b'; SELECT\n1;");
        assert_eq!(seen, [more(), first, more(), Typed::Command("\\q".to_owned()), more(), more(), more()]);
        assert_eq!(typing.take(), "\n\n\n\n\nSELECT 2\nexit\n", "a word of a script's statement belongs to it");
    }
}
