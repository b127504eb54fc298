//! Keys of any length, in an arena.

use super::{Ids, MISSING, Probe, give_back, prefetch};

/// Linear probing over slots of hash and index; the bytes are stored consecutively in order of insertion.
pub(super) struct BytesTable {
    slots: Vec<Slot>,
    /// End of each key in `data`, after a leading 0.
    offsets: Vec<usize>,
    data: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    /// Index of the key in `offsets`: differs from its id when a null key came before it.
    entry: u32,
    id: u32,
}

const EMPTY: Slot = Slot { hash: 0, entry: 0, id: MISSING };
const INITIAL_SLOTS: usize = 64;

impl Default for BytesTable {
    fn default() -> Self {
        BytesTable { slots: vec![EMPTY; INITIAL_SLOTS], offsets: vec![0], data: Vec::new() }
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

    /// The bytes of an entry. An entry is the key's id as long as no null key came before it.
    pub(super) fn key(&self, entry: usize) -> &[u8] {
        &self.data[self.offsets[entry]..self.offsets[entry + 1]]
    }

    pub(super) fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.offsets.truncate(1);
        self.data.clear();
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

/// Whether keys are equal. Most are neither short nor long, and a call of the system's comparison would cost more than they do.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    const WORD: usize = 16;
    if a.len() != b.len() {
        return false;
    }
    if a.len() < WORD || a.len() > 4 * WORD {
        return a == b;
    }
    let word = |bytes: &[u8]| bytes.first_chunk::<WORD>().map(|word| u128::from_ne_bytes(*word));
    // The last word overlaps what was compared before.
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
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index & mask];
            if slot.id == MISSING {
                let id = ids.next();
                let entry = (self.offsets.len() - 1) as u32;
                self.slots[index & mask] = Slot { hash, entry, id };
                self.data.extend_from_slice(key);
                self.offsets.push(self.data.len());
                if self.offsets.len() * 2 > self.slots.len() {
                    self.grow();
                }
                return id;
            }
            if slot.hash == hash && same(self.key(slot.entry as usize), key) {
                return slot.id;
            }
            index += 1;
        }
    }

    #[inline]
    fn find(&self, key: &[u8], hash: u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index & mask];
            if slot.id == MISSING || (slot.hash == hash && same(self.key(slot.entry as usize), key)) {
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
        self.slots.len() * size_of::<Slot>() > 256 << 10
    }
}
