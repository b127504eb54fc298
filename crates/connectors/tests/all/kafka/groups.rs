//! Offsets of consumer groups: epochs that are done are not read again, all others are.

use anabranch_model::Epoch;

use super::harness::{BOUNDED, Outside, Reader, records, table};

const FROM_GROUP: (&str, &str) = ("scan.startup.mode", "group-offsets");

#[test]
fn a_restart_resumes_after_the_last_epoch_that_was_done() {
    let outside = Outside::shared();
    outside.create_topic("resumed", 2);
    outside.produce("resumed", 0, &records(0..100));
    outside.produce("resumed", 1, &records(100..150));
    let options = [("properties.group.id", "resumed"), FROM_GROUP];

    let mut reader = Reader::open(table("resumed", &options), 0, 1);
    reader.read_until("the first epoch", |reader| reader.count() >= 150);
    reader.source.epoch_cut(Epoch(1)).expect("cut");
    outside.produce("resumed", 0, &records(200..210));
    reader.read_until("the second epoch", |reader| reader.count() >= 160);
    reader.source.epoch_cut(Epoch(2)).expect("cut");
    reader.source.epoch_done(Epoch(1)).expect("done");
    drop(reader);

    // The second epoch was cut but not done. The restart reads its rows again, and no others.
    let mut again = Reader::open(table("resumed", &options), 0, 1);
    again.read_until("the second epoch", |reader| reader.count() >= 10);
    assert_eq!(again.sorted_ids(), (200..210).collect::<Vec<_>>());
    again.source.epoch_cut(Epoch(1)).expect("cut");
    again.source.epoch_done(Epoch(1)).expect("done");
    drop(again);

    let rest = Reader::read_to_end(table("resumed", &[BOUNDED, FROM_GROUP, ("properties.group.id", "resumed")]), 0, 1);
    assert_eq!(rest.count(), 0);
}

#[test]
fn a_cut_covers_what_poll_returned_and_not_what_was_read_ahead() {
    let outside = Outside::shared();
    outside.create_topic("cut-ahead", 3);
    for partition in 0..3 {
        let first = i64::from(partition) * 10;
        outside.produce("cut-ahead", partition, &records(first..first + 10));
    }
    let options = [("properties.group.id", "cut-ahead"), FROM_GROUP];
    let mut reader = Reader::open(table("cut-ahead", &options), 0, 1);
    // One poll returns the rows of one partition; rows of other partitions may be decoded and buffered.
    reader.read_until("some rows", |reader| reader.count() > 0);
    let seen = reader.sorted_ids();
    reader.source.epoch_cut(Epoch(1)).expect("cut");
    reader.source.epoch_done(Epoch(1)).expect("done");
    drop(reader);

    let rest =
        Reader::read_to_end(table("cut-ahead", &[BOUNDED, FROM_GROUP, ("properties.group.id", "cut-ahead")]), 0, 1);
    let mut all = [seen, rest.sorted_ids()].concat();
    all.sort_unstable();
    assert_eq!(all, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_group_without_positions_starts_at_the_beginning() {
    let outside = Outside::shared();
    outside.create_topic("fresh", 1);
    outside.produce("fresh", 0, &records(0..10));
    let reader = Reader::read_to_end(table("fresh", &[BOUNDED, FROM_GROUP, ("properties.group.id", "fresh")]), 0, 1);
    assert_eq!(reader.sorted_ids(), (0..10).collect::<Vec<_>>());
}
