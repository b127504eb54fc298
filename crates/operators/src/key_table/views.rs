//! Ids of texts by their views: over the same buffers equal views are equal texts, so a text that recurs is
//! neither hashed nor compared. This serves the columns of a static join, whose texts lie in the table, and
//! short texts of any source.

use anabranch_model::{HASH_SEED, hash_bytes};
use arrow::array::{Array, StringViewArray};
use arrow::buffer::Buffer;

use super::bytes::BytesTable;
use super::{Ids, Probe};

/// A view, and the id of its text.
type Remembered = (u128, u32);

/// Each slot holds two texts, so that two texts of one slot do not evict each other again and again.
const SLOTS: usize = 512;
/// No text has this length.
const EMPTY: [Remembered; 2] = [(u128::MAX, 0); 2];
/// With more buffers, it costs too much to compare them with those of the last batch.
const BUFFERS_MAX: usize = 16;
/// A table begins with new texts, so this number of texts is skipped. Then, after as many lookups, the table
/// decides whether most texts were remembered.
const TRIAL: usize = 4 * SLOTS;
/// If not, lookups pause for this number of batches.
const PAUSE: u32 = 64;

/// The ids of the last texts.
#[derive(Default)]
pub(super) struct Views {
    slots: Vec<[Remembered; 2]>,
    /// The buffers of the last batch. As long as they are held, no other text is at their addresses.
    buffers: Vec<Buffer>,
    /// Whether any text is remembered.
    is_used: bool,
    /// Texts so far.
    came: usize,
    /// Texts of the trial, and the number of those that were not remembered.
    looked: usize,
    missed: usize,
    /// Batches left in the pause.
    pause: u32,
}

impl Views {
    /// Forgets all ids.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_used) {
            self.slots.fill(EMPTY);
        }
        self.buffers.clear();
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<[Remembered; 2]>()
    }

    /// Maps each text to its id, as [`KeyTable::intern`](super::KeyTable::intern) does. Returns false,
    /// without having done anything, if that is not worthwhile.
    pub(super) fn intern(
        &mut self,
        texts: &StringViewArray,
        table: &mut BytesTable,
        ids: &mut Ids,
        out: &mut Vec<usize>,
    ) -> bool {
        let buffers = texts.data_buffers();
        // A table with few rows needs no memory for this, and holds no buffers: there may be many such
        // tables.
        self.came = self.came.saturating_add(texts.len());
        if self.came < TRIAL || self.pause > 0 || buffers.len() > BUFFERS_MAX || texts.null_count() > 0 {
            self.pause = self.pause.saturating_sub(1);
            self.clear();
            return false;
        }
        let is_same = |(old, new): (&Buffer, &Buffer)| old.as_ptr() == new.as_ptr() && old.len() == new.len();
        if self.buffers.len() != buffers.len() || !self.buffers.iter().zip(buffers.iter()).all(is_same) {
            self.clear();
            self.buffers = buffers.to_vec();
        }
        self.slots.resize(SLOTS, EMPTY);
        self.is_used = true;
        let missed = &mut self.missed;
        out.clear();
        out.extend(texts.views().iter().enumerate().map(|(row, view)| {
            let mixed = (*view as u64 ^ (view >> 64) as u64).wrapping_mul(HASH_SEED | 1);
            let [last, former] = &mut self.slots[mixed as usize >> (usize::BITS - SLOTS.ilog2())];
            if last.0 == *view {
                return last.1 as usize;
            }
            if former.0 == *view {
                return former.1 as usize;
            }
            *missed += 1;
            let text = texts.value(row).as_bytes();
            *former = *last;
            *last = (*view, table.intern(text, hash_bytes(HASH_SEED, text), ids));
            last.1 as usize
        }));
        self.looked += texts.len();
        if self.looked >= TRIAL {
            if self.missed * 2 > self.looked {
                self.pause = PAUSE;
                self.clear();
            }
            (self.looked, self.missed) = (0, 0);
        }
        true
    }
}
