//! `BETWEEN SYMMETRIC`, whose bounds may be in either order, and `BETWEEN ASYMMETRIC`, which is `BETWEEN`.

use datafusion_sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion_sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::Token;

type Parsed = Result<Expr, ParserError>;

/// Parses `[NOT] BETWEEN [A]SYMMETRIC` after an expression, if it follows.
pub(super) fn parse(dialect: &dyn Dialect, parser: &mut Parser, expr: &Expr) -> Option<Parsed> {
    let negated = parser.peek_keyword(Keyword::NOT);
    let first = usize::from(negated);
    let word = |place: usize| match &parser.peek_nth_token_ref(place).token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_uppercase(),
        _ => String::new(),
    };
    let symmetric = match (word(first).as_str(), word(first + 1).as_str()) {
        ("BETWEEN", "SYMMETRIC") => true,
        ("BETWEEN", "ASYMMETRIC") => false,
        _ => return None,
    };
    (0..first + 2).for_each(|_| drop(parser.next_token()));
    Some(bounds(dialect, parser).map(|(low, high)| match symmetric {
        true => either_way(expr, low, high, negated),
        false => between(expr, low, high, negated),
    }))
}

fn bounds(dialect: &dyn Dialect, parser: &mut Parser) -> Result<(Expr, Expr), ParserError> {
    let low = parser.parse_subexpr(dialect.prec_value(Precedence::Between))?;
    parser.expect_keyword_is(Keyword::AND)?;
    Ok((low, parser.parse_subexpr(dialect.prec_value(Precedence::Between))?))
}

fn between(expr: &Expr, low: Expr, high: Expr, negated: bool) -> Expr {
    Expr::Between { expr: Box::new(expr.clone()), negated, low: Box::new(low), high: Box::new(high) }
}

fn either_way(expr: &Expr, low: Expr, high: Expr, negated: bool) -> Expr {
    let one_way = between(expr, low.clone(), high.clone(), false);
    let other_way = between(expr, high, low, false);
    let either = Expr::BinaryOp { left: Box::new(one_way), op: BinaryOperator::Or, right: Box::new(other_way) };
    let either = Expr::Nested(Box::new(either));
    match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(either) },
        false => either,
    }
}
