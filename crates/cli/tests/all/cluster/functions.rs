//! Functions that are declared otherwise in all running jobs that use them.

use std::path::Path;

use super::changes::lines;
use super::{rows, script};
use crate::harness::{Cluster, file};

const FUNCTION: &str = "CREATE FUNCTION shown(id STRING) RETURNS STRING RETURN CONCAT('old-', id);";

/// A job that shows its rows by an expression, with the function declared.
fn job(folder: &Path, expression: &str) -> String {
    let text = script(folder, None, 1000).replace("SELECT ad_id,", &format!("SELECT {expression},"));
    format!("{FUNCTION}\n{text}")
}

fn has_rows(folder: &Path, prefix: &str) -> bool {
    lines(folder).iter().any(|line| line.starts_with(prefix))
}

#[test]
fn a_function_is_replaced_in_all_running_jobs_that_use_it() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 4);
    let by_view = "CREATE FUNCTION twice(id STRING) RETURNS STRING RETURN CONCAT(SHOWN(id), id);\n";
    let names = ["first", "second", "without"];
    let folders = names.map(|name| folder.path().join(name));
    for (name, expression) in names.iter().zip(["shown(ad_id)", "twice(ad_id)", "ad_id"]) {
        let text = job(&folder.path().join(name), expression)
            .replace("CREATE TABLE events", &format!("{by_view}CREATE TABLE events"));
        let job = file(folder.path(), &format!("{name}.sql"), &text);
        cluster.ok(&["submit", &job, "--parallelism", "1", "--set", "checkpoint-interval=100 ms"]);
    }
    cluster.until("rows of all jobs", || folders.iter().all(|folder| rows(folder) > 0));

    let of_texts = file(
        folder.path(),
        "shown.sql",
        "CREATE OR REPLACE FUNCTION shown(id STRING) RETURNS STRING\n  RETURN CONCAT('new-', id);",
    );
    let rehearsed = cluster.ok(&["alter", "--function", &of_texts, "--dry-run"]);
    for part in ["job first uses shown", "job second uses shown", "kept  source", "nothing was changed"] {
        assert!(rehearsed.contains(part), "{part}: {rehearsed}");
    }
    assert!(!rehearsed.contains("without"), "{rehearsed}");
    cluster.refused(&["alter", "--function", &of_texts], 2, "add --yes to change them without a question");
    let of_numbers = file(
        folder.path(),
        "numbers.sql",
        "CREATE OR REPLACE FUNCTION shown(id BIGINT) RETURNS STRING RETURN CAST(id AS STRING);",
    );
    let parts =
        ["job 'first': line ", "argument 'id' of shown is BIGINT, not STRING", "| ", "CONCAT(SHOWN(id), id)", "^"];
    cluster.refused_with(&["alter", "--function", &of_numbers, "--yes"], 2, &parts);
    let dropped = file(folder.path(), "dropped.sql", "DROP FUNCTION shown;");
    cluster.refused(&["alter", "--function", &dropped, "--yes"], 2, "used by running jobs: 'first', 'second'");
    for name in names {
        assert!(cluster.ok(&["changes", name]).contains("no changes"), "{name}");
    }
    assert!(folders.iter().all(|folder| !has_rows(folder, "new-")));

    let replaced = cluster.ok(&["alter", "--function", &of_texts, "--yes"]);
    for part in ["job first: version 2 of its plan runs; the change took", "job second: version 2"] {
        assert!(replaced.contains(part), "{part}: {replaced}");
    }
    cluster.until("rows by the new function", || folders[..2].iter().all(|folder| has_rows(folder, "new-")));
    assert!(cluster.ok(&["changes", "second"]).contains("function shown"));
    assert!(cluster.ok(&["changes", "without"]).contains("no changes"));
    for (number, name) in names.iter().enumerate() {
        assert_eq!(cluster.ok(&["show", name]).contains("new-"), number < 2, "{name}");
        assert!(!cluster.ok(&["show", name]).contains("restarted after"), "nothing has failed");
    }

    // One job that cannot take the function keeps it from all: the text of `second` has another one of its
    // own.
    let of_second = "CREATE OR REPLACE FUNCTION twice(id STRING) RETURNS BIGINT RETURN CHAR_LENGTH(id);\n
        CREATE OR REPLACE FUNCTION shown(id STRING) RETURNS STRING RETURN id;";
    let of_second = file(folder.path(), "of_second.sql", of_second);
    cluster.refused(&["alter", "--function", &of_second, "--yes"], 2, "job 'second': line ");
    assert!(cluster.ok(&["show", "first"]).contains("new-"), "the other job is as it was");
    let unused =
        file(folder.path(), "unused.sql", "CREATE OR REPLACE FUNCTION other(a BIGINT) RETURNS BIGINT RETURN a;");
    assert!(cluster.ok(&["alter", "--function", &unused]).contains("no running job uses these functions"));

    // A restarted coordinator has the jobs with their new functions.
    cluster.kill_coordinator(0);
    cluster.start_coordinator(0);
    cluster.until("they run", || names.iter().all(|name| cluster.state(name) == "running"));
    cluster.until("the plan", || cluster.ok(&["show", "first"]).contains("new-"));
}
