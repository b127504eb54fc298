//! Savepoints of running jobs, and jobs that start from them: at another parallelism, with a changed query.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::live::{EVENTS, counts, finish, plan_of, rows, settings, wait_for};
use anabranch_model::{Error, OperatorKind};
use anabranch_server::{Engine, Fate, Job, Origin, Plan, Settings};
use anabranch_state::{Access, Answer, Asked, Contents, Savepoint, Store, encode_manifest};

fn origin_at(engine: &Engine, savepoint: &Path) -> Origin {
    engine.savepoint(savepoint.to_str().expect("text")).expect("savepoint")
}

fn store(path: &Path) -> Store {
    Store::open(path.to_str().expect("text"), &Access::default()).expect("store")
}

/// Requests a savepoint of the running job once some results are visible, as the command does.
fn take_savepoint(checkpoints: &Path, visible: impl Fn() -> bool, to: &Path) -> Savepoint {
    wait_for("waited for results", &visible);
    let from = store(checkpoints);
    let asked = Asked::ask(&from, "test".into(), 0).expect("asked");
    wait_for("waited for an answer", &|| asked.answer().expect("read").is_some());
    let Some(Answer::Checkpoint { manifest, .. }) = asked.answer().expect("read") else { panic!("the job has ended") };
    let savepoint = Savepoint::copy(&from, &manifest, &store(to), &mut || Ok(())).expect("copied");
    asked.withdraw().expect("withdrawn");
    savepoint
}

/// `rest` is the end of `all`; both of them and the difference are not empty. Of a window that was open,
/// `rest` has the complete result.
fn check_rest(all: &BTreeSet<String>, rest: &BTreeSet<String>) {
    let start = |row: &String| row.split(',').next().expect("a window").to_owned();
    let before: Vec<&String> = all.difference(rest).collect();
    let strange: Vec<&String> = rest.difference(all).collect();
    let same = |row: &&&String| strange.iter().any(|strange| start(strange) == start(row));
    let instead: Vec<&&String> = before.iter().filter(same).collect();
    assert!(strange.is_empty(), "not among the results: {strange:?}, which are {instead:?}");
    let (last, first) = (before.iter().map(|row| start(row)).max(), rest.iter().map(start).min());
    assert!(last.is_some() && first.is_some() && last < first, "missing until {last:?}, there from {first:?}");
}

#[test]
fn the_number_of_key_groups_is_fixed_at_the_first_start() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let sql = format!("{EVENTS}{}", counts(&at("first"), "results", "event_type", "TRUE"));
    let with = |groups: &str| {
        let mut settings = settings(Some(&at("checkpoints")), 2);
        settings.set.push(("pipeline.max-parallelism".to_owned(), groups.to_owned()));
        settings
    };
    let job = engine.run(&sql, &with("1000")).expect("a job");
    wait_for("waited for results", &|| !rows(&at("first"), "results").is_empty());
    job.stop();
    finish(job);
    for other in [with("999"), settings(Some(&at("checkpoints")), 2)] {
        let error = engine.run(&sql, &other).and_then(Job::wait).expect_err("another number").to_string();
        assert!(error.contains("SET 'max-parallelism' = '1000'"), "{error}");
    }
    finish(engine.run(&sql, &with("1000")).expect("the remedy"));
    assert_eq!(rows(&at("first"), "results").len(), 30 * 3, "thirty windows, three types");
}

