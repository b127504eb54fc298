//! A job whose tasks are divided over several workers. Each has its own endpoint and its own thread, as in a
//! process of its own; messages pass in their written form.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Tables, plan};
use anabranch_dataflow::{AlignmentSpec, ExchangeKind, Expr, JobOptions, Lateness, OnMalformed, Plan, WatermarkSpec};
use anabranch_model::{Clock, Error, Nanos, Result, Rng, SystemClock};
use anabranch_operators::Connectors;
use anabranch_protocol::membership::{Member, Process, WorkerId};
use anabranch_protocol::worker::Term;
use anabranch_runtime::messages::{FromWorker, ToWorker};
use anabranch_runtime::network::{Endpoint, Keys};
use anabranch_runtime::{Check, HostedJob, Job, JobHandle, Link, Origin, Premises, RemoteWorker, Workers};
use anabranch_state::Store;
use arrow::datatypes::{DataType, TimeUnit};
use serde::Serialize;
use serde::de::DeserializeOwned;

const LIMIT: Duration = Duration::from_secs(60);
const JOB: u64 = 7;

fn anywhere() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

/// A message as its receiver reads it.
fn written<T: Serialize + DeserializeOwned>(message: &T) -> T {
    serde_json::from_str(&serde_json::to_string(message).expect("it can be written")).expect("it can be read")
}

struct Up(JobHandle, Process);

impl Premises for Up {
    fn checkpoints(&self, _plan: &Plan) -> Result<Store> {
        Err(Error::outside("this worker has no access to the checkpoint storage"))
    }

    fn savepoint(&self, _place: &str) -> Result<Origin> {
        Err(Error::outside("there is none"))
    }

    fn send(&self, job: u64, message: FromWorker) {
        assert_eq!(job, JOB);
        self.0.from_worker(self.1, written(&message));
    }

    fn hosts(&self, _job: u64, _hosted: Option<anabranch_runtime::Hosted>) {}
}

struct Down(Arc<HostedJob>);

impl Link for Down {
    fn send(&self, _term: Term, message: ToWorker) {
        self.0.send(written(&message));
    }

    fn forget(&self, _term: Term, _ended: bool) {}
}

type Hosted = Arc<Mutex<BTreeMap<Process, Arc<HostedJob>>>>;

/// Starts a job at this number of workers with so many slots each.
fn start(tables: &Tables, plan: &Plan, workers: u32, slots: u32, is_encrypted: bool, hosted: &Hosted) -> Result<Job> {
    let mut connectors = Connectors::default();
    connectors.register("log", Arc::new(tables.clone()));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let endpoint = |worker| {
        let keys = is_encrypted.then(|| Keys::generate().expect("keys"));
        let endpoint = Endpoint::listen(anywhere(), WorkerId(worker), (b"secret", keys), Arc::clone(&clock));
        Arc::new(endpoint.expect("a port"))
    };
    let endpoints: Vec<_> = (1..=workers).map(endpoint).collect();
    let (all, here) = (connectors.clone(), Arc::clone(hosted));
    let register = move |handle: JobHandle| {
        for endpoint in endpoints {
            let process = Process { worker: endpoint.worker(), life: 1 };
            let (up, exchange) = (Arc::new(Up(handle.clone(), process)), endpoint.peer());
            let job = HostedJob::start(JOB, Duration::MAX, all.clone(), endpoint, up).expect("a thread");
            let job = Arc::new(job);
            here.lock().expect("lock").insert(process, Arc::clone(&job));
            let member = Member { process, slots, labels: Arc::default() };
            let (copies, link) = ([].into(), Arc::new(Down(job)));
            let name = process.worker.to_string();
            handle.joined(vec![RemoteWorker { name, member, exchange, heard: Nanos(0), copies, link }]);
        }
    };
    let workers = Workers {
        job: JOB,
        endpoint: endpoint(0),
        awaited: 1,
        hosted: Box::new(Vec::new),
        patience: Duration::ZERO,
        check: Check::Content,
        is_wanted: Box::new(|| true),
        occupancy: Arc::default(),
        register: Box::new(register),
    };
    Job::start_at(plan, &connectors, Arc::clone(&clock), None, None, Some(workers))
}

fn options(rng: &mut Rng) -> JobOptions {
    JobOptions {
        epoch_interval: Duration::from_micros(500 + rng.below(3000)),
        buffer_timeout: Duration::from_micros([0, 100, 5000][rng.below(3) as usize]),
        batch_rows: 1 + rng.below(200) as usize,
        channel_bytes: 1 + rng.below(4000) as usize,
        ..JobOptions::default()
    }
}

