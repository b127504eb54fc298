use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_schedule::{Role, TaskIndex, ThreadKind};

use super::*;
use crate::driver::local::tests::{Machine, fixture};
use crate::http::tests::{Answer, Server};

mod bad;
mod rows;

/// A recorded cluster: three jobs, two of them of one name, in one process.
pub(super) struct Recorded {
    pub(super) folder: &'static str,
    /// When the dump of its threads was made.
    dumped_ms: i64,
    /// The job that was submitted first of those with one name, and the second.
    pub(super) betas: [&'static str; 2],
}

pub(super) const V1_20: Recorded = Recorded {
    folder: "flink-1.20",
    dumped_ms: 1_795_958_454_689,
    betas: ["e154bab88b10b8c8faaadab932eb48dc", "326db649cb6e5af8f9fab10660480488"],
};
pub(super) const V2_3: Recorded = Recorded {
    folder: "flink-2.3",
    dumped_ms: 1_795_958_451_491,
    betas: ["ae94a8a41895987334ab84b7f1c31124", "1da747a7d8008d21a405a748555b2d3c"],
};

/// Serves the recorded documents; `change` may replace them by their paths.
pub(super) fn serve(
    recorded: &Recorded,
    change: impl Fn(&str, Option<String>) -> Answer + Send + Sync + 'static,
) -> Server {
    let folder = recorded.folder;
    Server::start(move |path, _| {
        let file = match path {
            "/metrics" => "metrics.txt".to_owned(),
            "/jobs/overview" => "overview.json".to_owned(),
            "/jobmanager/config" => "jobmanager-config.json".to_owned(),
            _ => path.trim_start_matches('/').replace("jobs/", "job-").replace("/vertices/", "-") + ".json",
        };
        let file = if path.contains("/vertices/") { file.replacen("job-", "vertex-", 1) } else { file };
        let path_of_file = format!("{}/fixtures/{folder}/{file}", env!("CARGO_MANIFEST_DIR"));
        change(path, std::fs::read_to_string(path_of_file).ok())
    })
}

pub(super) fn as_recorded(_: &str, page: Option<String>) -> Answer {
    page.map_or(Answer::Status(404), |page| Answer::Ok(page.into_bytes()))
}

/// The driver of what `server` serves, with the recorded threads.
pub(super) fn driver(recorded: &Recorded, server: &Server) -> (Flink, Machine) {
    let machine = Machine::default();
    machine.add_dump(
        4711,
        "java -cp x Jobs mini",
        &fixture(&format!("{}/dump.txt", recorded.folder)),
        recorded.dumped_ms,
    );
    machine.change(|recording| recording.processes[0].ports.extend(port_here(&server.url)));
    // A loaded machine may need long for a request.
    let http = HttpOptions { deadline: Duration::from_secs(60), ..HttpOptions::default() };
    let options = FlinkOptions { url: server.url.clone(), metrics: vec![server.url.clone()], http };
    (Flink::new(options, Box::new(machine.clone())).expect("options"), machine)
}

/// A client for what never answers.
pub(super) fn impatient(keeps_connections: bool) -> Http {
    let deadline = Duration::from_millis(300);
    Http::new(HttpOptions { deadline, keeps_connections, ..HttpOptions::default() }).expect("a client")
}

pub(super) fn task(graph: &Graph, name: &str) -> TaskIndex {
    let found = (0..graph.tasks.len()).map(TaskIndex).find(|task| graph.full_name(*task) == name);
    found.unwrap_or_else(|| panic!("no task {name}"))
}

fn names_of(graph: &Graph, kind: ThreadKind) -> Vec<&str> {
    graph.threads.iter().filter(|thread| thread.kind == kind).map(|thread| thread.name.as_str()).collect()
}

#[test]
fn recorded_jobs_become_queries_operators_and_tasks() {
    for recorded in [V1_20, V2_3] {
        let server = serve(&recorded, as_recorded);
        let (mut flink, _) = driver(&recorded, &server);
        let graph = flink.look().expect("a cluster");
        let mut queries: Vec<&str> = graph.queries.iter().map(|query| query.name.as_str()).collect();
        queries.sort_unstable();
        let mut expected = vec!["alpha".to_owned()];
        expected.extend(recorded.betas.iter().map(|jid| format!("beta@{}", &jid[..8])));
        expected.sort_unstable();
        assert_eq!(queries, expected);
        assert_eq!(graph.tasks.len(), 22);
        let operator = |name: &str| graph.operators.iter().position(|operator| operator.name == name).expect(name);
        let edge = |from, to| graph.edges.iter().any(|edge| (edge.from.0, edge.to.0) == (operator(from), operator(to)));
        for (from, to) in [
            ("Source: numbers", "slow"),
            ("slow", "left"),
            ("slow", "right"),
            ("left", "everywhere"),
            ("left", "Timestamps/Watermarks"),
            ("right", "Timestamps/Watermarks"),
            ("everywhere", "out: Writer"),
        ] {
            assert!(edge(from, to), "{from} -> {to}");
        }
        assert!(!edge("left", "right") && !edge("slow", "everywhere"));
        let role = |name| graph.operators[operator(name)].role;
        assert_eq!(
            [role("Source: numbers"), role("slow"), role("sums: Writer")],
            [Role::Source, Role::Inner, Role::Sink]
        );
        // A chain of two operators in one task.
        let chained = task(&graph, &format!("beta@{}/Map -> Sink: Writer (1/1)", &recorded.betas[0][..8]));
        let runs: Vec<&str> =
            graph.tasks[chained.0].runs.iter().map(|run| graph.operators[run.0].name.as_str()).collect();
        assert_eq!(runs, ["Map #2", "Sink: Writer"]);
        assert_eq!(flink.look().expect("again"), graph, "equal at each look");
    }
}

#[test]
fn threads_run_or_help_their_tasks() {
    for recorded in [V1_20, V2_3] {
        let server = serve(&recorded, as_recorded);
        let (mut flink, _) = driver(&recorded, &server);
        let graph = flink.look().expect("a cluster");
        for index in 0..graph.tasks.len() {
            assert_eq!(
                names_of(&graph, ThreadKind::Task(TaskIndex(index))).len(),
                1,
                "{}",
                graph.full_name(TaskIndex(index))
            );
        }
        let slow = task(&graph, "alpha/slow (1/2)");
        assert_eq!(names_of(&graph, ThreadKind::Task(slow)), ["slow (1/2)#0"]);
        let helpers = names_of(&graph, ThreadKind::Helper(slow));
        assert_eq!(helpers.iter().filter(|name| **name == "OutputFlusher for slow (1/2)#0").count(), 2, "{helpers:?}");
        assert!(helpers.iter().all(|name| name.contains("for slow (1/2)#0")), "{helpers:?}");
        for engine in names_of(&graph, ThreadKind::Engine) {
            assert!(!engine.ends_with("#0") || engine.contains("GC Thread") || engine.starts_with("G1 "), "{engine}");
        }
        assert!(names_of(&graph, ThreadKind::Engine).iter().any(|name| name.starts_with("prometheus-http")));
        assert!(flink.left_alone().is_empty() && graph.alike.is_empty(), "{:?}", flink.left_alone());
    }
}

/// Two jobs of one name in one process: the first one's threads started first.
#[test]
fn jobs_of_equal_names_are_told_apart_by_their_starts() {
    for recorded in [V1_20, V2_3] {
        let server = serve(&recorded, as_recorded);
        let (mut flink, machine) = driver(&recorded, &server);
        let graph = flink.look().expect("a cluster");
        let start = |jid: &str, kind: fn(TaskIndex) -> ThreadKind| {
            let kind = kind(task(&graph, &format!("beta@{}/Source: numbers -> Map (1/1)", &jid[..8])));
            let threads = graph.threads.iter().filter(|thread| thread.kind == kind);
            threads.map(|thread| thread.id.start).collect::<Vec<_>>()
        };
        let [first, second] = recorded.betas;
        assert!(start(first, ThreadKind::Task) < start(second, ThreadKind::Task));
        let helpers = (start(first, ThreadKind::Helper), start(second, ThreadKind::Helper));
        assert!(!helpers.0.is_empty() && helpers.0.iter().max() < helpers.1.iter().min(), "{helpers:?}");
        // Threads that started together are not distinguished: they are left alone, and a notice says so.
        machine.change(|recording| recording.started.values_mut().for_each(|start| *start = 5));
        let graph = flink.look().expect("a cluster");
        let beta = task(&graph, &format!("beta@{}/Map -> Sink: Writer (1/1)", &first[..8]));
        assert!(names_of(&graph, ThreadKind::Task(beta)).is_empty());
        let name = "Map -> Sink: Writer (1/1)#0";
        assert!(graph.threads.iter().all(|thread| thread.name != name), "it is not put first either");
        let told = flink.left_alone().join("\n");
        assert!(told.contains(&format!("'{name}'")) && told.contains("different names"), "{told}");
    }
}

/// With the names of the recording, which are different, no tasks are alike: see above.
#[test]
fn vertices_of_one_name_in_a_job_have_tasks_that_are_alike() {
    let subtask = |number| {
        let manager = "2440ef41-dccd-4887-990b-3a509131cb46";
        format!("{{\"subtask\": {number}, \"start-time\": 9, \"taskmanager-id\": \"{manager}\"}}")
    };
    let deployed = format!("{{\"subtasks\": [{}, {}]}}", subtask(0), subtask(1));
    let server = serve(&V2_3, move |path, page| match page {
        None if path.contains("/vertices/") => Answer::Ok(deployed.clone().into_bytes()),
        Some(page) if !path.contains("/vertices/") => Answer::Ok(page.replace("right", "left").into_bytes()),
        page => as_recorded(path, page),
    });
    let (mut flink, machine) = driver(&V2_3, &server);
    machine.change(|recording| {
        for thread in &mut recording.processes[0].threads.threads {
            if thread.name.contains("right (") || thread.name.contains("left (") {
                thread.name = thread.name.replace("right (", "left (");
                recording.started.insert(thread.id.tid, 5);
            }
        }
    });
    let graph = flink.look().expect("a cluster");
    let sets: Vec<Vec<String>> =
        graph.alike.iter().map(|set| set.iter().map(|task| graph.full_name(*task)).collect()).collect();
    let expected = ["(1/2)", "(2/2)"].map(|of| vec![format!("alpha/left {of}"), format!("alpha/left #2 {of}")]);
    assert_eq!(sets, expected);
    for task in graph.alike.iter().flatten() {
        assert_eq!(names_of(&graph, ThreadKind::Task(*task)).len(), 1, "{}", graph.full_name(*task));
    }
    assert_eq!(flink.look().expect("again"), graph, "equal at each look");
    let told = flink.left_alone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains("most urgent") && line.contains("different names")), "{told:?}");
}

