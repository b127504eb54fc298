//! Workers with copies of state on their machines, and checkpoints in an object store.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use anabranch_model::{Clock as _, SystemClock};

use crate::harness::{Cluster, file};
use crate::s3::{Server, shared};

/// Events of a job with little state.
const ROWS: u64 = 150_000;
/// State from which on processes are killed. That is before the last event.
const STATE_BYTES: u64 = 10 << 20;
/// Much state, in megabytes, unless `ANABRANCH_STATE_MB` says otherwise.
const MUCH_MB: u64 = 1000;

/// The events of a job, and what its state keeps of each.
#[derive(Clone, Copy)]
struct Load {
    rows: u64,
    per_second: u64,
    /// How often a key has the identifier of a user, which has 36 bytes.
    width: u32,
    checkpoint_interval: &'static str,
}

const LITTLE: Load = Load { rows: ROWS, per_second: 10_000, width: 1, checkpoint_interval: "500 ms" };
/// State of an event with this width, at least.
const MUCH_BYTES: u64 = 800;
const MUCH_WIDTH: u32 = 20;

/// Passes connections on to an S3 server, and counts what it answers to requests for state files.
struct Counting {
    url: String,
    bytes: Arc<AtomicU64>,
}

impl Counting {
    fn new(server: &str) -> Counting {
        let server = server.strip_prefix("http://").expect("a URL").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let accept = move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                pass_on(&client, &server, Arc::clone(&counted));
            }
        };
        std::thread::Builder::new().name("accept".into()).spawn(accept).expect("a thread");
        Counting { url, bytes }
    }

    /// Bytes of state since the last call.
    fn take(&self) -> u64 {
        self.bytes.swap(0, SeqCst)
    }
}

/// Whether a request begins here; then, whether it is for a state file.
fn requests_state(bytes: &[u8]) -> Option<bool> {
    let line = String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
    let (method, rest) = line.split_once(' ')?;
    let path = rest.split([' ', '?']).next()?;
    let is_request = ["GET", "HEAD", "PUT", "POST", "DELETE"].contains(&method) && path.starts_with('/');
    is_request.then(|| method == "GET" && path.contains("/state/"))
}

fn pass_on(client: &TcpStream, server: &TcpStream, counted: Arc<AtomicU64>) {
    let counts = Arc::new(AtomicBool::new(false));
    let clones = || (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    let of_requests = Arc::clone(&counts);
    let (mut from, mut to) = clones();
    let up = move || {
        copy(&mut from, &mut to, |bytes| {
            requests_state(bytes).into_iter().for_each(|state| of_requests.store(state, SeqCst));
        });
    };
    let (mut to, mut from) = clones();
    let down = move || {
        copy(&mut from, &mut to, |bytes| {
            if counts.load(SeqCst) {
                counted.fetch_add(bytes.len() as u64, SeqCst);
            }
        });
    };
    std::thread::Builder::new().name("up".into()).spawn(up).expect("a thread");
    std::thread::Builder::new().name("down".into()).spawn(down).expect("a thread");
}

fn copy(from: &mut TcpStream, to: &mut TcpStream, mut seen: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        seen(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    // The other end may have closed both.
    let _ = to.shutdown(Shutdown::Write);
}

/// Counts of nearly as many long keys as there are events, in one window that closes at the end.
fn script(folder: &Path, load: Load) -> String {
    let Load { rows, per_second, width, checkpoint_interval } = load;
    format!(
        "SET 'checkpoint-interval' = '{checkpoint_interval}';
         CREATE TABLE events (user_id STRING, page_id STRING, ad_id STRING, event_time BIGINT,
           ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'ad_events', 'seed' = '1', 'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '{per_second}',
           'number-of-rows' = '{rows}');
         CREATE TABLE out_rows (ad_id STRING, event_time BIGINT, n BIGINT)
         WITH ('connector' = 'filesystem', 'path' = '{}/out', 'format' = 'csv');
         INSERT INTO out_rows SELECT ad_id, event_time, COUNT(*)
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' DAY))
         GROUP BY REPEAT(user_id, {width}), page_id, ad_id, event_time, window_start, window_end;",
        folder.display()
    )
}

/// The sum of all counts: each event counts once, and each result is there once.
fn counted(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder.join("out")).expect("results").flatten().map(|file| file.path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "csv"));
    let text: String = files.map(|path| std::fs::read_to_string(path).expect("text")).collect();
    text.lines().filter_map(|line| line.rsplit(',').next()?.parse::<u64>().ok()).sum()
}

