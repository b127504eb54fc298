//! Names of columns without an alias: a field of a row gets its last name, the value of a subquery one that no other column has.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitorMut,
};

use crate::walk::{change_expressions, change_syntax};

/// Names `loc.z` and `t.loc.z` in every SELECT `z`. Names that come twice have been numbered.
pub(crate) fn name_fields(query: &mut Query) {
    let _ = change_syntax(query, &mut Naming);
}

struct Naming;

impl VisitorMut for Naming {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let tables: Vec<String> = select.from.iter().flat_map(tables_of).collect();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item else { continue };
            if let Some(alias) = parts.last().filter(|_| is_field(parts, &tables)).cloned() {
                *item = SelectItem::ExprWithAlias { expr: Expr::CompoundIdentifier(parts.clone()), alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Names the value of each subquery in an expression, `(SELECT MAX(a) FROM t)`: the query around it may have `MAX(a)` too.
pub(crate) fn name_values(query: &mut Query) {
    let _ = change_expressions(query, &mut |expr| {
        if let Expr::Subquery(query) | Expr::InSubquery { subquery: query, .. } = expr
            && let SetExpr::Select(select) = query.body.as_mut()
            && let [item @ SelectItem::UnnamedExpr(_)] = select.projection.as_mut_slice()
            && let SelectItem::UnnamedExpr(value) = item
            && !matches!(value, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        {
            let alias = Ident::new(format!("({value})"));
            *item = SelectItem::ExprWithAlias { expr: value.clone(), alias };
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Whether a name of several parts is that of a field, and not of a column with its table.
fn is_field(parts: &[Ident], tables: &[String]) -> bool {
    let qualified = parts.first().is_some_and(|first| tables.contains(&first.value));
    parts.len() > if qualified { 2 } else { 1 }
}

/// The names by which columns of these tables are qualified.
pub(crate) fn tables_of(tables: &TableWithJoins) -> Vec<String> {
    let joined = tables.joins.iter().map(|join| &join.relation);
    std::iter::once(&tables.relation).chain(joined).filter_map(name_of).collect()
}

/// The name by which columns of a table are qualified.
pub(crate) fn name_of(table: &TableFactor) -> Option<String> {
    let (alias, name) = match table {
        TableFactor::Table { name, alias, .. } => (alias, name.0.last().and_then(|part| part.as_ident())),
        TableFactor::Derived { alias, .. } | TableFactor::TableFunction { alias, .. } => (alias, None),
        _ => return None,
    };
    alias.as_ref().map(|alias| &alias.name).or(name).map(|ident| ident.value.clone())
}
