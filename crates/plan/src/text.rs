//! The text of a script: tokens with their places in the file, and its division into statements.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace};

use crate::dialect::AnabranchDialect;
use crate::place::at;

/// One statement of a script, with the place of its first character in the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementText {
    /// The statement without its semicolon.
    pub text: String,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// Whether a semicolon ended it. An interactive reader waits for one.
    pub terminated: bool,
}

/// Divides a script at semicolons. A statement set is one statement. Comments between statements belong to
/// none.
pub fn split_statements(text: &str) -> Result<Vec<StatementText>> {
    let tokens = tokenize(text, 1, 1)?;
    let mut statements = Vec::new();
    let mut current: Vec<&TokenWithSpan> = Vec::new();
    let is_hint = |space: &Whitespace| matches!(space, Whitespace::MultiLineComment(text) if text.starts_with('+'));
    for token in &tokens {
        match &token.token {
            // A hint belongs to its statement, even at the end.
            Token::Whitespace(space) if current.is_empty() || !is_hint(space) => continue,
            _ => {}
        }
        if token.token == Token::SemiColon && !is_open_set(&current) {
            if let Some(statement) = cut(text, &current, true) {
                statements.push(statement);
            }
            current.clear();
        } else if token.token != Token::EOF {
            current.push(token);
        }
    }
    statements.extend(cut(text, &current, false));
    Ok(statements)
}

/// The state of a text at its end, while it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has no statement: it is empty or has only comments.
    Nothing,
    /// A semicolon ends its last statement, or it has an error that more text cannot correct.
    Statement,
    /// Its last statement is incomplete.
    Open,
    /// It ends within quotes or within a comment.
    Quoted,
}

/// The state of a text at its end. An interactive reader waits for more text until a statement ends.
#[must_use]
pub fn ending(text: &str) -> Ending {
    let tokens = Tokenizer::new(&AnabranchDialect::default(), text).tokenize();
    // The tokenizer's messages for open quotes and comments.
    if let Err(error) = &tokens {
        let is_open = error.message.starts_with("Unterminated") || error.message.contains("EOF");
        return if is_open { Ending::Quoted } else { Ending::Statement };
    }
    match split_statements(text) {
        Ok(statements) => match statements.last() {
            None => Ending::Nothing,
            Some(last) if last.terminated => Ending::Statement,
            Some(_) => Ending::Open,
        },
        Err(_) => Ending::Statement,
    }
}

/// Whether the tokens begin a statement set without its END.
fn is_open_set(tokens: &[&TokenWithSpan]) -> bool {
    let tokens = &tokens[prefix_len(tokens)..];
    let keyword = |i: usize| match tokens.get(i).map(|t| &t.token) {
        Some(Token::Word(word)) => Some(word.keyword),
        _ => None,
    };
    let words = [keyword(0), keyword(1), keyword(2), keyword(3)];
    let execute = [Keyword::EXECUTE, Keyword::STATEMENT, Keyword::SET, Keyword::BEGIN].map(Some);
    let begin = [Keyword::BEGIN, Keyword::STATEMENT, Keyword::SET].map(Some);
    if words != execute && words[..3] != begin && words[..3] != [execute[1], execute[2], execute[3]] {
        return false;
    }
    let ended = keyword(tokens.len() - 1) == Some(Keyword::END)
        && tokens.len() >= 2
        && tokens[tokens.len() - 2].token == Token::SemiColon;
    !ended
}

/// The number of tokens of `[EXPLAIN] ALTER JOB name AS` before the job's statements, or of `EXPLAIN ...`
/// before a statement set. Otherwise 0.
fn prefix_len(tokens: &[&TokenWithSpan]) -> usize {
    let is = |at: usize, keyword: &str| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword),
        _ => false,
    };
    let first = usize::from(is(0, "EXPLAIN"));
    if is(first, "ALTER") && is(first + 1, "JOB") && is(first + 3, "AS") {
        return first + 4;
    }
    let explained = || (1..tokens.len()).find(|at| is(*at, "STATEMENT") && is(*at + 1, "SET"));
    if first == 1 { explained().unwrap_or_default() } else { 0 }
}

fn cut(text: &str, tokens: &[&TokenWithSpan], terminated: bool) -> Option<StatementText> {
    let (first, last) = (tokens.first()?, tokens.last()?);
    let start = byte_offset(text, first.span.start);
    let end = byte_offset(text, last.span.end);
    Some(StatementText {
        text: text[start..end].to_string(),
        line: first.span.start.line,
        column: first.span.start.column,
        terminated,
    })
}

/// The byte offset of a statement in a text.
pub(crate) fn start_in(text: &str, statement: &StatementText) -> usize {
    byte_offset(text, Location { line: statement.line, column: statement.column })
}

/// The byte offset of a location, which the tokenizer counts in lines and characters.
fn byte_offset(text: &str, location: Location) -> usize {
    let mut line_start = 0;
    for _ in 1..location.line {
        line_start += text[line_start..].find('\n').map_or(0, |i| i + 1);
    }
    let column = usize::try_from(location.column.saturating_sub(1)).unwrap_or(usize::MAX);
    text[line_start..].char_indices().nth(column).map_or(text.len(), |(i, _)| line_start + i)
}

