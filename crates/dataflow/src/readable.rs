//! Texts of a plan in the words of users: types of SQL, lengths of time as options have them, and instants.

use arrow::temporal_conversions::timestamp_ms_to_datetime;

use crate::sql_names;

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

/// A text of a plan for people: `[count() Int64], window tumble 10000 ms` is `[count() BIGINT], window tumble
/// 10 s`.
#[must_use]
pub fn readable(text: &str) -> String {
    let text = sql_names(text);
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text.as_str());
    let is_word = |of: Option<char>| of.is_some_and(|of| of.is_alphanumeric() || of == '_');
    while let Some(at) = rest.find(" ms") {
        let (before, after) = (&rest[..at], &rest[at + " ms".len()..]);
        let lead = before.trim_end_matches(|of: char| of.is_ascii_digit());
        let last = lead.chars().next_back();
        let is_number = !is_word(last) && last != Some('.') && !is_word(after.chars().next());
        match before[lead.len()..].parse() {
            Ok(ms) if is_number => {
                shown.push_str(lead);
                shown.push_str(&duration_text(ms));
            }
            _ => shown.push_str(&rest[..at + " ms".len()]),
        }
        rest = after;
    }
    shown + rest
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

    #[test]
    fn texts_of_plans_get_types_and_times_of_users() {
        for (text, shown) in [
            (
                "aggregate, window hop 10000 ms every 500 ms offset 60000 ms, by [k Utf8View]: [count() Int64]",
                "aggregate, window hop 10 s every 500 ms offset 1 min, by [k STRING]: [count() BIGINT]",
            ),
            ("rows of up to 3600000 ms before", "rows of up to 1 h before"),
            (
                "until #1 +10000 ms, 1.5000 ms, x1000 ms, 1000 msg, ms",
                "until #1 +10 s, 1.5000 ms, x1000 ms, 1000 msg, ms",
            ),
            ("99999999999999999999 ms", "99999999999999999999 ms"),
        ] {
            assert_eq!(readable(text), shown);
        }
    }
}
