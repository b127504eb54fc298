//! A cluster by hand: a coordinator, workers and commands as processes of their own.

mod autoscale;
mod balance;
mod changes;
mod functions;
mod local_state;
mod log;
mod moves;
mod sql;

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Cluster, Machines, SECRET, TOKEN, file, free, text};

/// Events into files: `rows` of them, so many per second.
fn script(folder: &Path, rows: Option<u64>, per_second: u64) -> String {
    let rows = rows.map(|rows| format!(", 'number-of-rows' = '{rows}'")).unwrap_or_default();
    format!(
        "CREATE TABLE events (ad_id STRING, event_time BIGINT) WITH ('connector' = 'ad_events', 'seed' = '1',
           'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '{per_second}'{rows});
         CREATE TABLE out_rows (ad_id STRING, event_time BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}/out',
           'format' = 'csv');
         INSERT INTO out_rows SELECT ad_id, event_time FROM events;",
        folder.display()
    )
}

/// Rows that are visible in the files of a job.
fn rows(folder: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(folder.join("out")) else { return 0 };
    let is_part = |path: &Path| path.extension().is_some_and(|extension| extension == "csv");
    let paths = files.flatten().map(|file| file.path()).filter(|path| is_part(path));
    paths.map(|path| std::fs::read_to_string(path).expect("text").lines().count()).sum()
}

