//! The state table of the rows of partitions. A removed row has the weight 0.

use std::sync::Arc;

use anabranch_dataflow::RankSpec;
use anabranch_model::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::partition::{Entry, Partition};
use super::{Partitions, Touched, order};
use crate::key_hash::canonical;
use crate::keyed_state::{
    Extent, Identity, KeyedRows, KeyedState, Noted, SPARSE_MIN, Table, Taken, narrow, number, numbers,
};
use crate::row_store::Comparand;

/// The state table of the rows of partitions.
pub(crate) fn table(spec: &RankSpec) -> Table {
    let fields = spec.schema.fields().iter().map(|field| field.as_ref().clone()).chain([number("$weight")]);
    let identity = Identity::Counted(spec.schema.fields().len());
    Table::new("", fields.collect(), identity, spec.time_to_live_ms.is_some())
}

impl KeyedRows for Partitions {
    fn tables(&self) -> Vec<Table> {
        vec![table(&self.spec)]
    }

    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted)) {
        each(&mut self.changes);
    }

    fn make_room(&mut self, keys: usize) {
        self.partitions.resize_with(keys, Partition::default);
        self.touched.stamps.resize(keys, 0);
    }

    fn take_out(&mut self, part: Extent, number: i64) -> Result<Vec<Taken>> {
        // An equal row may have been stored again, in the same partition or a new one. The removed row has a
        // lower number, so that the stored one wins.
        let number = |row: &usize| number - i64::from(self.copies[*row] == 0);
        let copies = &self.copies;
        let rows = self.changes.take(part, || (0..copies.len()).filter(|row| copies[*row] > 0).collect());
        let mut columns = self.rows.rows(&rows)?;
        columns.push(Arc::new(rows.iter().map(|row| i64::from(copies[*row])).collect::<Int64Array>()));
        let numbers: ArrayRef = Arc::new(rows.iter().map(number).collect::<Int64Array>());
        let keys = rows.iter().map(|row| self.groups[*row] as usize).collect();
        self.free_gone();
        Ok(vec![Taken { numbers: Some(numbers), ..Taken::new(keys, columns) }])
    }

    fn put_in(
        &mut self,
        _table: usize,
        keys: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        let copies = numbers(rows.columns(), self.spec.schema.fields().len())?;
        let ids = self.intern(rows, keys)?;
        if let Some(versions) = versions {
            self.restores = true;
            for row in self.changes.latest(&ids, versions) {
                self.copies[ids[row]] = self.copies_of(copies.value(row));
            }
            return Ok(());
        }
        for (id, copies) in ids.iter().zip(copies.values()) {
            self.copies[*id] = self.copies_of(*copies);
        }
        let mut groups = keys.to_vec();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let partition = &mut self.partitions[group];
            partition.recount(&mut self.copies, self.spec.limit);
            self.live += usize::from(partition.rows() > 0);
            self.live_rows += partition.entries().len();
            self.partition_bytes += partition.size_bytes();
        }
        Ok(())
    }

    fn succeed(&mut self, former: &mut Self) {
        std::mem::swap(self, former);
        std::mem::swap(&mut self.spec, &mut former.spec);
    }

    fn count(&mut self) -> usize {
        self.rows_restored();
        self.live_rows
    }

    fn size_bytes(&self) -> usize {
        let partitions = self.partitions.capacity() * (size_of::<Partition>() + size_of::<u32>());
        let rows = (self.groups.capacity() + self.copies.capacity()) * size_of::<u32>();
        self.rows.size_bytes() + self.changes.size_bytes() + partitions + rows + self.partition_bytes
    }

    fn living(&mut self) -> Result<Option<Vec<usize>>> {
        self.remove_gone()?;
        let is_sparse = self.partitions.len() > 2 * self.live + SPARSE_MIN && self.changes.is_empty();
        Ok(is_sparse.then(|| (0..self.partitions.len()).filter(|group| self.exists(*group)).collect()))
    }

    fn keep(&mut self, keys: &[usize]) -> Result<()> {
        let mut places = vec![super::FREE; self.partitions.len()];
        for (new, old) in keys.iter().enumerate() {
            places[*old] = narrow(new)?;
        }
        // The partitions of removed rows do not matter.
        let place = |group: u32| places.get(group as usize).copied().unwrap_or(super::FREE);
        self.groups.iter_mut().for_each(|group| *group = place(*group));
        self.partitions = keys.iter().map(|group| std::mem::take(&mut self.partitions[*group])).collect();
        self.touched = Touched::default();
        self.make_room(keys.len());
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.rows.clear()?;
        (self.partitions, self.touched) = (Vec::new(), Touched::default());
        (self.groups, self.copies) = (Vec::new(), Vec::new());
        (self.live, self.live_rows, self.partition_bytes) = (0, 0, 0);
        Ok(())
    }

    fn exists(&self, key: usize) -> bool {
        self.partitions[key].rows() > 0
    }

    fn forget(&mut self, keys: &[usize]) -> Result<()> {
        keys.iter().for_each(|group| self.forget_partition(*group));
        Ok(())
    }

    fn end_restore(state: &mut KeyedState<Self>) -> Result<()> {
        state.rows.rows_restored();
        Ok(())
    }

    fn awaits(&self, key: usize) -> bool {
        self.exists(key)
    }

    fn await_away(&self, _table: usize, rows: &RecordBatch) -> Result<Vec<bool>> {
        let copies = numbers(rows.columns(), self.spec.schema.fields().len())?;
        Ok(copies.values().iter().map(|copies| *copies > 0).collect())
    }
}

impl Partitions {
    /// The number of copies that may be among the first rows.
    pub(super) fn copies_of(&self, copies: i64) -> u32 {
        let most = u32::try_from(self.spec.limit).unwrap_or(u32::MAX);
        u32::try_from(copies.max(0)).unwrap_or(u32::MAX).min(most)
    }

    /// The numbers of rows of state. New rows are stored, and get an entry in their partition without copies.
    pub(super) fn intern(&mut self, state: &RecordBatch, groups: &[usize]) -> Result<Vec<usize>> {
        let columns = &state.columns()[self.spec.keys..self.spec.schema.fields().len()];
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let values = self.rows.values(&columns)?;
        let prefixes = self.rows.prefixes(&values, groups.len());
        let compare = |a: usize, b: usize| {
            prefixes[a].cmp(&prefixes[b]).then_with(|| self.rows.order(&values, a, Comparand::Row(b)))
        };
        // The rows are sorted once, so that each partition inserts all of its new rows in one merge.
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

    /// Counts rows and drops removed ones, if rows were restored.
    fn rows_restored(&mut self) {
        if !std::mem::take(&mut self.restores) {
            return;
        }
        self.changes.restored();
        for partition in &mut self.partitions {
            partition.recount(&mut self.copies, self.spec.limit);
        }
        self.live = self.partitions.iter().filter(|partition| partition.rows() > 0).count();
        self.live_rows = self.copies.iter().filter(|copies| **copies > 0).count();
        self.partition_bytes = self.partitions.iter().map(Partition::size_bytes).sum();
    }
}