/// All files under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn bytes(folder: &Path) -> u64 {
    files(folder).iter().filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// A job at an S3 server.
struct Job {
    name: &'static str,
    folder: tempfile::TempDir,
    server: &'static Server,
    counting: Counting,
    cluster: Cluster,
}

impl Job {
    /// A coordinator whose store is the server.
    fn new(name: &'static str) -> Job {
        let folder = tempfile::tempdir().expect("folder");
        let server = shared();
        let place = server.place(name);
        let counting = Counting::new(place.strip_suffix(&format!("/checkpoints/{name}")).expect("a place"));
        let cluster = Cluster::at(&format!("{}/checkpoints/{name}", counting.url), 1);
        Job { name, folder, server, counting, cluster }
    }

    /// The directory of a worker.
    fn nearby(&self, worker: &str) -> PathBuf {
        self.folder.path().join(worker)
    }

    fn worker(&mut self, name: &str, nearby: &str) {
        let nearby = self.nearby(nearby);
        self.cluster.worker_with_state(name, 1, &nearby);
    }

    fn submit(&self) {
        self.submit_with(LITTLE, STATE_BYTES);
    }

    /// Returns when there is so much state.
    fn submit_with(&self, load: Load, state_bytes: u64) {
        let job = file(self.folder.path(), "job.sql", &script(self.folder.path(), load));
        self.cluster.ok(&["submit", &job, "--parallelism", "2"]);
        // Each part within the time limit.
        (1..=8).for_each(|eighth| self.until_state(state_bytes * eighth / 8));
    }

    fn remote(&self, folder: &str) -> PathBuf {
        self.server.file(&format!("{}/jobs/job/{folder}", self.name))
    }

    fn until_state(&self, expected: u64) {
        self.cluster.until("state", || bytes(&self.remote("state")) >= expected);
    }

    /// Entries that the job's log has ever had.
    fn entries(&self) -> u64 {
        let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse().ok();
        files(&self.remote("log")).iter().filter_map(number).max().unwrap_or(0)
    }

    fn until_restored(&self, times: usize) {
        let restored = "the state of the job is restored";
        self.cluster.until("that state is restored", || {
            self.cluster.state("job") == "ended" || self.cluster.ok(&["logs", "job"]).matches(restored).count() >= times
        });
    }

    /// Less than one percent of the state was read from the store.
    fn has_read_little(&self, state: u64) {
        let read = self.counting.take();
        println!("{read} bytes of {state} were read from the store");
        assert!(read < state / 100, "{read} bytes of {state} were read from the store");
    }

    fn ends(&self) {
        self.cluster.until("the job's end", || self.cluster.state("job") == "ended");
        assert_eq!(counted(self.folder.path()), ROWS);
    }
}

#[test]
fn state_is_read_from_the_machines_of_workers_and_removed_there() {
    let mut job = Job::new("near");
    job.worker("one", "one");
    job.worker("two", "two");
    job.submit();
    job.counting.take();
    // The other worker's tasks restart too.
    job.cluster.kill_worker(0);
    job.cluster.until("the wait for workers", || job.cluster.state("job") == "waiting");
    let state = bytes(&job.nearby("one")) + bytes(&job.nearby("two"));
    assert!(state >= STATE_BYTES / 4, "{state} bytes of copies");
    job.worker("one", "one");
    job.until_restored(1);
    job.has_read_little(state);

    job.until_state(STATE_BYTES * 3 / 2);
    job.cluster.kill_coordinator(0);
    job.cluster.kill_workers();
    job.cluster.start_coordinator(0);
    // In another order, and with other numbers of processes.
    job.worker("two", "two");
    job.worker("one", "one");
    job.until_restored(1);
    job.has_read_little(state);
    job.ends();
    let nearby = [job.nearby("one"), job.nearby("two")];
    job.cluster.until("that copies are removed", || nearby.iter().all(|nearby| files(nearby).is_empty()));
}