#[test]
fn a_job_that_starts_from_a_savepoint_gives_exactly_the_rest() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let sql = format!("{EVENTS}{}", counts(&at("first"), "results", "event_type", "TRUE"));
    let job = engine.run(&sql, &settings(Some(&at("checkpoints")), 2)).expect("a job");
    let visible = || !rows(&at("first"), "results").is_empty();
    let savepoint = take_savepoint(&at("checkpoints"), visible, &at("savepoint"));
    // If this has changed, the planner words queries differently than before. Then raise the number before
    // the hash (`HOW`, in `dataflow::kept`), so that hashes of earlier versions are not compared with those
    // of this one.
    assert_eq!(savepoint.manifest.parts[0].lineage.how, "1-c9e2563b8a338428");
    assert!(savepoint.manifest.tasks.iter().all(|task| task.sink.iter().all(|sink| sink.prepared.is_empty())));
    finish(job);
    let all = rows(&at("first"), "results");
    assert_eq!(all.len(), 30 * 3, "thirty windows, three types: {all:?}");

    // At other parallelisms, with checkpoints and without, any number of times.
    for (name, parallelism, checkpoints) in [("b", 3, Some(at("own"))), ("c", 1, None)] {
        let sql = format!("{EVENTS}{}", counts(&at(name), "results", "event_type", "TRUE"));
        let settings = settings(checkpoints.as_deref(), parallelism);
        let plan = plan_of(&engine, &sql, &settings);
        let origin = origin_at(&engine, &at("savepoint"));
        let fates: Vec<Fate> = origin.compare(&plan).expect("compared").iter().map(|change| change.fate).collect();
        assert_eq!(fates, [Fate::Kept; 3]);
        finish(engine.start_from(&plan, &origin, false).expect("a job"));
        check_rest(&all, &rows(&at(name), "results"));
    }
}

#[test]
fn a_stopped_job_is_replaced_without_a_result_lost_or_doubled() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let sql = format!("{EVENTS}{}", counts(&at("alone"), "results", "event_type", "TRUE"));
    let alone = engine.run(&sql, &settings(None, 2)).expect("a job");

    let sql = format!("{EVENTS}{}", counts(&at("both"), "results", "event_type", "TRUE"));
    let job = engine.run(&sql, &settings(Some(&at("checkpoints")), 2)).expect("a job");
    wait_for("waited for results", &|| !rows(&at("both"), "results").is_empty());
    job.stop();
    finish(job);
    let visible = rows(&at("both"), "results").len();
    let from = store(&at("checkpoints"));
    let newest = Contents::read(&from).expect("contents").newest().expect("a checkpoint").blob.clone();
    Savepoint::copy(&from, &newest, &store(&at("savepoint")), &mut || Ok(())).expect("copied");

    let plan = plan_of(&engine, &sql, &settings(Some(&at("own")), 3));
    let origin = origin_at(&engine, &at("savepoint"));
    finish(engine.start_from(&plan, &origin, false).expect("a job"));
    finish(alone);
    let all = rows(&at("alone"), "results");
    assert!(visible < all.len(), "it was stopped too late");
    assert_eq!(rows(&at("both"), "results"), all);
}

/// From its first watermark on, a task's watermark is that of its slowest partition, in whichever order they
/// are opened.
#[test]
fn partitions_at_different_times_do_not_make_each_other_late() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let sql = format!("{EVENTS}{}", counts(&at("results"), "results", "event_type", "TRUE"));
    let job = engine.run(&sql, &settings(Some(&at("checkpoints")), 2)).expect("a job");
    wait_for("waited for results", &|| !rows(&at("results"), "results").is_empty());
    job.stop();
    finish(job);
    let from = store(&at("checkpoints"));
    let mut manifest = Contents::read(&from).expect("contents").newest().expect("a checkpoint").manifest.clone();
    for source in manifest.tasks.iter_mut().filter_map(|task| task.source.as_mut()) {
        // The first partition says that it is far ahead of the others, which it is not: where its rows come
        // later than theirs, they are late.
        source.watermarks_ms.get_mut("partition 0 of 4").into_iter().for_each(|ms| *ms += 100_000);
    }
    let changed = from.put("manifests/changed.txt", encode_manifest(&manifest).expect("encoded").into()).expect("put");
    Savepoint::copy(&from, &changed, &store(&at("savepoint")), &mut || Ok(())).expect("copied");
    let plan = plan_of(&engine, &sql, &settings(None, 1));
    let origin = origin_at(&engine, &at("savepoint"));
    let job = engine.start_from(&plan, &origin, false).expect("a job");
    assert!(job.wait_timeout(Duration::from_secs(60)), "the job hangs");
    let summary = job.wait().expect("it ends well");
    let late: u64 = summary.tasks.iter().map(|task| task.late_rows).sum();
    assert!(late < 30_000 / 4, "{late} rows were late, some of them of other partitions");
}

