//! Rows of the right side that are versions of the row of their key, each valid from its event time until the
//! next version. A left row is joined when the watermark has reached its event time, with the version that is
//! valid then.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::StreamJoinKind;
use anabranch_model::{EventTime, Result};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};

use super::{JoinSide, StreamJoin};
use crate::Output;
use crate::event_time::event_times;
use crate::join_tables::{Side, taken};
use crate::keyed_state::{SPARSE_MIN, narrow};

/// An index of the versions of each key.
pub(super) struct Versions {
    /// The column of their event times.
    column: usize,
    /// From the id of the key and the time to the row's id.
    places: BTreeMap<(u32, i64), u32>,
    /// Number of rows of the side that are indexed.
    known: usize,
    /// How often rows had got new ids when they were indexed.
    renumbered: usize,
    /// Number of versions after the last sweep.
    kept: usize,
}

impl Versions {
    pub(super) fn new(column: usize) -> Versions {
        Versions { column, places: BTreeMap::new(), known: 0, renumbered: 0, kept: 0 }
    }

    /// Indexes rows that were added to the side. A version replaces one of the same time; a row without a
    /// time is no version.
    pub(super) fn add(
        &mut self,
        side: &mut Side,
        (keys, ids): (&[usize], &[usize]),
        columns: &[ArrayRef],
        weights: &[i64],
    ) -> Result<()> {
        let times = event_times(&columns[self.column])?;
        for (row, (key, id)) in keys.iter().zip(ids).enumerate() {
            if columns[self.column].is_null(row) {
                side.set_weight(*id, 0);
                continue;
            }
            if let Some(former) = self.places.insert((narrow(*key)?, times[row]), narrow(*id)?) {
                side.set_weight(former as usize, 0);
                side.changes.add(former as usize);
            }
            side.set_weight(*id, weights[row].signum());
        }
        self.known = side.len();
        Ok(())
    }

    /// The version of a key at a time, if there is one.
    fn at(&self, key: usize, time: i64, side: &Side) -> Option<usize> {
        let key = u32::try_from(key).ok()?;
        let (_, row) = self.places.range((key, i64::MIN)..=(key, time)).next_back()?;
        Some(*row as usize).filter(|row| side.weight(*row) > 0)
    }

    /// Whether a version is a deletion.
    fn ends(&self, place: (u32, i64), side: &Side) -> bool {
        self.places.get(&place).is_some_and(|row| side.weight(*row as usize) < 0)
    }

    pub(super) fn size_bytes(&self) -> usize {
        // The nodes of the tree are about two thirds full.
        self.places.len() * 3 / 2 * size_of::<((u32, i64), u32)>()
    }

    /// Forgets versions that a later version has replaced at or before this time, once there may be many.
    fn sweep(&mut self, watermark: EventTime, side: &mut Side, is_full: bool) {
        let many = if is_full { self.kept } else { 2 * self.kept + SPARSE_MIN };
        if self.places.len() <= many {
            return;
        }
        let mut last: Option<(u32, i64)> = None;
        let mut over = Vec::new();
        for place in self.places.keys() {
            let (is_over, is_end) = match last {
                Some(last) if last.0 == place.0 => (place.1 <= watermark.0, false),
                // The last version of its key: a deletion need not be remembered.
                Some(last) => (false, last.1 <= watermark.0 && self.ends(last, side)),
                None => (false, false),
            };
            over.extend(last.filter(|_| is_over || is_end));
            last = Some(*place);
        }
        over.extend(last.filter(|last| last.1 <= watermark.0 && self.ends(*last, side)));
        for row in over.iter().filter_map(|place| self.places.remove(place)) {
            side.set_weight(row as usize, 0);
            side.changes.add(row as usize);
        }
        self.kept = self.places.len();
    }
}

