//! Whole numbers written as text.

/// The whole number that a text shows, with blanks around it and a sign. Digits after a point are left out, as in Flink.
#[must_use]
pub fn parse_whole(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if text.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Negative, since the least number has no counterpart.
    let number = whole.bytes().try_fold(0_i64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_sub(digit)
    })?;
    if negative { Some(number) } else { number.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_lose_their_fractions() {
        for (text, expected) in [
            (" 12 ", Some(12)),
            ("+5", Some(5)),
            ("-1.9", Some(-1)),
            (".", Some(0)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775807.9", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("- 5", None),
            ("1e3", None),
            ("1.5e1", None),
            ("1.2.3", None),
        ] {
            assert_eq!(parse_whole(text), expected, "{text}");
        }
    }
}