#[test]
fn a_job_that_crashes_before_its_first_checkpoint_starts_from_the_savepoint_again() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let sql = |name: &str| format!("{EVENTS}{}", counts(&at(name), "results", "event_type", "TRUE"));
    let job = engine.run(&sql("first"), &settings(Some(&at("checkpoints")), 2)).expect("a job");
    let visible = || !rows(&at("first"), "results").is_empty();
    take_savepoint(&at("checkpoints"), visible, &at("savepoint"));
    finish(job);
    let mut plan = plan_of(&engine, &sql("second"), &settings(Some(&at("own")), 2));
    let origin = origin_at(&engine, &at("savepoint"));
    let interval = |plan: &mut Plan, interval| plan.options.checkpoints.as_mut().expect("kept").interval = interval;
    interval(&mut plan, Duration::from_secs(60));
    drop(engine.start_from(&plan, &origin, false).expect("a job"));
    assert!(store(&at("own")).list("manifests").expect("list").is_empty(), "it has a checkpoint");
    interval(&mut plan, Duration::from_millis(50));
    let error = engine.start(&plan).err().expect("it would start with nothing").to_string();
    assert!(error.contains("started from savepoint job-") && error.contains("(--from PATH) again"), "{error}");
    let job = engine.start_from(&plan, &origin, false).expect("a job");
    wait_for("waited for results", &|| !rows(&at("second"), "results").is_empty());
    job.stop();
    finish(job);

    // Now it has checkpoints. The same command resumes from them, and so does the command without the
    // savepoint.
    let job = engine.start_from(&plan, &origin, false).expect("a job");
    job.stop();
    finish(job);
    finish(engine.start(&plan).expect("a job"));
    check_rest(&rows(&at("first"), "results"), &rows(&at("second"), "results"));
    assert!(engine.start_from(&plan, &origin, false).expect("a job").had_ended());
    // Another savepoint does not.
    let newest = Contents::read(&store(&at("own"))).expect("contents").newest().expect("a checkpoint").blob.clone();
    Savepoint::copy(&store(&at("own")), &newest, &store(&at("later")), &mut || Ok(())).expect("copied");
    let later = origin_at(&engine, &at("later"));
    let error = engine.start_from(&plan, &later, false).err().expect("refused").to_string();
    assert!(error.contains("did not start from savepoint") && error.contains("checkpoint-directory"), "{error}");
    // The savepoint itself is not a place for checkpoints either.
    let error = engine.run(&sql("third"), &settings(Some(&at("savepoint")), 2)).err().expect("refused").to_string();
    assert!(error.contains("this is a savepoint") && error.contains("--from"), "{error}");
    let error = engine.savepoint(at("own").to_str().expect("text")).expect_err("none").to_string();
    assert!(error.contains("there is no savepoint"), "{error}");
}

/// The counts of the first statement, and those of the second, which adds a million to each.
fn by_statement(rows: BTreeSet<String>) -> [BTreeSet<String>; 2] {
    let count = |row: &String| row.rsplit(':').next()?.strip_suffix('}')?.parse::<u64>().ok();
    let (second, first) = rows.into_iter().partition(|row| count(row).expect("a count") >= 1_000_000);
    [first, second]
}

#[test]
fn identical_statements_are_distinguished_by_what_they_compute() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let ordered = |name: &str, order: [usize; 2], settings: &Settings| {
        let table = counts(&at(name), "results", "event_type", "TRUE");
        let (table, insert) = table.split_once("INSERT").expect("two statements");
        let statement = |result: &str, filter: &str| {
            format!("INSERT{}", insert.replace("COUNT(*)", result).replace("WHERE TRUE", &format!("WHERE {filter}")))
        };
        // Their states are identical: those do not contain what is counted, and of which rows.
        let both = [
            statement("COUNT(DISTINCT ad_id)", "ad_id <= '5'"),
            statement("COUNT(DISTINCT page_id) + 1000000", "ad_id > '5'"),
        ];
        let sql = format!(
            "{}{table}{}{}",
            EVENTS.replace("(ad_id", "(page_id STRING, ad_id"),
            both[order[0]],
            both[order[1]]
        );
        plan_of(&engine, &sql, settings)
    };
    let job = engine.start(&ordered("first", [0, 1], &settings(Some(&at("checkpoints")), 2))).expect("a job");
    let visible = || by_statement(rows(&at("first"), "results")).iter().all(|rows| !rows.is_empty());
    take_savepoint(&at("checkpoints"), visible, &at("savepoint"));
    job.stop();
    finish(job);
    let swapped = ordered("first", [1, 0], &settings(Some(&at("checkpoints")), 2));
    let error = engine.start(&swapped).err().expect("refused").to_string();
    assert!(error.contains("have changed places") && error.contains("'state aggregate"), "{error}");
    finish(engine.start(&ordered("first", [0, 1], &settings(Some(&at("checkpoints")), 3))).expect("a job"));
    let all = rows(&at("first"), "results");
    assert_eq!(all.len(), 30 * 3 * 2, "thirty windows, three types, two statements");

    let origin = origin_at(&engine, &at("savepoint"));
    for (name, order, parallelism) in [("same", [0, 1], 1), ("swapped", [1, 0], 3)] {
        let plan = ordered(name, order, &settings(None, parallelism));
        let changes = origin.compare(&plan).expect("compared");
        assert!(changes.iter().all(|change| change.fate == Fate::Kept), "{changes:?}");
        finish(engine.start_from(&plan, &origin, false).expect("a job"));
        let rest = by_statement(rows(&at(name), "results"));
        by_statement(all.clone()).iter().zip(&rest).for_each(|(all, rest)| check_rest(all, rest));
    }
}

