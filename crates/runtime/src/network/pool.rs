//! Memory for the bodies of frames, used again when nobody holds the arrays in it any more.
//!
//! Without it, every large frame would be read into memory that the system has to clear first.

use arrow::buffer::{Buffer, MutableBuffer};

/// Bodies below this size are left to the allocator.
const SMALL_BYTES: usize = 16 << 10;
/// Bodies above this size are not kept.
const LARGE_BYTES: usize = 4 << 20;
/// Buffers that are kept.
const SPARES: usize = 4;

/// The buffers of the last frames.
#[derive(Debug, Default)]
pub(super) struct Pool {
    spares: Vec<Buffer>,
    /// The spare that is replaced next.
    turn: usize,
}

impl Pool {
    /// Memory of at least `bytes`. Its content is of no meaning, but initialized.
    pub(super) fn take(&mut self, bytes: usize) -> MutableBuffer {
        let suits = |spare: &Buffer| spare.strong_count() == 1 && (bytes..=2 * bytes).contains(&spare.len());
        if let Some(index) = self.spares.iter().position(suits)
            && let Ok(memory) = self.spares.swap_remove(index).into_mutable()
        {
            return memory;
        }
        MutableBuffer::from_len_zeroed(bytes)
    }

    /// The first `bytes` of the memory, which is used again when nobody else holds it.
    pub(super) fn share(&mut self, memory: MutableBuffer, bytes: usize) -> Buffer {
        let whole = Buffer::from(memory);
        let body = whole.slice_with_length(0, bytes);
        if (SMALL_BYTES..=LARGE_BYTES).contains(&whole.len()) {
            if self.spares.len() < SPARES {
                self.spares.push(whole);
            } else {
                self.turn = (self.turn + 1) % SPARES;
                self.spares[self.turn] = whole;
            }
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_once_nobody_holds_it() {
        let mut pool = Pool::default();
        let mut frame = |bytes: usize, fill: u8| {
            let mut memory = pool.take(bytes);
            assert!(memory.len() >= bytes && memory.len() <= 2 * bytes.max(64));
            memory.as_slice_mut()[..bytes].fill(fill);
            pool.share(memory, bytes)
        };
        let first = frame(100_000, 1);
        let place = first.as_ptr();
        let second = frame(100_000, 2);
        assert_ne!(second.as_ptr(), place);
        assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
        drop(first);
        let third = frame(90_000, 3);
        assert_eq!((third.as_ptr(), third.len()), (place, 90_000));
        drop(third);
        assert_ne!(frame(10_000, 4).as_ptr(), place, "a small frame does not hold a large buffer");
        assert_eq!(frame(60_000, 5).as_ptr(), place);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = Pool::default();
        let bodies = (0..100).map(|_| pool.take(100_000)).collect::<Vec<_>>();
        let held: Vec<Buffer> = bodies.into_iter().map(|memory| pool.share(memory, 100_000)).collect();
        assert_eq!((held.len(), pool.spares.len()), (100, SPARES));
        let large = pool.take(LARGE_BYTES + 1);
        drop(pool.share(large, 1));
        assert!(pool.spares.iter().all(|spare| spare.len() <= LARGE_BYTES));
    }
}
