//! The hash that decides key groups. It is part of the state format: a key must land in the same key group in
//! every version and on every machine, so it is written out here and frozen by a test.
//!
//! Folded multiplication as in wyhash (Wang Yi): multiply two 64-bit words to 128 bits and xor the halves.

/// Start value of a row's hash; columns are folded in from left to right.
pub const HASH_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const K0: u64 = 0xa076_1d64_78bd_642f;
const K1: u64 = 0xe703_7ed1_a0b4_28db;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Folds a fixed-width value into the hash `seed` of the row so far.
#[inline]
#[must_use]
pub fn hash_u64(seed: u64, value: u64) -> u64 {
    fold(fold(value ^ K0, seed ^ K1) ^ seed, K1)
}

/// Folds a byte string into the hash `seed` of the row so far.
#[inline]
#[must_use]
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let len = bytes.len() as u64;
    let mut hash = seed;
    if bytes.len() > 16 {
        let mut rest = bytes;
        while rest.len() > 16 {
            hash = fold(read_u64(rest) ^ K0, read_u64(&rest[8..]) ^ hash);
            rest = &rest[16..];
        }
        // The last 16 bytes, overlapping what was read before.
        let tail = &bytes[bytes.len() - 16..];
        return fold(fold(read_u64(tail) ^ K0, read_u64(&tail[8..]) ^ hash) ^ len, K1);
    }
    let (low, high) = if bytes.len() >= 8 {
        (read_u64(bytes), read_u64(&bytes[bytes.len() - 8..]))
    } else {
        let mut word = [0_u8; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        (u64::from_le_bytes(word), 0)
    };
    hash = fold(low ^ K0, high ^ hash);
    fold(hash ^ len, K1)
}

#[inline]
fn read_u64(bytes: &[u8]) -> u64 {
    let mut word = [0_u8; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn values_are_frozen() {
        let seen = [
            hash_u64(HASH_SEED, 0),
            hash_u64(HASH_SEED, 1),
            hash_bytes(HASH_SEED, b""),
            hash_bytes(HASH_SEED, b"campaign"),
            hash_bytes(HASH_SEED, b"0123456789abcdef"),
            hash_bytes(HASH_SEED, b"f5a1c8e2-9d3b-4a76-8c1e-2b5d7f9a0e34"),
        ];
        assert_eq!(seen, FROZEN, "the hash decides key groups: changing it breaks every checkpoint");
    }

    const FROZEN: [u64; 6] = [
        6_236_842_465_532_720_547,
        11_966_407_466_676_494_771,
        16_651_351_999_786_859_568,
        15_936_205_104_074_896_398,
        11_470_587_440_424_626_096,
        1_380_286_730_238_151_482,
    ];

    #[test]
    fn spreads_consecutive_integers_and_short_strings() {
        for make in [|i: u64| hash_u64(HASH_SEED, i), |i: u64| hash_bytes(HASH_SEED, i.to_string().as_bytes())] {
            let mut buckets = [0_u32; 128];
            let mut seen = HashSet::new();
            for i in 0..128_000 {
                let hash = make(i);
                assert!(seen.insert(hash), "64-bit collision at {i}");
                buckets[(hash >> 57) as usize] += 1;
            }
            assert!(buckets.iter().all(|n| (800..1200).contains(n)), "{buckets:?}");
        }
    }
}
