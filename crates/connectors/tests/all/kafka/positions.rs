//! Resuming from positions: exactly there, or with an error that says why not.

use std::collections::BTreeSet;

use anabranch_model::PartitionId;
use anabranch_operators::Positions;

use super::harness::{BOUNDED, Outside, Reader, open_source_from, process, records, refusal, table};

fn from(positions: &[(&str, &str)]) -> Positions {
    positions.iter().map(|(partition, position)| ((*partition).to_owned(), (*position).to_owned())).collect()
}

/// Positions without the identity of the topic.
fn stands_at(reader: &Reader) -> Vec<(String, String)> {
    let offsets = |text: String| text.split_once(" topic-id ").map(|(offsets, _)| offsets.to_owned());
    let positions = reader.source.positions().unwrap().into_iter();
    positions.map(|(name, text)| (name, offsets(text).expect("the identity of its topic"))).collect()
}

fn text(positions: &[(&str, &str)]) -> Vec<(String, String)> {
    from(positions).into_iter().collect()
}

#[test]
fn positions_tell_the_next_offset_and_the_end() {
    let outside = Outside::shared();
    outside.create_topic("told", 2);
    outside.produce("told", 0, &records(0..10));
    let mut reader = Reader::open(table("told", &[]), 0, 1);
    assert_eq!(stands_at(&reader), text(&[("told/0", "beginning"), ("told/1", "beginning")]));
    reader.read_until("ten rows", |reader| reader.count() == 10);
    assert_eq!(stands_at(&reader), text(&[("told/0", "10"), ("told/1", "beginning")]));
    let reader = Reader::open(table("told", &[("scan.startup.mode", "latest-offset")]), 0, 1);
    assert_eq!(stands_at(&reader), text(&[("told/0", "10"), ("told/1", "0")]));
    let mut reader = Reader::open(table("told", &[BOUNDED]), 0, 1);
    assert_eq!(stands_at(&reader), text(&[("told/0", "beginning..10"), ("told/1", "beginning..0")]));
    reader.read_until("the end", |reader| reader.ended);
    assert_eq!(stands_at(&reader), text(&[("told/0", "10..10"), ("told/1", "0..0")]));
}

/// Records that come while a job opens its readers are read by all of them or by none.
#[test]
fn readers_of_one_job_agree_on_the_latest_offsets() {
    let outside = Outside::shared();
    outside.create_topic("agreed", 2);
    outside.produce("agreed", 0, &records(0..10));
    let host = process(true, None);
    let latest = ("scan.startup.mode", "latest-offset");
    let open = |option| Reader::open_at(table("agreed", &[option]), host.clone());
    let starts = text(&[("agreed/0", "10"), ("agreed/1", "0")]);
    let ends = text(&[("agreed/0", "beginning..10"), ("agreed/1", "beginning..0")]);
    assert_eq!(stands_at(&open(latest)), starts);
    outside.produce("agreed", 0, &records(10..15));
    outside.produce("agreed", 1, &records(15..20));
    assert_eq!(stands_at(&open(latest)), starts);
    assert_eq!(stands_at(&open(BOUNDED)), ends);
    let other = Reader::open_at(table("agreed", &[latest]), process(true, None));
    assert_eq!(stands_at(&other), text(&[("agreed/0", "15"), ("agreed/1", "5")]));
}

