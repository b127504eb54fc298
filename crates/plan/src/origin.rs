//! The places of expressions in the text. A column carries the place where the text names it through all
//! passes. Equality and identity ignore it. An expression that replaces a column gets the column's place. The
//! places of an operator are those of its columns.

use anabranch_dataflow::Place;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, Result, Span, Spans};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{self as ast, Ident, Spanned};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::rel::Rel;
use crate::walk::Walk;

/// The place of a token. `None`: it is unknown.
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

/// The place of the first column of an expression that has one.
pub(crate) fn first_span(expr: &Expr) -> Option<Span> {
    let mut found = None;
    // A walk that only reads does not fail.
    let _ = expr.see(&mut |expr| {
        if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
            found = column.spans.first();
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// [`first_span`] as a place.
pub(crate) fn first_place(expr: &Expr) -> Option<Place> {
    first_span(expr).and_then(|span| known(span.start.line, span.start.column))
}

/// Calls `see` with each column of an expression that has a place.
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

/// The beginning of an expression. `None` for a name, which has its own place.
pub(crate) fn span_of(expr: &ast::Expr) -> Option<Span> {
    match expr {
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => None,
        expr => Span::try_from_sqlparser_span(expr.span()),
    }
}

/// Sets the place of an expression that is a column.
pub(crate) fn written_at(expr: Expr, span: Option<Span>) -> Expr {
    match (expr, span) {
        (Expr::Column(column), Some(span)) => Expr::Column(at(column, span)),
        (expr, _) => expr,
    }
}

/// Sets the place of a column to that of its name.
pub(crate) fn named_at(expr: Expr, name: &Ident) -> Expr {
    written_at(expr, Span::try_from_sqlparser_span(name.span))
}

/// The value of a column, with the place where the column is named.
pub(crate) fn in_place_of(column: &Column, value: Expr) -> Result<Expr> {
    match (column.spans.first(), value) {
        (None, value) => Ok(value),
        (Some(span), Expr::Column(own)) => Ok(Expr::Column(at(own, span))),
        (Some(span), value) => each_column(value, &|_| true, span),
    }
}

/// Sets the place of columns without one.
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

/// Sets the places of columns without one in the expressions of an operator.
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
