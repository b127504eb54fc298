//! The columns of a relation, and their numbers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anabranch_model::Error;
use arrow::datatypes::{FieldRef, Fields};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, ExprSchema, Result, Spans, TableReference, plan_err};
use datafusion_expr::Expr;

use crate::place::through;
use crate::walk::Walk;

/// The number of a column. It is unique in the process, and never changes its meaning.
///
/// DataFusion's expressions have it as the end of a [`Column`]'s name, after the user's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ColId(u64);

/// Separates the user's name from the number.
pub(super) const MARK: char = '\u{1f}';
/// Hexadecimal digits of a number. The texts sort like the numbers.
pub(super) const DIGITS: usize = 12;

impl ColId {
    /// `None`: the name is not resolved yet.
    pub(crate) fn parse(column: &Column) -> Option<ColId> {
        let (_, digits) = parts(&column.name)?;
        u64::from_str_radix(digits, 16).ok().map(ColId)
    }
}

fn parts(name: &str) -> Option<(&str, &str)> {
    let (before, digits) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
    Some((before.strip_suffix(MARK)?, digits))
}

/// A new column with this name.
pub(crate) fn fresh(name: &str) -> Column {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Column::new_unqualified(format!("{name}{MARK}{number:0DIGITS$x}"))
}

/// The user's name of a column.
pub(crate) fn name_of(column: &Column) -> &str {
    parts(&column.name).map_or(&column.name, |(name, _)| name)
}

/// Removes the numbers of columns from a text of DataFusion.
pub(crate) fn without_numbers(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(MARK);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| plain.push_str(part.get(DIGITS..).unwrap_or_default()));
    Cow::Owned(plain)
}

/// Replaces columns of an expression, including outer references.
pub(super) fn with_columns(expr: Expr, other: &dyn Fn(&Column) -> Option<Column>) -> Result<Expr> {
    let changed = expr.walk_up(&mut |mut expr| {
        let (Expr::Column(column) | Expr::OuterReferenceColumn(_, column)) = &mut expr else {
            return Ok(Transformed::no(expr));
        };
        let Some(found) = other(column) else { return Ok(Transformed::no(expr)) };
        *column = Column { spans: std::mem::take(&mut column.spans), ..found };
        Ok(Transformed::yes(expr))
    });
    changed.map(|expr| expr.data)
}

/// A column and its properties.
#[derive(Clone, Debug)]
pub(crate) struct Col {
    /// Its name and number.
    pub(crate) id: Column,
    /// The table that it belongs to in the query.
    pub(crate) table: Option<TableReference>,
    /// Its name, its type, and whether it is an event time.
    pub(crate) field: FieldRef,
}

impl Col {
    /// A column without a table.
    pub(crate) fn new(id: Column, field: FieldRef) -> Self {
        Col { id: Column { spans: Spans::new(), ..id }, table: None, field }
    }

    pub(crate) fn expr(&self) -> Expr {
        Expr::Column(self.id.clone())
    }
}

/// Columns in order. A column is found by number in logarithmic time.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    cols: Vec<Col>,
    fields: Fields,
    /// The name of the relation in the query.
    called: Option<TableReference>,
    by_id: OnceLock<Vec<(ColId, usize)>>,
}