#[test]
fn positions_win_over_the_startup_mode_and_keep_their_ends() {
    let outside = Outside::shared();
    outside.create_topic("kept", 3);
    outside.produce("kept", 0, &records(0..10));
    outside.produce("kept", 1, &records(10..20));
    outside.produce("kept", 2, &records(20..30));
    let positions = from(&[("kept/0", "4..7"), ("kept/1", "beginning..0")]);
    let options = [BOUNDED, ("scan.startup.mode", "latest-offset")];
    let mut reader = Reader::open_from(table("kept", &options), 0, 1, Some(&positions));
    reader.read_until("the end", |reader| reader.ended);
    // Partition 2 has no position. It is new, and is read from its beginning to its current end.
    assert_eq!(reader.sorted_ids(), [4, 5, 6, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
    assert_eq!(stands_at(&reader), text(&[("kept/0", "7..7"), ("kept/1", "0..0"), ("kept/2", "10..10")]));
    let ended = reader.source.positions().unwrap();
    let mut again = Reader::open_from(table("kept", &options), 0, 1, Some(&ended));
    again.poll().unwrap();
    assert!(again.ended && again.opened.is_empty() && again.closed.is_empty());
    assert_eq!(again.source.positions().unwrap(), ended);

    // With a declaration without an end, the same positions continue.
    let mut reader = Reader::open_from(table("kept", &[]), 0, 1, Some(&ended));
    reader.read_until("the rest", |reader| reader.count() == 13);
    assert_eq!(reader.sorted_ids(), [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    assert_eq!(stands_at(&reader), text(&[("kept/0", "10"), ("kept/1", "10"), ("kept/2", "10")]));
}

#[test]
fn what_was_read_ahead_does_not_count() {
    let outside = Outside::shared();
    outside.create_topic("read-ahead", 3);
    for partition in 0..3 {
        let first = i64::from(partition) * 10;
        outside.produce("read-ahead", partition, &records(first..first + 10));
    }
    let mut reader = Reader::open(table("read-ahead", &[BOUNDED]), 0, 1);
    reader.read_until("some rows", |reader| reader.count() > 0);
    let (mut all, positions) = (reader.sorted_ids(), reader.source.positions().unwrap());
    drop(reader);
    for index in 0..2 {
        let mut rest = Reader::open_from(table("read-ahead", &[BOUNDED]), index, 2, Some(&positions));
        rest.read_until("the end", |reader| reader.ended);
        all.extend(rest.sorted_ids());
    }
    all.sort_unstable();
    assert_eq!(all, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_restored_offset_that_retention_has_deleted_is_an_error() {
    let outside = Outside::shared();
    outside.create_topic("expired", 1);
    outside.produce("expired", 0, &records(0..10));
    outside.delete_records("expired", 0, 7);
    let positions = from(&[("expired/0", "5")]);
    let error = Reader::open_from(table("expired", &[]), 0, 1, Some(&positions)).read_until_error();
    assert!(error.contains("topic expired partition 0: cannot be read any further"), "{error}");
    assert!(error.contains("'properties.auto.offset.reset' = 'earliest'"), "{error}");
}

#[test]
fn positions_of_something_else_are_refused() {
    Outside::shared().create_topic("strict", 2);
    let refused =
        |positions: &[(&str, &str)]| refusal(open_source_from(table("strict", &[]), 1, 2, Some(&from(positions))));
    for (positions, expected) in [
        (&[("other/0", "1")], "'other/0', which is not a partition of the table: it has topic strict"),
        (&[("strict/2", "1")], "'strict/2', which is not a partition of the table: topic strict has 2 partitions"),
        (&[("strict", "1")], "'strict', which is not a partition of the table"),
        (&[("strict/0", "first")], "the position 'first' cannot be read"),
        (&[("strict/0", "1..")], "the position '1..' cannot be read"),
        (&[("strict/0", "-1")], "the position '-1' cannot be read"),
    ] {
        let error = refused(positions);
        assert!(error.contains(expected) && error.contains("table events") && error.contains("help: "), "{error}");
    }
}

/// What is on its way of a partition that is held still comes, but nothing else. It goes on right after that.
#[test]
fn a_partition_that_is_held_goes_on_where_it_was() {
    let outside = Outside::shared();
    outside.create_topic("held", 2);
    outside.produce("held", 0, &records(0..3000));
    outside.produce("held", 1, &records(3000..5000));
    let [none, first, second, both]: [BTreeSet<PartitionId>; 4] =
        [&[][..], &[0], &[1], &[0, 1]].map(|of| of.iter().map(|id| PartitionId(*id)).collect());
    let mut reader = Reader::open(table("held", &[BOUNDED]), 0, 1);
    reader.read_until("rows", |reader| reader.count() > 0);
    assert!(reader.source.hold(&both).expect("stopped"));
    for _ in 0..20 {
        reader.poll().expect("what is on its way");
    }
    let (stood, read) = (stands_at(&reader), reader.count());
    for _ in 0..10 {
        reader.poll().expect("nothing");
    }
    assert_eq!((stands_at(&reader), reader.count()), (stood, read));
    assert!(read < 5000 && !reader.ended);
    let mut turns = [&first, &none, &second, &both].into_iter().cycle();
    let mut before = read;
    while before < 3500 {
        reader.source.hold(turns.next().expect("a turn")).expect("held");
        for _ in 0..4 {
            reader.poll().expect("rows");
        }
        before = reader.count();
    }
    reader.source.hold(&none).expect("released");
    reader.read_until("the end", |reader| reader.ended);
    let ids: Vec<Vec<i64>> = reader.ids.into_values().collect();
    assert_eq!(ids, [(0..3000).collect::<Vec<i64>>(), (3000..5000).collect()]);
}
