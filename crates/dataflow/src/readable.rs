//! Lengths of time as options have them, and instants.

use arrow::temporal_conversions::timestamp_ms_to_datetime;

/// Units of time, the longest first, in milliseconds.
const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];

/// A length of time in the longest unit of which it is a multiple, as options have it: `10 s`, `36 h`.
#[must_use]
pub fn duration_text(ms: i64) -> String {
    let unit = UNITS.iter().find(|(unit, _)| ms != 0 && ms % unit == 0);
    unit.map_or_else(|| format!("{ms} ms"), |(unit, name)| format!("{} {name}", ms / unit))
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
        let texts = [0, 1, 1500, 10_000, 90_000, 3_600_000, 129_600_000, 2_592_000_000].map(duration_text);
        assert_eq!(texts, ["0 ms", "1 ms", "1500 ms", "10 s", "90 s", "1 h", "36 h", "30 d"]);
    }

    #[test]
    fn instants_are_of_utc() {
        assert_eq!(instant_text(1_767_225_610_001), "2026-01-01T00:00:10.001Z");
        assert_eq!(instant_text(i64::MAX), format!("{} ms after 1970", i64::MAX));
    }
}