#[test]
fn jobs_are_submitted_shown_stopped_and_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 2);
    cluster.worker("second", 2);
    cluster.until("both workers", || cluster.ok(&["jobs"]).contains("second"));

    let finite = file(folder.path(), "finite.sql", &script(folder.path(), Some(3000), 3000));
    let submitted = cluster.ok(&["submit", &finite, "--parallelism", "4"]);
    assert!(submitted.contains("job finite was submitted"), "{submitted}");
    let endless = folder.path().join("endless");
    let endless = file(folder.path(), "endless.sql", &script(&endless, None, 500));
    cluster.ok(&["submit", &endless, "--name", "endless", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("the end of the finite job", || cluster.state("finite") == "ended");
    assert_eq!(rows(folder.path()), 3000);

    cluster.until("a checkpoint", || cluster.ok(&["show", "endless"]).contains("the last one, of epoch"));
    let slowest = |line: &str| {
        let (phases, task) = line.split_once("; the slowest: stage ").unwrap_or_default();
        let has_phases = ["request ", "alignment ", "write ", "commit "].iter().all(|phase| phases.contains(phase));
        has_phases && (task.contains(" at first, ") || task.contains(" at second, "))
    };
    cluster.until("its phases", || cluster.ok(&["show", "endless"]).lines().any(slowest));
    let shown = cluster.ok(&["show", "endless"]);
    for part in ["job endless: running", "stage 0: source events", "WORKER", "first", "second", "sink out_rows"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let listed = cluster.ok(&["jobs"]);
    assert!(listed.contains("endless  running") && listed.contains("finite   ended"), "{listed}");
    let savepoint = folder.path().join("savepoint");
    let taken = cluster.ok(&["savepoint", "endless", savepoint.to_str().expect("text")]);
    assert!(taken.contains("savepoint of job endless at the end of epoch"), "{taken}");
    assert!(savepoint.join("savepoint.json").exists());

    cluster.refused(&["submit", &endless, "--name", "endless"], 2, "there is a job 'endless' already, which runs");
    cluster.refused(&["submit", &finite], 2, "there is a job 'finite' already, which has ended");
    cluster.refused(&["show", "other"], 2, "there is no job 'other'\nhelp: the jobs are: 'endless', 'finite'");
    cluster.refused(&["stop", "finite"], 2, "the job 'finite' has ended");
    cluster.refused(&["savepoint", "finite", "/tmp/none"], 2, "anabranch remove finite");
    let wrong = file(
        folder.path(),
        "wrong.sql",
        "CREATE TABLE a (b INT) WITH ('connector' = 'blackhole');\nINSERT INTO a\nSELECT c FROM a;",
    );
    let [told, by_run] =
        [&["submit", &wrong][..], &["run", &wrong]].map(|arguments| cluster.command(arguments).output().expect("runs"));
    assert_eq!((told.status.code(), text(&told.stderr)), (Some(2), text(&by_run.stderr)), "as `run` shows it");
    let printing = std::fs::read_to_string(&finite).expect("text").replace("'filesystem'", "'print'");
    let printing =
        printing.replace(&format!(", 'path' = '{}/out',", folder.path().display()), "").replace("'format' = 'csv'", "");
    cluster.refused(&["submit", &file(folder.path(), "printing.sql", &printing)], 2, "anabranch run or sql");

    cluster.refused(&["remove", "endless"], 2, "the job 'endless' runs");
    assert_eq!(cluster.ok(&["stop", "endless"]), "job endless has stopped\n");
    assert_eq!(cluster.state("endless"), "stopped");
    cluster.ok(&["submit", &endless, "--name", "endless", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("it runs again", || cluster.state("endless") == "running");
    let notices = cluster.ok(&["logs", "endless"]);
    assert!(notices.contains("resumes from the checkpoint of epoch"), "{notices}");
    let watched = [&["top", "endless"][..], &["logs", "endless", "--follow"]].map(|arguments| cluster.begin(arguments));
    cluster.until("a line of the view", || watched[0].said().contains("events/s"));
    assert_eq!(cluster.ok(&["cancel", "endless"]), "job endless was cancelled\n");
    for command in watched {
        assert_eq!(command.end(), Some(0), "a command that watches a job ends with the job");
    }
    assert_eq!(cluster.state("endless"), "cancelled");
    jobs_that_are_over_are_removed(&cluster, folder.path(), (&endless, &finite));
}

fn jobs_that_are_over_are_removed(cluster: &Cluster, folder: &Path, (endless, finite): (&str, &str)) {
    cluster.ok(&["submit", endless, "--name", "endless"]);
    assert_eq!(cluster.ok(&["stop", "endless", "--no-wait"]), "job endless stops at the end of an epoch\n");
    cluster.until("the stop", || cluster.state("endless") == "stopped");
    cluster.refused(&["remove", "endless"], 2, "anabranch remove endless --discard-state");
    // Another job goes on where it has stopped.
    let place = format!("checkpoint-directory={}", folder.join("store/jobs/endless").display());
    cluster.ok(&["submit", endless, "--name", "next", "--set", &place]);
    cluster.refused(&["remove", "endless", "--discard-state"], 2, "the job 'next' keeps its checkpoints there, too");
    cluster.ok(&["stop", "next"]);
    cluster.refused(&["remove", "endless", "--discard-state"], 2, "stop and remove that one first");
    cluster.ok(&["remove", "next", "--discard-state"]);
    assert_eq!(cluster.ok(&["remove", "endless", "--discard-state"]), "job endless was removed\n");
    // A job that has come to its end cannot resume: its name is free at once, and the new job starts over.
    assert_eq!(cluster.ok(&["remove", "finite"]), "job finite was removed\n");
    assert!(cluster.ok(&["jobs"]).contains("no jobs"));
    std::fs::remove_dir_all(folder.join("out")).expect("removed");
    cluster.ok(&["submit", finite]);
    cluster.until("its end", || cluster.state("finite") == "ended");
}

#[test]
fn a_worker_that_starts_before_its_coordinator_waits_for_it() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.kill_coordinator(0);
    let listen = cluster.listen();
    let arguments = ["worker", "--coordinator", &listen, "--name", "early", "--slots", "1"];
    cluster.refused(&[&arguments[..], &["--wait", "0"]].concat(), 1, "see whether the process runs that listens there");
    let early = cluster.begin(&[&arguments[..], &["--wait", "2min"]].concat());
    cluster.until("the notice", || early.said().contains("no coordinator answers yet: waits for one"));
    cluster.start_coordinator(0);
    cluster.until("the worker", || cluster.ok(&["jobs"]).contains("early"));
}

/// The number of tasks at a worker.
fn tasks_at(cluster: &Cluster, worker: &str) -> usize {
    let listed = cluster.ok(&["jobs"]);
    let line = listed.lines().find(|line| line.starts_with(worker)).unwrap_or_default();
    line.split_whitespace().nth(4).and_then(|tasks| tasks.parse().ok()).unwrap_or_else(|| panic!("{worker}: {listed}"))
}

#[test]
fn small_jobs_are_spread_over_the_workers() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    for name in ["first", "second", "third"] {
        cluster.worker(name, 2);
    }
    cluster.until("the workers", || cluster.ok(&["jobs"]).matches("127.0.0.1:").count() == 3);
    let submit = |name: &str| {
        let job = file(folder.path(), "job.sql", &script(&folder.path().join(name), None, 10));
        cluster.ok(&["submit", &job, "--name", name, "--parallelism", "1"]);
        cluster.until("its start", || cluster.state(name) == "running");
    };
    let names = ["a", "b", "c", "d", "e", "f"];
    let even = || ["first", "second", "third"].iter().all(|worker| tasks_at(&cluster, worker) == 2);
    names.into_iter().for_each(submit);
    cluster.until("two tasks at each worker", even);
    // What is free again is used first.
    let shown = |name: &str| cluster.ok(&["show", name]);
    let gone: Vec<_> = names.into_iter().filter(|name| shown(name).contains("second")).collect();
    gone.iter().for_each(|name| drop(cluster.ok(&["stop", name])));
    cluster.until("the stops", || gone.iter().all(|name| cluster.state(name) == "stopped"));
    cluster.until("its last task", || tasks_at(&cluster, "second") == 0);
    ["g", "h"].into_iter().for_each(submit);
    cluster.until("two tasks at each worker again", even);
}

#[test]
fn a_coordinator_that_is_killed_and_starts_again_goes_on_with_its_jobs() {
    for workers_go_too in [false, true] {
        let folder = tempfile::tempdir().expect("folder");
        let mut cluster = Cluster::start(folder.path());
        cluster.worker("only", 2);
        let job = file(folder.path(), "job.sql", &script(folder.path(), Some(20_000), 4000));
        cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
        cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
        cluster.kill_coordinator(0);
        let before = rows(folder.path());
        assert!(before < 20_000, "the job has ended too early for this test");
        cluster.refused(&["jobs"], 1, "anabranch coordinator --store");
        if workers_go_too {
            cluster.kill_workers();
        }
        cluster.start_coordinator(0);
        if workers_go_too {
            cluster.worker("next", 2);
        }
        assert!(cluster.has_said(0, "info job resumes job=job"));
        cluster.until("the job's end", || cluster.state("job") == "ended");
        assert_eq!(rows(folder.path()), 20_000);
        let shown = cluster.ok(&["show", "job"]);
        // On a busy machine the lease of the tasks may be over before it has started again.
        assert!(shown.contains("incarnation 2") || !workers_go_too, "{shown}");
    }
}

/// What happens to the coordinator that leads.
enum Fault {
    Killed,
    Frozen,
    Stopped,
}

#[test]
fn when_the_leading_coordinator_is_gone_another_one_adopts_the_tasks_as_they_run() {
    for fault in [Fault::Killed, Fault::Frozen, Fault::Stopped] {
        let folder = tempfile::tempdir().expect("folder");
        let mut cluster = Cluster::of(folder.path(), 2);
        assert!(cluster.has_said(1, "info stands by leader=127.0.0.1:"));
        cluster.worker("first", 1);
        cluster.worker("second", 1);
        let job = file(folder.path(), "job.sql", &script(folder.path(), Some(24_000), 3000));
        cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
        cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
        match fault {
            Fault::Killed => cluster.kill_coordinator(0),
            Fault::Frozen => cluster.signal(0, "STOP"),
            Fault::Stopped => cluster.stop_coordinator(0),
        }
        cluster.until("the new leader", || cluster.has_said(1, "warn leader does not answer"));
        let before = rows(folder.path());
        cluster.until("further checkpoints", || rows(folder.path()) > before + 1000);
        let notices = cluster.ok(&["logs", "job"]);
        assert!(notices.contains("this coordinator has adopted the tasks of incarnation 1"), "{notices}");
        match fault {
            Fault::Frozen => {
                cluster.signal(0, "CONT");
                cluster.until("the old leader's insight", || cluster.has_said(0, "warn another coordinator leads"));
            }
            Fault::Killed | Fault::Stopped => cluster.start_coordinator(0),
        }
        cluster.until("that it stands by", || cluster.has_said(0, "info stands by leader="));
        cluster.until("the job's end", || cluster.state("job") == "ended");
        assert_eq!(rows(folder.path()), 24_000);
        let shown = cluster.ok(&["show", "job"]);
        assert!(shown.contains("incarnation 1") && !shown.contains("restarted after"), "{shown}");
    }
}

#[test]
fn a_job_whose_worker_is_killed_waits_for_slots_and_goes_on_with_another_worker() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 2);
    let job = file(folder.path(), "job.sql", &script(folder.path(), Some(12_000), 4000));
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    cluster.kill_workers();
    cluster.until("the wait for workers", || cluster.state("job") == "waiting");
    let shown = cluster.ok(&["show", "job"]);
    for part in
        ["it waits for workers: 2 more slots are needed for source events", "restarted after: worker first is lost"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Nothing runs that could stop at the end of an epoch.
    cluster.ok(&["stop", "job"]);
    cluster.until("the stop", || cluster.state("job") == "stopped");
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.worker("second", 2);
    cluster.until("the job's end", || cluster.state("job") == "ended");
    assert_eq!(rows(folder.path()), 12_000);
}

#[test]
fn a_coordinator_that_is_stopped_keeps_its_jobs_and_workers() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("only", 1);
    let job = file(folder.path(), "job.sql", &script(folder.path(), None, 500));
    cluster.ok(&["submit", &job, "--parallelism", "1"]);
    cluster.until("it runs", || cluster.state("job") == "running");
    cluster.stop_coordinator(0);
    cluster.start_coordinator(0);
    cluster.until("it runs again", || cluster.state("job") == "running");
    cluster.until("its task", || cluster.ok(&["show", "job"]).contains("only"));
    assert!(cluster.ok(&["show", "job"]).contains("incarnation 2"));
    cluster.ok(&["stop", "job"]);
    cluster.until("the stop", || cluster.state("job") == "stopped");
}