/// A JVM that does not tell names leaves 15 characters of each.
#[test]
fn cut_names_are_used_where_they_are_clear() {
    let server = serve(&V2_3, as_recorded);
    let (mut flink, machine) = driver(&V2_3, &server);
    machine.change(|recording| {
        let threads = &mut recording.processes[0].threads;
        threads.are_cut = true;
        threads.threads.iter_mut().for_each(|thread| thread.name = thread.name.chars().take(15).collect());
    });
    let graph = flink.look().expect("a cluster");
    assert_eq!(names_of(&graph, ThreadKind::Task(task(&graph, "alpha/slow (2/2)"))), ["slow (2/2)#0"]);
    assert_eq!(names_of(&graph, ThreadKind::Task(task(&graph, "alpha/everywhere (1/2)"))), ["everywhere (1/2"]);
    assert!(names_of(&graph, ThreadKind::Task(task(&graph, "alpha/TumblingEventTimeWindows (1/2)"))).is_empty());
    assert!(flink.left_alone().iter().any(|line| line.contains("'TumblingEventTi'")), "{:?}", flink.left_alone());
    assert!(graph.threads.iter().all(|thread| thread.name != "TumblingEventTi"), "they are not put first either");
}

#[test]
fn processes_of_other_clusters_are_left_alone() {
    let server = serve(&V2_3, as_recorded);
    let (mut flink, machine) = driver(&V2_3, &server);
    machine.change(|recording| recording.processes[0].ports.clear());
    assert!(flink.look().expect("a cluster").threads.is_empty());
    assert!(flink.advice().iter().any(|line| line.contains("no TaskManager")));
}

