//! Snapshots: the rows that have changed since the last one, or all. A row that is gone has the weight 0.

use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::{Rank, RowOf};
use crate::keyed_state::{Part, check_columns, narrow, numbers, without_times};
use crate::operator::{StateChange, StateShape};
use crate::{first_rows, hash_keys};

impl Rank {
    pub(super) fn shape(&self) -> StateShape {
        first_rows::shape(&self.spec)
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let (complete, part, runs) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let rows = self.take_rows(part)?;
        self.snapshots.emitted(complete, rows.num_rows());
        Ok(StateChange::of_tables(vec![rows], complete, runs))
    }

    /// Takes rows, as those of a new snapshot.
    pub(super) fn take_rows(&mut self, part: Part) -> Result<RecordBatch> {
        self.snapshots.number += 1;
        let changed = std::mem::take(&mut self.changes.rows);
        self.changes.noted = true;
        let copies = |row: &RowOf| self.rows.get(row).copied().unwrap_or(0);
        let rows: Vec<(&RowOf, i64)> = match part {
            Part::All => self.rows.iter().map(|(row, copies)| (row, *copies)).collect(),
            Part::Changed => changed.iter().map(|row| (row, copies(row))).collect(),
            Part::Unwritten => self.changes.unwritten.iter().flatten().map(|row| (row, copies(row))).collect(),
        };
        let groups: Vec<usize> = rows.iter().map(|((group, _), _)| *group as usize).collect();
        let mut columns = self.columns(&groups, rows.iter().map(|((_, row), _)| &**row))?;
        columns.push(Arc::new(rows.iter().map(|(_, copies)| *copies).collect::<Int64Array>()) as ArrayRef);
        columns.extend(self.times.as_ref().map(|times| times.times_of(&groups)));
        columns.push(Arc::new(Int64Array::from(vec![self.snapshots.number; rows.len()])));
        Ok(RecordBatch::try_new(self.shape().schema, columns)?)
    }

    /// Merges rows of a snapshot.
    pub(super) fn take_up(&mut self, rows: RecordBatch) -> Result<()> {
        let schema = self.shape().schema;
        let rows = match &self.times {
            Some(times) => times.needed(rows, &schema)?,
            None => without_times(rows, &schema)?,
        };
        check_columns(&rows.schema(), &schema)?;
        let versions = numbers(rows.columns(), rows.num_columns() - 1)?;
        self.snapshots.restoring(versions);
        if let Some(disk) = &mut self.disk {
            return disk.restore(0, rows);
        }
        let (keys, copies) = self.rows_of(&rows)?;
        for ((key, copies), version) in keys.into_iter().zip(copies.values()).zip(versions.values()) {
            if self.changes.versions.get(&key).is_none_or(|earlier| earlier < version) {
                self.changes.versions.insert(key.clone(), *version);
                self.set(key, |_| *copies);
            }
        }
        self.keep_to_size()
    }

    /// Rows of state with their partitions, and how many copies there are of each.
    pub(super) fn rows_of<'a>(&mut self, rows: &'a RecordBatch) -> Result<(Vec<RowOf>, &'a Int64Array)> {
        let (columns, own) = rows.columns().split_at(self.spec.schema.fields().len());
        let (keys, values) = columns.split_at(self.spec.keys);
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(keys, rows.num_rows(), &mut hashes)?;
        self.keys.intern(keys, &hashes, &mut ids)?;
        self.make_room();
        if let Some(times) = &mut self.times {
            times.restore_rows(&ids, rows)?;
        }
        let encoded = self.converter.convert_columns(values)?;
        let row = |(row, id): (usize, usize)| Ok((narrow(id)?, encoded.row(row).data().into()));
        Ok((ids.into_iter().enumerate().map(row).collect::<Result<_>>()?, numbers(own, 0)?))
    }
}