impl StreamJoin {
    /// Indexes versions that were read or restored, or all versions if rows have new ids.
    pub(super) fn index_versions(&mut self) -> Result<()> {
        let Some(versions) = &mut self.versions else { return Ok(()) };
        let right = &self.tables.rows.sides[JoinSide::Right as usize];
        if std::mem::replace(&mut versions.renumbered, self.tables.renumbered) != self.tables.renumbered {
            // Versions that were kept at the last sweep may be on disk.
            *versions = Versions { renumbered: versions.renumbered, ..Versions::new(versions.column) };
        }
        let first = std::mem::replace(&mut versions.known, right.len());
        if first >= right.len() {
            return Ok(());
        }
        let rows: Vec<usize> = (first..right.len()).filter(|row| right.weight(*row) != 0).collect();
        let (keys, values) = right.rows.rows_of(&rows)?;
        let times = match versions.column.checked_sub(self.tables.key_types.len()) {
            Some(column) => Arc::clone(&values[column]),
            None => self.tables.keys.keys_of(&keys)?.swap_remove(versions.column),
        };
        for ((row, key), time) in rows.iter().zip(keys).zip(event_times(&times)?.iter()) {
            versions.places.insert((narrow(key)?, *time), narrow(*row)?);
        }
        Ok(())
    }

    /// All due rows were emitted. If the tables are about to be written to the disk, even a few obsolete
    /// versions are removed: each would be read again with its key.
    pub(super) fn sweep_versions(&mut self) {
        let Some(versions) = &mut self.versions else { return };
        let bytes = self.tables.size_bytes() + versions.size_bytes();
        let is_full = self.tables.disk.as_ref().is_some_and(|disk| matches!(disk.is_full(bytes), Ok(true)));
        versions.sweep(
            EventTime(self.tables.watermark),
            &mut self.tables.rows.sides[JoinSide::Right as usize],
            is_full,
        );
    }

    /// Emits left rows with the versions of their times.
    pub(super) fn emit_with_versions(&mut self, rows: &[usize], weights: Vec<i64>, out: &mut Output) -> Result<()> {
        let (left, right) = (self.side(JoinSide::Left), self.side(JoinSide::Right));
        let (Some(versions), Some(expiry)) = (&self.versions, &left.expiry) else { return Ok(()) };
        let (keys, values) = left.rows.rows_of(rows)?;
        let mut joined: Vec<ArrayRef> = self.tables.keys.keys_of(&keys)?.into_iter().chain(values).collect();
        let times = expiry.ends_of(&joined)?;
        let found = keys.iter().zip(times).map(|(key, time)| versions.at(*key, time, right));
        let found: Vec<Option<usize>> = found.collect();
        let valid: Vec<usize> = found.iter().filter_map(|version| *version).collect();
        let theirs = self.tables.columns_of(JoinSide::Right as usize, &valid)?;
        let has_version = (0..found.len()).filter(|row| found[*row].is_some()).map(|row| row as u64);
        let has_version: UInt64Array = has_version.collect();
        if self.kind == StreamJoinKind::Inner {
            joined = taken(&joined, &has_version)?.into_iter().chain(theirs).collect();
            let weights = has_version.values().iter().map(|row| weights[*row as usize]).collect();
            return self.emit_matches(joined, weights, out);
        }
        let mut place = 0..valid.len() as u64;
        let places: UInt64Array = found.iter().map(|version| version.and_then(|_| place.next())).collect();
        joined.extend(taken(&theirs, &places)?);
        if let Some(matches) = self.matches(&joined, weights.len())? {
            let matched: UInt64Array = matches.iter().zip(0..).map(|(is, row)| is?.then_some(row)).collect();
            let left = self.side(JoinSide::Left).types.len();
            let theirs = taken(&joined[left..], &matched)?;
            joined.splice(left.., theirs);
        }
        self.emit(&joined, weights, out)
    }

    /// Emits pairs that satisfy the condition.
    fn emit_matches(&mut self, mut joined: Vec<ArrayRef>, mut weights: Vec<i64>, out: &mut Output) -> Result<()> {
        if let Some(matches) = self.matches(&joined, weights.len())? {
            let rows: UInt64Array = matches.iter().zip(0..).filter_map(|(is, row)| is?.then_some(row)).collect();
            joined = taken(&joined, &rows)?;
            weights = rows.values().iter().map(|row| weights[*row as usize]).collect();
        }
        if weights.is_empty() { Ok(()) } else { self.emit(&joined, weights, out) }
    }

    /// Which rows satisfy the condition; `None`: all.
    fn matches(&mut self, joined: &[ArrayRef], rows: usize) -> Result<Option<BooleanArray>> {
        let Some(filter) = &mut self.filter else { return Ok(None) };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.joined_schema), joined.to_vec(), &options)?;
        filter.evaluate_predicate(&batch).map(Some)
    }
}
