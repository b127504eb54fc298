//! A cluster over several machines: at an address of this machine that others reach, and in network
//! namespaces whose links are cut. All connections are encrypted.

mod certificates;
mod network;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use self::certificates::{authority, certificate};
use self::network::{Cut, Network};
use crate::harness::{Cluster, Files, Machines, SECRET, file, free, free_at};

/// The coordinator listens at these addresses, with a certificate for the first one.
fn start(folder: &Path, machines: Machines, places: [SocketAddr; 2]) -> Cluster {
    let (certificate, key) = certificate(&[places[0].ip().to_string()], 4000);
    let [certificate, key] =
        [("cert.pem", certificate), ("key.pem", key)].map(|(name, text)| file(folder, name, &text));
    start_with(folder, machines, places, (certificate, key))
}

/// The same with another certificate.
fn start_with(
    folder: &Path,
    machines: Machines,
    places: [SocketAddr; 2],
    (certificate, key): (String, String),
) -> Cluster {
    let files = Files { certificate, key, token: file(folder, "token", SECRET) };
    Cluster::with(folder.join("store").to_str().expect("text"), machines, Some(files), vec![places])
}

/// All processes on this machine.
fn here() -> Machines {
    Box::new(|_, program| Command::new(program))
}

/// Counts of finite events by second, in files: rows go between workers.
fn script(folder: &Path, rows: u64, per_second: u64) -> String {
    format!(
        "CREATE TABLE events (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
             WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
         WITH ('connector' = 'ad_events', 'seed' = '1', 'start-time' = '2024-01-01T00:00:00Z', 'partitions' = '4',
               'number-of-rows' = '{rows}', 'rows-per-second' = '{per_second}');
         CREATE TABLE counts (ad_id STRING, second TIMESTAMP(3), n BIGINT)
         WITH ('connector' = 'filesystem', 'path' = '{}/out', 'format' = 'csv');
         INSERT INTO counts SELECT ad_id, window_start, COUNT(*)
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY ad_id, window_start, window_end;",
        folder.display()
    )
}

/// The events that all visible results together have counted. No result may be there twice.
fn counted(folder: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(folder.join("out")) else { return 0 };
    let (mut sum, mut seen) = (0, BTreeSet::new());
    let is_part = |path: &Path| path.extension().is_some_and(|extension| extension == "csv");
    for path in files.flatten().map(|file| file.path()).filter(|path| is_part(path)) {
        for line in std::fs::read_to_string(path).expect("text").lines() {
            let (key, n) = line.rsplit_once(',').expect("three columns");
            assert!(seen.insert(key.to_owned()), "twice: {key}");
            sum += n.parse::<u64>().expect("a number");
        }
    }
    sum
}

