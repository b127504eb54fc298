//! Several statements that read one table: it is read once, but for jobs that resume from a checkpoint with
//! more sources.

use std::collections::BTreeSet;
use std::path::Path;

use crate::live::{EVENTS, counts, finish, plan_of, rows, settings, wait_for};
use anabranch_model::StageId;
use anabranch_server::{Engine, Fate, Job, Moves, Plan, Reconfigure};

fn shared(plan: &Plan) -> BTreeSet<StageId> {
    plan.shared_sources().map(|stage| stage.id).collect()
}

/// Stages of a running job that read a table.
fn running(job: &Job) -> usize {
    let sources = job.metrics().into_iter().filter(|task| task.is_source).map(|task| task.task.stage);
    sources.collect::<BTreeSet<_>>().len()
}

fn sources(plan: &Plan) -> usize {
    plan.stages.iter().filter(|stage| stage.source.is_some()).count()
}

/// The job of a plan that gave each statement a source resumes, changes, and resumes again: no row is lost or
/// counted twice.
#[test]
fn a_job_with_a_source_per_statement_keeps_them() {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Engine::default();
    let statement = |table: &str, by: &str| counts(folder.path(), table, by, "TRUE");
    let expected = {
        let folder = tempfile::tempdir().expect("folder");
        let of = |table: &str, by: &str| counts(folder.path(), table, by, "TRUE");
        let sql = format!("{EVENTS}{}{}", of("types", "event_type"), of("ads", "SUBSTRING(ad_id, 1, 1)"));
        finish(engine.run(&sql, &settings(None, 2)).expect("a job"));
        ["types", "ads"].map(|table| rows(folder.path(), table))
    };
    let settings = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let both = format!("{EVENTS}{}{}", statement("types", "event_type"), statement("ads", "SUBSTRING(ad_id, 1, 1)"));
    let plan = plan_of(&engine, &both, &settings(2));
    let former = plan.with_own_sources(&shared(&plan));
    assert_eq!((sources(&plan), sources(&former), shared(&former).len()), (1, 2, 0));
    let visible = |count: usize| wait_for("waited for results", &|| rows(folder.path(), "types").len() > count);

    let job = engine.start(&former).expect("a job");
    visible(2);
    drop(job);
    let job = engine.run(&both, &settings(3)).expect("it resumes");
    assert_eq!(running(&job), 2);
    visible(10);
    let third = format!("{both}{}", statement("all", "'all'"));
    let plan = plan_of(&engine, &third, &settings(3));
    let request =
        Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
    let changed = job.reconfigure(request).expect("a statement is added");
    assert!(changed.changes.iter().all(|change| matches!(change.fate, Fate::Kept | Fate::New)), "{changed:?}");
    visible(20);
    drop(job);
    finish(engine.run(&third, &settings(1)).expect("it resumes again"));
    assert_eq!(["types", "ads"].map(|table| rows(folder.path(), table)), expected);
}

/// A statement that is added reads on with the source that is there: it gets the rows from the change on.
#[test]
fn a_statement_that_is_added_shares_the_source_from_the_change_on() {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Engine::default();
    let statement = |table: &str| counts(folder.path(), table, "event_type", "TRUE");
    let settings = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let first = format!("{EVENTS}{}", statement("first"));
    let both = format!("{first}{}", statement("second"));
    let job = engine.run(&first, &settings(2)).expect("a job");
    wait_for("waited for results", &|| rows(folder.path(), "first").len() > 6);
    let plan = plan_of(&engine, &both, &settings(2));
    let request =
        Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
    job.reconfigure(request).expect("a statement is added");
    assert_eq!(running(&job), 1);
    wait_for("waited for results", &|| rows(folder.path(), "second").len() > 3);
    // A crash, and another number of tasks.
    drop(job);
    finish(engine.run(&both, &settings(3)).expect("it resumes"));
    let (first, second) = (rows(folder.path(), "first"), rows(folder.path(), "second"));
    // Thirty windows of three kinds of events. One window contains the change.
    assert_eq!(first.len(), 90);
    assert!(second.len() < first.len() && second.difference(&first).count() <= 3, "{second:?} of {first:?}");
}