#[test]
fn aggregates_come_and_go_and_nothing_is_lost_unnoticed() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    // By type, by type again but only some ads, and by ad.
    let inserts = [
        counts(&at("first"), "by_type", "event_type", "TRUE"),
        counts(&at("first"), "some", "event_type", "ad_id > '8'"),
        counts(&at("first"), "by_ad", "SUBSTRING(ad_id, 1, 1)", "TRUE"),
    ];
    let job = engine.run(&format!("{EVENTS}{}", inserts.concat()), &settings(Some(&at("checkpoints")), 2));
    let job = job.expect("a job");
    let visible = || ["by_type", "some", "by_ad"].iter().all(|table| !rows(&at("first"), table).is_empty());
    take_savepoint(&at("checkpoints"), visible, &at("savepoint"));
    finish(job);
    let origin = origin_at(&engine, &at("savepoint"));
    let start = |inserts: &[String], allowed: bool| -> Result<Job, Error> {
        let plan = engine.plan(&format!("{EVENTS}{}", inserts.concat()), &settings(None, 2))?;
        engine.start_from(&plan.plan.expect("a plan"), &origin, allowed)
    };

    // Another order, and one more identical statement.
    let inserts = [
        counts(&at("second"), "more", "event_type", "ad_id > '5'"),
        counts(&at("second"), "some", "event_type", "ad_id > '8'"),
        counts(&at("second"), "by_ad", "SUBSTRING(ad_id, 1, 1)", "TRUE"),
        counts(&at("second"), "by_type", "event_type", "TRUE"),
    ];
    finish(start(&inserts, false).expect("nothing is lost"));
    for table in ["some", "by_ad", "by_type"] {
        check_rest(&rows(&at("first"), table), &rows(&at("second"), table));
    }
    assert!(!rows(&at("second"), "more").is_empty());

    // One is removed, and the sink of another renamed.
    let inserts = [
        counts(&at("third"), "renamed", "SUBSTRING(ad_id, 1, 1)", "TRUE"),
        counts(&at("third"), "by_type", "event_type", "TRUE"),
    ];
    let error = start(&inserts, false).err().expect("refused").to_string();
    assert!(error.contains("has no place for") && error.contains("--allow-lost-state"), "{error}");
    assert_eq!(error.matches("state of aggregate").count(), 1, "{error}");
    finish(start(&inserts, true).expect("allowed"));
    check_rest(&rows(&at("first"), "by_type"), &rows(&at("third"), "by_type"));
    check_rest(&rows(&at("first"), "by_ad"), &rows(&at("third"), "renamed"));

    // Another source: the positions and all states that depend on them.
    let inserts = [counts(&at("fourth"), "by_type", "event_type", "TRUE")];
    let sql =
        format!("{EVENTS}{}", inserts.concat()).replace("events", "occurrences").replace("ad_occurrences", "ad_events");
    let plan = plan_of(&engine, &sql, &settings(None, 2));
    let error = engine.start_from(&plan, &origin, false).err().expect("refused").to_string();
    assert!(error.contains("source events (ad_events): positions in"), "{error}");
}

