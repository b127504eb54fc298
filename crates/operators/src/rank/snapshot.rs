//! Snapshots: the rows that have changed since the last one, or all. A row that is gone has the weight 0.

use std::sync::Arc;

use anabranch_model::{EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, Schema};

use super::{Rank, RowOf};
use crate::hash_keys;
use crate::keyed_state::{check_columns, narrow, number, numbers};
use crate::operator::{StateChange, StateShape};

impl Rank {
    pub(super) fn shape(&self) -> StateShape {
        let own = ["$weight", "$snapshot"].map(number);
        let fields: Vec<Field> =
            self.spec.schema.fields().iter().map(|field| field.as_ref().clone()).chain(own).collect();
        StateShape { table: String::new(), schema: Arc::new(Schema::new(fields)), keys: 0..self.spec.keys, pane: None }
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<StateChange> {
        let complete = self.snapshots.is_complete(adds);
        self.snapshots.number += 1;
        let changed = std::mem::take(&mut self.changes.rows);
        self.changes.noted = true;
        let copies = |row: &RowOf| self.rows.get(row).copied().unwrap_or(0);
        let rows: Vec<(&RowOf, i64)> = match complete {
            true => self.rows.iter().map(|(row, copies)| (row, *copies)).collect(),
            false => changed.iter().map(|row| (row, copies(row))).collect(),
        };
        let groups: Vec<usize> = rows.iter().map(|((group, _), _)| *group as usize).collect();
        let mut columns = self.columns(&groups, rows.iter().map(|((_, row), _)| &**row))?;
        columns.extend([
            Arc::new(rows.iter().map(|(_, copies)| *copies).collect::<Int64Array>()) as ArrayRef,
            Arc::new(Int64Array::from(vec![self.snapshots.number; rows.len()])),
        ]);
        let emitted = rows.len();
        let rows = RecordBatch::try_new(self.shape().schema, columns)?;
        self.snapshots.emitted(complete, emitted);
        let rows = if emitted > 0 { vec![rows] } else { Vec::new() };
        Ok(StateChange { rows, complete, runs: Vec::new(), first_pane: EventTime::MIN })
    }

    /// Merges rows of a snapshot.
    pub(super) fn take_up(&mut self, rows: &RecordBatch) -> Result<()> {
        check_columns(&rows.schema(), &self.shape().schema)?;
        let (columns, own) = rows.columns().split_at(self.spec.schema.fields().len());
        let (keys, values) = columns.split_at(self.spec.keys);
        let (copies, versions) = (numbers(own, 0)?, numbers(own, 1)?);
        self.snapshots.restoring(versions);
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(keys, rows.num_rows(), &mut hashes)?;
        self.keys.intern(keys, &hashes, &mut ids)?;
        self.make_room();
        let encoded = self.converter.convert_columns(values)?;
        for (row, id) in ids.into_iter().enumerate() {
            let key: RowOf = (narrow(id)?, encoded.row(row).data().into());
            let version = versions.value(row);
            if self.changes.versions.get(&key).is_none_or(|earlier| *earlier < version) {
                self.changes.versions.insert(key.clone(), version);
                self.set(key, |_| copies.value(row));
            }
        }
        Ok(())
    }
}
