//! Parses `SHOW` and `DESCRIBE`.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::Token;

use super::databases::{QualifiedName, qualified_name};
use super::{parsed, table_name};
use crate::place::at;

/// What is shown.
#[derive(Debug)]
pub(crate) enum Show {
    /// The options of `SET`.
    Settings,
    /// The tables and views, or only the views, of a database.
    Relations {
        views: bool,
        of: Option<QualifiedName>,
        pattern: Option<Pattern>,
    },
    /// All functions, or only the declared ones if `user`.
    Functions {
        user: bool,
        pattern: Option<Pattern>,
    },
    /// The connectors, each with a description of its tables.
    Connectors,
    Catalogs,
    Databases,
    CurrentCatalog,
    CurrentDatabase,
    /// The columns of a table or view.
    Columns(Ident),
    /// The statement that declares a table, a view or a function.
    CreateTable(Ident),
    CreateView(Ident),
    CreateFunction(Ident),
}

/// `[NOT] LIKE 'pattern'` or `[NOT] ILIKE 'pattern'` on names.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    negated: bool,
    any_case: bool,
}

impl Pattern {
    /// Whether the pattern matches a name.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let found = match self.any_case {
            true => like(&name.to_lowercase(), &self.text.to_lowercase()),
            false => like(name, &self.text),
        };
        found != self.negated
    }
}

/// `_` matches any character, `%` any text.
fn like(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut next) = (0, 0);
    // The position in the pattern after the last `%`, and the position in the name where its match was tried.
    let mut after: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(next) {
            Some('%') => {
                next += 1;
                after = Some((next, at));
            }
            Some(c) if *c == '_' || *c == name[at] => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((first, looked)) = after else { return false };
                (at, next) = (looked + 1, first);
                after = Some((first, looked + 1));
            }
        }
    }
    pattern[next..].iter().all(|c| *c == '%')
}

/// Parses `SHOW ...`.
pub(super) fn show(parser: &mut Parser) -> Result<Show> {
    parser.next_token();
    let what = parser.next_token();
    Ok(match what.token.to_string().to_uppercase().as_str() {
        "TABLES" => relations(parser, false)?,
        "VIEWS" => relations(parser, true)?,
        "FUNCTIONS" => Show::Functions { user: false, pattern: pattern(parser)? },
        "USER" => {
            parsed(parser.expect_keyword(Keyword::FUNCTIONS))?;
            Show::Functions { user: true, pattern: pattern(parser)? }
        }
        "CONNECTORS" => Show::Connectors,
        "CATALOGS" => Show::Catalogs,
        "DATABASES" => Show::Databases,
        "CURRENT" => match parsed(parser.expect_one_of_keywords(&[Keyword::CATALOG, Keyword::DATABASE]))? {
            Keyword::CATALOG => Show::CurrentCatalog,
            _ => Show::CurrentDatabase,
        },
        "COLUMNS" => {
            parsed(parser.expect_one_of_keywords(&[Keyword::FROM, Keyword::IN]))?;
            Show::Columns(table_name(parser)?)
        }
        "CREATE" => {
            let kinds = [Keyword::TABLE, Keyword::VIEW, Keyword::FUNCTION];
            let kind = parsed(parser.expect_one_of_keywords(&kinds))?;
            let name = table_name(parser)?;
            match kind {
                Keyword::TABLE => Show::CreateTable(name),
                Keyword::VIEW => Show::CreateView(name),
                _ => Show::CreateFunction(name),
            }
        }
        other => {
            let error = Error::user(format!("SHOW {other} is not supported")).at(at(what.span.start));
            return Err(error.remedy(
                "use SHOW TABLES, SHOW VIEWS, SHOW FUNCTIONS, SHOW CONNECTORS, SHOW CREATE TABLE t, DESCRIBE t, or SET without a name, which lists the options",
            ));
        }
    })
}

fn relations(parser: &mut Parser, views: bool) -> Result<Show> {
    let of = match parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]) {
        Some(_) => Some(qualified_name(parser)?),
        None => None,
    };
    Ok(Show::Relations { views, of, pattern: pattern(parser)? })
}

fn pattern(parser: &mut Parser) -> Result<Option<Pattern>> {
    let negated = parser.parse_keyword(Keyword::NOT);
    let any_case = match parser.parse_one_of_keywords(&[Keyword::LIKE, Keyword::ILIKE]) {
        Some(keyword) => keyword == Keyword::ILIKE,
        None if negated => return parsed(parser.expected("LIKE", parser.peek_token())),
        None => return Ok(None),
    };
    let token = parser.next_token();
    match token.token {
        Token::SingleQuotedString(text) => Ok(Some(Pattern { text, negated, any_case })),
        _ => parsed(parser.expected("a pattern in single quotes", token)),
    }
}

/// Parses `DESCRIBE ...` or `DESC ...`.
pub(super) fn describe(parser: &mut Parser) -> Result<Show> {
    parser.next_token();
    let is_word = |distance| matches!(parser.peek_nth_token_ref(distance).token, Token::Word(_));
    // A table may have the name EXTENDED or TABLE.
    let _ = is_word(1) && (parser.parse_keyword(Keyword::EXTENDED) || parser.parse_keyword(Keyword::TABLE));
    Ok(Show::Columns(table_name(parser)?))
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn names_are_like_patterns() {
        for (name, pattern) in
            [("orders", "orders"), ("orders", "o%s"), ("orders", "%"), ("orders", "_r%"), ("öre", "_re"), ("", "%")]
        {
            assert!(like(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in [("orders", "order"), ("orders", "O%"), ("orders", "%_x"), ("", "_"), ("orders", "")] {
            assert!(!like(name, pattern), "{name} {pattern}");
        }
    }
}