/// The stop that it has asked of the tasks is for its own end. The next one finds them stopping.
#[test]
fn a_coordinator_that_is_killed_while_it_stops_its_jobs_leaves_them_to_the_next_one() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("only", 1);
    let job = file(folder.path(), "job.sql", &script(folder.path(), None, 500));
    cluster.ok(&["submit", &job, "--parallelism", "1", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    // The tasks take the order to stop when the coordinator that gave it is dead.
    cluster.signal_worker(0, "STOP");
    cluster.signal(0, "TERM");
    cluster.until("the end", || cluster.has_said(0, "stopping all jobs"));
    anabranch_model::pause(std::time::Duration::from_millis(100));
    cluster.kill_coordinator(0);
    cluster.start_coordinator(0);
    let before = rows(folder.path());
    cluster.signal_worker(0, "CONT");
    cluster.until("further rows", || rows(folder.path()) > before + 1000);
    assert_eq!(cluster.state("job"), "running");
}

#[test]
fn a_request_to_stop_outlives_the_coordinator_that_has_taken_it() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    let job = file(folder.path(), "job.sql", &script(folder.path(), None, 500));
    cluster.worker("only", 1);
    let epochs = ["--set", "epoch-interval=5 s", "--set", "checkpoint-interval=1 s"];
    cluster.ok(&[&["submit", &job, "--parallelism", "1"][..], &epochs].concat());
    cluster.until("it runs", || cluster.state("job") == "running");
    cluster.ok(&["stop", "job"]);
    let records = folder.path().join("store/submitted");
    let text = || {
        let files = std::fs::read_dir(&records).expect("records").flatten().map(|file| file.path());
        let whole = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        whole.filter_map(|path| std::fs::read_to_string(path).ok()).collect::<String>()
    };
    cluster.until("the record", || text().contains("\"stop_requested\": true"));
    cluster.kill_coordinator(0);
    cluster.start_coordinator(0);
    cluster.until("the stop", || cluster.state("job") == "stopped");
}

