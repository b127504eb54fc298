//! Views: Arrow's references to strings in a buffer; short strings are in the view itself.

use arrow::array::make_view;

/// The buffer of a column's strings that point into the input.
pub(super) const INPUT: u32 = 0;
/// The buffer of the other strings.
pub(super) const EXTRA: u32 = 1;

/// The view of a string of `len` bytes. `bytes` are the sixteen bytes from its beginning, which may include
/// bytes after it. The string is at `offset` of the input.
#[inline(always)]
pub(super) fn view_of(bytes: [u8; 16], len: usize, offset: usize) -> u128 {
    let bytes = u128::from_le_bytes(bytes);
    let view = if len <= 12 {
        (bytes & !(u128::MAX << (8 * len))) << 32
    } else {
        (bytes & 0xffff_ffff) << 32 | (offset as u128) << 96
    };
    view | len as u128
}

/// The view of the string `input[start..end]`.
#[inline(always)]
pub(super) fn view_within(input: &[u8], start: usize, end: usize) -> u128 {
    match input.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
        Some(bytes) => view_of(*bytes, end - start, start),
        None => make_view(&input[start..end], INPUT, start as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_those_of_arrow() {
        let input: Vec<u8> = (b'A'..b'z').collect();
        for start in 0..input.len() {
            for end in start..=input.len() {
                let expected = make_view(&input[start..end], INPUT, start as u32);
                assert_eq!(view_within(&input, start, end), expected);
            }
        }
    }
}
