//! Keys of one machine word.

use super::{Ids, MISSING, Probe, prefetch};

/// Linear probing over packed slots. At most half full.
pub(super) struct WordTable {
    slots: Vec<Slot>,
    used: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    id: u32,
}

const EMPTY: Slot = Slot { key: 0, id: MISSING };
const INITIAL_SLOTS: usize = 64;

impl Default for WordTable {
    fn default() -> Self {
        WordTable { slots: vec![EMPTY; INITIAL_SLOTS], used: 0 }
    }
}

impl WordTable {
    pub(super) fn size_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
    }

    /// The key of each id below `len`; ids that are not in this table keep 0.
    pub(super) fn keys(&self, len: usize) -> Vec<u64> {
        let mut keys = vec![0; len];
        self.slots.iter().filter(|s| s.id != MISSING).for_each(|s| keys[s.id as usize] = s.key);
        keys
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.used = 0;
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
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

/// A key's hash is a function of the key, so slots need not keep it.
fn rehash(key: u64) -> u64 {
    anabranch_model::hash_u64(anabranch_model::HASH_SEED, key)
}

impl Probe<u64> for WordTable {
    #[inline]
    fn intern(&mut self, key: u64, hash: u64, ids: &mut Ids) -> u32 {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = &mut self.slots[index & mask];
            if slot.id == MISSING {
                let id = ids.next();
                *slot = Slot { key, id };
                self.used += 1;
                if self.used * 2 > self.slots.len() {
                    self.grow();
                }
                return id;
            }
            if slot.key == key {
                return slot.id;
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