/// The tokens of a text that begins at `line` and `column` of a file, with their places in the file.
pub(crate) fn tokenize(text: &str, line: u64, column: u64) -> Result<Vec<TokenWithSpan>> {
    let moved = |location: Location| Location {
        line: location.line + line - 1,
        column: if location.line == 1 { location.column + column - 1 } else { location.column },
    };
    let mut tokens = Tokenizer::new(&AnabranchDialect::default(), text).tokenize_with_location().map_err(|error| {
        Error::user(format!("syntax error: {}", error.message))
            .at(at(moved(error.location)))
            .remedy("close the quotes or the comment that begin here")
    })?;
    for token in &mut tokens {
        token.span.start = moved(token.span.start);
        token.span.end = moved(token.span.end);
    }
    let mut tokens = split_closing_brackets(tokens);
    // The end also has a place, for errors of missing tokens.
    let end = tokens.last().map_or(Location { line, column }, |last| last.span.end);
    tokens.push(TokenWithSpan { token: Token::EOF, span: Span::new(end, end) });
    Ok(tokens)
}

/// Splits `>>` at the end of `ARRAY<ROW<a INT>>`: it is two brackets and not a shift.
fn split_closing_brackets(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut depth = 0_u32;
    let mut type_word = false;
    let mut result = Vec::with_capacity(tokens.len());
    for token in tokens {
        match &token.token {
            Token::Word(word) => {
                type_word = ["ROW", "ARRAY", "MAP", "MULTISET"].iter().any(|t| word.value.eq_ignore_ascii_case(t));
            }
            Token::Whitespace(_) => {}
            Token::Lt if type_word => {
                depth += 1;
                type_word = false;
            }
            Token::Gt if depth > 0 => depth -= 1,
            Token::ShiftRight if depth > 0 => {
                depth = depth.saturating_sub(2);
                result.push(TokenWithSpan { token: Token::Gt, span: token.span });
                result.push(TokenWithSpan { token: Token::Gt, span: token.span });
                continue;
            }
            _ => type_word = false,
        }
        result.push(token);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<(String, u64, u64, bool)> {
        let statements = split_statements(script).expect("statements");
        statements.into_iter().map(|s| (s.text, s.line, s.column, s.terminated)).collect()
    }

    #[test]
    fn semicolons_in_strings_and_comments_do_not_end_statements() {
        let script = "-- first; not here\nSELECT ';ä' ; /* ; */\n  SELECT 2;\n\nSELECT ü";
        assert_eq!(
            texts(script),
            [("SELECT ';ä'".into(), 2, 1, true), ("SELECT 2".into(), 3, 3, true), ("SELECT ü".into(), 5, 1, false)]
        );
    }

    #[test]
    fn a_statement_set_is_one_statement() {
        let script = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END; SELECT 3;";
        let all = texts(script);
        assert_eq!(all.len(), 2);
        assert!(all[0].0.ends_with("END"));
        for job in ["ALTER JOB 'a b' AS ", "explain alter job a as "] {
            let all = texts(&format!("{job}{script}"));
            assert_eq!(all.len(), 2, "{all:?}");
        }
        assert_eq!(texts("ALTER JOB a AS INSERT INTO a SELECT 1; SELECT 3;").len(), 2);
    }

    #[test]
    fn a_text_ends_where_its_last_statement_does() {
        let of = |texts: &[&str]| texts.iter().map(|text| ending(text)).collect::<Vec<_>>();
        assert_eq!(of(&["", "  \n", "-- only a remark", "/* ; */", ";"]), [Ending::Nothing; 5]);
        for text in [
            "SELECT 1;",
            "SELECT 1; -- done",
            "SELECT ';' /* ; */ ;\n",
            "SELECT 'it''s';",
            "SET 'a' = 'b'; SELECT 1;",
            "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;",
            "ALTER JOB a AS BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;",
            "ALTER JOB a AS INSERT INTO b SELECT 1;",
            "EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END;",
            "select \"a;b\", `c;d`;",
        ] {
            assert_eq!(ending(text), Ending::Statement, "{text:?}");
        }
        for text in [
            "SELECT 1",
            "SELECT 1; SELECT",
            "SELECT 1 -- ;",
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
            "EXPLAIN STATEMENT SET BEGIN\nINSERT INTO a SELECT 1;",
            "EXPLAIN ESTIMATED_COST STATEMENT SET BEGIN INSERT INTO a SELECT 1;\nINSERT INTO b SELECT 1;",
            "explain execute statement set begin insert into a select 1;",
            "EXPLAIN PLAN FOR STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
            "ALTER JOB 'a' AS EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
            "explain alter job a as begin statement set; insert into a select 1;",
        ] {
            assert_eq!(ending(text), Ending::Open, "{text:?}");
        }
        for text in ["SELECT ';", "SELECT 'it''s;", "SELECT 1 /* ;", "SELECT `a;", "SELECT \"a;"] {
            assert_eq!(ending(text), Ending::Quoted, "{text:?}");
        }
    }

    #[test]
    fn an_open_string_is_an_error_at_its_place() {
        let error = split_statements("SELECT 1;\nSELECT 'abc").expect_err("open string");
        assert!(error.to_string().starts_with("line 2, column 8: "), "{error}");
    }
}
