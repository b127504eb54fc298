//! Limits the nesting of a statement, so that no input exhausts the stack.
//!
//! The parser limits nested brackets, but not chains of operators, whose tree is as deep as the chain is
//! long. Chains of AND, OR and `||` are converted to shallow trees. The length of other chains is limited.

use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{BinaryOperator, Expr, Select, Spanned, Value, VisitMut, VisitorMut};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::place::at;
use crate::walk::change_syntax;

/// Operands of a chain of AND, OR and `||`, which may be mixed.
const CHAIN_MAX: usize = 4_000;
/// Tokens between two commas, brackets or operators of such a chain.
const RUN_MAX: usize = 600;
/// UNION, INTERSECT and EXCEPT in one statement.
const SETS_MAX: usize = 200;
/// Columns of a SELECT. DataFusion's time for aggregates grows with their square.
const SELECTED_MAX: usize = 10_000;
/// Columns of a table.
pub(super) const COLUMNS_MAX: usize = 10_000;
/// Nested expressions.
const DEPTH_MAX: usize = 150;

fn too_much(what: &str, token: &TokenWithSpan) -> Error {
    Error::user(what).at(at(token.span.start)).remedy("divide it among several views, or shorten it with IN (...)")
}

/// Refuses tokens that would nest too deeply, before parsing.
pub(super) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut sets = 0;
    // For each open bracket: the length of the chain, and of the run since its last operator.
    let mut open = vec![(0, 0)];
    for token in tokens {
        let keyword = if let Token::Word(word) = &token.token { word.keyword } else { Keyword::NoKeyword };
        let within = open.len() > 1;
        let Some((chain, run)) = open.last_mut() else { break };
        match (&token.token, keyword) {
            (Token::LParen | Token::LBracket, _) => open.push((0, 0)),
            (Token::RParen | Token::RBracket, _) if within => drop(open.pop()),
            (Token::Comma | Token::SemiColon, _) | (_, Keyword::SELECT | Keyword::FROM | Keyword::WHERE) => {
                (*chain, *run) = (0, 0);
            }
            (_, Keyword::WHEN | Keyword::THEN | Keyword::ELSE | Keyword::INSERT | Keyword::JOIN) => *run = 0,
            (Token::StringConcat, _) | (_, Keyword::AND | Keyword::OR) => (*chain, *run) = (*chain + 1, 0),
            (_, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT) => sets += 1,
            (Token::Whitespace(_), _) => {}
            _ => *run += 1,
        }
        let (chain, run) = open.last().copied().unwrap_or_default();
        if chain > CHAIN_MAX {
            return Err(too_much(&format!("more than {CHAIN_MAX} operands of AND, OR or ||"), token));
        }
        if run > RUN_MAX {
            return Err(too_much(&format!("an expression of more than {RUN_MAX} words and signs"), token));
        }
        if sets > SETS_MAX {
            return Err(too_much(&format!("more than {SETS_MAX} set operations in one statement"), token));
        }
    }
    Ok(())
}

/// Converts chains of AND, OR and `||` to shallow trees, and refuses expressions that are still nested too
/// deeply.
pub(super) fn flatten<T: VisitMut>(mut tree: T) -> Result<T> {
    let mut flattening = Flattening { depth: 0 };
    change_syntax(&mut tree, &mut flattening)?;
    Ok(tree)
}

struct Flattening {
    depth: usize,
}

impl VisitorMut for Flattening {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let error = Error::user(format!("an expression is nested more than {DEPTH_MAX} deep"));
            return ControlFlow::Break(error.at(at(expr.span().start)).remedy("divide it among several views"));
        }
        if let Expr::BinaryOp { op, .. } = expr
            && matches!(op, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::StringConcat)
        {
            let op = op.clone();
            let chain = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = balanced(&op, operands(chain, &op));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match select.projection.get(SELECTED_MAX) {
            None => ControlFlow::Continue(()),
            Some(item) => {
                let error = Error::user(format!("more than {SELECTED_MAX} columns in one SELECT"));
                let place = at(item.span().start);
                ControlFlow::Break(error.at(place).remedy("use SELECT *, or divide it among several INSERTs"))
            }
        }
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// The operands of a chain of one operator, from left to right.
fn operands(chain: Expr, of: &BinaryOperator) -> Vec<Expr> {
    let (mut operands, mut rest) = (Vec::new(), vec![chain]);
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryOp { left, op, right } if op == *of => rest.extend([*right, *left]),
            other => operands.push(other),
        }
    }
    operands
}

/// Joins neighbours until one tree is left. A short chain stays as it is.
fn balanced(op: &BinaryOperator, operands: Vec<Expr>) -> Expr {
    const FEW: usize = 8;
    let join =
        |left: Expr, right: Expr| Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
    let mut level = operands;
    while level.len() > FEW {
        let mut rest = level.into_iter();
        let mut joined = Vec::new();
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        level = joined;
    }
    level.into_iter().reduce(join).unwrap_or_else(|| Expr::value(Value::Null))
}
