//! Compares thirty-two bytes at a time: the questions of text formats about a run of bytes, answered as bit
//! masks.
//!
//! Each question has one answer per byte: bit `i` of the mask is for byte `i`. The implementations give
//! identical masks; they differ in the instructions that they need. A caller chooses one for a whole array,
//! so that everything is inlined.

/// Whether the processor has the instructions of [`Avx2`] and of the code compiled around it: AVX2, BMI1 and
/// BMI2.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}

/// Bytes that one comparison covers.
pub(super) const WIDTH: usize = 32;

/// Prefetches the memory `ahead` bytes after `at`. Records are read once, from the first byte to the last,
/// but in small steps; without this hint the processor falls behind at each page.
#[inline(always)]
pub(super) fn prefetch(at: *const u8, ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which does nothing where there is no memory.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(ahead).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, ahead);
}

/// Questions about the 32 bytes at an address.
pub(super) trait Lanes {
    /// Which bytes end a plain run of a string: the quote, the backslash, control characters and bytes
    /// outside of ASCII.
    ///
    /// # Safety
    /// 32 bytes at `at` must be readable, and the processor must have the instructions of the implementation.
    unsafe fn special(at: *const u8) -> u32;

    /// Which bytes are not decimal digits.
    ///
    /// # Safety
    /// As for [`Lanes::special`].
    unsafe fn non_digits(at: *const u8) -> u32;

    /// Which bytes equal those of `to`.
    ///
    /// # Safety
    /// As for [`Lanes::special`].
    unsafe fn equal(at: *const u8, to: &[u8; WIDTH]) -> u32;

    /// Which bytes are one of two.
    ///
    /// # Safety
    /// As for [`Lanes::special`].
    unsafe fn either(at: *const u8, first: u8, second: u8) -> u32;

    /// Which bytes are outside of ASCII.
    ///
    /// # Safety
    /// As for [`Lanes::special`].
    unsafe fn wide(at: *const u8) -> u32;

    /// Which bytes are not white space of JSON.
    ///
    /// # Safety
    /// As for [`Lanes::special`].
    unsafe fn filled(at: *const u8) -> u32;
}

