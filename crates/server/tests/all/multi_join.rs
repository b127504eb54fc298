//! Joins of several streams that are carried out at once, but for jobs that resume from a checkpoint with
//! joins of two.

use std::collections::BTreeSet;
use std::path::Path;

use crate::live::{finish, plan_of, rows, settings, wait_for};
use anabranch_dataflow::OperatorSpec;
use anabranch_model::StageId;
use anabranch_server::{Engine, Fate, Moves, Plan, Reconfigure};

/// The numbers of inputs of the joins.
fn joins(plan: &Plan) -> Vec<usize> {
    let joins = plan.stages.iter().filter_map(|stage| match stage.operators.first()? {
        OperatorSpec::StreamJoin(_) => Some(2),
        OperatorSpec::MultiJoin(spec) => Some(spec.inputs.len()),
        _ => None,
    });
    joins.collect()
}

fn at_once(plan: &Plan) -> BTreeSet<StageId> {
    plan.stages.iter().filter(|stage| stage.multi_join().is_some()).map(|stage| stage.id).collect()
}

/// Rows of so many tables that come for some seconds, one for each number, and their join into files.
fn script(folder: &Path, tables: usize) -> String {
    let table = |number: usize| {
        format!(
            "CREATE TABLE t{number} (k BIGINT, v BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1500', 'number-of-rows' = '10000',
               'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '10000',
               'fields.v.kind' = 'sequence', 'fields.v.start' = '{number}', 'fields.v.end' = '{}');",
            10000 + number - 1
        )
    };
    let join = |number: usize| format!(" JOIN t{number} ON t{number}.k = t0.k AND t{number}.v > t0.v");
    format!(
        "SET 'execution.runtime-mode' = 'streaming'; {}CREATE TABLE joined (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO joined SELECT t0.k, t{}.v FROM t0{};",
        (0..tables).map(table).collect::<String>(),
        folder.join("joined").display(),
        tables - 1,
        (1..tables).map(join).collect::<String>()
    )
}

fn expected(tables: i64) -> BTreeSet<String> {
    (1..=10000).map(|k| format!("{{\"k\":{k},\"v\":{}}}", k + tables - 2)).collect()
}

/// A job that has begun with joins of two streams resumes, changes, and resumes again: its joins of two
/// streams keep their state.
#[test]
fn a_job_with_joins_of_two_streams_keeps_them() {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Engine::default();
    let settings = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let sql = script(folder.path(), 3);
    let plan = plan_of(&engine, &sql, &settings(2));
    let former = plan.with_joins_of_two(&at_once(&plan));
    assert_eq!((joins(&plan), joins(&former)), (vec![3], vec![2, 2]));
    let visible = |count: usize| wait_for("waited for results", &|| rows(folder.path(), "joined").len() > count);

    let job = engine.start(&former).expect("a job");
    visible(300);
    drop(job);
    let job = engine.run(&sql, &settings(3)).expect("it resumes");
    visible(2000);
    let plan = plan_of(&engine, &sql.replace("t2.v > t0.v", "t2.v >= t0.v + 2"), &settings(2));
    let request =
        Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
    let changed = job.reconfigure(request).expect("another condition");
    assert!(changed.changes.iter().all(|change| change.fate == Fate::Kept), "{changed:?}");
    visible(4000);
    drop(job);
    finish(engine.run(&sql, &settings(1)).expect("it resumes again"));
    assert_eq!(rows(folder.path(), "joined"), expected(3));
}

