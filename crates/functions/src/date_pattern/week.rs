//! Weeks that begin on Sunday, of which the first has the 1st of January: those of Java's locale en-US.

use chrono::{Datelike, Days, NaiveDate};

/// The Sunday at the beginning of the week.
fn beginning(date: NaiveDate) -> Option<NaiveDate> {
    date.checked_sub_days(Days::new(date.weekday().num_days_from_sunday().into()))
}

/// The year to which a date's week belongs, and the number of the week in it.
pub(super) fn week_of(date: NaiveDate) -> (i32, u32) {
    let first = beginning(date).unwrap_or(date);
    let last = first.checked_add_days(Days::new(6)).unwrap_or(date);
    let new_year = NaiveDate::from_ymd_opt(last.year(), 1, 1).and_then(beginning).unwrap_or(first);
    let weeks = first.signed_duration_since(new_year).num_days() / 7;
    (last.year(), u32::try_from(weeks).unwrap_or(0) + 1)
}

/// The number of the week in the month.
pub(super) fn week_of_month(date: NaiveDate) -> u32 {
    let first = date.with_day(1).unwrap_or(date).weekday().num_days_from_sunday();
    (date.day0() + first) / 7 + 1
}

/// The day of a week of a year. Days are counted from Sunday, which is 0. Weeks before the first and behind
/// the last are those of other years.
pub(super) fn date_of(year: i32, week: u32, day: u32) -> Option<NaiveDate> {
    date_of_month(year, 1, week, day)
}

/// The day of a week of a month, counted in the same way.
pub(super) fn date_of_month(year: i32, month: u32, week: u32, day: u32) -> Option<NaiveDate> {
    let first = beginning(NaiveDate::from_ymd_opt(year, month, 1)?)?;
    first
        .checked_add_days(Days::new(u64::from(day)))?
        .checked_add_days(Days::new(7 * u64::from(week)))?
        .checked_sub_days(Days::new(7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_are_found_again() {
        let mut date = NaiveDate::from_ymd_opt(2019, 12, 20).expect("a date");
        for _ in 0..2_500 {
            let (year, week) = week_of(date);
            let day = date.weekday().num_days_from_sunday();
            assert_eq!(date_of(year, week, day), Some(date), "{date}");
            assert_eq!(date_of_month(date.year(), date.month(), week_of_month(date), day), Some(date), "{date}");
            date = date.succ_opt().expect("a date");
        }
        let date = |y, m, d| NaiveDate::from_ymd_opt(y, m, d).expect("a date");
        assert_eq!(week_of(date(2024, 12, 30)), (2025, 1));
        assert_eq!(week_of(date(2024, 2, 29)), (2024, 9));
        assert_eq!(week_of_month(date(2024, 2, 29)), 5);
    }
}