/// Any processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) struct Portable;

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Portable {
    #[inline(always)]
    fn mask(bytes: [u8; WIDTH], test: impl Fn(usize, u8) -> bool) -> u32 {
        let mut mask = 0;
        for (i, byte) in bytes.into_iter().enumerate() {
            mask |= u32::from(test(i, byte)) << i;
        }
        mask
    }

    #[inline(always)]
    unsafe fn load(at: *const u8) -> [u8; WIDTH] {
        // SAFETY: the caller of the trait's methods vouches for 32 readable bytes; arrays of bytes need no
        // alignment.
        unsafe { at.cast::<[u8; WIDTH]>().read_unaligned() }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Lanes for Portable {
    #[inline(always)]
    unsafe fn special(at: *const u8) -> u32 {
        // SAFETY: same contract.
        let bytes = unsafe { Self::load(at) };
        Self::mask(bytes, |_, byte| !(0x20..0x80).contains(&byte) || byte == b'"' || byte == b'\\')
    }

    #[inline(always)]
    unsafe fn non_digits(at: *const u8) -> u32 {
        // SAFETY: same contract.
        let bytes = unsafe { Self::load(at) };
        Self::mask(bytes, |_, byte| !byte.is_ascii_digit())
    }

    #[inline(always)]
    unsafe fn equal(at: *const u8, to: &[u8; WIDTH]) -> u32 {
        // SAFETY: same contract.
        let bytes = unsafe { Self::load(at) };
        Self::mask(bytes, |i, byte| byte == to[i])
    }

    #[inline(always)]
    unsafe fn either(at: *const u8, first: u8, second: u8) -> u32 {
        // SAFETY: same contract.
        let bytes = unsafe { Self::load(at) };
        Self::mask(bytes, |_, byte| byte == first || byte == second)
    }

    #[inline(always)]
    unsafe fn wide(at: *const u8) -> u32 {
        // SAFETY: same contract.
        let bytes = unsafe { Self::load(at) };
        Self::mask(bytes, |_, byte| !byte.is_ascii())
    }

    #[inline(always)]
    unsafe fn filled(at: *const u8) -> u32 {
        // SAFETY: same contract.
        let bytes = unsafe { Self::load(at) };
        Self::mask(bytes, |_, byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
    }
}

/// The implementation for every processor of the target.
#[cfg(target_arch = "x86_64")]
pub(super) type Baseline = x86::Sse2;
/// The implementation for every processor of the target.
#[cfg(not(target_arch = "x86_64"))]
pub(super) type Baseline = Portable;

#[cfg(target_arch = "x86_64")]
pub(super) use x86::Avx2;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_andnot_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_loadu_si128, _mm_min_epu8,
        _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8, _mm_sub_epi8, _mm256_andnot_si256, _mm256_cmpeq_epi8,
        _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256,
        _mm256_set1_epi8, _mm256_sub_epi8,
    };

    use super::{Lanes, WIDTH};

    const QUOTE: i8 = b'"'.cast_signed();
    const BACKSLASH: i8 = b'\\'.cast_signed();
    const ZERO: i8 = b'0'.cast_signed();

    /// Two registers of 16 bytes: every x86-64 processor.
    pub(in super::super) struct Sse2;

    impl Sse2 {
        #[inline(always)]
        unsafe fn halves(at: *const u8, test: impl Fn(__m128i) -> __m128i) -> u32 {
            // SAFETY: the caller of the trait's methods vouches for 32 readable bytes; SSE2 belongs to the
            // target.
            unsafe {
                let low = _mm_movemask_epi8(test(_mm_loadu_si128(at.cast()))) as u32;
                let high = _mm_movemask_epi8(test(_mm_loadu_si128(at.add(16).cast()))) as u32;
                low | high << 16
            }
        }
    }

    impl Lanes for Sse2 {
        #[inline(always)]
        unsafe fn special(at: *const u8) -> u32 {
            // As signed numbers, control characters and bytes outside of ASCII are both below the space.
            // SAFETY: same contract; SSE2 belongs to the target.
            let plain = unsafe {
                Self::halves(at, |x| {
                    let quoted = _mm_or_si128(
                        _mm_cmpeq_epi8(x, _mm_set1_epi8(QUOTE)),
                        _mm_cmpeq_epi8(x, _mm_set1_epi8(BACKSLASH)),
                    );
                    _mm_andnot_si128(quoted, _mm_cmpgt_epi8(x, _mm_set1_epi8(0x1f)))
                })
            };
            !plain
        }

        #[inline(always)]
        unsafe fn non_digits(at: *const u8) -> u32 {
            // SAFETY: same contract; SSE2 belongs to the target.
            let digits = unsafe {
                Self::halves(at, |x| {
                    let value = _mm_sub_epi8(x, _mm_set1_epi8(ZERO));
                    _mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(9)), value)
                })
            };
            !digits
        }

        #[inline(always)]
        unsafe fn equal(at: *const u8, to: &[u8; WIDTH]) -> u32 {
            // SAFETY: same contract; `to` has 32 bytes; SSE2 belongs to the target.
            unsafe {
                let low = _mm_cmpeq_epi8(_mm_loadu_si128(at.cast()), _mm_loadu_si128(to.as_ptr().cast()));
                let high =
                    _mm_cmpeq_epi8(_mm_loadu_si128(at.add(16).cast()), _mm_loadu_si128(to.as_ptr().add(16).cast()));
                let low = _mm_movemask_epi8(low) as u32;
                low | (_mm_movemask_epi8(high) as u32) << 16
            }
        }

        #[inline(always)]
        unsafe fn either(at: *const u8, first: u8, second: u8) -> u32 {
            // SAFETY: same contract; SSE2 belongs to the target.
            unsafe {
                Self::halves(at, |x| {
                    let first = _mm_cmpeq_epi8(x, _mm_set1_epi8(first.cast_signed()));
                    _mm_or_si128(first, _mm_cmpeq_epi8(x, _mm_set1_epi8(second.cast_signed())))
                })
            }
        }

        #[inline(always)]
        unsafe fn wide(at: *const u8) -> u32 {
            // A mask consists of the highest bit of each byte.
            // SAFETY: same contract; SSE2 belongs to the target.
            unsafe { Self::halves(at, |x| x) }
        }

        #[inline(always)]
        unsafe fn filled(at: *const u8) -> u32 {
            // SAFETY: same contract.
            unsafe { !(Self::either(at, b' ', b'\n') | Self::either(at, b'\t', b'\r')) }
        }
    }

    /// One register of 32 bytes.
    pub(in super::super) struct Avx2;

    impl Avx2 {
        #[inline(always)]
        unsafe fn load(at: *const u8) -> __m256i {
            // SAFETY: the caller of the trait's methods vouches for 32 readable bytes and for AVX2.
            unsafe { _mm256_loadu_si256(at.cast()) }
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        unsafe fn special(at: *const u8) -> u32 {
            // SAFETY: same contract.
            unsafe {
                let x = Self::load(at);
                let quoted = _mm256_or_si256(
                    _mm256_cmpeq_epi8(x, _mm256_set1_epi8(QUOTE)),
                    _mm256_cmpeq_epi8(x, _mm256_set1_epi8(BACKSLASH)),
                );
                let plain = _mm256_andnot_si256(quoted, _mm256_cmpgt_epi8(x, _mm256_set1_epi8(0x1f)));
                !(_mm256_movemask_epi8(plain) as u32)
            }
        }

        #[inline(always)]
        unsafe fn non_digits(at: *const u8) -> u32 {
            // SAFETY: same contract.
            unsafe {
                let value = _mm256_sub_epi8(Self::load(at), _mm256_set1_epi8(ZERO));
                let digits = _mm256_cmpeq_epi8(_mm256_min_epu8(value, _mm256_set1_epi8(9)), value);
                !(_mm256_movemask_epi8(digits) as u32)
            }
        }

        #[inline(always)]
        unsafe fn equal(at: *const u8, to: &[u8; WIDTH]) -> u32 {
            // SAFETY: same contract; `to` has 32 bytes.
            unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi8(Self::load(at), Self::load(to.as_ptr()))) as u32 }
        }

        #[inline(always)]
        unsafe fn either(at: *const u8, first: u8, second: u8) -> u32 {
            // SAFETY: same contract.
            unsafe {
                let x = Self::load(at);
                let first = _mm256_cmpeq_epi8(x, _mm256_set1_epi8(first.cast_signed()));
                let second = _mm256_cmpeq_epi8(x, _mm256_set1_epi8(second.cast_signed()));
                _mm256_movemask_epi8(_mm256_or_si256(first, second)) as u32
            }
        }

        #[inline(always)]
        unsafe fn wide(at: *const u8) -> u32 {
            // A mask consists of the highest bit of each byte.
            // SAFETY: same contract.
            unsafe { _mm256_movemask_epi8(Self::load(at)) as u32 }
        }

        #[inline(always)]
        unsafe fn filled(at: *const u8) -> u32 {
            // SAFETY: same contract.
            unsafe { !(Self::either(at, b' ', b'\n') | Self::either(at, b'\t', b'\r')) }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;

    use super::{Baseline, Lanes, Portable, WIDTH};

    fn masks<L: Lanes>(bytes: &[u8; WIDTH], to: &[u8; WIDTH]) -> [u32; 6] {
        // SAFETY: arrays of 32 bytes; the tests check the processor before they use instructions beyond the
        // baseline.
        unsafe {
            let at = bytes.as_ptr();
            [L::special(at), L::non_digits(at), L::equal(at, to), L::either(at, b',', b'"'), L::wide(at), L::filled(at)]
        }
    }

    #[test]
    fn implementations_agree_on_every_byte() {
        let mut rng = Rng::new(1);
        for byte in 0..=255_u8 {
            let bytes: [u8; WIDTH] = std::array::from_fn(|i| if i % 3 == 0 { byte } else { rng.below(256) as u8 });
            let to: [u8; WIDTH] = std::array::from_fn(|i| if i % 2 == 0 { bytes[i] } else { 0 });
            let expected = masks::<Portable>(&bytes, &to);
            assert_eq!(expected[1] & 1 == 0, byte.is_ascii_digit());
            assert_eq!(expected[0] & 1 == 0, matches!(byte, 0x20..0x80) && byte != b'"' && byte != b'\\');
            assert_eq!(expected[3] & 1 == 1, matches!(byte, b',' | b'"'));
            assert_eq!(expected[4] & 1 == 1, byte >= 0x80);
            assert_eq!(expected[5] & 1 == 0, byte.is_ascii_whitespace() && byte != 0x0c);
            assert_eq!(masks::<Baseline>(&bytes, &to), expected, "{bytes:?}");
            #[cfg(target_arch = "x86_64")]
            if super::has_avx2() {
                assert_eq!(masks::<super::Avx2>(&bytes, &to), expected, "{bytes:?}");
            }
        }
    }
}
