//! Changes of a running job: another parallelism, a changed, added or dropped statement, and changes that
//! fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::live::{EVENTS, Gate, counts, finish, plan_of, rows, settings};
use anabranch_server::{Change, Engine, Fate, How, Job, Moves, Plan, Reconfigure, Reconfigured, Result};

fn change(job: &Job, plan: Plan) -> Result<Reconfigured> {
    job.reconfigure(request(plan, false))
}

fn request(plan: Plan, dry_run: bool) -> Reconfigure {
    Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run }
}

/// How the parts that are kept would get to the next version, and whether state would be loaded ahead.
fn foreseen(job: &Job, plan: Plan) -> (Vec<Option<How>>, Option<bool>) {
    let would = job.reconfigure(request(plan, true)).expect("a dry run");
    (hows(&would.changes), would.ahead.expect("what is known").loads_ahead)
}

fn hows(changes: &[Change]) -> Vec<Option<How>> {
    changes.iter().map(|change| change.passing.as_ref().map(|passing| passing.how)).collect()
}

/// What becomes of the only static table.
fn static_table(changes: &[Change]) -> Fate {
    let mut tables = changes.iter().filter(|change| change.part.id.is_none());
    let table = tables.next().expect("a static table");
    assert!(tables.next().is_none() && table.what.starts_with("static table types"), "{changes:?}");
    table.fate
}

fn fates(changes: &[Change]) -> Vec<Fate> {
    changes.iter().map(|change| change.fate).collect()
}

/// By window and key, the number of rows.
fn numbers(rows: &BTreeSet<String>) -> BTreeMap<(String, String), u64> {
    let number = |row: &String| {
        let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
        let text = |name: &str| row[name].as_str().expect("text").to_owned();
        ((text("start_ts"), text("k")), row["n"].as_u64().expect("a number"))
    };
    rows.iter().map(number).collect()
}

/// A job that nobody interferes with, beside the one that is changed.
struct Straight<'a>(Job, &'a Path);

impl Straight<'_> {
    fn start(folder: &Path) -> Straight<'_> {
        let sql = format!("{EVENTS}{}", counts(folder, "straight", "event_type", "TRUE"));
        Straight(Engine::default().run(&sql, &settings(None, 1)).expect("a job"), folder)
    }

    fn rows(self) -> BTreeSet<String> {
        finish(self.0);
        rows(self.1, "straight")
    }
}

#[test]
fn a_job_is_rescaled_up_and_down_while_it_runs_and_no_result_is_lost_or_doubled() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let straight = Straight::start(folder.path());
    let sql = format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", "TRUE"));
    let at = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let job = engine.run(&sql, &at(2)).expect("a job");
    for (version, parallelism) in [(2, 4), (3, 1), (4, 3)] {
        let seen = rows(folder.path(), "results").len();
        gate.wait_for_rows(folder.path(), "results", seen);
        let done = change(&job, plan_of(&engine, &sql, &at(parallelism))).expect("changed");
        assert_eq!((done.version.0, done.unchanged, fates(&done.changes)), (version, false, vec![Fate::Kept; 3]));
        let tasks = job.metrics().into_iter().filter(|task| task.is_source).count();
        assert_eq!(tasks, parallelism as usize, "{:?}", job.metrics());
    }
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
    gate.finish(job);
    assert_eq!(rows(folder.path(), "results"), straight.rows());
}