/// The rows of each epoch at all sinks are those that all sources cut into it, wherever the tasks are.
#[test]
fn tasks_of_several_workers_give_the_rows_of_one() {
    let base = std::env::var("ANABRANCH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    for seed in base..base + 15 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (sources, sinks) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
        let (kind, sinks) = match rng.below(4) {
            0 => (ExchangeKind::Forward, sources),
            1 => (ExchangeKind::Broadcast, sinks),
            2 => (ExchangeKind::Rebalance, sinks),
            _ => (ExchangeKind::Hash { keys: vec![1] }, sinks),
        };
        let copies = if kind == ExchangeKind::Broadcast { u64::from(sinks) } else { 1 };
        let tables = Tables::new(seed, Some(1000));
        let plan = plan(sources, kind, sinks, options(&mut rng), OnMalformed::Fail);
        let workers = 1 + rng.below(3) as u32;
        let slots = sources.max(sinks).div_ceil(workers);
        let hosted = Hosted::default();
        let job = start(&tables, &plan, workers, slots, seed % 2 == 0, &hosted).expect("the job starts");
        assert!(job.handle().wait_timeout(LIMIT), "seed {seed}: the job hangs");
        job.wait().expect("the job ends");
        let log = tables.log.lock().expect("no panic");
        let rows: usize = log.written.values().map(Vec::len).sum();
        assert_eq!(rows as u64, 1000 * u64::from(sources) * copies, "seed {seed}");
        let tasks: BTreeSet<u32> = log.cut.keys().map(|(task, _)| *task).collect();
        assert_eq!(tasks.len(), sources as usize);
        drop(log);
        hosted.lock().expect("lock").clear();
    }
}

/// The numbers of rows are their event times. A source of any worker goes on only while it is at most so far
/// ahead of the slowest one, wherever that is, and no source waits for one that has ended.
#[test]
fn no_source_of_several_workers_runs_ahead_of_the_slowest() {
    let base = std::env::var("ANABRANCH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    for seed in base..base + 12 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (sources, drift) = (1 + rng.below(4) as u32, rng.below(100) as i64);
        let mut tables = Tables::new(seed, Some(1000));
        tables.drift = Some((drift, Arc::new(Mutex::new((0..sources).map(|task| (task, i64::MIN)).collect()))));
        let mut plan = plan(sources, ExchangeKind::Rebalance, sources, options(&mut rng), OnMalformed::Fail);
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        plan.stages[0].source.as_mut().expect("a source").watermark = Some(WatermarkSpec {
            time: Expr::Cast { expr: Box::new(Expr::Column(1)), to: time, safe: false },
            delay_ms: 0,
            idle_timeout_ms: None,
            lateness: Lateness::Job,
            by_clock: false,
            at_end: false,
            alignment: Some(AlignmentSpec { group: "g".into(), max_drift_ms: drift, update_interval_ms: 1 }),
        });
        let workers = rng.below(4) as u32;
        let hosted = Hosted::default();
        let job = match workers {
            0 => {
                let mut connectors = Connectors::default();
                connectors.register("log", Arc::new(tables.clone()));
                Job::start(&plan, &connectors, Arc::new(SystemClock::new()), None, None)
            }
            workers => start(&tables, &plan, workers, sources.div_ceil(workers), false, &hosted),
        };
        let job = job.expect("the job starts");
        assert!(job.handle().wait_timeout(LIMIT), "seed {seed}: the job hangs");
        job.wait().expect("the job ends");
        let rows: usize = tables.log.lock().expect("no panic").written.values().map(Vec::len).sum();
        assert_eq!(rows, 1000 * sources as usize, "seed {seed}");
        hosted.lock().expect("lock").clear();
    }
}

#[test]
fn a_job_waits_for_workers_and_fails_when_it_loses_one_that_it_cannot_do_without() {
    let tables = Tables::new(1, None);
    let plan = plan(2, ExchangeKind::Rebalance, 2, JobOptions::default(), OnMalformed::Fail);
    let hosted = Hosted::default();
    let job = start(&tables, &plan, 2, 1, false, &hosted).expect("the job starts");
    let handle = job.handle();
    let lost = Process { worker: WorkerId(2), life: 1 };
    // Its tasks end with its process.
    hosted.lock().expect("lock").remove(&lost);
    handle.lost(lost, Error::outside("worker b is lost: it is silent"));
    assert!(handle.wait_timeout(LIMIT), "the job hangs");
    let error = job.wait().expect_err("there are no checkpoints").to_string();
    assert!(error.contains("worker b is lost"), "{error}");
}