/// Two statements have one partial aggregate, at some numbers of tasks. Their state is found again at any,
/// and after a change.
#[test]
fn statements_that_share_a_partial_aggregate_keep_their_own_state() {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Engine::default();
    let settings = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let statement = |table: &str| counts(folder.path(), table, "event_type", "TRUE");
    let other = counts(folder.path(), "ads", "SUBSTRING(ad_id, 1, 1)", "TRUE");
    let two = format!("{EVENTS}{}{other}{}", statement("first"), statement("second"));
    let fewer = |parallelism| {
        let plan = plan_of(&engine, &two, &settings(parallelism));
        plan.stages.len() - plan.with_equal_stages_once().stages.len()
    };
    assert_eq!([1, 2, 3].map(fewer), [0, 1, 1]);
    let visible = |count: usize| wait_for("waited for results", &|| rows(folder.path(), "first").len() > count);
    let job = engine.run(&two, &settings(2)).expect("a job");
    visible(3);
    let plan = plan_of(&engine, &two, &settings(3));
    let request =
        Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
    let changed = job.reconfigure(request).expect("another number of tasks");
    assert!(changed.changes.iter().all(|change| change.fate == Fate::Kept), "{changed:?}");
    visible(20);
    drop(job);
    let job = engine.run(&two, &settings(1)).expect("it resumes");
    visible(40);
    drop(job);
    finish(engine.run(&two, &settings(2)).expect("it resumes again"));
    let first = rows(folder.path(), "first");
    assert_eq!((first.len(), &first), (90, &rows(folder.path(), "second")));
}

/// Lines of the visible files of a table, sorted.
fn lines(folder: &Path, table: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder.join(table)).into_iter().flatten().map(|entry| entry.expect("entry").path());
    let visible = files.filter(|path| !path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with('.')));
    let texts = visible.map(|path| std::fs::read_to_string(path).expect("text"));
    let mut lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.sort();
    lines
}

/// Some statements share a source, and one reads the table by the clock with a source of its own. Each source
/// finds its positions again at each start, whatever the number of tasks.
#[test]
fn a_table_that_is_read_in_several_ways_goes_on_with_each() {
    let events = EVENTS.replace("WATERMARK FOR", "now AS PROCTIME(), WATERMARK FOR");
    let script = |folder: &Path| {
        let table = |name: &str, columns: &str| {
            let path = folder.join(name).display().to_string();
            format!(
                "CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');"
            )
        };
        format!(
            "{events}{}{}{}{}
             INSERT INTO plain SELECT ad_id, event_time FROM events WHERE event_type = 'view';
             INSERT INTO clock SELECT window_start, COUNT(*), SUM(event_time - 1767225600000)
               FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(now), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end;
             INSERT INTO ads SELECT SUBSTRING(ad_id, 1, 1), COUNT(*), SUM(event_time - 1767225600000)
               FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(now), INTERVAL '0.3' SECOND))
               GROUP BY window_start, window_end, SUBSTRING(ad_id, 1, 1);",
            counts(folder, "types", "event_type", "TRUE"),
            table("plain", "ad_id STRING, event_time BIGINT"),
            table("clock", "start_ts TIMESTAMP_LTZ(3), n BIGINT, t BIGINT"),
            table("ads", "k STRING, n BIGINT, t BIGINT"),
        )
    };
    let engine = Engine::default();
    // Of what depends on the clock, the sums do not.
    let sums = |folder: &Path, table: &str| {
        let number = |line: &str, name: &str| -> i64 {
            let from = line.find(name).expect("a column") + name.len();
            line[from..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
        };
        let of = |line: &String| (number(line, "\"n\":"), number(line, "\"t\":"));
        lines(folder, table).iter().map(of).fold((0, 0), |sum, (n, t)| (sum.0 + n, sum.1 + t))
    };
    let results =
        |folder: &Path| (lines(folder, "types"), lines(folder, "plain"), sums(folder, "clock"), sums(folder, "ads"));
    let folder = tempfile::tempdir().expect("folder");
    finish(engine.run(&script(folder.path()), &settings(None, 2)).expect("a job"));
    let expected = results(folder.path());
    assert_eq!((expected.2.0, expected.2), (30_000, expected.3));

    let folder = tempfile::tempdir().expect("folder");
    let settings = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let sql = script(folder.path());
    let plan = plan_of(&engine, &sql, &settings(2));
    let (of_all, of_several) = (sources(&plan), shared(&plan).len());
    // Event time of its rows, and of the clock.
    assert_eq!((of_all, of_several), (2, 2), "{plan}");
    let visible = |count: usize| wait_for("waited for results", &|| lines(folder.path(), "types").len() > count);
    for (parallelism, count) in [(2, 2), (3, 12), (1, 24)] {
        let job = engine.run(&sql, &settings(parallelism)).expect("it resumes");
        assert_eq!(running(&job), of_all);
        visible(count);
        drop(job);
    }
    let job = engine.run(&sql, &settings(1)).expect("it resumes");
    visible(36);
    let plan = plan_of(&engine, &sql, &settings(3));
    let request =
        Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
    let changed = job.reconfigure(request).expect("other tasks");
    assert!(changed.changes.iter().all(|change| change.fate == Fate::Kept), "{changed:?}");
    visible(48);
    assert_eq!(running(&job), of_all);
    drop(job);
    finish(engine.run(&sql, &settings(2)).expect("it resumes"));
    assert_eq!(results(folder.path()), expected);
}
