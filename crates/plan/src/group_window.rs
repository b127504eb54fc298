//! Windows as keys of GROUP BY, as older scripts write them: `GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)` with `TUMBLE_START(ts,
//! INTERVAL '1' MINUTE)` in SELECT. They become calls of the table functions over what FROM and WHERE give.

use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, Spanned, TableFactor, TableWithJoins, VisitorMut,
};
use datafusion_sql::sqlparser::parser::{Parser, ParserError};

use crate::dialect::{AnabranchDialect, partitioned};
use crate::place::at;
use crate::walk::{change_expressions, change_syntax};
use crate::window_assign::{GROUP_WINDOW_COLUMNS, WINDOW_COLUMNS};

/// Stands before the name of the table function that a window of GROUP BY becomes.
pub(crate) const GROUP_WINDOW: &str = "$";

/// The columns that auxiliary functions name, and GROUP BY in place of the window: places of [`GROUP_WINDOW_COLUMNS`].
const AUXILIARY: [(&str, usize); 4] = [("_START", 0), ("_END", 1), ("_ROWTIME", 2), ("_PROCTIME", 2)];

/// A call `TUMBLE(ts, size)` as a key: the function's name and its arguments.
#[derive(Clone)]
struct GroupWindow {
    name: String,
    args: Vec<Expr>,
}

/// Rewrites every SELECT that is grouped by such a window.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    match change_syntax(query, &mut Rewriting) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriting;

impl VisitorMut for Rewriting {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match rewrite_select(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn rewrite_select(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
    let windows: Vec<(usize, GroupWindow)> =
        keys.iter().enumerate().filter_map(|(place, key)| Some((place, group_window(key)?))).collect();
    let (place, window) = match windows.as_slice() {
        [] => return Ok(()),
        [(place, window)] => (*place, window.clone()),
        [_, (second, _), ..] => {
            return Err(Error::user("GROUP BY has two windows")
                .at(at(keys[*second].span().start))
                .remedy("group by one window, and its results by another"));
        }
    };
    let columns = GROUP_WINDOW_COLUMNS.map(|column| Expr::Identifier(Ident::new(column)));
    keys.splice(place..=place, columns);
    let partition: Vec<Expr> = match window.name.as_str() {
        "SESSION" => keys.iter().filter(|key| !is_window_column(key)).cloned().collect(),
        _ => Vec::new(),
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(column) = auxiliary(expr, &window)
        {
            let alias = Ident::with_span(expr.span(), WINDOW_COLUMNS[column]);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            name_columns(expr, &window);
        }
    }
    select.having.iter_mut().for_each(|having| name_columns(having, &window));
    select.from = vec![table_function(select, window, partition).map_err(|e| Error::internal(e.to_string()))?];
    select.selection = None;
    Ok(())
}

fn is_window_column(key: &Expr) -> bool {
    matches!(key, Expr::Identifier(name) if GROUP_WINDOW_COLUMNS.contains(&name.value.as_str()))
}

/// `FROM TUMBLE((SELECT * FROM ... WHERE ...), DESCRIPTOR(ts), size)`.
fn table_function(
    select: &mut Select,
    window: GroupWindow,
    partition: Vec<Expr>,
) -> std::result::Result<TableWithJoins, ParserError> {
    let template = |text: &str| -> std::result::Result<(Box<Query>, Box<Select>), ParserError> {
        let query = Parser::new(&AnabranchDialect::default()).try_with_sql(text)?.parse_query()?;
        match query.body.as_ref() {
            SetExpr::Select(select) => {
                let select = select.clone();
                Ok((query, select))
            }
            _ => Err(ParserError::ParserError("a template is no SELECT".into())),
        }
    };
    let (mut below, mut rows) = template("SELECT * FROM t")?;
    rows.from = std::mem::take(&mut select.from);
    rows.selection = select.selection.take();
    *below.body = SetExpr::Select(rows);
    let mut data = Expr::Subquery(below);
    if !partition.is_empty() {
        data = partitioned(data, partition);
    }
    let GroupWindow { name, args } = window;
    let mut args = args.into_iter();
    let (_, mut outer) = template("SELECT * FROM f(t, DESCRIPTOR(ts))")?;
    let mut from = outer.from.remove(0);
    if let TableFactor::Table { name: function, args: Some(given), .. } = &mut from.relation {
        *function = ObjectName::from(vec![Ident::new(format!("{GROUP_WINDOW}{name}"))]);
        for (arg, value) in given.args.iter_mut().zip([Some(data), None]) {
            if let (FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)), Some(value)) = (arg, value) {
                *arg = value;
            }
        }
        if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(descriptor)))) = given.args.last_mut()
            && let FunctionArguments::List(list) = &mut descriptor.args
        {
            list.args = args.by_ref().take(1).map(argument).collect();
        }
        given.args.extend(args.map(argument));
    }
    Ok(from)
}

fn argument(value: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
}

/// Replaces auxiliary functions of this window by its columns.
fn name_columns(expr: &mut Expr, window: &GroupWindow) {
    let _ = change_expressions(expr, &mut |expr| {
        if let Some(column) = auxiliary(expr, window) {
            *expr = Expr::Identifier(Ident::with_span(expr.span(), GROUP_WINDOW_COLUMNS[column]));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The column of windows that an auxiliary function of this window names.
fn auxiliary(expr: &Expr, window: &GroupWindow) -> Option<usize> {
    let Expr::Function(function) = expr else { return None };
    let (name, args) = call(function)?;
    let suffix = name.strip_prefix(window.name.as_str()).filter(|_| args == window.args)?;
    AUXILIARY.iter().find(|(auxiliary, _)| *auxiliary == suffix).map(|(_, column)| *column)
}

/// A key that is a window: with a time, and the lengths.
fn group_window(key: &Expr) -> Option<GroupWindow> {
    let Expr::Function(function) = key else { return None };
    let (name, args) = call(function)?;
    let lengths = match name.as_str() {
        "TUMBLE" | "SESSION" => 1,
        "HOP" => 2,
        _ => return None,
    };
    let is_time = matches!(args.first(), Some(Expr::Identifier(_) | Expr::CompoundIdentifier(_)));
    (is_time && args.len() == lengths + 1).then_some(GroupWindow { name, args })
}

/// The name of a function in capitals, and plain arguments.
fn call(function: &Function) -> Option<(String, Vec<Expr>)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    Some((function.name.to_string().to_uppercase(), list.args.iter().map(plain).collect::<Option<_>>()?))
}