/// A cluster with TaskManagers of their own: they are found by the ports that the interface tells.
#[test]
fn task_managers_are_found_by_their_ports() {
    let managers = r#"{"taskmanagers": [
        {"id": "h:1-a", "path": "pekko.tcp://flink@h:40001/user/rpc/taskmanager_0", "dataPort": 40002},
        {"id": "h:2-b", "path": "pekko.tcp://flink@h:40003/user/rpc/taskmanager_0", "dataPort": -1}]}"#;
    let server = serve(&V2_3, |path, page| match path {
        "/taskmanagers" => Answer::Ok(managers.as_bytes().to_vec()),
        _ => as_recorded(path, page),
    });
    let (mut flink, machine) = driver(&V2_3, &server);
    machine.change(|recording| recording.processes.clear());
    let dump = fixture("flink-2.3/dump.txt");
    for (pid, port) in [(1, 40_002), (2, 40_003), (3, 40_004)] {
        machine.add_dump(pid, "java TaskManagerRunner", &dump, V2_3.dumped_ms);
        machine.change(|recording| {
            recording.processes.last_mut().expect("added").ports.extend([port, 9_250 + pid as u16]);
        });
    }
    let cluster = Cluster::get(&flink.http, &flink.url).expect("a cluster");
    let members = flink.members(&cluster).expect("found");
    let found: Vec<_> = members.iter().map(|member| (member.process.pid, member.task_manager.as_deref())).collect();
    assert_eq!(found, [(1, Some("h:1-a")), (2, Some("h:2-b"))]);
    // Their reporters are found by the ports of the configuration.
    flink.metrics.clear();
    let mut cluster = cluster;
    cluster.settings.insert("metrics.reporter.prom.port".to_owned(), "9251,9300-9310".to_owned());
    assert_eq!(flink.find_reporters(&cluster, &members), BTreeSet::from(["http://127.0.0.1:9251".to_owned()]));
    cluster.settings.remove("metrics.reporter.prom.port");
    assert_eq!(reporter::ports(&cluster.settings), [(9249, 9249)]);
    cluster.settings.clear();
    assert_eq!(reporter::ports(&cluster.settings), []);
}

#[test]
fn an_address_of_flink_is_recognized() {
    let server = Server::of_pages(vec![("/config".to_owned(), "{\"flink-version\": \"2.3.0\"}".to_owned())]);
    let http = Http::new(HttpOptions { deadline: Duration::from_secs(60), ..HttpOptions::default() });
    let http = http.expect("a client");
    assert_eq!(is_flink(&http, &server.url).expect("Flink"), "2.3.0");
    let other = Server::of_pages(vec![("/config".to_owned(), "{}".to_owned())]);
    assert!(is_flink(&http, &other.url).is_err());
}
