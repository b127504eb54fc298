//! Numbers: their grammar, integers eight digits at a time, exact decimals.

/// A number in the record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    /// Offset of the byte after it.
    pub(super) end: usize,
    /// Whether it has neither fraction nor exponent.
    pub(super) integer: bool,
}

/// Reads the number at `at`; `None` if there is none by the grammar of JSON.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<Number> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())
    };
    let start = if bytes.get(at) == Some(&b'-') { at + 1 } else { at };
    let mut end = digits(start);
    if end == start || (bytes[start] == b'0' && end > start + 1) {
        return None;
    }
    let mut integer = true;
    if bytes.get(end) == Some(&b'.') {
        let fraction = end + 1;
        end = digits(fraction);
        integer = false;
        if end == fraction {
            return None;
        }
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let exponent = if let Some(b'+' | b'-') = bytes.get(end + 1) { end + 2 } else { end + 1 };
        end = digits(exponent);
        integer = false;
        if end == exponent {
            return None;
        }
    }
    Some(Number { end, integer })
}

/// The value of eight digits, the first of which is the lowest byte: pairs, then fours, then all, each with
/// one multiplication.
#[inline(always)]
pub(in crate::format) fn eight_digits(bytes: u64) -> u64 {
    let digits = bytes & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = digits.wrapping_mul(10 << 8 | 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// The value of an integer without leading zeros, if it fits.
pub(super) fn integer(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.len() > 20 {
        return None;
    }
    let value = match digits.len() {
        0..=18 => i128::from(digits.iter().fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'))),
        _ => digits.iter().fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0')),
    };
    Some(if negative { -value } else { value })
}

/// A number without exponent.
#[derive(Clone, Copy, Debug)]
pub(in crate::format) struct Fixed {
    pub(in crate::format) negative: bool,
    /// The value of all its digits, if that fits.
    pub(in crate::format) digits: Option<u64>,
    /// How many of its digits are after the point.
    pub(in crate::format) fraction: u32,
}

impl Fixed {
    /// Its value, if it has no point and fits.
    #[inline]
    pub(in crate::format) fn integer(self) -> Option<i64> {
        let value = i64::try_from(self.digits.filter(|_| self.fraction == 0)?).ok()?;
        Some(if self.negative { -value } else { value })
    }

    /// Its value, if dividing two numbers that are exact in 64-bit floating point gives the nearest one.
    #[inline]
    pub(in crate::format) fn float(self) -> Option<f64> {
        const EXACT: u64 = 1 << 53;
        let digits = self.digits.filter(|digits| *digits <= EXACT)?;
        let value = digits as f64 / FLOAT_POWERS.get(self.fraction as usize)?;
        Some(if self.negative { -value } else { value })
    }

    /// Its value times `10^scale`, if no rounding is needed and it is less than `10^precision`.
    #[inline]
    pub(super) fn decimal(self, precision: u8, scale: i8) -> Option<i128> {
        let zeros = u32::try_from(scale).ok()?.checked_sub(self.fraction)?;
        let value = i128::from(self.digits?).checked_mul(10_i128.checked_pow(zeros)?)?;
        let fits = value < 10_i128.checked_pow(u32::from(precision))?;
        fits.then_some(if self.negative { -value } else { value })
    }
}

/// The powers of ten that are exact in 64-bit floating point.
const FLOAT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// A number times a power of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scaled {
    /// Rounded half away from zero.
    pub(super) value: i128,
    /// Whether no rounding was needed.
    pub(super) exact: bool,
}

/// The number `text` times `10^scale`; `None` if that has more than 38 digits. `text` must be a number by the
/// grammar.
pub(super) fn scaled(text: &[u8], scale: i8) -> Option<Scaled> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(e) => (&text[..e], exponent(&text[e + 1..])),
        None => (text, 0),
    };
    let whole = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let digits = || mantissa.iter().filter(|byte| **byte != b'.').map(|byte| i128::from(byte - b'0'));
    if digits().all(|digit| digit == 0) {
        return Some(Scaled { value: 0, exact: true });
    }
    // The digits before this position give the value; exponent and scale move the point.
    let point = whole as i64 + exponent + i64::from(scale);
    let count = mantissa.len() as i64 - i64::from(whole < mantissa.len());
    let mut value = 0_i128;
    let mut exact = true;
    for (i, digit) in digits().enumerate() {
        let i = i as i64;
        if i < point {
            value = value.checked_mul(10)?.checked_add(digit)?;
        } else {
            exact &= digit == 0;
            if i == point && digit >= 5 {
                value = value.checked_add(1)?;
            }
        }
    }
    for _ in count..point {
        value = value.checked_mul(10)?;
    }
    Some(Scaled { value: if negative { -value } else { value }, exact })
}

/// The value of an exponent, limited to what any number of digits in memory could compensate.
fn exponent(text: &[u8]) -> i64 {
    const LARGEST: i64 = 1 << 40;
    let digits = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    let value = digits.iter().fold(0, |value: i64, digit| (value * 10 + i64::from(digit - b'0')).min(LARGEST));
    if text.first() == Some(&b'-') { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::{Scaled, eight_digits, integer, number, scaled};

    #[test]
    fn grammar() {
        let check = |text: &str, expected: Option<(usize, bool)>| {
            let found = number(text.as_bytes(), 0).map(|number| (number.end, number.integer));
            assert_eq!(found, expected, "{text}");
        };
        for text in ["0", "-0", "7", "-12", "1234567890123456789012345"] {
            check(text, Some((text.len(), true)));
        }
        for text in ["0.5", "-1.25e10", "1e5", "1E+5", "1e-05"] {
            check(text, Some((text.len(), false)));
        }
        for text in ["", "-", "01", "-01", "1.", ".5", "1e", "1e+", "+1", "x"] {
            check(text, None);
        }
        check("12,3", Some((2, true)));
    }

    #[test]
    fn eight_digits_at_once() {
        for value in [0, 1, 12_345_678, 99_999_999, 10_000_000, 90_807_060_u64] {
            let text = format!("{value:08}");
            assert_eq!(eight_digits(u64::from_le_bytes(text.as_bytes().try_into().unwrap())), value);
        }
    }

    #[test]
    fn integers() {
        for value in [0, -1, i128::from(i64::MIN), i128::from(u64::MAX), 999_999_999_999_999_999] {
            assert_eq!(integer(value.to_string().as_bytes()), Some(value));
        }
        assert_eq!(integer(b"123456789012345678901"), None);
    }

    #[test]
    fn decimals() {
        let check = |text: &str, scale, expected: Option<(i128, bool)>| {
            let expected = expected.map(|(value, exact)| Scaled { value, exact });
            assert_eq!(scaled(text.as_bytes(), scale), expected, "{text} at {scale}");
        };
        check("12.345", 3, Some((12_345, true)));
        check("-12.345", 2, Some((-1_235, false)));
        check("12.344", 2, Some((1_234, false)));
        check("12.3", 4, Some((123_000, true)));
        check("1.5e3", 0, Some((1_500, true)));
        check("1500e-2", 0, Some((15, true)));
        check("1550e-2", 0, Some((16, false)));
        check("0.0005", 3, Some((1, false)));
        check("0.0004", 3, Some((0, false)));
        check("9e-99999999999", 3, Some((0, false)));
        check("0e99999999999", 3, Some((0, true)));
        check("1e99999999999", 3, None);
        check("12345", -2, Some((123, false)));
        check("99999999999999999999999999999999999999", 0, Some((10_i128.pow(38) - 1, true)));
        check("1e38", 1, None);
    }
}
