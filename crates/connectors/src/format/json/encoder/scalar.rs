//! Single values as JSON text.

use std::fmt;
use std::io::Write;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The decimal digits of all numbers below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// How each byte is written in a string: 0: unchanged; `u`: as a number; any other letter: that letter after
/// a backslash.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut i = 0;
    while i < 0x20 {
        escapes[i] = b'u';
        i += 1;
    }
    escapes[0x08] = b'b';
    escapes[0x09] = b't';
    escapes[0x0a] = b'n';
    escapes[0x0c] = b'f';
    escapes[0x0d] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

/// Appends a string in quotes. `text` is UTF-8.
pub(super) fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0) {
        out.extend_from_slice(&rest[..plain]);
        let byte = rest[plain];
        match ESCAPES[usize::from(byte)] {
            b'u' => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            escape => out.extend_from_slice(&[b'\\', escape]),
        }
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends an integer.
pub(crate) fn write_signed(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(value.unsigned_abs(), out);
}

/// Appends an integer without sign.
pub(super) fn write_unsigned(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while value >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    if value >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[value as usize]);
    } else {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a floating-point number with the fewest digits that restore it; in quotes if JSON has no number
/// for it.
pub(super) fn write_float<T: fmt::Debug + PartialOrd + Default + Copy>(value: T, finite: bool, out: &mut Vec<u8>) {
    if finite {
        // Writing to memory does not fail.
        let written = write!(out, "{value:?}");
        debug_assert!(written.is_ok());
    } else if value > T::default() {
        out.extend_from_slice(b"\"Infinity\"");
    } else if value < T::default() {
        out.extend_from_slice(b"\"-Infinity\"");
    } else {
        out.extend_from_slice(b"\"NaN\"");
    }
}

/// Appends `value / 10^scale`, with all digits of the scale.
pub(super) fn write_decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let start = out.len();
    let mut rest = value.unsigned_abs();
    // Digits from the right, at least one before the point.
    let point = usize::try_from(scale).unwrap_or(0);
    while rest > 0 || out.len() - start <= point {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
    }
    if point > 0 {
        out.insert(start + point, b'.');
    }
    out[start..].reverse();
    if scale < 0 && value != 0 {
        out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
    }
}

#[cfg(test)]
mod tests {
    use super::{write_decimal, write_float, write_signed, write_string};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers() {
        for value in [0, 7, 10, 99, 100, 101, 12_345, -1, i64::MAX, i64::MIN] {
            assert_eq!(written(|out| write_signed(value, out)), value.to_string());
        }
    }

    #[test]
    fn decimals() {
        let check =
            |value, scale, expected: &str| assert_eq!(written(|out| write_decimal(value, scale, out)), expected);
        check(12_345, 2, "123.45");
        check(-5, 3, "-0.005");
        check(0, 2, "0.00");
        check(0, 0, "0");
        check(12, 0, "12");
        check(12, -3, "12000");
        check(0, -3, "0");
        check(10_i128.pow(38) - 1, 38, &format!("0.{}", "9".repeat(38)));
    }

    #[test]
    fn floats() {
        for (value, expected) in [
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (1e300, "1e300"),
            (5e-324, "5e-324"),
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(written(|out| write_float(value, value.is_finite(), out)), expected);
        }
        assert_eq!(written(|out| write_float(0.1_f32, true, out)), "0.1");
    }

    #[test]
    fn strings() {
        let all: String = (0..0x100).filter_map(char::from_u32).chain("𝄞\u{ffff}".chars()).collect();
        let text = written(|out| write_string(all.as_bytes(), out));
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), all);
    }
}
