//! `run --workers N` with real processes, some of which are killed or stopped.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// Pause between two looks at what is awaited.
const LOOK: Duration = Duration::from_millis(20);

/// Counts of finite events by second: `rate` events per second, `rows` of them.
fn script(folder: &Path, rows: u64, rate: &str, sink: &str, checkpoints: bool) -> String {
    let place = folder.display();
    let durable = match checkpoints {
        true => format!("SET 'checkpoint-directory' = '{place}/checkpoints';\nSET 'checkpoint-interval' = '200 ms';\n"),
        false => String::new(),
    };
    format!(
        "{durable}CREATE TABLE events (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
             WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
         WITH ('connector' = 'ad_events', 'seed' = '1', 'start-time' = '2024-01-01T00:00:00Z', 'partitions' = '4',
               'number-of-rows' = '{rows}', 'rows-per-second' = '{rate}');
         CREATE TABLE counts (ad_id STRING, n BIGINT) WITH ({sink});
         INSERT INTO counts SELECT ad_id, COUNT(*)
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY ad_id, window_start, window_end;"
    )
}

fn into_files(folder: &Path) -> String {
    format!("'connector' = 'filesystem', 'path' = '{}/out', 'format' = 'json'", folder.display())
}

/// The results, in an order that does not depend on tasks.
fn results(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for file in std::fs::read_dir(folder.join("out")).expect("results").flatten() {
        if file.path().extension().is_some_and(|extension| extension == "json") {
            lines.extend(std::fs::read_to_string(file.path()).expect("text").lines().map(str::to_owned));
        }
    }
    lines.sort_unstable();
    lines
}

