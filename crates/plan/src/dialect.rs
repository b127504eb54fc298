//! The SQL dialect: the parser's permissive generic dialect, plus the few places where Flink's SQL differs.

mod between;
mod json;
mod nested;
mod reserved;

pub(crate) use self::nested::plain_map;

use std::any::TypeId;
use std::cell::Cell;

use datafusion_sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident};
use datafusion_sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Location, Token};

use crate::spelling::plain_function;

pub(crate) const NO_PARAMETERS: &str = "parameters of prepared statements are not supported";
/// The steps that the parser may take per token of a statement. Hardly any statement takes ten.
const STEPS: usize = 100;
/// The least limit of the steps of the parser, however short the statement is.
const STEPS_MIN: usize = 100_000;

#[derive(Debug)]
pub(crate) struct AnabranchDialect {
    /// The number of expressions that the parser may still begin. Where a word or a parenthesis has several
    /// meanings, the parser tries them one by one, so each level of nesting doubles its work.
    steps: Cell<usize>,
}

impl Default for AnabranchDialect {
    fn default() -> Self {
        AnabranchDialect { steps: Cell::new(usize::MAX) }
    }
}

impl AnabranchDialect {
    /// The dialect of a statement with this number of tokens. The parser refuses the statement if it takes
    /// too many steps.
    pub(crate) fn for_tokens(tokens: usize) -> Self {
        AnabranchDialect { steps: Cell::new(tokens.saturating_mul(STEPS).max(STEPS_MIN)) }
    }
}

impl Dialect for AnabranchDialect {
    // The parser checks for the generic dialect by type in many places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"' || ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    /// `U&'\00e9'`.
    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    /// See [`crate::hints`].
    fn supports_comment_optimizer_hint(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    /// Counts a step, and parses the forms that DataFusion's parser does not know. `TABLE t` as the argument
    /// of a window table function is the name `t`.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let Some(left) = self.steps.get().checked_sub(1) else {
            // After this error the parser tries no alternative.
            return Some(Err(ParserError::RecursionLimitExceeded));
        };
        self.steps.set(left);
        if matches!(parser.peek_token_ref().token, Token::Colon | Token::AtSign) {
            return Some(Err(refused(parser, NO_PARAMETERS)));
        }
        if let Some(call) = json::parse_call(parser).or_else(|| reserved::parse(parser)) {
            return Some(call);
        }
        if let Some(nested) = nested::parse_map(parser).or_else(|| nested::parse_cast(parser)) {
            return Some(nested);
        }
        if !parser.peek_keyword(Keyword::TABLE) || !matches!(parser.peek_nth_token(1).token, Token::Word(_)) {
            return None;
        }
        parser.next_token();
        Some(table_argument(parser))
    }

    /// `(SELECT ...) PARTITION BY k` as the argument of a window table function has the lowest precedence.
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if is_partitioned(parser) {
            return Some(Ok(1));
        }
        // `(a - b) DAY` has the precedence of a call.
        follows_unit(parser).then(|| Ok(self.prec_value(Precedence::Period)))
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        if matches!(expr, Expr::Subquery(_)) && is_partitioned(parser) {
            return Some(partitioned_by(parser, expr.clone()));
        }
        if follows_unit(parser) {
            let unit = &parser.peek_token_ref().token;
            let what = format!(
                "{unit} cannot follow a parenthesis; for the time from a to b write TIMESTAMPDIFF({unit}, a, b)"
            );
            return Some(Err(refused(parser, &what)));
        }
        json::parse_is_json(parser, expr)
            .or_else(|| parse_is_distinct(self, parser, expr))
            .or_else(|| between::parse(self, parser, expr))
    }
}

/// Reserved words that may follow a difference of times.
const UNITS: [Keyword; 6] =
    [Keyword::YEAR, Keyword::MONTH, Keyword::DAY, Keyword::HOUR, Keyword::MINUTE, Keyword::SECOND];