impl Columns {
    /// # Errors
    /// A column occurs twice, or has no number.
    pub(crate) fn new(cols: Vec<Col>) -> Result<Arc<Self>> {
        let columns = Columns::unchecked(cols);
        let by_id = columns.by_id();
        let twice = by_id.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1);
        let lacks = || columns.cols.iter().position(|col| ColId::parse(&col.id).is_none());
        match twice.or_else(|| if by_id.len() < columns.len() { lacks() } else { None }) {
            Some(place) => {
                let name = columns.field(place).name();
                Err(through(Error::internal(format!("the column '{name}' is not one column"))))
            }
            None => Ok(Arc::new(columns)),
        }
    }

    fn unchecked(cols: Vec<Col>) -> Self {
        let fields = cols.iter().map(|col| Arc::clone(&col.field)).collect();
        Columns { cols, fields, called: None, by_id: OnceLock::new() }
    }

    /// New columns of a table.
    pub(crate) fn of_table(name: &str, fields: impl IntoIterator<Item = FieldRef>) -> Arc<Self> {
        let cols = fields.into_iter().map(|field| Col::new(fresh(field.name()), field));
        Columns::unchecked(cols.collect()).called_as(&TableReference::bare(name))
    }

    /// The columns of several relations.
    pub(crate) fn merged(of: &[Arc<Columns>]) -> Arc<Self> {
        Arc::new(Columns::unchecked(of.iter().flat_map(|columns| columns.to_vec()).collect()))
    }

    /// The columns of the relation with this name.
    pub(crate) fn called_as(&self, table: &TableReference) -> Arc<Self> {
        let of_table = |col: &Col| Col { table: Some(table.clone()), ..col.clone() };
        let columns = Columns::unchecked(self.cols.iter().map(of_table).collect());
        Arc::new(Columns { called: Some(table.clone()), ..columns })
    }

    /// The name of the relation in the query.
    pub(crate) fn called(&self) -> Option<&TableReference> {
        self.called.as_ref()
    }

    /// The columns with other numbers.
    pub(super) fn with_ids(&self, ids: &HashMap<ColId, Column>) -> Arc<Self> {
        let renumbered = |col: &Col| match ColId::parse(&col.id).and_then(|id| ids.get(&id)) {
            Some(id) => Col { id: id.clone(), ..col.clone() },
            None => col.clone(),
        };
        let columns = Columns::unchecked(self.cols.iter().map(renumbered).collect());
        Arc::new(Columns { called: self.called.clone(), ..columns })
    }

    fn by_id(&self) -> &[(ColId, usize)] {
        self.by_id.get_or_init(|| {
            let numbered = self.cols.iter().enumerate();
            let mut by_id: Vec<_> = numbered.filter_map(|(place, col)| Some((ColId::parse(&col.id)?, place))).collect();
            by_id.sort_unstable();
            by_id
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.cols.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cols.is_empty()
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    pub(crate) fn field(&self, place: usize) -> &FieldRef {
        &self.fields[place]
    }

    /// The column as expressions refer to it.
    pub(crate) fn id(&self, place: usize) -> Column {
        self.cols[place].id.clone()
    }

    pub(crate) fn ids(&self) -> Vec<Column> {
        self.iter().map(|col| col.id.clone()).collect()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Col> {
        self.cols.iter()
    }

    pub(crate) fn to_vec(&self) -> Vec<Col> {
        self.cols.clone()
    }

    /// The columns at these indexes.
    pub(crate) fn selected(&self, places: &[usize]) -> Arc<Self> {
        let columns = Columns::unchecked(places.iter().map(|place| self.cols[*place].clone()).collect());
        Arc::new(Columns { called: self.called.clone(), ..columns })
    }

    /// These columns, followed by others.
    pub(crate) fn with(&self, added: impl IntoIterator<Item = Col>) -> Result<Arc<Self>> {
        let mut all = self.to_vec();
        all.extend(added);
        Columns::new(all)
    }

    /// The index of a column.
    pub(crate) fn find(&self, column: &Column) -> Option<usize> {
        #[cfg(test)]
        tests::COMPARED.with(|count| count.set(count.get() + 1));
        let id = ColId::parse(column)?;
        let by_id = self.by_id();
        by_id.binary_search_by_key(&id, |(id, _)| *id).ok().map(|found| by_id[found].1)
    }

    pub(crate) fn has(&self, column: &Column) -> bool {
        self.find(column).is_some()
    }

    /// The index of a column.
    ///
    /// # Errors
    /// There is no such column.
    pub(crate) fn place(&self, column: &Column) -> anabranch_model::Result<usize> {
        self.find(column).ok_or_else(|| {
            let known: Vec<&str> = self.fields.iter().map(|field| field.name().as_str()).collect();
            Error::internal(format!("there is no column {}; the columns are: {}", name_of(column), known.join(", ")))
        })
    }

    /// The column as users write it, with its table.
    pub(crate) fn written(&self, column: &Column) -> Option<Column> {
        let col = &self.cols[self.find(column)?];
        Some(Column::new(col.table.clone(), name_of(&col.id)))
    }

    /// The expression with columns as users write them.
    pub(crate) fn as_written(&self, expr: &Expr) -> Result<Expr> {
        let plain = |column: &Column| Column::new_unqualified(name_of(column));
        with_columns(expr.clone(), &|column| Some(self.written(column).unwrap_or_else(|| plain(column))))
    }

    /// The schema of the columns that expressions read, for DataFusion.
    pub(crate) fn schema_of(&self, exprs: &[&Expr]) -> Result<DFSchema> {
        let mut read: Vec<usize> =
            exprs.iter().flat_map(|expr| expr.column_refs()).filter_map(|id| self.find(id)).collect();
        read.sort_unstable();
        read.dedup();
        self.selected(&read).to_schema()
    }

    /// The schema of all columns, for DataFusion.
    pub(crate) fn to_schema(&self) -> Result<DFSchema> {
        let named = |col: &Col| (None, Arc::new(col.field.as_ref().clone().with_name(&col.id.name)));
        DFSchema::new_with_metadata(self.iter().map(named).collect(), Default::default())
    }
}

/// Lets DataFusion find the types of expressions.
impl ExprSchema for Columns {
    fn field_from_column(&self, column: &Column) -> Result<&FieldRef> {
        match self.find(column) {
            Some(place) => Ok(self.field(place)),
            None => plan_err!("there is no column {}", name_of(column)),
        }
    }
}

#[cfg(test)]
mod tests;
