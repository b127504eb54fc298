//! Against all minutes of some days, by their definitions.

use super::*;

/// Days with a change of the clock, in seconds since 1970, and a zone.
const DAYS: [(&str, i64); 9] = [
    // Set forward by an hour at two o'clock, and back.
    ("America/New_York", 1_710_028_800),
    ("America/New_York", 1_730_592_000),
    // By half an hour.
    ("Australia/Lord_Howe", 1_728_086_400),
    ("Australia/Lord_Howe", 1_712_361_600),
    // At midnight.
    ("America/Sao_Paulo", 1_541_289_600),
    // By a day, forward and back.
    ("Pacific/Apia", 1_325_203_200),
    ("America/Anchorage", -3_225_312_000),
    ("GMT+05:45", 0),
    // Of a year that the library does not know.
    ("Europe/Berlin", 6_490_108_800),
];

fn zone(name: &str) -> Zone {
    Zone::parse(name).expect("a zone")
}

#[test]
fn instants_and_local_times_follow_from_each_other() {
    for (name, day) in DAYS {
        let zone = zone(name);
        let minutes: Vec<i64> = (day - 3 * DAY..day + 4 * DAY).step_by(60).collect();
        let locals: Vec<i64> = minutes.iter().map(|minute| zone.local_seconds(*minute)).collect();
        for local in (day - DAY..day + 2 * DAY).step_by(60) {
            let first = locals.iter().position(|of| *of == local);
            let expected = match first {
                Some(at) => minutes[at],
                // Skipped: as long after the last local time before it.
                None => {
                    let at = locals.iter().rposition(|of| *of < local).expect("a local time before");
                    let at = locals[..=at].iter().rposition(|of| *of < local).expect("a local time before");
                    minutes[at] + local - locals[at]
                }
            };
            // Offsets of earlier centuries have seconds.
            if locals[0] % 60 == 0 {
                assert_eq!(zone.instant_seconds(local, Twice::First), expected, "{name} {local}");
                assert_eq!(zone.instant_ms(local * 1000 + 999), expected * 1000 + 999);
                let last = locals.iter().rposition(|of| *of == local).map_or(expected, |at| minutes[at]);
                assert_eq!(zone.instant_seconds(local, Twice::Last), last, "{name} {local}");
            }
        }
    }
}

#[test]
fn a_watermark_of_local_times_promises_no_more_than_is_so() {
    for (name, day) in DAYS {
        let zone = zone(name);
        let minutes: Vec<i64> = (day - 3 * DAY..day + 4 * DAY).step_by(60).collect();
        let mut least = i64::MAX;
        let mut expected: Vec<i64> = minutes
            .iter()
            .rev()
            .map(|minute| {
                least = least.min(zone.local_ms(minute * 1000));
                least - 1
            })
            .collect();
        expected.reverse();
        let mut last = i64::MIN;
        for (minute, expected) in minutes.iter().zip(expected).take(5 * 1440) {
            let watermark = minute * 1000 - 1;
            let local = zone.passed_local_ms(watermark);
            // Offsets of earlier centuries have seconds.
            if zone.offset(day) % 60 == 0 {
                assert_eq!(local, expected, "{name} {minute}");
            }
            assert!(local >= last);
            last = local;
            let back = zone.passed_instant_ms(local);
            assert!(back <= watermark && zone.passed_local_ms(back) <= local, "{name} {minute} {back}");
            let behind = zone.passed_instant_ms(local - 600_000);
            assert!(zone.passed_local_ms(behind) <= local - 600_000, "{name} {minute}");
        }
    }
    for end in [i64::MIN, i64::MAX] {
        let zone = zone("Europe/Berlin");
        assert_eq!((zone.passed_local_ms(end), zone.passed_instant_ms(end)), (end, end));
    }
}

#[test]
fn columns_are_shifted_as_single_times_are() {
    let mut rng = 1_u64;
    let mut random = || {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rng >> 33
    };
    for (name, day) in DAYS {
        let zone = zone(name);
        for direction in [Direction::ToLocal, Direction::ToInstant] {
            let mut shift = Shift { zone, direction, per_second: 1000, span: None };
            for _ in 0..5_000 {
                let time = (day - 2 * DAY) * 1000 + i64::try_from(random() % (5 * 86_400_000)).expect("small");
                let expected = match direction {
                    Direction::ToLocal => zone.local_ms(time),
                    Direction::ToInstant => zone.instant_ms(time),
                };
                assert_eq!(shift.apply(time), expected, "{name} {time}");
            }
        }
    }
}

#[test]
fn clocks_are_set_back_by_as_much_as_they_are() {
    for (name, minutes) in
        [("America/New_York", 60), ("Australia/Lord_Howe", 60), ("GMT+05:45", 0), ("Asia/Kolkata", 0)]
    {
        assert_eq!(zone(name).repeated_ms(), minutes * 60_000, "{name}");
    }
    assert!(Zone::parse("Mars/Olympus").is_none() && Zone::parse("").is_none());
}
