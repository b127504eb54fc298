//! Finds the field of a key.
//!
//! A key is hashed by its length and its first and last eight bytes, which two loads read for any length. It
//! is then compared by one wide comparison. Keys of one object almost always differ in those bytes. Keys with
//! equal bytes there share a run of slots.

use crate::format::lanes::{Lanes, WIDTH};

/// Hash table from the keys of an object that the query needs to their positions in the schema.
pub(super) struct Keys {
    slots: Vec<Slot>,
    shift: u32,
    /// Names that one comparison cannot cover, with their positions.
    long: Vec<(Box<[u8]>, usize)>,
}

#[derive(Clone)]
struct Slot {
    name: [u8; WIDTH],
    len: usize,
    /// [`EMPTY`] where there is no key.
    field: usize,
}

const EMPTY: usize = usize::MAX;

/// Keys shorter than this are in the hash table, where [`Keys::find_short`] finds them by a wide comparison.
pub(super) const SHORT: usize = WIDTH;

impl Keys {
    /// A table of these names, all of them different.
    pub(super) fn new<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let size = (names.len() * 4).next_power_of_two().max(4);
        let empty = Slot { name: [0; WIDTH], len: 0, field: EMPTY };
        let mut keys = Keys { slots: vec![empty; size], shift: 64 - size.trailing_zeros(), long: Vec::new() };
        for (field, name) in names.enumerate() {
            if name.len() >= SHORT {
                keys.long.push((name.into(), field));
                continue;
            }
            let mut wide = [0; WIDTH];
            wide[..name.len()].copy_from_slice(name);
            let mut at = keys.home(name);
            while keys.slots[at].field != EMPTY {
                at = keys.after(at);
            }
            keys.slots[at] = Slot { name: wide, len: name.len(), field };
        }
        keys
    }

    /// The field of a key of any length.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        if key.len() >= SHORT {
            return self.long.iter().find(|(name, _)| **name == *key).map(|(_, field)| *field);
        }
        let mut at = self.home(key);
        loop {
            let slot = &self.slots[at];
            if slot.field == EMPTY {
                return None;
            }
            if slot.name[..slot.len] == *key {
                return Some(slot.field);
            }
            at = self.after(at);
        }
    }

    /// The field of the key of `len` bytes at `key`.
    ///
    /// # Safety
    /// `len` must be less than [`SHORT`], 32 bytes at `key` must be readable, and the processor must have the
    /// instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn find_short<L: Lanes>(&self, key: *const u8, len: usize) -> Option<usize> {
        // SAFETY: 32 bytes are readable, and `len` is less than that.
        let (first, last) = unsafe {
            let last = key.add(len.saturating_sub(8));
            (u64::from_le(key.cast::<u64>().read_unaligned()), u64::from_le(last.cast::<u64>().read_unaligned()))
        };
        let mut at = self.slot_of(first, last, len);
        loop {
            let slot = &self.slots[at];
            if slot.field == EMPTY {
                return None;
            }
            // SAFETY: same contract.
            let different = !unsafe { L::equal(key, &slot.name) } & !(u32::MAX << len);
            if different == 0 && slot.len == len {
                return Some(slot.field);
            }
            at = self.after(at);
        }
    }

    fn home(&self, key: &[u8]) -> usize {
        let few = key.len().min(8);
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..few].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        self.slot_of(word(&key[..few]), word(&key[key.len() - few..]), key.len())
    }

    /// The first slot for a key. Of its first and last eight bytes, those beyond the key are ignored.
    #[inline(always)]
    fn slot_of(&self, first: u64, last: u64, len: usize) -> usize {
        let mask = u64::MAX.checked_shr(64 - 8 * len.min(8) as u32).unwrap_or(0);
        let word = (first & mask) ^ (last & mask).rotate_left(23) ^ (len as u64) << 56;
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, SHORT};
    use crate::format::lanes::{Baseline, Portable};

    #[test]
    fn names_of_every_length_are_found_and_nothing_else() {
        let names: Vec<String> = (0..80).flat_map(|len| ["a", "bc", "d"].map(|part| part.repeat(len))).collect();
        let mut names: Vec<&[u8]> = names.iter().map(String::as_bytes).filter(|name| name.len() < 80).collect();
        names.sort_unstable();
        names.dedup();
        let (known, unknown): (Vec<_>, Vec<_>) = names.iter().enumerate().partition(|(i, _)| i % 3 > 0);
        let keys = Keys::new(known.iter().map(|(_, name)| **name));
        let expected = known.iter().enumerate().map(|(field, (_, name))| (**name, Some(field)));
        for (name, field) in expected.chain(unknown.iter().map(|(_, name)| (**name, None))) {
            assert_eq!(keys.find(name), field);
            if name.len() < SHORT {
                let mut room = name.to_vec();
                room.resize(SHORT, b'a');
                // SAFETY: 32 bytes are readable; the baseline is on every processor.
                let found = unsafe {
                    [
                        keys.find_short::<Baseline>(room.as_ptr(), name.len()),
                        keys.find_short::<Portable>(room.as_ptr(), name.len()),
                    ]
                };
                assert_eq!(found, [field; 2], "{name:?}");
            }
        }
    }

    #[test]
    fn names_with_the_same_ends_are_distinguished() {
        let names = ["beginning_1_ends_here", "beginning_2_ends_here", "beginning_3_ends_here"];
        let keys = Keys::new(names[..2].iter().map(|name| name.as_bytes()));
        assert_eq!(names.map(|name| keys.find(name.as_bytes())), [Some(0), Some(1), None]);
        assert_eq!(Keys::new(std::iter::empty()).find(b""), None);
    }
}