/// Tasks with other key groups read state from files, which several of them share afterwards; the next change
/// reads those. Each key has a window that stays open.
#[test]
fn state_that_moves_is_loaded_before_the_tasks_switch() {
    for backend in ["memory", "disk"] {
        let folder = tempfile::tempdir().expect("folder");
        let gate = Gate::default();
        let engine = gate.engine();
        let straight = Straight::start(folder.path());
        let sql = format!(
            "{EVENTS}{}
             CREATE TABLE all_ads (ad_id STRING, n BIGINT)
               WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
             INSERT INTO all_ads SELECT ad_id, COUNT(*)
               FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, ad_id;",
            counts(folder.path(), "results", "event_type", "TRUE"),
            folder.path().join("all_ads").display()
        );
        let plan = |parallelism| {
            let mut settings = settings(Some(&folder.path().join("checkpoints")), parallelism);
            settings.set.push(("state-backend".to_owned(), backend.to_owned()));
            let mut plan = plan_of(&engine, &sql, &settings);
            plan.options.thresholds.little_bytes = 0;
            plan
        };
        let job = engine.start(&plan(2)).expect("a job");
        for parallelism in [4, 1, 3, 2] {
            let seen = rows(folder.path(), "results").len();
            gate.wait_for_rows(folder.path(), "results", seen);
            let done = change(&job, plan(parallelism)).expect("changed");
            assert!(done.copied_bytes > 0, "{done:?}");
            assert_eq!(job.metrics().into_iter().filter(|task| task.is_source).count(), parallelism as usize);
        }
        assert_eq!(job.restarts(), [""; 0], "nothing has failed");
        gate.finish(job);
        assert_eq!(rows(folder.path(), "results"), straight.rows());
        let of_ad = |row: &String| serde_json::from_str::<serde_json::Value>(row).expect("JSON")["n"].as_u64();
        let ads = rows(folder.path(), "all_ads");
        assert_eq!(ads.iter().filter_map(of_ad).sum::<u64>(), 30_000, "{backend}");
        assert!(ads.len() > 500, "{}", ads.len());
    }
}

/// State that would be loaded is loaded, and nothing else is. All state is much here, and its window stays
/// open.
#[test]
fn a_dry_run_foresees_which_state_is_loaded() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let plan = |condition: &str, parallelism, key_groups: &str| {
        let text = counts(folder.path(), "results", "ad_id", condition);
        let sql = format!("{EVENTS}{}", text.replace("INTERVAL '0.2' SECOND", "INTERVAL '1' HOUR"));
        let mut settings = settings(Some(&folder.path().join("checkpoints")), parallelism);
        settings.set.push(("stage-key-groups".to_owned(), key_groups.to_owned()));
        let mut plan = plan_of(&engine, &sql, &settings);
        plan.options.thresholds.little_bytes = 0;
        plan
    };
    let job = engine.start(&plan("TRUE", 2, "")).expect("a job");
    let has_state = || {
        let would = job.reconfigure(request(plan("TRUE", 2, ""), true)).expect("a dry run");
        would.changes.iter().any(|change| change.part.bytes > Some(0))
    };
    gate.wait_for(&has_state);
    // Whether the tables are opened again, and the state is loaded.
    for (plan, opens, loads) in [
        (plan("event_time > 0", 2, ""), false, false),
        (plan("event_time > 0", 2, "aggregate=32+96"), false, true),
        (plan("event_time > 0", 3, ""), true, true),
        (plan("event_time > 1", 3, ""), false, false),
        (plan("event_time > 1", 1, ""), true, true),
        (plan("TRUE", 1, ""), false, false),
    ] {
        let (would, loads_ahead) = foreseen(&job, plan.clone());
        let done = change(&job, plan).expect("changed");
        assert_eq!((loads_ahead, done.copied_bytes > 0), (Some(loads), loads), "{done:?}");
        assert_eq!(hows(&done.changes), would, "{done:?}");
        let [source, state, sink] = would[..] else { panic!("{done:?}") };
        let stays = |how: Option<How>| matches!(how, Some(How::InPlace | How::HandedOver));
        let table = |how| if opens { how == Some(How::Reopened) } else { stays(how) };
        assert!(table(source) && table(sink), "{done:?}");
        assert!(if loads { state == Some(How::Loaded) } else { stays(state) }, "{done:?}");
    }
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
    gate.finish(job);
}