/// A job changes its number of tasks and a condition, resumes, and keeps the state of its join.
#[test]
fn a_join_of_three_streams_resumes_with_any_number_of_tasks() {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Engine::default();
    let settings = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
    let sql = script(folder.path(), 3);
    let visible = |count: usize| wait_for("waited for results", &|| rows(folder.path(), "joined").len() > count);

    let job = engine.run(&sql, &settings(2)).expect("a job");
    visible(300);
    let plan = plan_of(&engine, &sql.replace("t2.v > t0.v", "t2.v >= t0.v + 2"), &settings(3));
    assert_eq!(joins(&plan), [3]);
    let request =
        Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
    let changed = job.reconfigure(request).expect("more tasks");
    assert!(changed.changes.iter().all(|change| change.fate == Fate::Kept), "{changed:?}");
    visible(2000);
    drop(job);
    finish(engine.run(&sql, &settings(1)).expect("it resumes"));
    assert_eq!(rows(folder.path(), "joined"), expected(3));
}

/// A query gets a further table: what it had of the others is kept, in the join that has their rows.
#[test]
fn a_table_that_is_added_leaves_the_join_of_the_others_as_it_is() {
    for (before, added) in [(2, 2), (3, 1)] {
        let folder = tempfile::tempdir().expect("folder");
        let engine = Engine::default();
        let settings = settings(Some(&folder.path().join("checkpoints")), 2);
        let job = engine.run(&script(folder.path(), before), &settings).expect("a job");
        wait_for("waited for results", &|| rows(folder.path(), "joined").len() > 300);
        let plan = plan_of(&engine, &script(folder.path(), 4), &settings);
        assert_eq!(joins(&plan), [4]);
        let request =
            Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
        let changed = job.reconfigure(request).expect("a further table");
        let lost = changed.changes.iter().filter(|change| !matches!(change.fate, Fate::Kept | Fate::New));
        assert_eq!(lost.count(), 0, "{changed:?}");
        let new = changed.changes.iter().filter(|change| change.fate == Fate::New && change.what.starts_with("state"));
        assert_eq!(new.count(), added, "{changed:?}");
        // It is that of the same tables, not of what another join of these columns gives.
        assert!(changed.changes.iter().all(|change| !change.what.contains("now t0")), "{changed:?}");
    }
}

/// Two statements have the same join. The one that the job has had keeps its rows, wherever the other one is
/// in the text, and however its join was carried out.
#[test]
fn a_statement_with_the_same_join_takes_no_rows_of_another() {
    for (first, of_two) in [(true, true), (false, true), (true, false)] {
        let folder = tempfile::tempdir().expect("folder");
        let engine = Engine::default();
        let settings = |parallelism| settings(Some(&folder.path().join("checkpoints")), parallelism);
        let sql = script(folder.path(), 3);
        let (tables, insert) = sql.split_at(sql.find("INSERT").expect("a statement"));
        let table = tables.split_at(tables.find("CREATE TABLE joined").expect("a table")).1.replace("joined", "others");
        let other = insert.replace("INTO joined", "INTO others").replace("t2.v > t0.v", "t2.v > t0.v + 1");
        let both =
            if first { format!("{tables}{table}{insert}{other}") } else { format!("{tables}{table}{other}{insert}") };
        let visible = |count: usize| wait_for("waited for results", &|| rows(folder.path(), "joined").len() > count);

        let plan = plan_of(&engine, &sql, &settings(2));
        let job = engine.start(&if of_two { plan.with_joins_of_two(&at_once(&plan)) } else { plan }).expect("a job");
        visible(300);
        let plan = plan_of(&engine, &both, &settings(2));
        assert_eq!(joins(&plan), [3, 3]);
        let request =
            Reconfigure { plan, moves: Moves::default(), allow_lost_state: false, allow_late: false, dry_run: false };
        let changed = job.reconfigure(request).expect("another statement");
        let new = changed.changes.iter().filter(|change| change.fate == Fate::New && change.what.starts_with("state"));
        assert_eq!(new.count(), 1, "{changed:?}");
        visible(2000);
        drop(job);
        let job = engine.run(&both, &settings(3)).expect("it resumes");
        visible(3000);
        drop(job);
        finish(engine.run(&both, &settings(1)).expect("it resumes again"));
        assert_eq!(rows(folder.path(), "joined"), expected(3), "{first} {of_two}");
        assert!(rows(folder.path(), "others").is_subset(&expected(3)));
    }
}
