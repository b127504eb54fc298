use anabranch_model::Rng;
use arrow::datatypes::TimeUnit;
use chrono::{DateTime, Datelike, NaiveDate, Timelike};

use super::{Timestamp, TimestampFormat, parse_date, write_date};

fn timestamp(unit: TimeUnit, zone: Option<&str>) -> Timestamp {
    Timestamp::new(unit, zone).unwrap()
}

fn check(zone: Option<&str>, text: &str, expected_ms: Option<i64>) {
    let parsed = timestamp(TimeUnit::Millisecond, zone).parse(text.as_bytes(), TimestampFormat::Sql);
    assert_eq!(parsed, expected_ms, "{text} in {zone:?}");
}

#[test]
fn texts_are_read() {
    check(None, "1970-01-01 00:00:00", Some(0));
    check(None, "1970-01-01 00:00:00.5", Some(500));
    check(None, "1969-12-31T23:59:59.999", Some(-1));
    check(None, "2020-02-29 12:30", Some(1_582_979_400_000));
    check(None, "2020-02-29 12:30:00.123456789123Z", Some(1_582_979_400_123));
    check(None, "2020-02-29T12:30:00+02:00", Some(1_582_972_200_000));
    check(None, "2020-02-29T12:30:00-0030", Some(1_582_981_200_000));
    check(Some("Europe/Berlin"), "2020-02-29 12:30:00", Some(1_582_975_800_000));
    check(Some("Europe/Berlin"), "2020-02-29 12:30:00Z", Some(1_582_979_400_000));
    check(Some("+01:00"), "2020-02-29 12:30:00", Some(1_582_975_800_000));
    check(Some("Europe/Berlin"), "2020-03-29 02:30:00", None);
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "",
        "2020",
        "2020-01-01",
        "2020-01-01 ",
        "2020-01-01 00",
        "2020-13-01 00:00:00",
        "2021-02-29 00:00:00",
        "2020-00-01 00:00:00",
        "2020-01-00 00:00:00",
        "2020-01-01 24:00:00",
        "2020-01-01 00:60:00",
        "2020-01-01 00:00:60",
        "2020-01-01 00:00:00.",
        "2020-01-01 00:00:00 ",
        "2020-01-01 00:00:00+1",
        "2020-1-01 00:00:00",
        "20200101T000000",
        "2020-01-01x00:00:00",
        "12020-01-01 00:00:00",
        "+999999999-01-01 00:00:00",
    ] {
        check(None, text, None);
    }
    let iso = timestamp(TimeUnit::Second, None);
    assert_eq!(iso.parse(b"2020-01-01 00:00:00", TimestampFormat::Iso8601), None);
    assert!(Timestamp::new(TimeUnit::Second, Some("Nowhere")).is_err());
}

#[test]
fn epoch_milliseconds_in_every_unit() {
    let value = |unit| timestamp(unit, None).of_epoch_ms(-1_500);
    assert_eq!(value(TimeUnit::Second), Some(-2));
    assert_eq!(value(TimeUnit::Millisecond), Some(-1_500));
    assert_eq!(value(TimeUnit::Nanosecond), Some(-1_500_000_000));
    assert_eq!(timestamp(TimeUnit::Nanosecond, None).of_epoch_ms(i64::MAX), None);
}

#[test]
fn dates_agree_with_a_calendar() {
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        let days = rng.below(4_000_000) as i32 - 1_000_000;
        let date = NaiveDate::from_epoch_days(days).unwrap();
        let mut text = Vec::new();
        write_date(i64::from(days), &mut text);
        let year = if (0..=9_999).contains(&date.year()) {
            format!("{:04}", date.year())
        } else {
            format!("{:+05}", date.year())
        };
        assert_eq!(String::from_utf8(text.clone()).unwrap(), format!("{year}-{:02}-{:02}", date.month(), date.day()));
        assert_eq!(parse_date(&text), Some(days));
    }
}

#[test]
fn what_was_written_is_read() {
    let mut rng = Rng::new(4);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        for format in [TimestampFormat::Sql, TimestampFormat::Iso8601] {
            for zone in [None, Some("UTC"), Some("Asia/Tokyo")] {
                let timestamp = timestamp(unit, zone);
                for _ in 0..2_000 {
                    let value = rng.next_u64().cast_signed() >> rng.below(64);
                    // Years of more than nine digits have no text form.
                    if unit == TimeUnit::Second && value.unsigned_abs() > 1 << 54 {
                        continue;
                    }
                    let mut text = Vec::new();
                    timestamp.write(value, format, &mut text);
                    assert_eq!(timestamp.parse(&text, format), Some(value), "{}", String::from_utf8_lossy(&text));
                }
            }
        }
    }
}

#[test]
fn fractions_have_the_digits_of_the_unit() {
    let mut text = Vec::new();
    timestamp(TimeUnit::Millisecond, Some("UTC")).write(1_700_000_000_050, TimestampFormat::Iso8601, &mut text);
    assert_eq!(text, b"2023-11-14T22:13:20.050Z");
    let time = DateTime::from_timestamp_millis(1_700_000_000_050).unwrap();
    assert_eq!((time.hour(), time.minute(), time.second()), (22, 13, 20));
}
