//! Readable numbers.

/// `999`, `12.3 k`, `4.56 M`: three digits and a unit.
pub(crate) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", " k", " M", " G", " T"])
}

/// `512 B`, `1.50 KB`, `20.0 MB`, in powers of 1024.
pub(crate) fn bytes(value: u64) -> String {
    scaled(value as f64, 1024.0, &[" B", " KB", " MB", " GB", " TB"])
}

/// `1,234,567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `850 µs`, `1.20 ms`, `3.40 s`.
pub(crate) fn micros(value: u64) -> String {
    match value {
        0..1_000 => format!("{value} µs"),
        1_000..1_000_000 => format!("{} ms", three_digits(value as f64 / 1e3)),
        _ => format!("{} s", three_digits(value as f64 / 1e6)),
    }
}

/// `1.23 s` of milliseconds, with a sign if negative.
pub(crate) fn millis(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", micros(value.unsigned_abs().saturating_mul(1000)))
}

/// ` 42 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:3.0} %", share * 100.0)
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    // 999.5 would be shown with four digits.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let number = if unit == 0 { format!("{value:.0}") } else { three_digits(value) };
    format!("{number}{}", units[unit])
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_three_digits() {
        let counts = [(0.0, "0"), (999.4, "999"), (999.6, "1.00 k"), (12_345.0, "12.3 k"), (4_560_000.0, "4.56 M")];
        for (value, text) in counts {
            assert_eq!(count(value), text);
        }
        assert_eq!([bytes(0), bytes(1536), bytes(20 << 20)], ["0 B", "1.50 KB", "20.0 MB"]);
        assert_eq!([grouped(7), grouped(1000), grouped(1_234_567)], ["7", "1,000", "1,234,567"]);
        assert_eq!(
            [micros(850), micros(1200), micros(99_990), micros(3_400_000)],
            ["850 µs", "1.20 ms", "100 ms", "3.40 s"]
        );
        assert_eq!([millis(1234), millis(-20)], ["1.23 s", "-20.0 ms"]);
        assert_eq!([percent(0.424), percent(1.0)], [" 42 %", "100 %"]);
    }
}