#[test]
fn a_single_stage_is_rescaled_and_no_result_is_lost_or_doubled() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let straight = Straight::start(folder.path());
    let sql = format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", "TRUE"));
    let at = |stages: &str| {
        let mut settings = settings(Some(&folder.path().join("checkpoints")), 2);
        settings.set.push(("stage-parallelism".to_owned(), stages.to_owned()));
        settings
    };
    let job = engine.run(&sql, &at("")).expect("a job");
    // With one task of each, both stages are one.
    for (version, stages, tasks) in [
        (2, "aggregate=5", &[2, 5][..]),
        (3, "aggregate=1", &[2, 1]),
        (4, "aggregate=1, source events=1", &[1]),
        (5, "aggregate=3", &[2, 3]),
    ] {
        let seen = rows(folder.path(), "results").len();
        gate.wait_for_rows(folder.path(), "results", seen);
        let plan = plan_of(&engine, &sql, &at(stages));
        let parallelism: Vec<u32> = plan.stages.iter().map(|stage| stage.parallelism).collect();
        assert_eq!(parallelism, tasks, "{plan}");
        let done = change(&job, plan).expect("changed");
        assert_eq!((done.version.0, done.unchanged, fates(&done.changes)), (version, false, vec![Fate::Kept; 3]));
    }
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
    gate.finish(job);
    assert_eq!(rows(folder.path(), "results"), straight.rows());
}

/// The first windows are those of the old text, the last ones those of the new, and at most two are of both.
#[test]
fn a_changed_filter_counts_from_the_end_of_an_epoch_on_and_the_state_is_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let straight = Straight::start(folder.path());
    let text = |filter| format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", filter));
    let settings = settings(Some(&folder.path().join("checkpoints")), 2);
    let job = engine.run(&text("TRUE"), &settings).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 6);
    // A further column is read, so the aggregate is another operator with the same state.
    let mut plan = plan_of(&engine, &text("event_type <> 'click' AND ad_id <> ''"), &settings);
    plan.options.thresholds.little_bytes = 0;
    let rehearsed = job.reconfigure(Reconfigure {
        plan: plan.clone(),
        moves: Moves::default(),
        allow_lost_state: false,
        allow_late: false,
        dry_run: true,
    });
    let rehearsed = rehearsed.expect("rehearsed");
    assert!(
        rehearsed.unchanged && rehearsed.changes[1].what.ends_with("continues with a changed query"),
        "{rehearsed:?}"
    );
    let done = change(&job, plan).expect("changed");
    assert_eq!((done.version.0, &done.changes), (2, &rehearsed.changes));
    assert_eq!(done.copied_bytes, 0, "state that stays is passed on in memory");
    gate.finish(job);
    let (all, found) = (numbers(&straight.rows()), numbers(&rows(folder.path(), "results")));
    let clicks = |of: &BTreeMap<(String, String), u64>| -> Vec<u64> {
        of.iter().filter(|((_, key), _)| key == "click").map(|(_, number)| *number).collect()
    };
    let (expected, before) = (clicks(&all), clicks(&found));
    assert!(before.len() > 1 && before.len() < expected.len(), "{before:?}");
    let whole = before.iter().zip(&expected).take_while(|(found, all)| found == all).count();
    assert!(before.len() - whole <= 2, "windows that contain the change: {before:?} of {expected:?}");
    let others = |of: &BTreeMap<(String, String), u64>| -> BTreeMap<(String, String), u64> {
        of.iter().filter(|((_, key), _)| key != "click").map(|(key, number)| (key.clone(), *number)).collect()
    };
    assert_eq!(others(&found), others(&all), "what the change does not concern is as it would be without");
}

