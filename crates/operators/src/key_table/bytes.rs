//! Keys of any length, in an arena.

use super::{Ids, MISSING, Probe, give_back, prefetch};

/// Linear probing over slots of hash and id; the bytes are stored consecutively in the order of the ids. At
/// most a quarter full while the table fits into the nearest caches, where a mispredicted branch costs more
/// than a miss; beyond that at most half full.
pub(super) struct BytesTable {
    slots: Vec<Slot>,
    used: usize,
    /// End of each key in `data`, after a leading 0. A null key, which has an id but is not in the table, has
    /// an empty range.
    offsets: Vec<usize>,
    data: Vec<u8>,
}

/// Half of the hash is enough to find the slot again when the table grows, and to reject most other keys.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    id: u32,
}

const EMPTY: Slot = Slot { hash: 0, id: MISSING };
const INITIAL_SLOTS: usize = 64;
/// Up to this number of slots, at most one in four is used.
const SPARSE_SLOTS: usize = 1 << 12;

impl Default for BytesTable {
    fn default() -> Self {
        BytesTable { slots: vec![EMPTY; INITIAL_SLOTS], used: 0, offsets: vec![0], data: Vec::new() }
    }
}

impl Drop for BytesTable {
    fn drop(&mut self) {
        give_back(&mut self.data);
    }
}

impl BytesTable {
    pub(super) fn size_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>() + self.offsets.capacity() * size_of::<usize>() + self.data.capacity()
    }

    /// The ends of the keys of the ids below `len`, after a leading 0.
    pub(super) fn offsets(&self, len: usize) -> impl Iterator<Item = usize> {
        // A null key may be the last one.
        (0..=len).map(|id| self.offsets.get(id).copied().unwrap_or(self.data.len()))
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.used = 0;
        self.offsets.truncate(1);
        self.data.clear();
    }

    #[inline]
    fn is(&self, slot: Slot, key: &[u8], hash: u64) -> bool {
        let id = slot.id as usize;
        slot.hash == hash as u32 && slot.id != MISSING && same(&self.data[self.offsets[id]..self.offsets[id + 1]], key)
    }

    #[inline(never)]
    fn insert(&mut self, index: usize, key: &[u8], hash: u64, ids: &mut Ids) -> u32 {
        let id = ids.next();
        self.slots[index] = Slot { hash: hash as u32, id };
        self.used += 1;
        self.offsets.resize(id as usize + 1, self.data.len());
        self.data.extend_from_slice(key);
        self.offsets.push(self.data.len());
        let slots = self.slots.len();
        if self.used * 2 > slots || (slots <= SPARSE_SLOTS && self.used * 4 > slots) {
            self.grow();
        }
        id
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|s| s.id != MISSING) {
            let mut index = slot.hash as usize & mask;
            while self.slots[index].id != MISSING {
                index = (index + 1) & mask;
            }
            self.slots[index] = slot;
        }
    }
}

/// Whether keys are equal. Keys of medium length are the most common, and for these a call of memcmp would
/// cost more than the comparison.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    const WORD: usize = 16;
    if a.len() != b.len() {
        return false;
    }
    if a.len() < WORD || a.len() > 4 * WORD {
        return a == b;
    }
    let word = |bytes: &[u8]| bytes.first_chunk::<WORD>().map(|word| u128::from_ne_bytes(*word));
    // The last word overlaps the previous one.
    let rest = a.len() - WORD;
    let mut differs = word(&a[rest..]) != word(&b[rest..]);
    for at in (0..rest).step_by(WORD) {
        differs |= word(&a[at..]) != word(&b[at..]);
    }
    !differs
}

impl Probe<&[u8]> for BytesTable {
    #[inline]
    fn intern(&mut self, key: &[u8], hash: u64, ids: &mut Ids) -> u32 {
        let mask = self.slots.len() - 1;
        let mut index = hash as u32 as usize & mask;
        loop {
            let slot = self.slots[index & mask];
            if self.is(slot, key, hash) {
                return slot.id;
            }
            if slot.id == MISSING {
                return self.insert(index & mask, key, hash, ids);
            }
            index += 1;
        }
    }

    #[inline]
    fn find(&self, key: &[u8], hash: u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut index = hash as u32 as usize & mask;
        loop {
            let slot = self.slots[index & mask];
            if slot.id == MISSING || self.is(slot, key, hash) {
                return slot.id;
            }
            index += 1;
        }
    }

    #[inline]
    fn prefetch(&self, hash: u64) {
        prefetch(&self.slots, hash as u32 as usize & (self.slots.len() - 1));
    }

    fn is_large(&self) -> bool {
        self.slots.len() * size_of::<Slot>() > 256 << 10
    }
}
