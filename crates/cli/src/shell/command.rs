//! The shell's own commands: they begin with `\`, and need no `;`. One table has all of them.

use anabranch_model::{Error, Result};

use crate::arguments::Format;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Leave,
    Help,
    /// Switches to the other layout of tables.
    Turn,
    /// Shows changing results as a table, or as a log of changes.
    Changes,
    /// Sets or shows the format of rows.
    Format(Option<Format>),
    /// A statement that shows something.
    Statement(String),
}

/// The forms of commands, for users; the first word is the name.
const COMMANDS: [(&str, &str); 8] = [
    ("\\d [NAME]", "tables and views, or the columns of one"),
    ("\\dt", "tables and views"),
    ("\\df [NAME]", "functions; \\df upp* lists those that begin so"),
    ("\\x", "one line per value for wide rows, or back"),
    ("\\log", "changes of results one after the other, or back to a table that changes"),
    ("\\format [table|csv|json]", "how rows are written"),
    ("\\?, help", "this text"),
    ("\\q, exit, quit", "leaves, as Ctrl-D does"),
];

/// Words that are commands without `\`.
static WORDS: [(&str, Command); 4] =
    [("help", Command::Help), ("?", Command::Help), ("exit", Command::Leave), ("quit", Command::Leave)];

/// Commands of other shells, with their counterparts here.
const OTHERS: [(&str, &str); 9] = [
    (".tables", "\\d"),
    (".schema", "\\d NAME"),
    (".columns", "\\d NAME"),
    (".functions", "\\df"),
    (".mode", "\\format"),
    (".help", "\\?"),
    (".quit", "\\q"),
    (".exit", "\\q"),
    (".q", "\\q"),
];

/// The command on a line, if it is one. A line that begins with `\` or with `.` and a letter is no SQL.
pub(super) fn command(line: &str) -> Option<Result<Command>> {
    let line = without_semicolon(line);
    if let Some((_, command)) = WORDS.iter().find(|(word, _)| line.eq_ignore_ascii_case(word)) {
        return Some(Ok(command.clone()));
    }
    if line.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return Some(Err(of_another_shell(line)));
    }
    line.starts_with('\\').then(|| parse(line))
}

/// Whether a line within a statement is meant as a command. Such a line could be part of the statement.
pub(super) fn looks_like_one(line: &str) -> bool {
    let line = without_semicolon(line);
    let first = line.split_whitespace().next().unwrap_or_default();
    WORDS.iter().any(|(word, _)| line.eq_ignore_ascii_case(word))
        || OTHERS.iter().any(|(word, _)| first.eq_ignore_ascii_case(word))
}

fn without_semicolon(line: &str) -> &str {
    let line = line.trim();
    line.strip_suffix(';').unwrap_or(line).trim_end()
}

fn of_another_shell(line: &str) -> Error {
    let first = line.split_whitespace().next().unwrap_or_default();
    let other = OTHERS.iter().find(|(word, _)| first.eq_ignore_ascii_case(word));
    let remedy = other.map_or_else(|| "\\? lists the commands".to_owned(), |(_, meant)| format!("use {meant}"));
    Error::user(format!("'{first}' is no command of this shell")).remedy(remedy)
}

fn parse(line: &str) -> Result<Command> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let given = Some(rest).filter(|rest| !rest.is_empty());
    let alone = |command: Command| match given {
        None => Ok(command),
        Some(rest) => Err(Error::user(format!("{name} has no argument, but '{rest}' follows")).remedy("omit it")),
    };
    match name {
        "\\q" | "\\quit" | "\\exit" => alone(Command::Leave),
        "\\?" | "\\h" | "\\help" => alone(Command::Help),
        "\\x" => alone(Command::Turn),
        "\\log" => alone(Command::Changes),
        "\\dt" => alone(Command::Statement("SHOW TABLES".to_owned())),
        "\\d" => Ok(Command::Statement(given.map_or("SHOW TABLES".to_owned(), |name| format!("DESCRIBE {name}")))),
        "\\df" => Ok(Command::Statement(match given {
            None => "SHOW FUNCTIONS".to_owned(),
            Some(pattern) => {
                let pattern = pattern.replace('\'', "''").replace('*', "%");
                format!("SHOW FUNCTIONS ILIKE '{pattern}'")
            }
        })),
        "\\format" => match given {
            None => Ok(Command::Format(None)),
            Some(name) => match <Format as clap::ValueEnum>::from_str(name, true) {
                Ok(format) => Ok(Command::Format(Some(format))),
                Err(_) => {
                    Err(Error::user(format!("there is no format '{name}'")).remedy("use \\format table, csv or json"))
                }
            },
        },
        _ => Err(Error::user(format!("there is no command '{name}'")).remedy("\\? lists the commands")),
    }
}

/// The commands with their descriptions, a line each.
pub(super) fn help() -> String {
    let lines = COMMANDS.map(|(form, does)| format!("{form:43}{does}"));
    lines.join("\n")
}

/// The names of commands with this prefix.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().filter_map(|(form, _)| form.split([' ', ',']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(text: &str) -> Option<Command> {
        Some(Command::Statement(text.to_owned()))
    }

    #[test]
    fn commands_are_told_from_statements() {
        let parsed = |line: &str| command(line).map(|command| command.expect(line));
        assert_eq!(parsed("\\q"), Some(Command::Leave));
        assert_eq!(parsed(" HELP ;\n"), Some(Command::Help));
        assert_eq!(parsed("?"), Some(Command::Help));
        assert_eq!(parsed("exit;"), Some(Command::Leave));
        for line in ["SELECT help;", "help me", "SELECT 1", "", ".5"] {
            assert!(command(line).is_none(), "{line}");
        }
        assert_eq!(parsed("\\d"), statement("SHOW TABLES"));
        assert_eq!(parsed("\\dt;"), statement("SHOW TABLES"));
        assert_eq!(parsed("\\d a.b ;"), statement("DESCRIBE a.b"));
        assert_eq!(parsed("\\df upper"), statement("SHOW FUNCTIONS ILIKE 'upper'"));
        assert_eq!(parsed("\\df up_*"), statement("SHOW FUNCTIONS ILIKE 'up_%'"));
        assert_eq!(parsed("\\format JSON"), Some(Command::Format(Some(Format::Json))));
    }

    #[test]
    fn what_is_no_command_is_explained() {
        let error_of = |line: &str| command(line).expect("a command").expect_err(line).to_string();
        assert!(error_of("\\nonsense;").contains("there is no command '\\nonsense'"));
        assert!(error_of(".tables").contains("use \\d"), "{}", error_of(".tables"));
        assert!(error_of(".foo").contains("\\? lists the commands"));
        assert!(error_of("\\format xml").contains("table, csv or json"));
        assert!(error_of("\\q now").contains("'now' follows"));
        assert!(looks_like_one("quit") && looks_like_one(".schema t") && looks_like_one("?;"));
        assert!(!looks_like_one("quitting") && !looks_like_one(".t") && !looks_like_one("help me"));
    }

    #[test]
    fn each_command_of_the_help_is_one() {
        for name in names() {
            assert!(command(name).is_some_and(|command| command.is_ok()), "{name}");
        }
    }
}
