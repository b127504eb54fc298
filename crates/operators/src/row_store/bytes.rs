//! Values of any length by their places; values can be replaced.
//!
//! A place has eight bytes: offset and length of a value. The space of a replaced value is reused by a later
//! one of the same length: in most columns lengths recur, so little space is unused. If much is unused, all
//! values are written again.

use anabranch_model::{Error, Result};

use crate::key_table::give_back;

/// The low bits of a place are the length.
const LEN_BITS: u32 = 24;
/// A value of this length or a longer one begins with its length, in eight bytes.
const LONG: usize = (1 << LEN_BITS) - 1;
/// Limit of the bytes of all values.
const BYTES_MAX: usize = 1 << (u64::BITS - LEN_BITS);
/// Lengths of values whose space is reused. Free space contains the offset of the next free space of the same
/// length.
const REUSED: std::ops::RangeInclusive<usize> = 8..=1024;
/// Less unused space is not worth writing the values again.
const UNUSED_MIN: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// No free space of a length.
const NONE: u64 = u64::MAX;

/// Values by their numbers.
#[derive(Default)]
pub(super) struct Bytes {
    places: Vec<u64>,
    data: Vec<u8>,
    /// For each length: the offset of the free space that was released last. It contains the offset of the
    /// one before.
    free: Vec<u64>,
    /// Unused bytes.
    unused: usize,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        give_back(&mut self.data);
    }
}

impl Bytes {
    #[inline(always)]
    pub(super) fn get(&self, id: usize) -> &[u8] {
        let (start, len) = self.start_and_len(self.places[id]);
        &self.data[start..start + len]
    }

    /// Offset and length of a value.
    #[inline(always)]
    pub(super) fn start_and_len(&self, place: u64) -> (usize, usize) {
        let (start, len) = ((place >> LEN_BITS) as usize, place as usize & LONG);
        if len < LONG { (start, len) } else { self.long(start) }
    }

    #[cold]
    fn long(&self, start: usize) -> (usize, usize) {
        let start_of_text = start + size_of::<u64>();
        (start_of_text, number_at(&self.data, start) as usize)
    }

    /// The places of values.
    pub(super) fn places(&self) -> &[u64] {
        &self.places
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Makes room for this number of values and bytes.
    pub(super) fn reserve(&mut self, values: usize, bytes: usize) -> Result<()> {
        if self.data.len() + bytes + values * size_of::<u64>() >= BYTES_MAX {
            return Err(Error::user("the texts of a column of state exceed 1 TiB").remedy("raise the parallelism"));
        }
        self.places.reserve(values);
        self.data.reserve(bytes);
        Ok(())
    }

    /// Replaces a value, or appends it.
    #[inline(always)]
    pub(super) fn put(&mut self, id: usize, value: &[u8]) {
        if id < self.places.len() {
            self.replace(id, value);
        } else {
            let place = self.add(value);
            self.places.push(place);
        }
    }

    fn replace(&mut self, id: usize, value: &[u8]) {
        let (start, len) = self.start_and_len(self.places[id]);
        if len == value.len() {
            self.data[start..start + len].copy_from_slice(value);
            return;
        }
        self.unused += len;
        if REUSED.contains(&len) {
            if self.free.len() <= len {
                self.free.resize(len + 1, NONE);
            }
            let before = std::mem::replace(&mut self.free[len], start as u64);
            self.data[start..start + size_of::<u64>()].copy_from_slice(&before.to_le_bytes());
        }
        let free = self.free.get(value.len()).copied().filter(|free| *free != NONE);
        self.places[id] = match free {
            Some(free) => {
                let start = free as usize;
                self.free[value.len()] = number_at(&self.data, start);
                self.data[start..start + value.len()].copy_from_slice(value);
                self.unused -= value.len();
                place(start, value.len())
            }
            None => self.add(value),
        };
    }

    #[inline(always)]
    fn add(&mut self, value: &[u8]) -> u64 {
        let (start, len) = (self.data.len(), value.len());
        if len >= LONG {
            self.data.extend_from_slice(&(len as u64).to_le_bytes());
        }
        self.data.extend_from_slice(value);
        place(start, len)
    }

    /// Frees unused bytes, if there are many.
    pub(super) fn tidy(&mut self) {
        if self.unused > UNUSED_MIN.max(self.data.len() / 2) {
            let bytes = self.data.len() - self.unused;
            let mut next = Bytes::default();
            next.places.reserve_exact(self.places.len());
            next.data.reserve(bytes);
            (0..self.places.len()).for_each(|id| next.put(id, self.get(id)));
            *self = next;
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        (self.places.capacity() + self.free.capacity()) * size_of::<u64>() + self.data.capacity()
    }
}

#[inline(always)]
fn place(start: usize, len: usize) -> u64 {
    (start as u64) << LEN_BITS | len.min(LONG) as u64
}

fn number_at(data: &[u8], at: usize) -> u64 {
    let mut number = [0; size_of::<u64>()];
    number.copy_from_slice(&data[at..at + size_of::<u64>()]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;

    use super::*;

    #[test]
    fn values_that_replace_others_need_no_more_room() {
        let mut rng = Rng::new(1);
        let (mut bytes, mut expected) = (Bytes::default(), Vec::<Vec<u8>>::new());
        for step in 0..30_000_u32 {
            let id = if expected.len() < 100 { expected.len() } else { rng.below(100) as usize };
            let len = [rng.below(6), 20 + rng.below(10), 1020 + rng.below(8)][rng.below(3) as usize];
            let value: Vec<u8> = step.to_le_bytes().into_iter().cycle().take(len as usize).collect();
            bytes.put(id, &value);
            bytes.tidy();
            if id < expected.len() {
                expected[id] = value;
            } else {
                expected.push(value);
            }
            if step % 100 == 0 {
                expected.iter().enumerate().for_each(|(id, value)| assert_eq!(bytes.get(id), value, "step {step}"));
            }
        }
        assert!(bytes.data.len() < 200_000, "{} bytes", bytes.data.len());
    }

    #[test]
    fn a_value_may_be_longer_than_its_place_can_say() {
        let mut bytes = Bytes::default();
        for (id, len) in [LONG - 1, LONG, LONG + 1, 3].into_iter().enumerate() {
            bytes.put(id, &vec![id as u8; len]);
        }
        bytes.put(1, &vec![7; LONG + 1]);
        bytes.put(2, b"short");
        bytes.tidy();
        assert_eq!(bytes.get(0), vec![0; LONG - 1]);
        assert_eq!(bytes.get(1), vec![7; LONG + 1]);
        assert_eq!((bytes.get(2), bytes.get(3)), (b"short".as_slice(), [3; 3].as_slice()));
    }
}
