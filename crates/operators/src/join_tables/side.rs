//! One side of a join: its rows with their weights and numbers of matches.

use std::collections::BTreeSet;

use anabranch_dataflow::JobOptions;
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Int64Type};

use super::SideShape;
use super::expiry::Expiry;
use super::kept::Kept;
use crate::keyed_state::{Changes, Extent, TimeToLive, narrow};
use crate::row_store::Words;

/// The end of a list.
const END: u32 = u32::MAX;

/// How rows of a side are emitted, apart from pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not at all.
    Plain,
    /// With NULL for the columns of the other side, if they have no match.
    Padded,
    /// As they are, if they have a match.
    Matched,
    /// As they are, if they have none.
    Unmatched,
    /// Like [`Role::Padded`] or [`Role::Unmatched`], but only when they expire.
    UnmatchedAtEnd,
}

impl Role {
    /// Whether the numbers of matches are kept.
    pub(crate) fn counts(self) -> bool {
        self != Role::Plain
    }

    /// Whether rows without a match are emitted.
    pub(crate) fn shows_unmatched(self) -> bool {
        matches!(self, Role::Padded | Role::Unmatched | Role::UnmatchedAtEnd)
    }

    /// Whether a row with this number of matches is part of the result before it expires.
    pub(crate) fn shows(self, matches: i64) -> bool {
        match self {
            Role::Plain | Role::UnmatchedAtEnd => false,
            Role::Padded | Role::Unmatched => matches <= 0,
            Role::Matched => matches > 0,
        }
    }
}

/// Columns of rows of state besides the columns of the side.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    /// The numbers of the rows, if they have some.
    pub(crate) numbers: Option<&'a Int64Array>,
    pub(crate) weights: &'a Int64Array,
    pub(crate) matches: &'a Int64Array,
    /// The times of the rows, if they have a time to live.
    pub(crate) times: Option<&'a TimestampMillisecondArray>,
}

fn narrowed(keys: &[usize]) -> Result<Vec<u32>> {
    keys.iter().map(|key| narrow(*key)).collect()
}

/// Rows by their ids, in a list for each key.
pub(crate) struct Side {
    pub(crate) role: Role,
    updating: bool,
    /// Types of all columns, the keys first.
    pub(crate) types: Vec<DataType>,
    pub(crate) rows: Kept,
    weights: Words,
    /// The number of matches of each row, if they are counted.
    pub(crate) matches: Vec<i64>,
    /// The next row of the same key.
    next: Vec<u32>,
    /// The first row of each key.
    heads: Vec<u32>,
    /// Number of rows that exist.
    pub(crate) live: usize,
    /// When rows expire, if they do.
    pub(crate) expiry: Option<Expiry>,
    /// When rows were last changed, if they have a time to live.
    pub(crate) times: Option<TimeToLive>,
    /// Retractions of the last batch whose rows were forgotten.
    pub(crate) orphans: BTreeSet<usize>,
    pub(crate) changes: Changes,
    hashes: Vec<u64>,
}