#[test]
fn what_keeps_a_coordinator_or_a_command_from_its_work_is_told() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    let other = folder.path().join("other");
    let other = other.to_str().expect("text");
    let http = cluster.http().replace("http://", "");
    cluster.refused(&["coordinator", "--store", other, "--listen", "127.0.0.1:0", "--http", &http], 1, "--http");
    let listen = cluster.listen();
    cluster.refused(&["coordinator", "--store", other, "--listen", &listen, "--http", "127.0.0.1:0"], 1, "--listen");
    let open = ["coordinator", "--store", other, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"];
    cluster.refused(&open, 2, "add --tls-cert FILE --tls-key FILE");
    let mut without = cluster.command(&["coordinator", "--store", other]);
    let without = without.env_remove(TOKEN).output().expect("runs");
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("export ANABRANCH_TOKEN="), "{}", text(&without.stderr));

    let wrong = cluster.command(&["jobs"]).env(TOKEN, "0000000000000000").output().expect("runs");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("needs the token"), "{}", text(&wrong.stderr));
    let unknown = format!("http://{}", free());
    cluster.refused(&["jobs", "--coordinator", &unknown], 1, &format!("no coordinator answers at {unknown}"));
    cluster.refused(&["jobs", "--coordinator", "127.0.0.1"], 2, "give http://HOST:PORT");
    cluster.refused(&["jobs", "--coordinator", &format!("http://{listen}")], 1, "is no coordinator");
    assert!(cluster.ok(&["jobs"]).contains("no jobs: submit one"));
    assert!(cluster.ok(&["jobs"]).contains("no workers: start some"));

    cluster.worker("twin", 1);
    cluster.until("the worker", || cluster.ok(&["jobs"]).contains("twin"));
    let twin = ["worker", "--coordinator", &listen, "--name", "twin"];
    cluster.refused(&twin, 1, "there is a worker twin already");
}

