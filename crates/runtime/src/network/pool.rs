//! Memory for the bodies of frames, reused when no array refers to it any more.
//!
//! Otherwise the system would have to clear new memory for every large frame.

use std::collections::VecDeque;

use arrow::buffer::{Buffer, MutableBuffer};

/// Bodies below this size are left to the allocator.
const SMALL_BYTES: usize = 16 << 10;
/// Limit of the bytes that are kept. Arrays in use count, although they would be in memory anyway.
const SPARE_BYTES: usize = 8 << 20;

/// The buffers of the last frames, the newest last.
#[derive(Debug, Default)]
pub(super) struct Pool {
    spares: VecDeque<Buffer>,
    bytes: usize,
}

impl Pool {
    /// Memory of at least `bytes`. Its content is arbitrary, but initialized.
    pub(super) fn take(&mut self, bytes: usize) -> MutableBuffer {
        let suits = |spare: &Buffer| spare.strong_count() == 1 && (bytes..=2 * bytes).contains(&spare.len());
        // The newest, because it is in the processor's cache.
        if let Some(index) = self.spares.iter().rposition(suits)
            && let Some(spare) = self.spares.remove(index)
        {
            self.bytes -= spare.len();
            if let Ok(memory) = spare.into_mutable() {
                return memory;
            }
        }
        MutableBuffer::from_len_zeroed(bytes)
    }

    /// The first `bytes` of the memory, which is reused when nothing else refers to it.
    pub(super) fn share(&mut self, memory: MutableBuffer, bytes: usize) -> Buffer {
        let whole = Buffer::from(memory);
        let body = whole.slice_with_length(0, bytes);
        if (SMALL_BYTES..=SPARE_BYTES / 2).contains(&whole.len()) {
            self.bytes += whole.len();
            self.spares.push_back(whole);
            while self.bytes > SPARE_BYTES
                && let Some(oldest) = self.spares.pop_front()
            {
                self.bytes -= oldest.len();
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
        let bytes = |pool: &Pool| pool.spares.iter().map(Buffer::len).sum::<usize>();
        let mut held = Vec::new();
        for size in [100_000, 30_000, SPARE_BYTES / 2, SPARE_BYTES, 1000, 17_000] {
            for _ in 0..2 * SPARE_BYTES / size.max(100_000) {
                let memory = pool.take(size);
                held.push(pool.share(memory, size));
                assert_eq!(pool.bytes, bytes(&pool));
                assert!(pool.bytes <= SPARE_BYTES);
            }
            held.clear();
        }
        assert!(pool.bytes > SPARE_BYTES / 4);
    }
}
