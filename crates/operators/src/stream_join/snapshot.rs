//! Snapshots: a table of the rows of each side, with their weights and the numbers of their matches.

use std::sync::Arc;

use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};

use super::side::Side;
use super::{Of, StreamJoin};
use crate::hash_keys;
use crate::keyed_state::{check_columns, number, numbers};
use crate::operator::{StateChange, StateShape};

impl StreamJoin {
    pub(super) fn shapes(&self) -> Vec<StateShape> {
        let fields = self.joined_schema.fields();
        let shape = |table: &str, fields: &[Arc<Field>]| {
            let numbers = ["$weight", "$matches", "$snapshot"].map(number);
            let fields: Vec<Field> = fields.iter().map(|field| field.as_ref().clone()).chain(numbers).collect();
            let (schema, keys) = (Arc::new(Schema::new(fields)), 0..self.key_types.len());
            StateShape { table: table.to_owned(), schema, keys, pane: None }
        };
        let (left, right) = fields.split_at(self.left.types.len());
        vec![shape("", left), shape("right", right)]
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let complete = self.snapshots.is_complete(adds);
        self.snapshots.number += 1;
        let (shapes, number, mut emitted) = (self.shapes(), self.snapshots.number, 0);
        let mut changes = Vec::new();
        for (of, shape) in [Of::Left, Of::Right].into_iter().zip(shapes) {
            let changed = self.sides(of).0.changes.take();
            let ids = if complete { self.side(of).all() } else { changed };
            let mut columns = self.columns_of(of, &ids)?;
            let side = self.side(of);
            let matches = |id: &usize| side.matches.get(*id).copied().unwrap_or(0);
            columns.extend([
                Arc::new(ids.iter().map(|id| side.weights[*id]).collect::<Int64Array>()) as ArrayRef,
                Arc::new(ids.iter().map(matches).collect::<Int64Array>()),
                Arc::new(Int64Array::from(vec![number; ids.len()])),
            ]);
            emitted += ids.len();
            let rows = RecordBatch::try_new(shape.schema, columns)?;
            let rows = if rows.num_rows() > 0 { vec![rows] } else { Vec::new() };
            changes.push(StateChange { rows, complete, runs: Vec::new(), first_pane: EventTime::MIN });
        }
        self.snapshots.emitted(complete, emitted);
        Ok(changes)
    }

    /// Merges rows of a snapshot.
    pub(super) fn take_up(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        let shapes = self.shapes();
        let shape = shapes.get(table).ok_or_else(|| Error::internal(format!("a join has no table {table}")))?;
        check_columns(&rows.schema(), &shape.schema)?;
        let columns = rows.columns();
        let (keys, rest) = columns.split_at(self.key_types.len());
        let (values, own) = rest.split_at(rest.len() - 3);
        let (weights, matches, versions) = (numbers(own, 0)?, numbers(own, 1)?, numbers(own, 2)?);
        self.snapshots.restoring(versions);
        hash_keys(keys, rows.num_rows(), &mut self.hashes)?;
        self.keys.intern(keys, &self.hashes, &mut self.ids)?;
        let (ids, count) = (std::mem::take(&mut self.ids), self.keys.len());
        let (own, other): (&mut Side, &mut Side) = self.sides(if table == 0 { Of::Left } else { Of::Right });
        other.make_room(count);
        own.restore((&ids, count), values, (weights, matches, versions))
    }
}

/// Types of the columns of a table, and whether they may be NULL.
pub(super) fn columns(shape: &StateShape) -> Vec<(DataType, bool)> {
    shape.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
}