/// Whether the next token is such a word, after a parenthesis.
fn follows_unit(parser: &Parser) -> bool {
    let is_unit = matches!(&parser.peek_token_ref().token, Token::Word(word) if word.quote_style.is_none() && UNITS.contains(&word.keyword));
    is_unit && parser.get_current_token().token == Token::RParen
}

/// Whether `PARTITION BY` follows.
fn is_partitioned(parser: &Parser) -> bool {
    is_keyword(parser, 0, Keyword::PARTITION) && is_keyword(parser, 1, Keyword::BY)
}

/// Whether a token is this keyword. `place`: 0 for the next token.
pub(crate) fn is_keyword(parser: &Parser, place: usize, keyword: Keyword) -> bool {
    matches!(&parser.peek_nth_token_ref(place).token, Token::Word(word) if word.keyword == keyword)
}

/// `IS [NOT] DISTINCT FROM value` after an expression, with the precedence of `=`. The parser's own rule
/// includes `AND` and the following condition in the value.
fn parse_is_distinct(dialect: &dyn Dialect, parser: &mut Parser, left: &Expr) -> Option<Result<Expr, ParserError>> {
    use Keyword::{DISTINCT, FROM, IS, NOT};
    let left = Box::new(left.clone());
    let negated = parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
    if !negated && !parser.parse_keywords(&[IS, DISTINCT, FROM]) {
        return None;
    }
    let right = parser.parse_subexpr(dialect.prec_value(Precedence::Eq)).map(Box::new);
    Some(right.map(|right| match negated {
        true => Expr::IsNotDistinctFrom(left, right),
        false => Expr::IsDistinctFrom(left, right),
    }))
}

fn table_argument(parser: &mut Parser) -> Result<Expr, ParserError> {
    let mut parts = vec![parser.parse_identifier()?];
    while parser.consume_token(&Token::Period) {
        parts.push(parser.parse_identifier()?);
    }
    let table = match <[_; 1]>::try_from(parts) {
        Ok([only]) => Expr::Identifier(only),
        Err(parts) => Expr::CompoundIdentifier(parts),
    };
    let table = if is_partitioned(parser) { partitioned_by(parser, table)? } else { table };
    if parser.peek_keyword(Keyword::ORDER) {
        return Err(refused(parser, "ORDER BY of a table in a call is not supported"));
    }
    Ok(table)
}

/// `PARTITION BY a` or `PARTITION BY (a, b)` after a table.
fn partitioned_by(parser: &mut Parser, table: Expr) -> Result<Expr, ParserError> {
    parser.expect_keywords(&[Keyword::PARTITION, Keyword::BY])?;
    let keys = match parser.peek_token_ref().token == Token::LParen {
        true => parser.parse_parenthesized(|parser| parser.parse_comma_separated(Parser::parse_expr))?,
        false => vec![parser.parse_expr()?],
    };
    Ok(partitioned(table, keys))
}

/// Name of the call that represents a table with PARTITION BY. No query can write this name.
pub(crate) const PARTITIONED: &str = "$partitioned";

pub(crate) fn partitioned(table: Expr, keys: Vec<Expr>) -> Expr {
    plain_function(Ident::with_quote('`', PARTITIONED), std::iter::once(table).chain(keys).collect())
}

/// The table and the keys of an expression made by [`partitioned`].
pub(crate) fn parts_of_partitioned(expr: Expr) -> (Expr, Vec<Expr>) {
    match expr {
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.0.first().and_then(|part| part.as_ident()).is_some_and(|part| part.value == PARTITIONED) =>
        {
            let mut args = list.args.into_iter().filter_map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            });
            let table = args.next().unwrap_or_else(|| Expr::Identifier(Ident::new(PARTITIONED)));
            (table, args.collect())
        }
        other => (other, Vec::new()),
    }
}

/// An error at the next token.
fn refused(parser: &Parser, what: &str) -> ParserError {
    refused_at(what, parser.peek_token_ref().span.start)
}

fn refused_at(what: &str, place: Location) -> ParserError {
    ParserError::ParserError(format!("{what} at Line: {}, Column: {}", place.line, place.column))
}
