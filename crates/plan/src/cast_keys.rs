//! `GROUP BY k, CAST(k AS STRING)` and `AVG(a), AVG(CAST(a AS DOUBLE))`: the library calls a cast what it calls its operand, and refuses two
//! keys, or two calls of an aggregate, of one name.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, OrderBy, Query,
    Select, SetExpr, Value, VisitorMut,
};

use crate::spelling::plain_function;
use crate::walk::{change_expressions, change_syntax, see_written};

/// The function that gives a key back, under a name of its own.
const KEY: &str = "$key";

/// Gives such casts names of their own, in `GROUP BY` and wherever they are selected. `aggregates` are names of functions in small letters.
pub(crate) fn rewrite(query: &mut Query, aggregates: &[String]) {
    struct Rewriting<'a>(&'a [String]);
    impl VisitorMut for Rewriting<'_> {
        type Break = Infallible;

        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
            rewrite_body(&mut query.body, &mut query.order_by, self.0);
            ControlFlow::Continue(())
        }
    }
    let _ = change_syntax(query, &mut Rewriting(aggregates));
}

fn rewrite_body(body: &mut SetExpr, order: &mut Option<OrderBy>, aggregates: &[String]) {
    match body {
        SetExpr::Select(select) => {
            rewrite_select(select, order);
            rewrite_calls(select, order, aggregates);
        }
        // The order of both sides is that of their columns.
        SetExpr::SetOperation { left, right, .. } => {
            rewrite_body(left, &mut None, aggregates);
            rewrite_body(right, &mut None, aggregates);
        }
        _ => {}
    }
}

/// Calls of aggregates, and functions over rows, that differ by casts only.
fn rewrite_calls(select: &mut Select, order: &mut Option<OrderBy>, aggregates: &[String]) {
    let is_call = |expr: &Expr| match expr {
        Expr::Function(call) => call.over.is_some() || aggregates.contains(&call.name.to_string().to_lowercase()),
        _ => false,
    };
    let mut calls: Vec<(String, String, bool)> = Vec::new();
    let mut note = |expr: &Expr| {
        if is_call(expr) {
            calls.push((name(expr), text(expr), contains_cast(expr)));
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = see_written(&select.projection, &mut note);
    let _ = see_written(&select.having, &mut note);
    let _ = see_written(&select.qualify, &mut note);
    let _ = see_written(order, &mut note);
    let repeated = |(name, text, casts): &&(String, String, bool)| {
        *casts && calls.iter().any(|(other, of, _)| other == name && of != text)
    };
    let repeated: Vec<&String> = calls.iter().filter(repeated).map(|(_, text, _)| text).collect();
    if repeated.is_empty() {
        return;
    }
    let mut named = |expr: &mut Expr| {
        if is_call(expr) && repeated.contains(&&text(expr)) {
            name_casts(expr);
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = change_expressions(&mut select.projection, &mut named);
    let _ = change_expressions(&mut select.having, &mut named);
    let _ = change_expressions(&mut select.qualify, &mut named);
    let _ = change_expressions(order, &mut named);
}

/// Gives each cast within a call a name of its own.
fn name_casts(call: &mut Expr) {
    let _ = change_expressions(call, &mut |expr| {
        if matches!(expr, Expr::Cast { .. }) {
            *expr = key(expr.clone());
        }
        ControlFlow::<()>::Continue(())
    });
}

fn key(expr: Expr) -> Expr {
    let text = text(&expr);
    plain_function(Ident::new(KEY), vec![expr, Expr::value(Value::SingleQuotedString(text))])
}

fn rewrite_select(select: &mut Select, order: &mut Option<OrderBy>) {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
    let keys: Vec<&Expr> = keys.iter().flat_map(parts).collect();
    let names: Vec<String> = keys.iter().map(|key| name(key)).collect();
    let texts: Vec<String> = keys.iter().map(|key| text(key)).collect();
    // A key that stands in several grouping sets is one key.
    let repeated =
        |place: usize| (0..keys.len()).any(|other| names[other] == names[place] && texts[other] != texts[place]);
    let casts: Vec<&String> = (0..keys.len())
        .filter(|place| repeated(*place) && contains_cast(keys[*place]))
        .map(|place| &texts[place])
        .collect();
    if casts.is_empty() {
        return;
    }
    let mut named = |expr: &mut Expr| {
        // What was in a pair of parentheses has its name already.
        if casts.contains(&&text(expr)) && !matches!(expr, Expr::Nested(_)) {
            *expr = key(expr.clone());
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = change_expressions(&mut select.projection, &mut named);
    let _ = change_expressions(&mut select.having, &mut named);
    let _ = change_expressions(&mut select.qualify, &mut named);
    let _ = change_expressions(order, &mut named);
    let _ = change_expressions(&mut select.group_by, &mut named);
}

/// The keys of a part of `GROUP BY`.
fn parts(part: &Expr) -> Vec<&Expr> {
    match part {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => sets.iter().flatten().collect(),
        key => vec![key],
    }
}

/// An expression without the names that were given, tables and quotes of columns, and parentheses; with one word for each type.
fn text(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _ = change_expressions(&mut expr, &mut |part| {
        plain(part);
        if let Expr::Cast { data_type: data_type @ DataType::Integer(None), .. } = part {
            *data_type = DataType::Int(None);
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

/// Takes away a name that was given, the table and the quotes of a column, and parentheses.
fn plain(part: &mut Expr) {
    match part {
        Expr::Identifier(column) => column.quote_style = None,
        Expr::Nested(operand) => *part = std::mem::replace(operand.as_mut(), Expr::value(Value::Null)),
        Expr::CompoundIdentifier(names) => {
            if let Some(column) = names.pop() {
                *part = Expr::Identifier(Ident { quote_style: None, ..column });
            }
        }
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) if name.to_string() == KEY => {
            if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(key))) = list.args.first() {
                *part = key.clone();
            }
        }
        _ => {}
    }
}

/// What the library calls an expression, but for the table of a column.
fn name(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _ = change_expressions(&mut expr, &mut |part| {
        plain(part);
        if let Expr::Cast { expr: operand, .. } = part {
            *part = std::mem::replace(operand.as_mut(), Expr::value(Value::Null));
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

fn contains_cast(expr: &Expr) -> bool {
    let found = see_written(expr, &mut |part| match part {
        Expr::Cast { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