impl Side {
    pub(crate) fn new(shape: &SideShape<'_>, keys: usize, options: &JobOptions) -> Result<Side> {
        let SideShape { spec, role, gives_pairs, .. } = *shape;
        let types: Vec<DataType> = spec.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        // Rows that consist of keys, or of columns that a condition reads, are likely to be equal: they are
        // stored once, with a weight.
        let is_numbered = gives_pairs && types.len() > keys && !role.counts() && !spec.updating;
        Ok(Side {
            role,
            updating: spec.updating,
            rows: Kept::new(&types[keys..], is_numbered)?,
            types,
            weights: Words::default(),
            matches: Vec::new(),
            next: Vec::new(),
            heads: Vec::new(),
            live: 0,
            expiry: spec.expiry.map(Expiry::new),
            times: spec.time_to_live_ms.map(|ms| TimeToLive::new(ms, options)),
            orphans: BTreeSet::new(),
            changes: Changes::default(),
            hashes: Vec::new(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether rows wait for their expiry.
    pub(crate) fn waits(&self) -> bool {
        self.role == Role::UnmatchedAtEnd
    }

    /// Columns and weights of a batch.
    pub(crate) fn divide(&self, batch: &RecordBatch) -> Result<(Vec<ArrayRef>, Vec<i64>)> {
        if !self.updating {
            return Ok((batch.columns().to_vec(), vec![1; batch.num_rows()]));
        }
        let weights = batch.columns().last().and_then(|column| column.as_primitive_opt::<Int64Type>());
        let weights = weights.ok_or_else(|| Error::internal("the weight of a row is not BIGINT"))?;
        Ok((batch.columns()[..self.types.len()].to_vec(), weights.values().to_vec()))
    }

    /// The weight of a row. 0: it does not exist.
    #[inline(always)]
    pub(crate) fn weight(&self, row: usize) -> i64 {
        self.weights.get(row) as i64
    }

    /// Makes room for this number of keys.
    pub(crate) fn make_room(&mut self, keys: usize) {
        self.heads.resize(keys, END);
    }

    /// Adds rows with these columns, of these keys; returns their ids.
    pub(crate) fn add(
        &mut self,
        (keys, key_count): (&[usize], usize),
        (columns, key_columns): (&[ArrayRef], usize),
        weights: &[i64],
    ) -> Result<Vec<usize>> {
        self.make_room(key_count);
        let ids = self.rows.add(narrowed(keys)?, &columns[key_columns..], &mut self.hashes)?;
        self.link(keys, &ids)?;
        self.note_ends(&ids, columns)?;
        self.orphans.clear();
        for (id, weight) in ids.iter().zip(weights) {
            self.set_weight(*id, self.weight(*id) + weight);
            if self.weight(*id) < 0 && self.times.is_some() {
                self.set_weight(*id, 0);
                self.orphans.insert(*id);
            }
            self.times.iter_mut().for_each(|times| _ = times.write(*id));
            self.changes.add(*id);
        }
        Ok(ids)
    }

    /// Notes when new rows expire.
    fn note_ends(&mut self, ids: &[usize], columns: &[ArrayRef]) -> Result<()> {
        let Some(expiry) = &mut self.expiry else { return Ok(()) };
        for (id, end) in ids.iter().zip(expiry.ends_of(columns)?) {
            if self.weights.get(*id) == 0 {
                expiry.add(*id, end)?;
            }
        }
        Ok(())
    }

    /// Removes expired rows. Returns those that are emitted now, with their weights.
    pub(crate) fn expire(&mut self, watermark: EventTime) -> Vec<(usize, i64)> {
        let waits = self.waits();
        let Some(expiry) = &mut self.expiry else { return Vec::new() };
        let mut appear = Vec::new();
        for row in expiry.take(watermark, waits) {
            let (row, weight) = (row as usize, self.weights.get(row as usize) as i64);
            if waits && weight != 0 {
                // A restore must not bring it back: it would be emitted again.
                self.changes.add(row);
                if self.matches[row] == 0 {
                    appear.push((row, weight));
                }
            }
            self.matches.get_mut(row).into_iter().for_each(|matches| *matches = 0);
            self.set_weight(row, 0);
        }
        appear
    }

    /// Forgets rows whose time to live is over. Their results stay.
    pub(crate) fn forget(&mut self) {
        let Some(times) = &self.times else { return };
        for row in times.over((0..self.len()).filter(|row| self.weight(*row) != 0)) {
            self.matches.get_mut(row).into_iter().for_each(|matches| *matches = 0);
            self.set_weight(row, 0);
            self.changes.add(row);
        }
    }

    /// Adds to the number of matches of a row.
    pub(crate) fn add_matches(&mut self, row: usize, added: i64) {
        if added != 0 {
            self.matches[row] += added;
            self.changes.add(row);
            self.times.iter_mut().for_each(|times| _ = times.write(row));
        }
    }

    /// Links the rows with these ids into the lists of their keys. New rows come first.
    fn link(&mut self, keys: &[usize], ids: &[usize]) -> Result<()> {
        let (known, len) = (self.len(), self.rows.len());
        self.weights.fill(len, 0);
        self.next.resize(len, END);
        if self.role.counts() {
            self.matches.resize(len, 0);
        }
        let mut linked = known;
        for (id, key) in ids.iter().zip(keys) {
            // New ids are consecutive.
            if *id >= linked {
                self.next[*id] = std::mem::replace(&mut self.heads[*key], narrow(*id)?);
                linked = id + 1;
            }
        }
        Ok(())
    }

    pub(crate) fn set_weight(&mut self, id: usize, weight: i64) {
        match (self.weight(id) != 0, weight != 0) {
            (false, true) => self.live += 1,
            (true, false) => self.live -= 1,
            _ => {}
        }
        self.weights.put(id, weight as u64);
    }

    /// The first row of a key.
    pub(crate) fn first(&self, key: usize) -> Option<usize> {
        self.heads.get(key).copied().filter(|row| *row != END).map(|row| row as usize)
    }

    /// The row after this one, of the same key.
    pub(crate) fn after(&self, row: usize) -> Option<usize> {
        Some(self.next[row]).filter(|row| *row != END).map(|row| row as usize)
    }

    /// Takes the rows of this extent. Removed rows are left out if snapshots may omit them.
    pub(crate) fn take(&mut self, part: Extent) -> Vec<usize> {
        let (weights, forgets) = (&self.weights, self.forgets());
        let mut taken = self.changes.take(part, || (0..weights.len()).filter(|row| weights.get(*row) != 0).collect());
        if forgets {
            taken.retain(|row| weights.get(*row) != 0);
        }
        taken
    }

    /// Whether snapshots may omit removed rows.
    fn forgets(&self) -> bool {
        self.expiry.is_some() && !self.waits()
    }

    /// Upper bound of the number of removed rows that the next snapshot may omit.
    pub(crate) fn dead(&self) -> usize {
        let awaited = if self.forgets() { 0 } else { self.changes.len() };
        self.len().saturating_sub(self.live + awaited)
    }

    /// The existing rows, and removed rows that the next snapshot must contain.
    pub(crate) fn kept(&self) -> Vec<usize> {
        let awaited = |row: usize| !self.forgets() && self.changes.has(row);
        (0..self.len()).filter(|row| self.weight(*row) != 0 || awaited(*row)).collect()
    }

    /// Keeps these rows only, in the order of their ids, with new ids of their keys.
    pub(crate) fn keep(&mut self, kept: &[usize], keys: &[usize], key_count: usize) -> Result<()> {
        self.weights = kept.iter().map(|row| self.weights.get(*row)).collect();
        self.matches = kept.iter().filter_map(|row| self.matches.get(*row).copied()).collect();
        self.changes.renumber(|row| kept.binary_search(&row).ok());
        self.times.iter_mut().for_each(|times| times.keep(kept));
        if let Some(expiry) = &mut self.expiry {
            let ends: Vec<i64> = kept.iter().map(|row| expiry.end(*row)).collect();
            expiry.clear();
            ends.into_iter().enumerate().try_for_each(|(row, end)| expiry.add(row, end))?;
        }
        self.rows.keep(kept, narrowed(keys)?, &mut self.hashes)?;
        self.heads = vec![END; key_count];
        self.next = Vec::with_capacity(kept.len());
        // The first row of a list is the one that arrived last.
        for (row, key) in keys.iter().enumerate() {
            self.next.push(std::mem::replace(&mut self.heads[*key], narrow(row)?));
        }
        Ok(())
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.live = 0;
        self.keep(&[], &[], 0)
    }

    /// Restores rows of a snapshot, unless rows of a later snapshot were already restored.
    pub(crate) fn restore(
        &mut self,
        (keys, key_count): (&[usize], usize),
        (columns, key_columns): (&[ArrayRef], usize),
        Own { numbers, weights, matches, times }: Own<'_>,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        self.make_room(key_count);
        let values = &columns[key_columns..];
        let ids = self.rows.restore(narrowed(keys)?, values, numbers, versions.is_some(), &mut self.hashes)?;
        self.link(keys, &ids)?;
        self.note_ends(&ids, columns)?;
        let latest = match versions {
            Some(versions) => self.changes.latest(&ids, versions),
            None => (0..ids.len()).collect(),
        };
        for row in latest {
            let id = ids[row];
            self.set_weight(id, weights.value(row));
            if let (Some(own), Some(times)) = (&mut self.times, times) {
                own.restore(id, times.value(row));
            }
            if self.role.counts() {
                self.matches[id] = matches.value(row);
            }
        }
        Ok(())
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let numbers = self.weights.size_bytes() + self.matches.capacity() * size_of::<i64>();
        let links = self.next.capacity() + self.heads.capacity();
        let ends = self.expiry.as_ref().map_or(0, Expiry::size_bytes);
        let times = self.times.as_ref().map_or(0, TimeToLive::size_bytes);
        self.rows.size_bytes() + times + numbers + links * size_of::<u32>() + self.changes.size_bytes() + ends
    }
}