/// The numbers of the states in the newest checkpoint, in the order of the statements.
fn states(place: &Path) -> Vec<u32> {
    let contents = Contents::read(&store(place)).expect("contents");
    let parts = contents.newest().expect("a checkpoint").manifest.parts.iter();
    parts.filter(|part| part.id.kind == OperatorKind::State).map(|part| part.id.number).collect()
}

#[test]
fn parts_keep_their_identities_when_others_come_and_go_and_no_identity_is_used_again() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let by_type = |name: &str| counts(&at(name), "by_type", "event_type", "TRUE");
    let by_ad = |name: &str| counts(&at(name), "by_ad", "SUBSTRING(ad_id, 1, 1)", "TRUE");
    let more = |name: &str| counts(&at(name), "more", "UPPER(SUBSTRING(ad_id, 2, 1))", "TRUE");
    let sql = |inserts: &[String]| format!("{EVENTS}{}", inserts.concat());
    let job = engine.run(&sql(&[by_type("first"), by_ad("first")]), &settings(Some(&at("checkpoints")), 2));
    let visible = || ["by_type", "by_ad"].iter().all(|table| !rows(&at("first"), table).is_empty());
    take_savepoint(&at("checkpoints"), visible, &at("savepoint"));
    finish(job.expect("a job"));
    assert_eq!(states(&at("checkpoints")), [0, 1]);

    // One is removed, another added. The next process is given the query alone.
    let query = sql(&[more("second"), by_ad("second")]);
    let plan = plan_of(&engine, &query, &settings(Some(&at("own")), 2));
    let job = engine.start_from(&plan, &origin_at(&engine, &at("savepoint")), true).expect("a job");
    wait_for("waited for results", &|| !rows(&at("second"), "more").is_empty());
    job.stop();
    finish(job);
    assert_eq!(states(&at("own")), [2, 1]);
    let job = engine.run(&query, &settings(Some(&at("own")), 3)).expect("resumed");
    take_savepoint(&at("own"), || true, &at("later"));
    finish(job);
    assert_eq!(states(&at("own")), [2, 1]);
    check_rest(&rows(&at("first"), "by_ad"), &rows(&at("second"), "by_ad"));

    // What was removed is a new part if it is added again.
    let query = sql(&[by_ad("third"), by_type("third")]);
    let plan = plan_of(&engine, &query, &settings(Some(&at("last")), 1));
    finish(engine.start_from(&plan, &origin_at(&engine, &at("later")), true).expect("a job"));
    let [by_ad, by_type] = states(&at("last"))[..] else { panic!("two states") };
    assert!(by_ad == 1 && by_type > 2, "{by_ad} {by_type}");
    check_rest(&rows(&at("first"), "by_ad"), &rows(&at("third"), "by_ad"));
}

/// A process that copies a checkpoint does not notice that the job's process ends and another one takes over.
#[test]
fn a_checkpoint_that_is_being_copied_is_kept_by_the_next_process_too() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let engine = Engine::default();
    let sql = format!("{EVENTS}{}", counts(&at("results"), "results", "event_type", "TRUE"));
    let job = engine.run(&sql, &settings(Some(&at("checkpoints")), 2)).expect("a job");
    wait_for("waited for results", &|| !rows(&at("results"), "results").is_empty());
    let from = store(&at("checkpoints"));
    let asked = Asked::ask(&from, "test".into(), 0).expect("asked");
    wait_for("waited for an answer", &|| asked.answer().expect("read").is_some());
    let Some(Answer::Checkpoint { manifest, epoch }) = asked.answer().expect("read") else { panic!("it has ended") };
    let newest = || Contents::read(&from).expect("contents").checkpoints.first().expect("a checkpoint").manifest.epoch;
    wait_for("waited for more checkpoints", &|| newest() > epoch);
    job.stop();
    finish(job);
    let job = engine.run(&sql, &settings(Some(&at("checkpoints")), 2)).expect("a job");
    let savepoint = Savepoint::copy(&from, &manifest, &store(&at("savepoint")), &mut || Ok(())).expect("copied");
    assert_eq!(savepoint.manifest.epoch, epoch);
    asked.withdraw().expect("withdrawn");
    wait_for("waited for its removal", &|| !from.list("manifests").expect("list").contains(&manifest.name));
    job.stop();
    finish(job);
}