/// The address of this machine that others would reach.
fn own_address() -> Option<IpAddr> {
    // Nothing is sent: the system only chooses.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[test]
fn workers_at_an_address_that_others_reach_exchange_rows_over_tls() {
    let Some(address) = own_address() else { return println!("skipped: this machine has only loopback addresses") };
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = start(folder.path(), here(), [free_at(address), free_at(address)]);
    let at = format!("{address}:0");
    let advertised = format!("{address}");
    cluster.worker("first", 2);
    cluster.worker_with("second", 2, &["--listen", &at]);
    cluster.worker_with("third", 2, &["--listen", "0.0.0.0", "--advertise", &advertised]);
    cluster.until("all workers", || ["first", "second", "third"].iter().all(|name| cluster.has(name)));
    let listed = cluster.ok(&["jobs"]);
    assert_eq!(listed.matches(&format!("{address}:")).count(), 3, "{listed}");
    let job = file(folder.path(), "job.sql", &script(folder.path(), 20_000, 10_000));
    cluster.ok(&["submit", &job, "--parallelism", "6", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("tasks at all workers", || {
        let shown = cluster.ok(&["show", "job"]);
        ["first", "second", "third"].iter().all(|name| shown.contains(name))
    });
    cluster.until("the job's end", || cluster.state("job") == "ended");
    assert_eq!(counted(folder.path()), 20_000);
    assert!(!cluster.ok(&["show", "job"]).contains("restarted after"));
}

#[test]
fn what_keeps_a_worker_from_a_coordinator_with_tls_is_told() {
    let folder = tempfile::tempdir().expect("folder");
    let cluster = start(folder.path(), here(), [free(), free()]);
    let (listen, files) = (cluster.listen(), cluster.files());
    let other = file(folder.path(), "other.pem", &authority());
    let wrong = file(folder.path(), "wrong", "another-secret-of-this-test");
    let worker = |coordinator: &str, ca: Option<&str>, token: &str, code: i32, what: &[&str]| {
        let mut arguments = vec!["worker", "--coordinator", coordinator, "--name", "w", "--token-file", token];
        ca.into_iter().for_each(|ca| arguments.extend(["--tls-ca", ca]));
        cluster.refused_with(&arguments, code, what);
    };
    let (ca, token) = (Some(files.certificate.as_str()), files.token.as_str());
    worker(&listen, Some(&other), token, 1, &[&listen, "TLS has failed: invalid peer certificate", "give --tls-ca"]);
    worker(&listen, ca, &wrong, 1, &[&listen, "its token is not that of this process; give the same --token-file"]);
    worker(&listen, None, token, 1, &[&listen, "it does not begin with TLS, and this address needs it; give --tls-ca"]);
    let by_name = listen.replace("127.0.0.1", "localhost");
    worker(
        &by_name,
        ca,
        token,
        1,
        &["certificate not valid for name \"localhost\"", "connect to a name or an address"],
    );
    worker("192.0.2.1:9", None, token, 1, &["192.0.2.1:9: without TLS only a loopback address", "give --tls-ca"]);
    worker("127.0.0.1", ca, token, 2, &["option --coordinator 127.0.0.1", "give HOST:PORT"]);
    worker("http://127.0.0.1:9", ca, token, 2, &["option --coordinator", "give HOST:PORT"]);
    worker(
        &listen,
        Some("/nowhere"),
        token,
        2,
        &["option --tls-ca /nowhere", "give a file that this process may read"],
    );
    worker(&listen, Some(token), token, 1, &["--tls-ca has no certificate in PEM format"]);
    let http = cluster.ok(&["jobs"]);
    assert!(http.contains("no workers"), "{http}");
    cluster.refused_with(
        &["worker", "--coordinator", &listen, "--token-file", token, "--advertise", "0.0.0.0:7"],
        2,
        &["option --advertise 0.0.0.0", "give an address of this machine"],
    );

    // A coordinator without TLS, and one whose certificate is no longer valid.
    let store = folder.path().join("other").to_str().expect("text").to_owned();
    let open = ["coordinator", "--store", &store, "--http", "127.0.0.1:0", "--token-file", token, "--listen"];
    let any = |listen: &'static str| [&open[..], &[listen]].concat();
    for address in ["0.0.0.0:0", "192.0.2.1:9", "[::]:0"] {
        let place = format!("option --listen {address}");
        cluster.refused_with(
            &any(address),
            2,
            &[&place, "without TLS only a loopback address", "give --tls-cert, --tls-key"],
        );
    }
    let (old, key) = certificate(&["127.0.0.1".to_owned()], 2002);
    let folder = tempfile::tempdir().expect("folder");
    let (old, key) = (file(folder.path(), "old.pem", &old), file(folder.path(), "old-key.pem", &key));
    cluster.refused_with(
        &["coordinator", "--store", &store, "--token-file", token, "--tls-cert", &old, "--tls-key", &files.key],
        2,
        &["belongs to the certificate"],
    );
    let expired = start_with(folder.path(), here(), [free(), free()], (old.clone(), key));
    let (listen, token) = (expired.listen(), expired.files().token.as_str());
    worker(&listen, Some(&old), token, 1, &[&listen, "certificate expired", "with a new certificate (--tls-cert"]);
    assert_eq!(std::fs::read_to_string(token).expect("text"), SECRET);
}

/// The job goes on at the other worker, no result is lost or doubled, and the worker is there again when its
/// link is.
#[test]
fn a_worker_whose_link_is_cut_loses_its_tasks_and_joins_again() {
    let workers = ["first", "second", "third"];
    let network = match Network::new(&["coordinator", "first", "second", "third"]) {
        Ok(network) => Rc::new(network),
        Err(why) => return println!("skipped: no network namespaces here: {why}"),
    };
    let folder = tempfile::tempdir().expect("folder");
    let address = IpAddr::V4(network.address("coordinator"));
    let places = [SocketAddr::new(address, 8791), SocketAddr::new(address, 8790)];
    let machines = Rc::clone(&network);
    let machines: Machines = Box::new(move |machine, program| machines.command(machine, program));
    let mut cluster = start(folder.path(), machines, places);
    // Any two have room for all tasks, and no single one has.
    workers.iter().for_each(|name| cluster.worker(name, 2));
    cluster.until("all workers", || workers.iter().all(|name| cluster.has(name)));
    let (rows, per_second) = (250_000, 10_000);
    let job = file(folder.path(), "job.sql", &script(folder.path(), rows, per_second));
    cluster.ok(&["submit", &job, "--parallelism", "4", "--set", "checkpoint-interval=100 ms"]);
    let restarts = || cluster.ok(&["show", "job"]).matches("restarted after").count();
    let results = |what: &str| {
        let before = counted(folder.path());
        cluster.until(what, || counted(folder.path()) > before);
        println!("{what}: {} of {rows} events", counted(folder.path()));
    };
    for cut in [Cut::Link, Cut::From, Cut::To] {
        results("results before the cut");
        let (shown, before) = (cluster.ok(&["show", "job"]), restarts());
        // Tasks are the lines that begin with the number of a stage.
        let tasks = shown.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        let has_tasks = |name: &&str| tasks.clone().any(|line| line.split_whitespace().any(|word| word == *name));
        let name = workers.into_iter().rfind(has_tasks).expect("a worker with tasks");
        println!("{cut:?} of {name} is cut");
        network.cut(name, cut);
        cluster.until("the loss of the worker", || !cluster.has(name));
        cluster.until("the restart", || restarts() > before);
        results("results without it");
        network.mend(name, cut);
        cluster.until("the worker", || cluster.has(name));
        assert!(cluster.worker_said(name).contains("warn coordinator lost"), "{}", cluster.worker_said(name));
    }
    let notices = cluster.ok(&["logs", "job"]);
    assert!(notices.contains(" is lost: it has been silent for 2 s"), "{notices}");
    cluster.until("the job's end", || cluster.state("job") == "ended");
    assert_eq!(counted(folder.path()), rows);
}
