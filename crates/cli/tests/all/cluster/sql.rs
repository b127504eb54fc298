//! The shell of a coordinator: jobs are submitted, shown and changed by statements.

use std::io::Write as _;
use std::process::Stdio;

use tempfile::TempDir;

use super::changes::lines;
use super::{rows, script};
use crate::harness::{Cluster, text};

/// Runs a script in the shell. Returns the exit code, and what it prints and says.
fn shell(cluster: &Cluster, options: &[&str], script: &str) -> (Option<i32>, String, String) {
    let url = cluster.http();
    let arguments = [&["sql", "--coordinator", &url][..], options].concat();
    let mut command = cluster.command(&arguments);
    command.args(cluster.trust()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(script.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn ok(cluster: &Cluster, options: &[&str], script: &str) -> String {
    let (code, printed, said) = shell(cluster, options, script);
    assert_eq!(code, Some(0), "{printed}\n{said}");
    printed
}

fn refused(cluster: &Cluster, script: &str, parts: &[&str]) {
    let (code, _, said) = shell(cluster, &[], script);
    assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{code:?}: {said}");
}

/// The job ads, which a shell has submitted.
struct Ads {
    cluster: Cluster,
    folder: TempDir,
    /// Declarations.
    tables: String,
    insert: String,
}

const OPTIONS: &str = "SET 'job-name' = 'ads'; SET 'checkpoint-interval' = '100 ms'; SET 'parallelism' = '2';";

fn declares(prefix: &str) -> String {
    format!("CREATE OR REPLACE FUNCTION shown(id STRING) RETURNS STRING RETURN CONCAT('{prefix}', id);\n")
}

impl Ads {
    fn submit() -> Ads {
        let folder = tempfile::tempdir().expect("folder");
        let mut cluster = Cluster::start(folder.path());
        cluster.worker("first", 3);
        cluster.worker("second", 3);
        cluster.until("both workers", || cluster.has("first") && cluster.has("second"));
        let text = script(folder.path(), None, 2000);
        let (tables, insert) = text.split_once("INSERT").expect("an insert");
        let tables = format!("{}{tables}", declares("a-"));
        let insert = format!("INSERT{}", insert.replace("SELECT ad_id,", "SELECT shown(ad_id),"));
        let submitted = ok(&cluster, &[], &format!("SHOW JOBS;\n{OPTIONS}\n{tables}{insert}\nSHOW JOBS;"));
        assert!(submitted.contains("no jobs") && submitted.contains("job ads was submitted"), "{submitted}");
        let ads = Ads { cluster, folder, tables, insert };
        ads.until_rows("a-");
        ads
    }

    fn until_rows(&self, prefix: &str) {
        self.cluster.until("rows", || lines(self.folder.path()).iter().any(|line| line.starts_with(prefix)));
    }
}

#[test]
fn a_job_gets_another_text_and_other_functions_by_statements() {
    let ads = Ads::submit();
    let Ads { cluster, tables, insert, .. } = &ads;
    // The same text by another session, with another expression.
    let altered = insert.replace("shown(ad_id)", "CONCAT('b-', ad_id)");
    let alter = format!("{OPTIONS}\n{tables}EXPLAIN ALTER JOB ads AS {altered}\nALTER JOB ads AS {altered}");
    let changed = ok(cluster, &["--yes"], &alter);
    assert!(changed.contains("kept  source") && changed.contains("this was a dry run"), "{changed}");
    assert!(changed.contains("job ads: version 2 of its plan runs"), "{changed}");
    ads.until_rows("b-");
    // The interval that the session sets is sent too, and cannot change while the job runs.
    let other = OPTIONS.replace("100 ms", "7 s");
    refused(cluster, &format!("{other}\n{tables}ALTER JOB ads AS {altered}"), &["checkpoint-interval"]);
    let back = format!("{OPTIONS}\n{tables}ALTER JOB ads AS EXECUTE STATEMENT SET BEGIN {insert} END;");
    assert!(ok(cluster, &["--yes"], &back).contains("version 3 of its plan runs"));

    // A function that the job uses.
    assert!(ok(cluster, &[], &format!("EXPLAIN {}", declares("c-"))).contains("job ads uses shown"));
    refused(cluster, &declares("c-"), &["add --yes"]);
    assert!(ok(cluster, &["--yes"], &declares("c-")).contains("version 4 of its plan runs"));
    ads.until_rows("c-");

    let same = format!("{OPTIONS}\n{tables}{}", insert.replace("shown(ad_id)", "ad_id"));
    // The function is declared as the job has it, so nothing is asked.
    let tables = tables.replace("'a-'", "'c-'");
    let (code, _, said) = shell(cluster, &[], &same.replace("'a-'", "'c-'"));
    assert!(code == Some(2) && said.contains("SET 'job-name' = '...'"), "{said}");
    // A SELECT runs in the shell.
    let selected = ok(cluster, &[], &format!("{tables}SELECT COUNT(*) FROM (VALUES (1), (2));"));
    assert!(selected.contains('2'), "{selected}");
}

#[test]
fn a_job_is_shown_changed_and_stopped_by_statements() {
    let Ads { cluster, folder, .. } = &Ads::submit();
    let changes = "EXPLAIN ALTER JOB ads RESCALE 3; ALTER JOB 'ads' RESCALE 3;
        ALTER JOB ads MIGRATE TASK '0.0' TO second;
        ALTER JOB ads SET ('buffer-timeout' = '5 ms');
        EXPLAIN DRAIN WORKER second; DRAIN WORKER 'second';
        DESCRIBE JOB ads; SHOW CHANGES FOR JOB ads;";
    let changed = ok(cluster, &[], changes);
    for part in [
        "version 2 of its plan runs",
        "job ads would have no tasks at second",
        "job ads has no tasks at second",
        "job ads: running",
        "parallelism 3",
        "task 0.0 to second",
        "options buffer-timeout",
        "away from second",
    ] {
        assert!(changed.contains(part), "{part}: {changed}");
    }
    refused(
        cluster,
        "\nALTER JOB ads GROW 2;",
        &["line 2, column 15", "'GROW' is not expected here", "RESCALE <number>"],
    );
    refused(cluster, "ALTER JOB other RESCALE 2;", &["there is no job 'other'"]);
    refused(cluster, "ALTER JOB ads BALANCE;", &["no stage whose tasks own keys"]);
    refused(cluster, "ABORT CHANGE OF JOB ads;", &["no change"]);
    refused(cluster, "STOP JOB ads WITH SAVEPOINT;", &["anabranch savepoint PLACE DIRECTORY --last"]);
    refused(cluster, "EXPLAIN STOP JOB ads;", &["omit EXPLAIN"]);
    assert!(ok(cluster, &[], "STOP JOB ads;").contains("job ads has stopped"));
    cluster.until("its end", || cluster.state("ads") == "stopped");
    assert!(rows(folder.path()) > 0);
}

#[test]
fn without_a_coordinator_there_are_no_jobs() {
    let folder = tempfile::tempdir().expect("folder");
    let cluster = Cluster::start(folder.path());
    let mut command = cluster.command(&["sql"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(b"SHOW JOBS;").expect("written");
    let output = child.wait_with_output().expect("ends");
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("anabranch sql --coordinator URL"), "{said}");
}
