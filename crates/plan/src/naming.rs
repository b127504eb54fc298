//! Names of columns without an alias: a field of a row gets its last name.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

/// Names `loc.z` and `t.loc.z` in every SELECT `z`, or `z_2` beside another `z`.
pub(crate) fn name_fields(query: &mut Query) {
    let _ = query.visit(&mut Naming);
}

struct Naming;

impl VisitorMut for Naming {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let tables: Vec<String> = select.from.iter().flat_map(tables_of).collect();
        let mut taken: BTreeSet<String> =
            select.projection.iter().filter_map(|item| name_of_item(item, &tables)).collect();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item else { continue };
            if let Some(last) = parts.last().filter(|_| is_field(parts, &tables)) {
                let mut alias = last.clone();
                let mut count = 1;
                while taken.contains(&alias.value) {
                    count += 1;
                    alias.value = format!("{}_{count}", last.value);
                }
                taken.insert(alias.value.clone());
                *item = SelectItem::ExprWithAlias { expr: Expr::CompoundIdentifier(parts.clone()), alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a name of several parts is that of a field, and not of a column with its table.
fn is_field(parts: &[Ident], tables: &[String]) -> bool {
    let qualified = parts.first().is_some_and(|first| tables.contains(&first.value));
    parts.len() > if qualified { 2 } else { 1 }
}

/// The name of a column that is not a field.
fn name_of_item(item: &SelectItem, tables: &[String]) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) | SelectItem::ExprWithAlias { alias: name, .. } => {
            Some(name.value.clone())
        }
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) if !is_field(parts, tables) => {
            parts.last().map(|name| name.value.clone())
        }
        _ => None,
    }
}

/// The names by which columns of these tables are qualified.
fn tables_of(tables: &TableWithJoins) -> Vec<String> {
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
