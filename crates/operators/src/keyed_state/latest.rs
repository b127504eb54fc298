//! The latest of the rows that replace each other.

use anabranch_model::Result;
use anabranch_state::{KeyedTable, Merge};
use arrow::array::{Array, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch};

use super::numbers;
use crate::event_time::event_times;
use crate::hash_keys;
use crate::key_table::KeyTable;

/// Keeps the row of each identity that has the highest number of a snapshot, which is the last column.
pub(crate) struct Latest {
    table: KeyedTable,
    identities: KeyTable,
    batches: Vec<RecordBatch>,
    /// Of each identity: batch and row, and the number of its snapshot.
    places: Vec<(usize, usize)>,
    versions: Vec<i64>,
    hashes: Vec<u64>,
    ids: Vec<usize>,
    first_time: Option<FirstTime>,
}

/// Rows with an event time before this one, in milliseconds, or none, are not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstTime {
    pub(crate) column: usize,
    pub(crate) ms: i64,
}

impl Latest {
    pub(crate) fn new(table: &KeyedTable, first_time: Option<FirstTime>) -> Result<Latest> {
        let identity = table.schema.fields().iter().take(table.count).map(|field| field.data_type().clone());
        Ok(Latest {
            table: table.clone(),
            identities: KeyTable::new(identity.collect())?,
            batches: Vec::new(),
            places: Vec::new(),
            versions: Vec::new(),
            hashes: Vec::new(),
            ids: Vec::new(),
            first_time,
        })
    }
}

impl Merge for Latest {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let identity = &rows.columns()[..self.table.count];
        let versions: &Int64Array = numbers(rows.columns(), rows.num_columns() - 1)?;
        hash_keys(identity, rows.num_rows(), &mut self.hashes)?;
        self.identities.intern(identity, &self.hashes, &mut self.ids)?;
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
        if batches.is_empty() {
            return Ok(RecordBatch::new_empty(self.table.schema.clone()));
        }
        let rows = interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &self.places)?;
        self.places.clear();
        self.versions.clear();
        self.identities.clear();
        let Some(FirstTime { column, ms }) = self.first_time else { return Ok(rows) };
        let column = rows.column(column);
        let is_needed = |(row, time): (usize, &i64)| Some(column.is_valid(row) && *time >= ms);
        let needed: BooleanArray = event_times(column)?.iter().enumerate().map(is_needed).collect();
        Ok(filter_record_batch(&rows, &needed)?)
    }
}
