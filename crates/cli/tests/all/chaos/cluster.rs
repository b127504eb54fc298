//! Two jobs of a cluster, one from Kafka to Kafka and one from Kafka to files, while its processes are
//! killed, frozen and stopped at random, and a user changes the jobs: two coordinators and three workers.
//! Every result is there once, and is the one that a run without failures and changes gives.

use std::path::Path;
use std::time::Duration;

use anabranch_model::Rng;

use super::main_job::printed_rows;
use super::processes::{LIFE_MS_MAX, PATIENT, example, finish, kills_and_seed, options, start, undisturbed_and_fill};
use crate::broker::Broker;
use crate::harness::{Cluster, file};
use crate::process::Process;
use crate::topics::records;

/// Events per second, and how long they last beside the faults.
const RATE: u32 = 10_000;
/// Longest time for which a process is frozen: longer than what its peers wait.
const FROZEN_MS_MAX: u64 = 4_000;
const WORKERS: [&str; 3] = ["first", "second", "third"];

/// The main job with its results in files.
fn to_files(folder: &Path) -> String {
    let sql = std::fs::read_to_string(example("ad_campaigns_kafka.sql")).expect("the example");
    let (before, results) = sql.split_once("CREATE TABLE results").expect("a table of results");
    let (columns, rest) = results.split_once("WITH (").expect("options");
    let (_, after) = rest.split_once(");").expect("the end of the options");
    let options =
        format!("WITH ('connector' = 'filesystem', 'path' = '{}/results', 'format' = 'csv');", folder.display());
    let sql = format!("{before}CREATE TABLE results{columns}{options}{after}");
    file(folder, "files.sql", &sql)
}

/// The lines of all files that are visible, sorted.
fn lines(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("results")).expect("results");
    let paths = files.flatten().map(|file| file.path());
    let visible = paths.filter(|path| path.extension().is_some_and(|extension| extension == "csv"));
    let text = |path| std::fs::read_to_string(path).expect("text");
    let mut lines: Vec<String> =
        visible.flat_map(|path| text(path).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.sort();
    lines
}

