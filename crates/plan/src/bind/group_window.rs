//! Windows as keys of GROUP BY, as in older scripts: `GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)` with
//! `TUMBLE_START(ts, INTERVAL '1' MINUTE)` in SELECT. The rows of FROM and WHERE get the columns of these
//! windows.

use std::convert::Infallible;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem, Spanned,
};

use super::expr::Names;
use super::from::Rows;
use super::{Binder, Env, Scope};
use crate::place::at;
use crate::walk::change_expressions;
use crate::window_assign::{GROUP_WINDOW_COLUMNS, WINDOW_COLUMNS};
use crate::window_table::{Call, WindowFunction, plan_window};

/// A key `TUMBLE(ts, size)`: the function and its arguments.
#[derive(Clone)]
pub(super) struct GroupWindow {
    function: &'static WindowFunction,
    args: Vec<Expr>,
}

impl GroupWindow {
    /// Removes the window from the keys, and inserts its columns in its place.
    pub(super) fn extract(keys: &mut Vec<Expr>) -> Result<Option<GroupWindow>> {
        let windows = keys.iter().enumerate().filter_map(|(index, key)| Some((index, group_window(key)?)));
        let windows: Vec<(usize, GroupWindow)> = windows.collect();
        let (index, window) = match windows.as_slice() {
            [] => return Ok(None),
            [(index, window)] => (*index, window.clone()),
            [_, (second, _), ..] => {
                return Err(Error::user("GROUP BY has two windows")
                    .at(at(keys[*second].span().start))
                    .remedy("group by one window, and its results by another"));
            }
        };
        keys.splice(index..=index, GROUP_WINDOW_COLUMNS.map(|column| Expr::Identifier(Ident::new(column))));
        Ok(Some(window))
    }

    /// Replaces the auxiliary functions of this window in an item of SELECT.
    pub(super) fn name_item(&self, item: &mut SelectItem) {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(column) = auxiliary(expr, self)
        {
            let alias = Ident::with_span(expr.span(), WINDOW_COLUMNS[column]);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            name_columns(expr, self);
        }
    }
}

impl Binder<'_> {
    /// Adds the columns of a window of GROUP BY to rows.
    pub(super) fn group_window(
        &self,
        rows: Rows,
        window: GroupWindow,
        keys: &[Expr],
        env: &Env<'_>,
    ) -> datafusion_common::Result<Rows> {
        let GroupWindow { function, args } = window;
        let scope = Scope::new(rows.items.clone(), env.outer);
        let names = Names::new(&scope);
        let partition: Vec<_> = keys
            .iter()
            .filter(|key| function.has_keys && !is_window_column(key))
            .map(|key| self.plain(key.clone(), &names, env, &format!("a key of {function}")))
            .collect::<Result<_, _>>()?;
        let mut args = args.into_iter();
        let Some(time) = args.next() else { return Ok(rows) };
        let lengths = function.lengths().zip(args).collect();
        let call = Call { function, names: GROUP_WINDOW_COLUMNS, time, lengths, partition };
        plan_window(call, rows, self, env)
    }
}

fn is_window_column(key: &Expr) -> bool {
    matches!(key, Expr::Identifier(name) if GROUP_WINDOW_COLUMNS.contains(&name.value.as_str()))
}

/// Replaces auxiliary functions of this window by its columns.
pub(super) fn name_columns(expr: &mut Expr, window: &GroupWindow) {
    let _ = change_expressions(expr, &mut |expr| {
        if let Some(column) = auxiliary(expr, window) {
            *expr = Expr::Identifier(Ident::with_span(expr.span(), GROUP_WINDOW_COLUMNS[column]));
        }
        Ok::<(), Infallible>(())
    });
}

/// The index of the window column that an auxiliary function of this window names.
fn auxiliary(expr: &Expr, window: &GroupWindow) -> Option<usize> {
    let Expr::Function(function) = expr else { return None };
    let (name, args) = call(function)?;
    let (owner, column) = WindowFunction::of_auxiliary(&name)?;
    (owner.name == window.function.name && args == window.args).then_some(column)
}

/// The window that a key is: a function with a time and lengths.
fn group_window(key: &Expr) -> Option<GroupWindow> {
    let Expr::Function(function) = key else { return None };
    let (name, args) = call(function)?;
    let function = WindowFunction::named(&name).filter(|function| function.in_group_by)?;
    let is_time = matches!(args.first(), Some(Expr::Identifier(_) | Expr::CompoundIdentifier(_)));
    (is_time && args.len() == 1 + function.lengths().count()).then_some(GroupWindow { function, args })
}

/// The function's name in capitals, and its arguments.
fn call(function: &Function) -> Option<(String, Vec<Expr>)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    Some((function.name.to_string().to_uppercase(), list.args.iter().map(plain).collect::<Option<_>>()?))
}
