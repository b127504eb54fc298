//! Partitions that are on a local disk.

use anabranch_dataflow::Frame;
use anabranch_model::Result;
use anabranch_state::KeyedTable;
use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::compute::{filter_record_batch, interleave, take_record_batch};

use super::Over;
use super::history::History;
use super::snapshot::Table;
use crate::key_table::KeyTable;
use crate::keyed_state::{
    Changes, Needed, OnDisk, Part, TimeToLive, is_full, keyed_table, narrow, time_to_live, with_latest,
};
use crate::waiting::Piece;

impl Over {
    /// The tables of partitions, as they are on the disk.
    pub(super) fn keyed_tables(&self) -> Vec<KeyedTable> {
        let keys = self.spec.keys;
        let keyed = |table: Table| {
            let shape = self.shape(table);
            let (identity, count) = match table {
                // But for the time to live, rows are never changed. Behind the columns that functions read, a row has its times and its place.
                Table::Before => ((0..keys).chain(keys + self.read.len()..shape.schema.fields().len()).collect(), None),
                Table::States => ((0..keys).collect(), None),
                Table::Values(_) => ((0..=keys).collect(), Some(keys + 1)),
            };
            let event_time = (table == Table::Before && self.spec.frame.ends_by_time()).then(|| keys + self.read.len());
            let time = time_to_live::column(&shape.schema).or(event_time).map(with_latest);
            KeyedTable { time, ..keyed_table(&shape, identity, count) }
        };
        self.tables().into_iter().map(keyed).collect()
    }

    /// What has changed in each table.
    pub(super) fn changes_of_tables(&mut self) -> impl Iterator<Item = &mut Changes> {
        let entries = self.functions.calls.iter_mut().filter_map(|call| call.accumulator.entries());
        std::iter::once(&mut self.changes).chain(entries.map(|entries| &mut entries.changes))
    }

    /// Says which rows before may be needed.
    pub(super) fn forget_on_disk(&mut self) {
        let rows = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        let needed = match (self.spec.frame, self.times.as_ref().map(TimeToLive::first_needed)) {
            (Frame::Range { preceding_ms: Some(ms) }, _) => Needed::Since(self.first_needed(ms)),
            (Frame::Rows { preceding: Some(preceding) }, Some(first)) => Needed::LastSince(rows(preceding), first),
            (Frame::Rows { preceding: Some(preceding) }, None) => Needed::Last(rows(preceding)),
            (_, Some(first)) => Needed::Since(first),
            (_, None) => Needed::All,
        };
        let tables = 0..self.tables().len();
        self.disk.iter_mut().for_each(|disk| tables.clone().for_each(|table| disk.need(table, needed)));
    }

    /// Reads the partitions that have come into the table, as their ids from `known` on say. False if that is too much at once.
    pub(super) fn load(&mut self, known: usize, ids: &[usize], hashes: &[u64]) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let new = ids.iter().zip(hashes).filter(|(id, _)| **id >= known).map(|(_, hash)| *hash).collect();
        let Some(found) = disk.look_up(new)? else { return Ok(false) };
        for (table, rows) in self.tables().into_iter().zip(found).filter(|(_, rows)| rows.num_rows() > 0) {
            let mut ids = self.intern(&rows.columns()[..self.spec.keys], rows.num_rows())?;
            // Another key with the same hash may be in memory, where it is later.
            let is_new: BooleanArray = ids.iter().map(|id| Some(*id >= known)).collect();
            let rows = filter_record_batch(&rows, &is_new)?;
            ids.retain(|id| *id >= known);
            if let Some(times) = self.times.as_mut().filter(|_| !matches!(table, Table::Values(_))) {
                times.restore_rows(&ids, &rows)?;
            }
            let (ids, rows) = self.living(ids, rows)?;
            self.take_in(table, &ids, &rows, None)?;
        }
        self.history.lists[known..].iter_mut().for_each(|list| list.stored = list.rows.len());
        Ok(true)
    }

    /// The results of rows whose partitions do not fit into memory at once: first those of one half of the partitions, then of the other.
    pub(super) fn results_of_halves(&mut self, piece: &Piece, hashes: &[u64]) -> Result<Vec<ArrayRef>> {
        self.put_away()?;
        let mut sorted = hashes.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let middle = sorted[sorted.len() / 2];
        let mut places = vec![(0, 0); hashes.len()];
        let mut halves = Vec::with_capacity(2);
        for half in 0..2 {
            let is_in = |row: &usize| usize::from(hashes[*row] >= middle) == half;
            let rows: Vec<usize> = (0..hashes.len()).filter(is_in).collect();
            rows.iter().enumerate().for_each(|(place, row)| places[*row] = (half, place));
            let at: UInt32Array = rows.iter().map(|row| narrow(*row)).collect::<Result<Vec<_>>>()?.into();
            let numbers = rows.iter().map(|row| piece.numbers[*row]).collect();
            let part = Piece { rows: take_record_batch(&piece.rows, &at)?, numbers };
            halves.push(self.results(&part)?);
            self.keep_to_size()?;
        }
        let functions = halves[0].iter().zip(&halves[1]);
        functions.map(|(a, b)| Ok(interleave(&[a.as_ref(), b.as_ref()], &places)?)).collect()
    }

    /// Writes partitions to the disk, if they take too much memory.
    pub(super) fn keep_to_size(&mut self) -> Result<()> {
        if self.disk.is_none() {
            return Ok(());
        }
        if is_full(self.disk.as_ref(), self.size_bytes(), self.bytes_max)? {
            self.put_away()?;
        }
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }

    /// Writes what has changed to the disk, and starts again with empty tables.
    pub(super) fn put_away(&mut self) -> Result<()> {
        let rows = self.take_rows(Part::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&rows))?;
        let types = self.spec.schema.fields().iter().take(self.spec.keys).map(|field| field.data_type().clone());
        self.keys = KeyTable::by_id(types.collect())?;
        self.history = History::new(self.functions.schema.fields().iter().map(|of| of.data_type().clone()).collect());
        self.functions.calls.iter_mut().try_for_each(|call| call.accumulator.keep(&[]))?;
        self.times.iter_mut().for_each(|times| times.keep(&[]));
        self.changes_of_tables().for_each(Changes::written);
        Ok(())
    }
}