#[test]
#[ignore = "takes minutes, and some gigabytes of the disk: make chaos"]
fn a_worker_that_starts_again_reads_much_state_from_its_machine() {
    let given = std::env::var("ANABRANCH_STATE_MB").ok().and_then(|megabytes| megabytes.parse().ok());
    let wanted = given.unwrap_or(MUCH_MB) * 1_000_000;
    // So many that the source goes on for long after there is enough.
    let rows = wanted / MUCH_BYTES * 4;
    let load = Load { rows, per_second: 20_000, width: MUCH_WIDTH, checkpoint_interval: "5 s" };
    let mut job = Job::new("much");
    job.worker("one", "one");
    job.worker("two", "two");
    job.submit_with(load, wanted);
    job.cluster.kill_worker(0);
    job.cluster.until("the wait for workers", || job.cluster.state("job") == "waiting");
    job.counting.take();
    let state = bytes(&job.nearby("one")) + bytes(&job.nearby("two"));
    let clock = SystemClock::new();
    let (started, entries) = (clock.now(), job.entries());
    job.worker("one", "one");
    // One may begin the incarnation; the others are its checkpoints.
    job.cluster.until("a checkpoint", || job.entries() >= entries + 2);
    println!("a checkpoint after {:.1} s", clock.now().after(started).as_secs_f64());
    job.has_read_little(state);
    assert_eq!(job.cluster.state("job"), "running");
}

#[test]
fn a_torn_copy_is_not_used_and_workers_may_share_a_directory() {
    let mut job = Job::new("torn");
    job.worker("one", "both");
    job.worker("two", "both");
    job.submit();
    job.cluster.kill_workers();
    job.cluster.until("the wait for workers", || job.cluster.state("job") == "waiting");
    let both = job.nearby("both");
    let state = bytes(&both);
    let copies = files(&both);
    for (number, path) in copies.iter().enumerate() {
        let mut content = std::fs::read(path).expect("a copy");
        match number % 2 {
            0 => content.truncate(content.len() / 2),
            _ => content.iter_mut().last().into_iter().for_each(|last| *last ^= 1),
        }
        std::fs::write(path, content).expect("damaged");
    }
    job.counting.take();
    job.worker("three", "both");
    job.worker("four", "both");
    job.until_restored(1);
    let read = job.counting.take();
    assert!(read > state / 10, "{read} bytes of {state} were read from the store");
    job.ends();
}

#[test]
fn damage_that_workers_find_is_avoided_by_an_older_checkpoint() {
    let mut job = Job::new("damaged");
    job.worker("one", "one");
    job.worker("two", "two");
    job.submit();
    job.cluster.kill_coordinator(0);
    job.cluster.kill_workers();
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("text");
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
    let (manifests, mut log) = (files(&job.remote("manifests")), files(&job.remote("log")));
    log.sort();
    let manifest_of = |entry: &String| manifests.iter().find(|path| entry.contains(&name(path))).map(read);
    let mut checkpoints = log.iter().rev().map(read).filter_map(|entry| manifest_of(&entry));
    let newest = checkpoints.next().expect("a checkpoint");
    let before = checkpoints.next().expect("two checkpoints");
    let state = files(&job.remote("state"));
    let is_only_in_newest = |path: &&PathBuf| newest.contains(&name(path)) && !before.contains(&name(path));
    let damaged = state.iter().find(is_only_in_newest).expect("checkpoints differ");
    let mut content = std::fs::read(damaged).expect("state");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(damaged, content).expect("damaged");
    for nearby in ["one", "two"] {
        std::fs::remove_dir_all(job.nearby(nearby)).expect("removed");
    }
    job.cluster.start_coordinator(0);
    job.worker("one", "one");
    job.worker("two", "two");
    let says = "reads_checkpoint=true";
    job.cluster.until("that damage is found", || job.cluster.has_said(0, says));
    job.ends();
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let cluster = Cluster::start(folder.path());
    let used = file(folder.path(), "used", "");
    let listen = cluster.listen();
    let worker = ["worker", "--coordinator", &listen, "--name", "one", "--state", &used];
    cluster.refused(&worker, 1, "option '--state'");
    cluster.refused(&worker, 1, "use a writable directory");
}
