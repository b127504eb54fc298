//! Columns of rows of several inputs, and conditions over them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use anabranch_dataflow::{Expr, MultiJoinSpec};
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{Schema, SchemaRef};

use super::product::{JoinedRows, MISSING, Origin};
use crate::join_tables::{Tables, taken};
use crate::{CompiledExpr, Functions};

/// The columns of a piece that have been read so far, by input.
#[derive(Default)]
pub(super) struct Gathered {
    columns: BTreeMap<usize, Vec<ArrayRef>>,
}

/// A condition over the columns that it reads.
pub(super) struct Condition {
    condition: CompiledExpr,
    schema: SchemaRef,
    /// The input of each column, and its index there.
    columns: Vec<(usize, usize)>,
}

impl Gathered {
    /// A column of an input. `order`: the inputs that are joined in the piece.
    pub(super) fn column(
        &mut self,
        (input, column): (usize, usize),
        origin: &Origin,
        piece: &JoinedRows,
        tables: &Tables,
        order: &[usize],
    ) -> Result<ArrayRef> {
        if let Entry::Vacant(entry) = self.columns.entry(input) {
            entry.insert(columns_of(input, origin, piece, tables, order)?);
        }
        let found = self.columns.get(&input).and_then(|columns| columns.get(column));
        found.cloned().ok_or_else(|| Error::internal("a column that no input of a join has"))
    }

    fn keep(&mut self, kept: &UInt64Array) -> Result<()> {
        self.columns.values_mut().try_for_each(|columns| {
            *columns = taken(columns, kept)?;
            Ok(())
        })
    }
}

/// The columns of an input for the rows of a piece. A missing row has NULL for all columns, keys included.
fn columns_of(
    input: usize,
    origin: &Origin,
    piece: &JoinedRows,
    tables: &Tables,
    order: &[usize],
) -> Result<Vec<ArrayRef>> {
    let keys = tables.key_types.len();
    let of_origin = |columns: &[ArrayRef]| -> Result<Vec<ArrayRef>> {
        let is_whole = piece.rows.len() == origin.rows.weights.len()
            && piece.rows.iter().enumerate().all(|(at, row)| at as u64 == *row);
        match is_whole {
            true => Ok(columns.to_vec()),
            false => taken(columns, &UInt64Array::from(piece.rows.clone())),
        }
    };
    if input == origin.input && !origin.is_missing {
        return of_origin(&origin.rows.columns);
    }
    if input == origin.input {
        // NULL, also for the keys: the output has only the columns after them.
        let none: UInt64Array = piece.rows.iter().map(|_| None::<u64>).collect();
        return taken(&origin.rows.columns, &none);
    }
    let joined = order.iter().position(|other| *other == input).and_then(|index| piece.met.get(index));
    let met = joined.ok_or_else(|| Error::internal("rows of an input that is not joined yet"))?;
    let key_columns = of_origin(&origin.rows.columns[..keys])?;
    if !met.contains(&MISSING) {
        return Ok(key_columns.into_iter().chain(tables.values_of(input, met)?).collect());
    }
    let there: Vec<usize> = met.iter().copied().filter(|row| *row != MISSING).collect();
    let (mut of_keys, mut of_values) = (Vec::new(), Vec::new());
    let mut found = 0..there.len() as u64;
    for (row, met) in (0..).zip(met) {
        let is_there = *met != MISSING;
        of_keys.push(is_there.then_some(row));
        of_values.push(if is_there { found.next() } else { None });
    }
    let mut columns = taken(&key_columns, &of_keys.into())?;
    columns.extend(taken(&tables.values_of(input, &there)?, &of_values.into())?);
    Ok(columns)
}

impl Condition {
    pub(super) fn new(condition: &Expr, spec: &MultiJoinSpec, functions: &Functions) -> Result<Condition> {
        let mut columns = Vec::new();
        condition.for_each_column(&mut |column| columns.push(column));
        columns.sort_unstable();
        columns.dedup();
        let places: Vec<(usize, usize)> = columns.iter().map(|column| spec.place(*column)).collect();
        let field = |(input, column): &(usize, usize)| {
            let input = &spec.inputs[*input];
            let field = input.side.schema.field(*column).clone();
            let nullable = input.outer || field.is_nullable();
            field.with_nullable(nullable)
        };
        let schema = Arc::new(Schema::new(places.iter().map(field).collect::<Vec<_>>()));
        let condition = condition.with_columns_at(&|column| columns.binary_search(&column).unwrap_or_default());
        let condition = CompiledExpr::new(&condition, &schema, functions)?;
        Ok(Condition { condition, schema, columns: places })
    }

    /// Keeps the rows of a piece that satisfy the condition.
    pub(super) fn keep_those(
        &mut self,
        origin: &Origin,
        piece: &mut JoinedRows,
        gathered: &mut Gathered,
        tables: &Tables,
        order: &[usize],
    ) -> Result<()> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for place in &self.columns {
            columns.push(gathered.column(*place, origin, piece, tables, order)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(piece.rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let passes = self.condition.evaluate_predicate(&batch)?;
        let kept: Vec<usize> = (0..piece.rows.len()).filter(|row| passes.value(*row)).collect();
        if kept.len() < piece.rows.len() {
            piece.keep(&kept);
            gathered.keep(&kept.into_iter().map(|row| row as u64).collect())?;
        }
        Ok(())
    }
}
