//! Errors for users: what is wrong, where, the line of SQL with a caret, and the remedy.

use anabranch_model::{Error, Secrets};

const HELP: &str = "\n  help: ";

/// The error with the offending line of `sql`, if it names a line and a column. Secrets of `sql` are not
/// shown.
#[must_use]
pub fn render(error: &Error, sql: &str) -> String {
    let text = error.to_string();
    let (what, help) = match text.split_once(HELP) {
        Some((what, help)) => (what, Some(help)),
        None => (text.as_str(), None),
    };
    let mut out = format!("error: {what}\n");
    if let Some((line, column)) = position(what)
        && let Some(snippet) = snippet(sql, line, column)
    {
        out.push_str(&snippet);
    }
    if let Some(help) = help {
        out.push_str("help: ");
        out.push_str(help);
        out.push('\n');
    }
    Secrets::of_sql(sql).hide(&out)
}

/// The place `line L, column C` in a message.
pub(crate) fn position(message: &str) -> Option<(usize, usize)> {
    message.match_indices("line ").find_map(|(at, word)| {
        let (line, rest) = number(&message[at + word.len()..])?;
        let (column, _) = number(rest.strip_prefix(", column ")?)?;
        Some((line, column))
    })
}

fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn snippet(sql: &str, line: usize, column: usize) -> Option<String> {
    // With tabs, the position of the caret would depend on the terminal.
    let text = sql.lines().nth(line.checked_sub(1)?)?.replace('\t', " ");
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let before = " ".repeat(column.saturating_sub(1).min(text.chars().count()));
    Some(format!("{margin} |\n{number} | {}\n{margin} | {before}^\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = "SELECT a,\n\tbad\nFROM t;\n";

    #[test]
    fn the_line_is_shown_with_a_caret_under_the_column() {
        let error = Error::user("unknown column 'bad'").at("line 2, column 2").at("a.sql").remedy("columns: a, b");
        let expected =
            "error: a.sql: line 2, column 2: unknown column 'bad'\n  |\n2 |  bad\n  |  ^\nhelp: columns: a, b\n";
        assert_eq!(render(&error, SQL), expected);
    }

    #[test]
    fn the_line_is_shown_without_its_secrets() {
        let sql = "WITH ('x' = 'y', 'properties.sasl.password' 'hunter2');";
        let error = Error::user("expected =, found: 'hunter2'").at("line 1, column 45").remedy("not 'hunter2'");
        let shown = render(&error, sql);
        assert!(!shown.contains("hunter2") && shown.contains("'properties.sasl.password' '*******')"), "{shown}");
    }

    #[test]
    fn an_error_without_place_is_shown_without_line() {
        assert_eq!(render(&Error::user("no such thing"), SQL), "error: no such thing\n");
        let elsewhere = Error::user("broken").at("line 70, column 1");
        assert_eq!(render(&elsewhere, SQL), "error: line 70, column 1: broken\n");
        let record = Error::user("not JSON").at("events.ndjson line 2");
        assert_eq!(render(&record, SQL), "error: events.ndjson line 2: not JSON\n");
    }

    #[test]
    fn a_column_beyond_the_line_points_at_its_end() {
        let error = Error::user("unexpected end").at("line 3, column 99");
        assert!(render(&error, SQL).ends_with("3 | FROM t;\n  |        ^\n"));
    }
}