fn start(sql: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("run").arg(sql).args(["--plain", "-p", "4"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Reads to the end on a thread of its own.
fn read(name: &str, mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (said, heard) = channel();
    let read = move || {
        let mut text = String::new();
        // Bytes that are no text fail the test's assertions.
        let _ = from.read_to_string(&mut text);
        let _ = said.send(text);
    };
    std::thread::Builder::new().name(name.into()).spawn(read).expect("a thread");
    heard
}

/// Waits for the end. Returns whether it succeeded, its output, and its messages.
fn finish(mut child: Child) -> (bool, String, String) {
    let output = read("output", child.stdout.take().expect("piped"));
    let messages = read("messages", child.stderr.take().expect("piped")).recv_timeout(LIMIT);
    if messages.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().expect("it ends");
    (status.success(), output.recv_timeout(LIMIT).expect("output"), messages.expect("it hangs"))
}

/// Waits until something has come.
fn wait_for(what: &str, mut has_come: impl FnMut() -> bool) {
    let mut looks = 0;
    while !has_come() {
        looks += 1;
        assert!(LOOK * looks < LIMIT, "{what} does not come");
        anabranch_model::pause(LOOK);
    }
}

/// The processes of the workers of a job.
fn workers(job: &Child) -> Vec<u32> {
    // Children belong to the thread that started them.
    let threads = std::fs::read_dir(format!("/proc/{}/task", job.id())).expect("it runs").flatten();
    let of_thread = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children"));
    let all: String = threads.filter_map(|thread| of_thread(thread).ok()).collect();
    all.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().expect("kill");
    assert!(sent.success(), "{name} {process}");
}

/// Waits until the job's log has had this number of entries. Those that are not needed any more are removed.
fn await_checkpoints(folder: &Path, entries: u64) {
    let log = folder.join("checkpoints/log");
    let number = |entry: &std::fs::DirEntry| entry.path().file_stem()?.to_str()?.parse::<u64>().ok();
    wait_for("a checkpoint", || {
        let mut found = std::fs::read_dir(&log).into_iter().flatten().flatten();
        found.any(|entry| number(&entry).is_some_and(|number| number >= entries))
    });
}

#[test]
fn tasks_in_several_processes_give_the_results_of_one() {
    let folder = tempfile::tempdir().expect("folder");
    let sql = folder.path().join("job.sql");
    std::fs::write(&sql, script(folder.path(), 100_000, "unlimited", &into_files(folder.path()), false)).expect("file");
    let (succeeded, _, said) = finish(start(&sql, &[]));
    assert!(succeeded, "{said}");
    let expected = results(folder.path());
    assert!(!expected.is_empty());
    std::fs::remove_dir_all(folder.path().join("out")).expect("removed");
    let (succeeded, _, said) = finish(start(&sql, &["--workers", "3"]));
    assert!(succeeded && said.contains("100,000 events"), "{said}");
    assert_eq!(results(folder.path()), expected);
    // A print table is written by the process at the terminal.
    let print = script(folder.path(), 100_000, "unlimited", "'connector' = 'print'", false);
    std::fs::write(&sql, print).expect("file");
    let (succeeded, printed, said) = finish(start(&sql, &["--workers", "2"]));
    assert!(succeeded && printed.lines().count() == expected.len(), "{said}");
}

#[test]
fn a_worker_that_is_killed_or_stands_still_is_replaced_and_costs_no_result_and_doubles_none() {
    let folder = tempfile::tempdir().expect("folder");
    let sql = folder.path().join("job.sql");
    let text = script(folder.path(), 800_000, "60000", &into_files(folder.path()), true);
    std::fs::write(&sql, &text).expect("file");
    let (succeeded, _, said) = finish(start(&sql, &[]));
    assert!(succeeded, "{said}");
    let expected = results(folder.path());
    for place in ["out", "checkpoints"] {
        std::fs::remove_dir_all(folder.path().join(place)).expect("removed");
    }
    let job = start(&sql, &["--workers", "3"]);
    await_checkpoints(folder.path(), 3);
    // Those that have joined: a process that stands still before is not replaced.
    let joined = workers(&job);
    signal(joined[1], "-KILL");
    await_checkpoints(folder.path(), 3);
    wait_for("another worker", || workers(&job).len() == 3);
    let frozen = joined[0];
    signal(frozen, "-STOP");
    wait_for("a worker instead of it", || {
        let workers = workers(&job);
        workers.len() == 3 && !workers.contains(&frozen)
    });
    let (succeeded, _, said) = finish(job);
    assert!(succeeded && said.contains("worker local-") && said.contains("is lost"), "{said}");
    assert_eq!(results(folder.path()), expected, "{said}");
}

/// While tables are opened, channels connected, or the first rows read.
#[test]
fn a_worker_that_is_killed_while_the_job_starts_is_replaced() {
    let folder = tempfile::tempdir().expect("folder");
    let sql = folder.path().join("job.sql");
    std::fs::write(&sql, script(folder.path(), 40_000, "40000", &into_files(folder.path()), true)).expect("file");
    let (succeeded, _, said) = finish(start(&sql, &[]));
    assert!(succeeded, "{said}");
    let expected = results(folder.path());
    for delay_ms in [0, 15, 30, 60, 120] {
        for place in ["out", "checkpoints"] {
            std::fs::remove_dir_all(folder.path().join(place)).expect("removed");
        }
        let job = start(&sql, &["--workers", "2"]);
        wait_for("the workers", || workers(&job).len() == 2);
        anabranch_model::pause(Duration::from_millis(delay_ms));
        signal(workers(&job)[1], "-KILL");
        let (succeeded, _, said) = finish(job);
        assert!(succeeded, "after {delay_ms} ms: {said}");
        assert_eq!(results(folder.path()), expected, "after {delay_ms} ms: {said}");
    }
}

#[test]
fn without_checkpoints_a_lost_worker_ends_the_job_with_its_name() {
    let folder = tempfile::tempdir().expect("folder");
    let sql = folder.path().join("job.sql");
    let text = script(folder.path(), 100_000_000, "1000", &into_files(folder.path()), false);
    std::fs::write(&sql, text).expect("file");
    let job = start(&sql, &["--workers", "2"]);
    wait_for("the job's folder", || folder.path().join("out").exists());
    signal(workers(&job)[0], "-KILL");
    let (succeeded, _, said) = finish(job);
    assert!(!succeeded && said.contains("error: worker local-") && said.contains("is lost"), "{said}");
}
