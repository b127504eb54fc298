//! `GROUP BY k, CAST(k AS STRING)`: the library calls a cast what it calls its operand, and refuses two keys of one name.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, Value, VisitMut, VisitorMut, visit_expressions, visit_expressions_mut,
};

use crate::spelling::plain_function;

/// Gives such casts names of their own, in `GROUP BY` and wherever they are selected.
pub(crate) fn rewrite(query: &mut Query) {
    struct Rewriting;
    impl VisitorMut for Rewriting {
        type Break = Infallible;

        fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
            rewrite_select(select);
            ControlFlow::Continue(())
        }
    }
    let _ = query.visit(&mut Rewriting);
}

fn rewrite_select(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
    let names: Vec<String> = keys.iter().map(name).collect();
    let repeated = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let casts: Vec<String> = keys
        .iter()
        .zip(&names)
        .filter(|(key, name)| repeated(name) && contains_cast(key))
        .map(|(key, _)| key.to_string())
        .collect();
    if casts.is_empty() {
        return;
    }
    let mut named = |expr: &mut Expr| {
        let text = expr.to_string();
        if casts.contains(&text) {
            let args = vec![expr.clone(), Expr::value(Value::SingleQuotedString(text))];
            *expr = plain_function(Ident::new("$key"), args);
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = visit_expressions_mut(&mut select.projection, &mut named);
    let _ = visit_expressions_mut(&mut select.having, &mut named);
    let _ = visit_expressions_mut(&mut select.group_by, &mut named);
}

/// What the library calls an expression, but for the table of a column.
fn name(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _ = visit_expressions_mut(&mut expr, |part| {
        match part {
            Expr::Cast { expr: operand, .. } | Expr::Nested(operand) => {
                let operand = std::mem::replace(operand.as_mut(), Expr::value(Value::Null));
                *part = operand;
            }
            Expr::CompoundIdentifier(parts) => {
                if let Some(column) = parts.pop() {
                    *part = Expr::Identifier(column);
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

fn contains_cast(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Cast { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