/// Sends both jobs, reading to the present end of the topic or for ever.
fn submit(cluster: &Cluster, files: &str, servers: &str, bounded: bool) {
    let mut shared = options("events", &[servers.to_owned(), PATIENT.into()]);
    if bounded {
        shared.extend(options("events", &["scan.bounded.mode=latest-offset".to_owned()]));
    }
    let set = ["--set", "checkpoint-interval=100 ms", "--parallelism", "3"].map(str::to_owned);
    let kafka = example("ad_campaigns_kafka.sql").to_str().expect("text").to_owned();
    let results = options("results", &[servers.to_owned(), PATIENT.into()]);
    for (name, script, more) in [("kafka", kafka.as_str(), results), ("files", files, Vec::new())] {
        let arguments =
            [vec!["submit".to_owned(), script.to_owned(), "--name".to_owned(), name.to_owned()], shared.clone(), more];
        let arguments: Vec<String> = arguments.concat().into_iter().chain(set.clone()).collect();
        cluster.ok(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

fn wait(ms: u64) {
    anabranch_model::pause(Duration::from_millis(ms));
}

/// One fault, and its end.
fn fault(cluster: &mut Cluster, rng: &mut Rng) {
    let worker = rng.below(WORKERS.len() as u64) as usize;
    let leader = cluster.leader();
    let frozen = 500 + rng.below(FROZEN_MS_MAX - 500);
    match rng.below(6) {
        0 | 1 => {
            println!("worker {worker} is killed");
            cluster.kill_worker(worker);
            cluster.start_worker(worker, WORKERS[worker], 3);
        }
        2 => {
            println!("worker {worker} is frozen for {frozen} ms");
            cluster.signal_worker(worker, "STOP");
            wait(frozen);
            cluster.signal_worker(worker, "CONT");
        }
        3 => {
            println!("coordinator {leader} is killed");
            cluster.kill_coordinator(leader);
            wait(rng.below(1000));
            cluster.start_coordinator(leader);
        }
        4 => {
            println!("coordinator {leader} is frozen for {frozen} ms");
            cluster.signal(leader, "STOP");
            wait(frozen);
            cluster.signal(leader, "CONT");
        }
        _ => {
            println!("coordinator {leader} is stopped");
            cluster.stop_coordinator(leader);
            cluster.start_coordinator(leader);
        }
    }
}

/// The texts of a job, of which each gives the same results.
fn texts(folder: &Path, job: &str, script: &str) -> [String; 2] {
    let sql = std::fs::read_to_string(script).expect("the script");
    let other = sql.replace("event_type = 'view'", "event_type IN ('view')");
    assert_ne!(other, sql);
    [script.to_owned(), file(folder, &format!("{job}-other.sql"), &other)]
}

/// A user changes a job to an equal one, if the processes let them. Dropping the value ends the command.
fn change(cluster: &Cluster, rng: &mut Rng, texts: &[(&str, [String; 2])]) -> Process {
    let (job, texts) = &texts[rng.below(2) as usize];
    let parallelism = (2 + rng.below(3)).to_string();
    let arguments = match rng.below(4) {
        0 | 1 => ["rescale", job, &parallelism].to_vec(),
        2 => {
            let worker = WORKERS[rng.below(WORKERS.len() as u64) as usize];
            ["migrate", job, "--task", "1.0", "--to", worker].to_vec()
        }
        _ => ["alter", job, &texts[rng.below(2) as usize]].to_vec(),
    };
    println!("{arguments:?}");
    cluster.begin(&arguments)
}

#[test]
#[ignore = "needs most of a small machine: make chaos"]
fn no_result_of_a_cluster_is_lost_or_doubled_whatever_happens_to_its_processes() {
    let (faults, seed) = kills_and_seed();
    let mut rng = Rng::new(seed);
    let broker = Broker::start();
    let folder = tempfile::tempdir().expect("folder");
    let servers = format!("properties.bootstrap.servers={}", broker.servers());
    let rows = u64::from(RATE) * (faults * (LIFE_MS_MAX + FROZEN_MS_MAX) / 2000 + 5);
    let (direct, fill) = undisturbed_and_fill(RATE, rows, &servers);
    let expected = printed_rows(&finish(direct));
    assert!(expected.len() > 100, "{expected:?}");

    let files = to_files(folder.path());
    let mut cluster = Cluster::of(folder.path(), 2);
    WORKERS.iter().for_each(|name| cluster.worker(name, 3));
    cluster.until("all workers", || WORKERS.iter().all(|name| cluster.ok(&["jobs"]).contains(name)));
    submit(&cluster, &files, &servers, false);
    let both = |cluster: &Cluster, state: &str| ["kafka", "files"].iter().all(|job| cluster.state(job) == state);
    let kafka = example("ad_campaigns_kafka.sql");
    let scripts = [("kafka", kafka.to_str().expect("text")), ("files", files.as_str())];
    let texts = scripts.map(|(job, script)| (job, texts(folder.path(), job, script)));
    let mut changing = None;
    for number in 0..faults {
        // Every other one meets jobs that run; the others may meet what the one before has left.
        if number % 2 == 0 {
            cluster.until("both jobs", || both(&cluster, "running"));
        }
        // The command before is ended if it has not.
        drop(changing.replace(change(&cluster, &mut rng, &texts)));
        wait(rng.below(LIFE_MS_MAX));
        fault(&mut cluster, &mut rng);
    }
    drop(changing);
    finish(fill);
    cluster.until("both jobs", || both(&cluster, "running"));
    ["kafka", "files"].iter().for_each(|job| println!("{}", cluster.ok(&["changes", job])));
    ["kafka", "files"].iter().for_each(|job| drop(cluster.ok(&["stop", job])));
    cluster.until("the stop of both", || both(&cluster, "stopped"));
    submit(&cluster, &files, &servers, true);
    cluster.until("the end of both", || both(&cluster, "ended"));

    let records = records(broker.servers(), "ad-results");
    let doubled: Vec<_> = records.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "seed {seed}: {doubled:?}");
    let read = start(&example("read_results.sql"), &options("topic", std::slice::from_ref(&servers)));
    assert_eq!(printed_rows(&finish(read)), expected, "seed {seed}");
    let lines = lines(folder.path());
    assert_eq!(lines.len(), expected.len(), "seed {seed}");
    let views = |line: &str, of: &[char]| line.rsplit(of).next().and_then(|n| n.trim().parse::<u64>().ok());
    let sum = |lines: &[String], of: &[char]| lines.iter().filter_map(|line| views(line, of)).sum::<u64>();
    println!("{:?} {:?}", lines.first(), expected.first());
    assert_eq!(sum(&lines, &[',']), sum(&expected, &[',', ' ', '|']), "seed {seed}");
    let distinct: std::collections::BTreeSet<_> = lines.iter().filter_map(|line| line.rsplit_once(',')).collect();
    assert_eq!(distinct.len(), lines.len(), "seed {seed}: a result is there twice");
}
