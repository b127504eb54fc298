//! The latest of the rows that replace each other.

use anabranch_model::{Error, Result, batch_bytes};
use anabranch_state::{KeyedTable, Merge};
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch};

use super::{check_at_once, numbers};
use crate::event_time::event_times;
use crate::hash_keys;
use crate::key_table::KeyTable;

/// Keeps, for each identity, the row with the highest number in the last column. Where rows replace each
/// other, this is the number of the row's snapshot.
pub(crate) struct Latest {
    table: KeyedTable,
    identities: KeyTable,
    batches: Vec<RecordBatch>,
    /// For each identity: batch and row, and the number of its snapshot.
    places: Vec<(usize, usize)>,
    versions: Vec<i64>,
    hashes: Vec<u64>,
    ids: Vec<usize>,
    needed: Needed,
    bytes_max: usize,
    bytes: usize,
}

/// Which rows may be needed again. Lookups no longer find the others, which vanish when runs are merged, or
/// with their run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    All,
    /// The rows with this time or a later one, in milliseconds, in the table's time column. Rows without a
    /// time are not needed.
    Since(i64),
    /// This number of rows of each key: the ones with the highest numbers in the last column.
    Last(i64),
    /// This number of rows of each key: of the rows with the latest time of their key, the ones with the
    /// highest numbers in the last column. A key needs no row with another time, and none before this time,
    /// in milliseconds.
    LastSince(i64, i64),
}

impl Latest {
    pub(crate) fn new(table: &KeyedTable, needed: Needed) -> Result<Latest> {
        let identity = table.identity.iter().map(|column| table.schema.field(*column).data_type().clone());
        Ok(Latest {
            table: table.clone(),
            identities: KeyTable::new(identity.collect())?,
            batches: Vec::new(),
            places: Vec::new(),
            versions: Vec::new(),
            hashes: Vec::new(),
            ids: Vec::new(),
            needed,
            bytes_max: usize::MAX,
            bytes: 0,
        })
    }

    /// It is an error if the rows that are added before a call of `take` have more bytes.
    pub(crate) fn with_bytes_max(self, bytes_max: usize) -> Latest {
        Latest { bytes_max, ..self }
    }
}

impl Merge for Latest {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        self.bytes += batch_bytes(rows);
        check_at_once(self.bytes, self.bytes_max)?;
        let identity: Vec<ArrayRef> =
            self.table.identity.iter().map(|column| ArrayRef::clone(rows.column(*column))).collect();
        let versions: &Int64Array = numbers(rows.columns(), rows.num_columns() - 1)?;
        hash_keys(&identity, rows.num_rows(), &mut self.hashes)?;
        self.identities.intern(&identity, &self.hashes, &mut self.ids)?;
        for (row, (id, version)) in self.ids.iter().zip(versions.values()).enumerate() {
            let place = (self.batches.len(), row);
            // New ids are given in order.
            if *id == self.places.len() {
                self.places.push(place);
                self.versions.push(*version);
            } else if *version > self.versions[*id] {
                (self.places[*id], self.versions[*id]) = (place, *version);
            }
        }
        self.batches.push(rows.clone());
        Ok(())
    }

    fn take(&mut self) -> Result<RecordBatch> {
        let batches = std::mem::take(&mut self.batches);
        self.bytes = 0;
        if batches.is_empty() {
            return Ok(RecordBatch::new_empty(self.table.schema.clone()));
        }
        let rows = interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &self.places)?;
        self.places.clear();
        self.versions.clear();
        self.identities.clear();
        let needed: BooleanArray = match self.needed {
            Needed::All => return Ok(rows),
            Needed::Since(first) => self.are_since(&rows, first)?,
            Needed::Last(most) => self.are_last(&rows, most)?,
            Needed::LastSince(most, first) => {
                let rows = filter_record_batch(&rows, &self.are_since(&rows, first)?)?;
                let rows = filter_record_batch(&rows, &self.are_latest(&rows)?)?;
                let needed = self.are_last(&rows, most)?;
                return Ok(filter_record_batch(&rows, &needed)?);
            }
        };
        Ok(filter_record_batch(&rows, &needed)?)
    }
}

impl Latest {
    fn times<'a>(&self, rows: &'a RecordBatch) -> Result<&'a ArrayRef> {
        let (column, _) = self.table.time.ok_or_else(|| Error::internal("rows of a table without times"))?;
        Ok(rows.column(column))
    }

    /// Which rows have this time, or a later one.
    fn are_since(&self, rows: &RecordBatch, first: i64) -> Result<BooleanArray> {
        let times = self.times(rows)?;
        let is_needed = |(row, time): (usize, &i64)| Some(times.is_valid(row) && *time >= first);
        Ok(event_times(times)?.iter().enumerate().map(is_needed).collect())
    }

    /// Which rows have the latest time of their keys.
    fn are_latest(&mut self, rows: &RecordBatch) -> Result<BooleanArray> {
        let times = event_times(self.times(rows)?)?;
        let latest = self.highest(rows, &times)?;
        let is_latest = |(id, time): (&usize, &i64)| Some(*time == latest[*id]);
        Ok(self.ids.iter().zip(times.iter()).map(is_latest).collect())
    }

    /// Which rows are among the last of their keys.
    fn are_last(&mut self, rows: &RecordBatch, most: i64) -> Result<BooleanArray> {
        let numbers = numbers(rows.columns(), rows.num_columns() - 1)?.values();
        let last = self.highest(rows, numbers)?;
        let is_needed = |(id, number): (&usize, &i64)| Some(*number > last[*id].saturating_sub(most));
        Ok(self.ids.iter().zip(numbers).map(is_needed).collect())
    }

    /// The highest number that a row of each key has. The keys of rows are in `self.ids`.
    fn highest(&mut self, rows: &RecordBatch, numbers: &[i64]) -> Result<Vec<i64>> {
        let keys = &rows.columns()[self.table.keys.clone()];
        let mut table = KeyTable::new(keys.iter().map(|column| column.data_type().clone()).collect())?;
        hash_keys(keys, rows.num_rows(), &mut self.hashes)?;
        table.intern(keys, &self.hashes, &mut self.ids)?;
        let mut highest = vec![i64::MIN; table.len()];
        self.ids.iter().zip(numbers).for_each(|(id, number)| highest[*id] = highest[*id].max(*number));
        Ok(highest)
    }
}
