//! Which columns of a plan are read, and how.

use std::collections::BTreeMap;

use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, Result, Spans};
use datafusion_expr::Expr;

use crate::origin::first_span;
use crate::passes::filters::replaced;
use crate::rel::{Columns, fresh, name_of};
use crate::walk::Walk;

/// How a column is read.
#[derive(Clone)]
pub(super) enum Use {
    Whole,
    /// Only these fields of a row are read.
    Fields(Vec<Expr>),
}

/// The columns that are read.
#[derive(Clone, Default)]
pub(super) struct Uses(BTreeMap<Column, Use>);

impl Uses {
    pub(super) fn all(schema: &Columns) -> Self {
        Uses(schema.ids().into_iter().map(|column| (column, Use::Whole)).collect())
    }

    pub(super) fn get(&self, column: &Column) -> Option<&Use> {
        self.0.get(column)
    }

    pub(super) fn wants(&self, column: &Column) -> bool {
        self.0.contains_key(column)
    }

    pub(super) fn read_whole(&mut self, column: &Column) {
        self.0.insert(column.clone(), Use::Whole);
    }

    /// Adds a read of a field of the row `column`, which is `source` in the input.
    pub(super) fn read_field(&mut self, access: &Expr, column: &Column, source: &Column) -> Result<()> {
        self.add_field(over(access, column, source)?, source);
        Ok(())
    }

    fn add_field(&mut self, access: Expr, column: &Column) {
        let of = self.0.entry(column.clone()).or_insert_with(|| Use::Fields(Vec::new()));
        if let Use::Fields(accesses) = of
            && !accesses.contains(&access)
        {
            accesses.push(access);
        }
    }

    /// Adds the reads of an expression.
    pub(super) fn read(&mut self, expr: &Expr) {
        // A walk that only reads does not fail.
        let _ = expr.see(&mut |expr| {
            if let Some(column) = accessed(expr) {
                self.add_field(expr.clone(), column);
                return Ok(TreeNodeRecursion::Jump);
            }
            if let Expr::Column(column) = expr {
                self.read_whole(column);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }

    /// The reads of these columns.
    pub(super) fn within(&self, schema: &Columns) -> Uses {
        let of_schema = schema.ids().into_iter();
        Uses(of_schema.filter_map(|column| self.0.get(&column).cloned().map(|of| (column, of))).collect())
    }
}

/// The ROW column of which an expression is a field or a nested field.
fn accessed(expr: &Expr) -> Option<&Column> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [row, path @ ..] = call.args.as_slice() else { return None };
    let is_access = call.name() == "get_field" && path.iter().all(|name| name.as_literal().is_some());
    match row {
        _ if !is_access => None,
        Expr::Column(column) => Some(column),
        row => accessed(row),
    }
}

fn path(access: &Expr) -> Vec<String> {
    let Expr::ScalarFunction(call) = access else { return Vec::new() };
    let names = call.args.iter().skip(1).filter_map(Expr::as_literal).map(ToString::to_string);
    let inner = call.args.first().map(path).unwrap_or_default();
    inner.into_iter().chain(names).collect()
}

/// A new column for a field of a row: `r.f`.
pub(super) fn field_column(access: &Expr, row: &Column) -> Column {
    fresh(&format!("{}.{}", name_of(row), path(access).join(".")))
}

fn over(access: &Expr, column: &Column, source: &Column) -> Result<Expr> {
    replaced(access.clone(), &BTreeMap::from([(column.clone(), Expr::Column(source.clone()))]))
}

/// The columns of fields, by the accesses that they replace.
#[derive(Default)]
pub(super) struct Fields(Vec<(Expr, Column)>);

impl Fields {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, access: Expr, column: Column) {
        self.0.push((access, column));
    }

    pub(super) fn extend(&mut self, others: Fields) {
        self.0.extend(others.0);
    }

    pub(super) fn into_pairs(self) -> Vec<(Expr, Column)> {
        self.0
    }

    fn get(&self, access: &Expr) -> Option<&Column> {
        self.0.iter().find(|(of, _)| of == access).map(|(_, column)| column)
    }

    /// The columns for these fields of the row `column`, which is `source` in the input. `None`: the input
    /// has the row.
    pub(super) fn for_row(&self, accesses: &[Expr], column: &Column, source: &Column) -> Result<Option<Fields>> {
        let mut found = Fields::default();
        for access in accesses {
            let Some(field) = self.get(&over(access, column, source)?) else { return Ok(None) };
            found.insert(access.clone(), field.clone());
        }
        Ok(Some(found))
    }

    /// Replaces accesses to fields by columns.
    pub(super) fn put_into(&self, expr: Expr) -> Result<Expr> {
        if self.is_empty() {
            return Ok(expr);
        }
        let put = expr.walk_down(&mut |expr| {
            Ok(match self.get(&expr) {
                Some(column) => {
                    let mut column = column.clone();
                    column.spans = Spans(first_span(&expr).into_iter().collect());
                    Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump)
                }
                None => Transformed::no(expr),
            })
        });
        put.map(|expr| expr.data)
    }
}
