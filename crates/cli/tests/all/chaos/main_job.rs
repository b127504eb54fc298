//! The main job from Kafka to Kafka: every result is in the topic once, and is the one that a run without
//! failures gives; or at least once, and always the same one.

use anabranch_model::Rng;

use super::processes::{
    LIFE_MS_MAX, PATIENT, example, finish, finish_and_tell, kill_often, kills_and_seed, options, start,
    undisturbed_and_fill, with_checkpoints,
};
use crate::broker::Broker;
use crate::topics::records;

/// Events per second, and how long they last beside the kills.
const RATE: u32 = 10_000;

/// Printed result rows without what identifies the table.
pub(crate) fn printed_rows(printed: &str) -> Vec<String> {
    let rows = printed.lines().filter(|line| line.contains("2026-01-01"));
    let mut rows: Vec<String> =
        rows.map(|line| line.split_once("> ").map_or(line, |(_, row)| row).to_owned()).collect();
    rows.sort();
    rows
}

#[test]
fn no_result_is_lost_or_doubled_however_often_the_process_is_killed() {
    kill_and_compare(&[], 1);
}

/// A consumer that keeps the last row of each key has the results, and so has a compacted topic.
#[test]
fn at_least_once_a_row_that_comes_again_replaces_the_same_row() {
    let set = ["sink.delivery-guarantee=at-least-once", "key.fields=campaign_id;window_start", "key.format=json"];
    kill_and_compare(&set, u32::MAX);
}

/// Kills the job, whose results table has these options too, and compares what is visible, at most so often
/// each, with the results of an undisturbed run.
fn kill_and_compare(results: &[&str], times_max: u32) {
    let (kills, seed) = kills_and_seed();
    let mut rng = Rng::new(seed);
    let broker = Broker::start();
    let folder = tempfile::tempdir().expect("folder");
    let servers = format!("properties.bootstrap.servers={}", broker.servers());
    let rows = u64::from(RATE) * (kills * LIFE_MS_MAX / 2000 + 3);
    let (direct, fill) = undisturbed_and_fill(RATE, rows, &servers);

    let job = |bounded: bool, parallelism: u64| {
        let mut arguments = options("events", &[servers.clone(), PATIENT.into()]);
        arguments.extend(options("results", &[servers.clone(), PATIENT.into()]));
        arguments.extend(options("results", &results.iter().map(ToString::to_string).collect::<Vec<_>>()));
        if bounded {
            arguments.extend(options("events", &["scan.bounded.mode=latest-offset".to_owned()]));
        }
        arguments.extend(with_checkpoints(folder.path(), parallelism));
        start(&example("ad_campaigns_kafka.sql"), &arguments)
    };
    let mut said = kill_often(kills, &mut rng, folder.path(), |rng| job(false, 1 + rng.below(3)));
    finish(fill);
    said.push_str(&finish_and_tell(job(true, 2)).1);

    let expected = printed_rows(&finish(direct));
    assert!(expected.len() > 100, "{expected:?}");
    let records = records(broker.servers(), "ad-results");
    let doubled: Vec<_> = records.iter().filter(|(_, count)| **count > times_max).collect();
    assert!(doubled.is_empty(), "seed {seed}: visible more than {times_max} times: {doubled:?}");
    let read = start(&example("read_results.sql"), &options("topic", std::slice::from_ref(&servers)));
    let mut read = printed_rows(&finish(read));
    read.dedup();
    let [missing, wrong] = [(&expected, &read), (&read, &expected)].map(|(all, others)| without(all, others));
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "seed {seed}: missing are {missing:#?}; instead there are {wrong:#?}; the processes have said: {said}"
    );
    assert_eq!(records.len(), expected.len(), "seed {seed}");
}

/// Rows that are not among the others.
fn without<'a>(rows: &'a [String], others: &[String]) -> Vec<&'a String> {
    rows.iter().filter(|row| !others.contains(row)).collect()
}