#[test]
fn a_statement_is_added_and_another_one_dropped_while_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let straight = Straight::start(folder.path());
    let statement = |table, by| counts(folder.path(), table, by, "TRUE");
    let settings = settings(Some(&folder.path().join("checkpoints")), 2);
    let types = statement("types", "event_type");
    let both = format!("{EVENTS}{types}{}", statement("ads", "SUBSTRING(ad_id, 1, 1)"));
    let job = engine.run(&format!("{EVENTS}{types}"), &settings).expect("a job");
    gate.wait_for_rows(folder.path(), "types", 0);
    let added = change(&job, plan_of(&engine, &both, &settings)).expect("added");
    assert!(fates(&added.changes).contains(&Fate::New) && !fates(&added.changes).contains(&Fate::Lost), "{added:?}");
    gate.wait_for_rows(folder.path(), "ads", 2);
    let only = plan_of(&engine, &format!("{EVENTS}{types}"), &settings);
    let error = change(&job, only.clone()).expect_err("state would be lost").to_string();
    assert!(
        error.contains("the job would lose")
            && error.contains("state of aggregate")
            && error.contains("--allow-lost-state"),
        "{error}"
    );
    let request =
        Reconfigure { plan: only, moves: Moves::default(), allow_lost_state: true, allow_late: false, dry_run: false };
    let dropped = job.reconfigure(request).expect("dropped");
    assert!(fates(&dropped.changes).contains(&Fate::Gone), "{dropped:?}");
    let left = rows(folder.path(), "ads");
    gate.finish(job);
    assert_eq!(rows(folder.path(), "types"), straight.rows());
    assert_eq!(rows(folder.path(), "ads"), left, "a dropped statement writes nothing");
}

/// Whatever the new version does before its first checkpoint, nothing of it remains.
#[test]
fn a_change_that_fails_leaves_no_trace() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let straight = Straight::start(folder.path());
    let text = |filter| format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", filter));
    let settings = settings(Some(&folder.path().join("checkpoints")), 2);
    let job = engine.run(&text("TRUE"), &settings).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 0);
    for _ in 0..2 {
        let fails = plan_of(&engine, &text("1 / (event_time - event_time) > 0"), &settings);
        let error = change(&job, fails).expect_err("it fails").to_string();
        assert!(error.contains("the job continues unchanged") && error.contains("division by zero"), "{error}");
    }
    let same = change(&job, plan_of(&engine, &text("TRUE"), &settings)).expect("the same");
    assert!(same.unchanged, "{same:?}");
    let done = change(&job, plan_of(&engine, &text("event_time > 0"), &settings)).expect("changed");
    assert!(!done.unchanged, "{done:?}");
    gate.finish(job);
    assert_eq!(rows(folder.path(), "results"), straight.rows());
}

/// A static table of the types of events, which results are joined with.
struct Types<'a> {
    folder: &'a Path,
}

impl Types<'_> {
    fn new(folder: &Path) -> Types<'_> {
        std::fs::create_dir(folder.join("types")).expect("a folder");
        let types = "{\"name\": \"view\"}\n{\"name\": \"click\"}\n{\"name\": \"purchase\"}\n";
        std::fs::write(folder.join("types/types.json"), types).expect("written");
        Types { folder }
    }

    /// Counts of the events that have a type of the table.
    fn counts(&self, filter: &str, on_malformed: &str) -> String {
        let statements = counts(self.folder, "results", "event_type", filter);
        let joined = statements.replace(
            "DESCRIPTOR(ts), INTERVAL '0.2' SECOND))",
            "DESCRIPTOR(ts), INTERVAL '0.2' SECOND)) JOIN types ON event_type = name",
        );
        format!(
            "{EVENTS} CREATE TABLE types (name STRING)
               WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', 'on-malformed' = '{on_malformed}');{joined}",
            self.folder.join("types").display()
        )
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.folder.join(from), self.folder.join(to)).expect("renamed");
    }
}

/// Neither version can begin while a static table is away that has changed. The former one does when it is
/// there again.
#[test]
fn a_change_while_a_static_table_is_away_does_not_end_the_job() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let straight = Straight::start(folder.path());
    let types = Types::new(folder.path());
    let settings = settings(Some(&folder.path().join("checkpoints")), 2);
    let job = engine.run(&types.counts("TRUE", "fail"), &settings).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 0);
    let plan = plan_of(&engine, &types.counts("TRUE", "skip"), &settings);
    let would = job.reconfigure(request(plan.clone(), true)).expect("a dry run");
    assert_eq!(static_table(&would.changes), Fate::New, "it would be read again: {would:?}");
    types.rename("types", "away");
    let error = change(&job, plan).expect_err("a table is away").to_string();
    assert!(error.contains("the job continues unchanged") && error.contains("table types"), "{error}");
    types.rename("away", "types");
    gate.finish(job);
    assert_eq!(rows(folder.path(), "results"), straight.rows());
}

