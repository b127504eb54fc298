//! Where expressions are written. A column carries the place of its name in the text through all that becomes
//! of a plan: neither equality nor identities know of it. What takes the place of a column is written where
//! the column is, and a part of a plan comes from where its columns are.

use anabranch_dataflow::Place;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, Result, Span, Spans};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{self as ast, Ident, Spanned};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::rel::Rel;
use crate::walk::Walk;

/// The place of a token. `None`: it is not known.
pub(crate) fn place_of(location: Location) -> Option<Place> {
    known(location.line, location.column)
}

fn known(line: u64, column: u64) -> Option<Place> {
    let place = Place { line: u32::try_from(line).ok()?, column: u32::try_from(column).ok()? };
    (place.line > 0).then_some(place)
}

/// Where a column is named.
pub(crate) fn of_column(column: &Column) -> Option<Place> {
    let span = column.spans.first()?;
    known(span.start.line, span.start.column)
}

/// Where the first column of an expression is named that has a place.
pub(crate) fn first_span(expr: &Expr) -> Option<Span> {
    let mut found = None;
    // The walk of an expression that is only read does not fail.
    let _ = expr.see(&mut |expr| {
        if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
            found = column.spans.first();
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// The same as a place.
pub(crate) fn first_place(expr: &Expr) -> Option<Place> {
    first_span(expr).and_then(|span| known(span.start.line, span.start.column))
}

/// Sees where the columns of an expression are named.
pub(crate) fn see_places(expr: &Expr, see: &mut dyn FnMut(&Column, Place)) {
    let _ = expr.see(&mut |expr| {
        if let Expr::Column(column) = expr
            && let Some(place) = of_column(column)
        {
            see(column, place);
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

/// Where an expression begins, unless it is a name: that has its place already.
pub(crate) fn span_of(expr: &ast::Expr) -> Option<Span> {
    match expr {
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => None,
        expr => Span::try_from_sqlparser_span(expr.span()),
    }
}

/// A column that is written here. Another expression stays as it is.
pub(crate) fn written_at(expr: Expr, span: Option<Span>) -> Expr {
    match (expr, span) {
        (Expr::Column(column), Some(span)) => Expr::Column(at(column, span)),
        (expr, _) => expr,
    }
}

/// A column that is named here.
pub(crate) fn named_at(expr: Expr, name: &Ident) -> Expr {
    written_at(expr, Span::try_from_sqlparser_span(name.span))
}

/// The value of a column, written where the column is named.
pub(crate) fn in_place_of(column: &Column, value: Expr) -> Result<Expr> {
    match (column.spans.first(), value) {
        (None, value) => Ok(value),
        (Some(span), Expr::Column(own)) => Ok(Expr::Column(at(own, span))),
        (Some(span), value) => each_column(value, &|_| true, span),
    }
}

/// The expression with this place for its columns that have none.
pub(crate) fn or_at(expr: Expr, span: Option<Span>) -> Result<Expr> {
    let lacks = |column: &Column| column.spans.first().is_none();
    let has_such = |expr: &Expr| Ok(matches!(expr, Expr::Column(column) if lacks(column)));
    match span {
        Some(span) if expr.has(&has_such)? => each_column(expr, &lacks, span),
        _ => Ok(expr),
    }
}

fn each_column(expr: Expr, is_meant: &dyn Fn(&Column) -> bool, span: Span) -> Result<Expr> {
    let changed = expr.walk_up(&mut |expr| {
        Ok(match expr {
            Expr::Column(column) if is_meant(&column) => Transformed::yes(Expr::Column(at(column, span))),
            expr => Transformed::no(expr),
        })
    });
    changed.map(|expr| expr.data)
}

fn at(mut column: Column, span: Span) -> Column {
    column.spans = Spans(vec![span]);
    column
}

/// An operator with these places for the columns of its expressions that have none.
pub(crate) fn with_spans(mut plan: Rel, spans: &[Option<Span>]) -> Result<Rel> {
    let exprs: Vec<&mut Expr> = match &mut plan {
        Rel::Project(projection) => projection.exprs.iter_mut().collect(),
        Rel::Aggregate(aggregate) => aggregate.group_expr.iter_mut().collect(),
        Rel::Over(window) => window.window_expr.iter_mut().collect(),
        Rel::Sort(sort) => sort.keys.iter_mut().map(|key| &mut key.expr).collect(),
        _ => Vec::new(),
    };
    for (expr, span) in exprs.into_iter().zip(spans) {
        *expr = or_at(std::mem::take(expr), *span)?;
    }
    Ok(plan)
}