#[test]
fn a_coordinator_and_a_worker_end_when_the_process_that_started_them_closes_their_input() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    let listen = cluster.listen();
    let mut worker = cluster.child(&["worker", "--coordinator", &listen, "--name", "child", "--end-with-parent"]);
    cluster.until("the worker", || cluster.ok(&["jobs"]).contains("child"));
    worker.close_input();
    assert_eq!(worker.end(), Some(130));
    cluster.until("its end at the coordinator", || cluster.ok(&["jobs"]).contains("no workers"));

    cluster.stop_coordinator(0);
    let (store, http) = (folder.path().join("store"), cluster.http());
    let store = store.to_str().expect("text");
    let http = http.trim_start_matches("http://");
    let arguments = ["coordinator", "--store", store, "--listen", &listen, "--http", http, "--end-with-parent"];
    let mut coordinator = cluster.child(&arguments);
    cluster.until("the coordinator", || coordinator.said().contains("workers connect to"));
    coordinator.close_input();
    assert_eq!(coordinator.end(), Some(130));
}

#[test]
fn a_command_waits_for_a_coordinator_that_starts() {
    let folder = tempfile::tempdir().expect("folder");
    let [listen, http] = [free(), free()];
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["jobs", "--coordinator", &format!("http://{http}")]).env(TOKEN, SECRET);
    let early = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let store = folder.path().join("store");
    let machines: Machines = Box::new(|_, program| Command::new(program));
    let _cluster = Cluster::with(store.to_str().expect("text"), machines, None, vec![[listen, http]]);
    let output = early.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
}
