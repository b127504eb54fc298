//! A hash table whose keys are one machine word each.

use super::{Ids, MISSING, Probe, prefer_huge_pages, prefetch};

/// Finds the ids of keys by linear probing over packed slots.
///
/// While the table fits into a near cache, at most one slot in eight is used. There a mispredicted branch
/// costs more than a cache miss, and the first slot that is probed nearly always decides. In a larger table,
/// at most one slot in two is used.
pub(super) struct WordTable {
    slots: Vec<Slot>,
    /// Number of slots with a key.
    used: usize,
}

/// A key and its id, packed into 12 bytes instead of 16. A large table has two to four slots for each key.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Slot {
    key: u64,
    id: u32,
}

const EMPTY: Slot = Slot { key: 0, id: MISSING };
const INITIAL_SLOTS: usize = 1 << 9;
/// Up to this number of slots (48 KiB), at most one in eight is used.
const SPARSE_SLOTS: usize = 1 << 12;

impl Default for WordTable {
    fn default() -> Self {
        WordTable { slots: empty_slots(INITIAL_SLOTS), used: 0 }
    }
}

impl WordTable {
    /// Size of the slots in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
    }

    /// The key of each id below `len`. 0 for an id without a slot, which is that of the null key.
    pub(super) fn keys(&self, len: usize) -> Vec<u64> {
        let mut keys = vec![0; len];
        self.slots.iter().filter(|s| s.id != MISSING).for_each(|s| keys[s.id as usize] = s.key);
        keys
    }

    /// Removes all keys and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.used = 0;
    }

    /// Adds a key in a free slot. Returns its id, which is the next one.
    #[inline]
    fn insert(&mut self, index: usize, key: u64, ids: &mut Ids) -> u32 {
        let id = ids.next();
        self.slots[index] = Slot { key, id };
        self.used += 1;
        let slots = self.slots.len();
        if self.used * 2 > slots || (slots <= SPARSE_SLOTS && self.used * 8 > slots) {
            self.grow();
        }
        id
    }

    /// Doubles the number of slots.
    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = empty_slots(old.len() * 2);
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|s| s.id != MISSING) {
            let mut index = rehash(slot.key) as usize & mask;
            while self.slots[index].id != MISSING {
                index = (index + 1) & mask;
            }
            self.slots[index] = slot;
        }
    }
}

fn empty_slots(count: usize) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(count);
    prefer_huge_pages(&slots);
    slots.resize(count, EMPTY);
    slots
}

/// The hash of a key in the table, as [`hash_keys`](crate::key_hash::hash_keys) computes it. It is computed
/// again when the table grows, so slots do not store it.
fn rehash(key: u64) -> u64 {
    anabranch_model::hash_u64(anabranch_model::HASH_SEED, key)
}

impl Probe<u64> for WordTable {
    #[inline]
    fn intern(&mut self, key: u64, hash: u64, ids: &mut Ids) -> u32 {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize;
        loop {
            let slot = self.slots[index & mask];
            if slot.key == key && slot.id != MISSING {
                return slot.id;
            }
            if slot.id == MISSING {
                return self.insert(index & mask, key, ids);
            }
            index += 1;
        }
    }

    #[inline]
    fn find(&self, key: u64, hash: u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index & mask];
            if slot.id == MISSING || slot.key == key {
                return slot.id;
            }
            index += 1;
        }
    }

    #[inline]
    fn prefetch(&self, hash: u64) {
        prefetch(&self.slots, hash as usize & (self.slots.len() - 1));
    }

    fn is_large(&self) -> bool {
        self.size_bytes() > 256 << 10
    }
}
