//! Durations and sizes as users write them: a number and a unit. The names of units are Flink's, in either
//! case.

use std::time::Duration;

/// A unit, with the number of nanoseconds or bytes that it stands for. Its first name is the one that is
/// shown.
struct Unit {
    names: &'static [&'static str],
    size: u64,
}

const TIMES: [Unit; 7] = [
    Unit { names: &["ns", "nano", "nanos", "nanosecond", "nanoseconds"], size: 1 },
    Unit { names: &["us", "µs", "micro", "micros", "microsecond", "microseconds"], size: 1_000 },
    Unit { names: &["ms", "milli", "millis", "millisecond", "milliseconds"], size: 1_000_000 },
    Unit { names: &["s", "sec", "secs", "second", "seconds"], size: NANOS_PER_SECOND },
    Unit { names: &["min", "m", "mins", "minute", "minutes"], size: 60 * NANOS_PER_SECOND },
    Unit { names: &["h", "hour", "hours"], size: 3_600 * NANOS_PER_SECOND },
    Unit { names: &["d", "day", "days"], size: 86_400 * NANOS_PER_SECOND },
];

const SIZES: [Unit; 5] = [
    Unit { names: &["b", "bytes"], size: 1 },
    Unit { names: &["kb", "k", "kib", "kibibytes"], size: 1 << 10 },
    Unit { names: &["mb", "m", "mib", "mebibytes"], size: 1 << 20 },
    Unit { names: &["gb", "g", "gib", "gibibytes"], size: 1 << 30 },
    Unit { names: &["tb", "t", "tib", "tebibytes"], size: 1 << 40 },
];

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Reads `10 s`, `500ms` or `1.5 min`. A number without a unit counts `plain`, such as milliseconds; `None`
/// refuses it.
#[must_use]
pub fn parse_duration(text: &str, plain: Option<Duration>) -> Option<Duration> {
    let plain = plain.and_then(|plain| u64::try_from(plain.as_nanos()).ok());
    let nanos = parse(text, &TIMES, plain)?;
    let per_second = u128::from(NANOS_PER_SECOND);
    let seconds = u64::try_from(nanos / per_second).ok()?;
    Some(Duration::new(seconds, u32::try_from(nanos % per_second).ok()?))
}

/// Reads `64 kb` or `4096`, in bytes. Units are powers of 1024.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    u64::try_from(parse(text, &SIZES, Some(1))?).ok()
}

/// The duration in its largest unit that divides it, at most days: `90 s`. [`parse_duration`] reads it.
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    if duration.is_zero() { "0 ms".to_owned() } else { shown(duration.as_nanos(), &TIMES) }
}

/// A number of bytes in its largest unit that divides it: `4 mb`. [`parse_bytes`] reads it.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    if bytes == 0 { "0 b".to_owned() } else { shown(bytes.into(), &SIZES) }
}

fn parse(text: &str, units: &[Unit], plain: Option<u64>) -> Option<u128> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, name) = (&text[..digits], text[digits..].trim().to_lowercase());
    let size = match name.as_str() {
        "" => plain?,
        name => units.iter().find(|unit| unit.names.contains(&name))?.size,
    };
    match number.parse::<u64>() {
        Ok(whole) => Some(u128::from(whole) * u128::from(size)),
        Err(_) => number.parse::<f64>().ok().map(|number| (number * size as f64).round() as u128),
    }
}

fn shown(quantity: u128, units: &[Unit]) -> String {
    let divides = |unit: &&Unit| quantity.is_multiple_of(u128::from(unit.size));
    units.iter().rev().find(divides).map_or_else(String::new, |unit| {
        let number = quantity / u128::from(unit.size);
        format!("{number} {}", unit.names[0])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Option<Duration> = Some(Duration::from_millis(1));

    #[test]
    fn durations_have_flinks_units() {
        for (text, ms) in [
            ("10 s", 10_000),
            ("500ms", 500),
            ("1 min", 60_000),
            ("0.5 h", 1_800_000),
            ("1.5 Minutes", 90_000),
            ("0", 0),
            ("7", 7),
            ("2 H", 7_200_000),
            ("2 d", 172_800_000),
            ("3000 µs", 3),
        ] {
            assert_eq!(parse_duration(text, MS), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1 s", "1 fortnight", "1.2.3 s", ". s", "18446744073709551615 d"] {
            assert_eq!(parse_duration(text, MS), None, "{text}");
        }
        assert_eq!(parse_duration("7", Some(Duration::from_secs(1))), Some(Duration::from_secs(7)));
        assert_eq!(parse_duration("7", None), None, "a unit is required");
        assert_eq!(parse_duration("18446744073709551615 s", None), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [("4096", 4096), ("64 kb", 65_536), ("4 MB", 4 << 20), ("0.5 g", 1 << 29), ("1t", 1 << 40)]
        {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "kb", "-1 kb", "1 pb", "18446744073709551615 kb"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for (shown, ms) in [("0 ms", 0), ("500 ms", 500), ("90 s", 90_000), ("10 min", 600_000), ("1 d", 86_400_000)] {
            let duration = Duration::from_millis(ms);
            assert_eq!((duration_text(duration).as_str(), parse_duration(shown, None)), (shown, Some(duration)));
        }
        assert_eq!(duration_text(Duration::from_micros(1_500)), "1500 us");
        for (shown, bytes) in [("0 b", 0), ("1000 b", 1000), ("3 kb", 3072), ("4 gb", 4 << 30)] {
            assert_eq!((bytes_text(bytes).as_str(), parse_bytes(shown)), (shown, Some(bytes)));
        }
    }
}