/// It is not even opened, and further tasks of the worker use what was read.
#[test]
fn a_static_table_that_stays_is_not_read_again() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let straight = Straight::start(folder.path());
    let types = Types::new(folder.path());
    let at = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let job = engine.run(&types.counts("TRUE", "fail"), &at(2)).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 0);
    types.rename("types", "away");
    for (condition, tasks) in [("event_time > 0", 2), ("event_time > 0", 4), ("TRUE", 3)] {
        let done = change(&job, plan_of(&engine, &types.counts(condition, "fail"), &at(tasks))).expect("changed");
        assert_eq!(static_table(&done.changes), Fate::Kept, "{done:?}");
    }
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
    gate.finish(job);
    assert_eq!(rows(folder.path(), "results"), straight.rows());
}

#[test]
fn a_change_that_cannot_be_made_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Engine::default();
    let sql = format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", "TRUE"));
    let other = format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", "event_time > 0"));
    let without = settings(None, 1);
    let job = engine.run(&sql, &without).expect("a job");
    let error = change(&job, plan_of(&engine, &other, &without)).expect_err("no checkpoints").to_string();
    assert!(error.contains("keeps no checkpoints") && error.contains("checkpoint-directory"), "{error}");
    drop(job);
    let job = engine.run(&sql, &settings(Some(&folder.path().join("a")), 1)).expect("a job");
    let elsewhere = settings(Some(&folder.path().join("b")), 1);
    let error = change(&job, plan_of(&engine, &other, &elsewhere)).expect_err("another place").to_string();
    assert!(error.contains("changes checkpoint-directory, which cannot change while a job runs"), "{error}");
    job.stop();
    let error = change(&job, plan_of(&engine, &other, &settings(Some(&folder.path().join("a")), 1)));
    let error = error.expect_err("it stops").to_string();
    assert!(error.contains("is being stopped") || error.contains("the job ended"), "{error}");
    finish(job);
}

/// Whatever key groups a task owns: rows reach their owner, and state goes with its key groups.
#[test]
fn key_groups_go_to_other_tasks_while_a_job_runs_and_no_result_is_lost_or_doubled() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let engine = gate.engine();
    let by = "SUBSTRING(ad_id, 1, 2)";
    let text = |table| format!("{EVENTS}{}", counts(folder.path(), table, by, "TRUE"));
    let straight = Engine::default().run(&text("straight"), &settings(None, 1)).expect("a job");
    let with = |shares: &str, parallelism| {
        let mut settings = settings(Some(&folder.path().join("checkpoints")), parallelism);
        settings.set.push(("stage-key-groups".to_owned(), shares.to_owned()));
        settings
    };
    let job = engine.run(&text("results"), &with("", 3)).expect("a job");
    let balanced = |shares, parallelism| plan_of(&engine, &text("results"), &with(shares, parallelism));
    let mut version = 1;
    for (shares, parallelism) in [
        ("aggregate=1+100+27", 3),
        ("aggregate=126+1+1", 3),
        ("aggregate=64+64", 2),
        ("aggregate=3+125", 2),
        ("aggregate=3+125", 4),
        ("aggregate=1+1+1+125", 4),
        ("", 3),
    ] {
        let seen = rows(folder.path(), "results").len();
        gate.wait_for_rows(folder.path(), "results", seen);
        let done = change(&job, balanced(shares, parallelism)).expect("changed");
        version += 1;
        assert_eq!((done.version.0, done.unchanged), (version, false), "{shares}");
        let same = change(&job, balanced(shares, parallelism)).expect("the same");
        assert!(same.unchanged, "{shares}: {same:?}");
    }
    gate.finish(job);
    finish(straight);
    assert_eq!(rows(folder.path(), "results"), rows(folder.path(), "straight"));
}
