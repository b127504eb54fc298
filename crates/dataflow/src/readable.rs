//! Lengths of time as options have them, and instants.

use std::time::Duration;

use arrow::temporal_conversions::timestamp_ms_to_datetime;

/// A length of time in the longest unit of which it is a multiple, as options have it: `10 s`, `36 h`.
pub(crate) fn duration_text(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    format!("{sign}{}", anabranch_model::duration_text(Duration::from_millis(ms.unsigned_abs())))
}

/// An instant in milliseconds since 1970, in UTC: `2026-01-01T00:00:10.000Z`.
#[must_use]
pub fn instant_text(ms: i64) -> String {
    let at = timestamp_ms_to_datetime(ms).map(|at| at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string());
    at.unwrap_or_else(|| format!("{ms} ms after 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_the_longest_unit_that_fits() {
        let texts = [0, 1, 1500, 10_000, 90_000, 3_600_000, 129_600_000, 2_592_000_000, -2000].map(duration_text);
        assert_eq!(texts, ["0 ms", "1 ms", "1500 ms", "10 s", "90 s", "1 h", "36 h", "30 d", "-2 s"]);
    }

    #[test]
    fn instants_are_of_utc() {
        assert_eq!(instant_text(1_767_225_610_001), "2026-01-01T00:00:10.001Z");
        assert_eq!(instant_text(i64::MAX), format!("{} ms after 1970", i64::MAX));
    }
}
