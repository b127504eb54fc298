//! Snapshots: the rows that have changed since the last one, or all. A row that is gone has the weight 0.

use std::sync::Arc;

use anabranch_dataflow::RankSpec;
use anabranch_model::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, Schema};

use super::partition::{Entry, Partition};
use super::{FirstRows, order};
use crate::hash_keys;
use crate::key_hash::canonical;
use crate::keyed_state::{Part, TimeToLive, check_columns, narrow, number, numbers, without_times};
use crate::operator::{StateChange, StateShape};
use crate::row_store::Other;

/// The table of the rows of partitions.
pub(crate) fn shape(spec: &RankSpec) -> StateShape {
    let times = spec.time_to_live_ms.map(|_| TimeToLive::field());
    let fields = spec.schema.fields().iter().map(|field| field.as_ref().clone()).chain([number("$weight")]);
    let fields: Vec<Field> = fields.chain(times).chain([number("$snapshot")]).collect();
    StateShape { table: String::new(), schema: Arc::new(Schema::new(fields)), keys: 0..spec.keys, pane: None }
}

impl FirstRows {
    pub(super) fn shape(&self) -> StateShape {
        shape(&self.spec)
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let (complete, part, runs) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let rows = self.take_rows(part)?;
        self.snapshots.emitted(complete, rows.num_rows());
        Ok(StateChange::of_tables(vec![rows], complete, runs))
    }

    /// Takes rows, as those of a new snapshot.
    pub(super) fn take_rows(&mut self, part: Part) -> Result<RecordBatch> {
        // A row may have come again after its partition was forgotten, or after another one: then the one that is gone has a lower number.
        let comes_again = self.times.is_some() || self.spec.latest;
        self.snapshots.number += 1 + i64::from(comes_again);
        let number = |row: &usize| self.snapshots.number - i64::from(comes_again && self.copies[*row] == 0);
        let copies = &self.copies;
        let rows = self.changes.take(part, || (0..copies.len()).filter(|row| copies[*row] > 0).collect());
        let groups: Vec<usize> = rows.iter().map(|row| self.groups[*row] as usize).collect();
        let mut columns = self.keys.keys_of(&groups)?;
        columns.extend(self.rows.rows(&rows)?);
        columns.push(Arc::new(rows.iter().map(|row| i64::from(copies[*row])).collect::<Int64Array>()) as ArrayRef);
        columns.extend(self.times.as_ref().map(|times| times.times_of(&groups)));
        columns.push(Arc::new(rows.iter().map(number).collect::<Int64Array>()));
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
            if let Some(windows) = &mut self.windows {
                let copies = numbers(rows.columns(), self.spec.schema.fields().len())?;
                windows.restored_away(&rows.columns()[..self.spec.keys], |row| copies.value(row) > 0)?;
            }
            return disk.restore(0, rows);
        }
        self.restores = true;
        let groups = self.groups_of(&rows)?;
        let ids = self.intern(&rows, &groups)?;
        let copies = numbers(rows.columns(), self.spec.schema.fields().len())?;
        for row in self.changes.latest(&ids, versions) {
            self.copies[ids[row]] = self.copies_of(copies.value(row));
        }
        self.keep_to_size()
    }

    /// The partitions of rows of state.
    pub(super) fn groups_of(&mut self, rows: &RecordBatch) -> Result<Vec<usize>> {
        let keys = &rows.columns()[..self.spec.keys];
        let (mut hashes, mut groups) = (Vec::new(), Vec::new());
        hash_keys(keys, rows.num_rows(), &mut hashes)?;
        self.keys.intern(keys, &hashes, &mut groups)?;
        self.make_room(&groups, keys)?;
        if let Some(times) = &mut self.times {
            times.restore_rows(&groups, rows)?;
        }
        Ok(groups)
    }

    /// How many equal rows may be among the first ones.
    pub(super) fn copies_of(&self, copies: i64) -> u32 {
        let most = u32::try_from(self.spec.limit).unwrap_or(u32::MAX);
        u32::try_from(copies.max(0)).unwrap_or(u32::MAX).min(most)
    }

    /// The numbers of rows of state, which are stored if they are new. In their partitions they have a place, and no copies.
    pub(super) fn intern(&mut self, state: &RecordBatch, groups: &[usize]) -> Result<Vec<usize>> {
        let columns = &state.columns()[self.spec.keys..self.spec.schema.fields().len()];
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let values = self.rows.values(&columns)?;
        let prefixes = self.rows.prefixes(&values, groups.len());
        let compare =
            |a: usize, b: usize| prefixes[a].cmp(&prefixes[b]).then_with(|| self.rows.order(&values, a, Other::Row(b)));
        // Sorted once, the new rows of a partition take their places in one go, however many it has.
        let mut sorted: Vec<usize> = (0..groups.len()).collect();
        sorted.sort_unstable_by(|a, b| groups[*a].cmp(&groups[*b]).then_with(|| compare(*a, *b)));
        let (mut ids, known) = (vec![0; groups.len()], self.rows.len());
        let (mut new, mut entries) = (Vec::new(), Vec::new());
        for rows in sorted.chunk_by(|a, b| groups[*a] == groups[*b]) {
            let partition = &mut self.partitions[groups[rows[0]]];
            for equal in rows.chunk_by(|a, b| compare(*a, *b).is_eq()) {
                let (row, prefix) = (equal[0], prefixes[equal[0]]);
                let of_entry = |entry: &Entry| order(&self.rows, entry, prefix, (&values, row));
                let id = match partition.entries().binary_search_by(of_entry) {
                    Ok(at) => partition.entries()[at].kept(),
                    Err(at) => {
                        let id = known + new.len();
                        entries.push((at, Entry::of_store(prefix, narrow(id)?, 0)));
                        new.push(row);
                        self.groups.push(narrow(groups[row])?);
                        self.copies.push(0);
                        id
                    }
                };
                equal.iter().for_each(|row| ids[*row] = id);
            }
            partition.merge(&entries);
            entries.clear();
        }
        self.rows.append(&values, &new)?;
        Ok(ids)
    }

    /// Everything was restored.
    pub(super) fn settle(&mut self) {
        if !std::mem::take(&mut self.restores) {
            return;
        }
        self.changes.restored();
        for partition in &mut self.partitions {
            partition.settle(&mut self.copies, self.spec.limit);
        }
        self.live = self.partitions.iter().filter(|partition| partition.rows() > 0).count();
        self.live_rows = self.copies.iter().filter(|copies| **copies > 0).count();
        self.partition_bytes = self.partitions.iter().map(Partition::size_bytes).sum();
    }
}
