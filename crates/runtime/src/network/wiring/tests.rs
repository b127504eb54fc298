//! Several workers in one process, connected over sockets of this machine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anabranch_dataflow::{ExchangeKind, JobOptions, OnMalformed, Plan, Stage};
use anabranch_model::{
    Clock, Epoch, EventTime, Group, Incarnation, Marker, MarkerKind, Nanos, PlanVersion, Rng, Stamped, SystemClock,
    TaskCounters, TaskId,
};
use anabranch_operators::{Connector as _, Delivery, Functions, TaskContext};
use anabranch_protocol::coordinator::{Pace, Then};
use arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;

use super::*;
use crate::network::Patience;
use crate::task::advance::{Advance, Task, TaskParts};
use crate::task::chain::{Chain, SinkTail, Tail};
use crate::task::control::Control;
use crate::task::exchange::ExchangeWriter;
use crate::task::host::{HostLife, TaskHost};
use crate::task::inbox::Received;
use crate::task::inbox_task::InboxTask;
use crate::task::mail::Unheard;
use crate::task::source_task::{SideTails, SourceParts, SourceTask};
use crate::task::streaming;
use support::{Tables, plan, schema};

mod failures;
#[path = "../../../tests/all/support.rs"]
mod support;

const TOKEN: &[u8] = b"the secret of these workers";
const JOB: u64 = 9;
/// Long enough for a busy machine.
const PATIENCE: Patience = Patience {
    beat: Duration::from_millis(100),
    silence_max: Duration::from_secs(60),
    connect_max: Duration::from_secs(60),
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn listen(worker: u32, clock: &Arc<dyn Clock>) -> Endpoint {
    listen_with(worker, TOKEN, PATIENCE, clock)
}

fn listen_with(worker: u32, token: &[u8], patience: Patience, clock: &Arc<dyn Clock>) -> Endpoint {
    let any = "127.0.0.1:0".parse().unwrap();
    Endpoint::listen_with(any, WorkerId(worker), (token, None), patience, Arc::clone(clock)).unwrap()
}

fn addresses<'a>(endpoints: impl IntoIterator<Item = &'a Endpoint>) -> BTreeMap<WorkerId, Peer> {
    endpoints.into_iter().map(|endpoint| (endpoint.worker(), endpoint.peer())).collect()
}

/// Connects all workers. They begin in an order that the machine chooses.
fn connect(
    plan: &Plan,
    incarnation: u64,
    placement: &BTreeMap<TaskId, WorkerId>,
    endpoints: &[Endpoint],
) -> Vec<Wiring> {
    let peers = addresses(endpoints);
    let (peers, job) = (&peers, (JOB, Incarnation(incarnation)));
    thread::scope(|scope| {
        let wire = |endpoint| scope.spawn(move || Wiring::connect(plan, job, placement, peers, endpoint).unwrap());
        let wirings: Vec<_> = endpoints.iter().map(wire).collect();
        wirings.into_iter().map(|wiring| wiring.join().unwrap()).collect()
    })
}

fn task(stage: u32, index: u32) -> TaskId {
    TaskId { stage: StageId(stage), index }
}

fn all_tasks(plan: &Plan) -> Vec<TaskId> {
    plan.stages.iter().flat_map(tasks_of).collect()
}

/// What the tasks of a worker need beside their channels.
struct Worker<'a> {
    plan: &'a Plan,
    tables: &'a Tables,
    control: Arc<Control>,
    host: Arc<TaskHost>,
    clock: Arc<dyn Clock>,
}

impl<'a> Worker<'a> {
    /// All epochs are granted, and nobody waits until they are done.
    fn new(plan: &'a Plan, tables: &'a Tables, clock: &Arc<dyn Clock>) -> Worker<'a> {
        let notices = Arc::default();
        let control = Control::new(Incarnation(1), Epoch(0), Arc::new(Unheard), Vec::new(), 1);
        control.grant(Group { first: Epoch(1), last: Epoch(1 << 40) }, Pace::Steady, Then::Next, None);
        control.set_none_done();
        let own = Some(Arc::clone(&control));
        let life = HostLife { incarnation: Incarnation(1), after: Epoch(0), log: None, control: own, asks: false };
        let host = Arc::new(TaskHost::new("", life, notices, Arc::clone(clock)));
        Worker { plan, tables, control, host, clock: Arc::clone(clock) }
    }

    fn context(&self, id: TaskId, stage: &Stage) -> TaskContext {
        TaskContext {
            index: id.index,
            parallelism: stage.parallelism,
            batch_rows: self.plan.options.batch_rows,
            delivery: Delivery::AtLeastOnce,
            clock: Arc::clone(&self.clock),
            host: Arc::<TaskHost>::clone(&self.host),
        }
    }

    fn writer(&self, wiring: &Wiring, exchange: &Exchange, from: TaskId) -> ExchangeWriter {
        let senders = wiring.senders(exchange, from).unwrap();
        let owners = (self.plan.key_groups, self.plan.assignment.of(exchange.to));
        ExchangeWriter::new(exchange.kind.clone(), senders, owners, &self.plan.options, Arc::clone(&self.clock))
    }

    /// A task that reads or writes the tables.
    fn task(&self, wiring: &Wiring, id: TaskId) -> Task {
        let (stage, options, functions) = (self.plan.stage(id.stage), &self.plan.options, Functions::default());
        let context = self.context(id, stage);
        let tail = match &stage.sink {
            Some(sink) => Tail::Sink(SinkTail::new(self.tables.sink(sink, &context).unwrap(), false)),
            None => Tail::Exchanges(self.plan.outputs(id.stage).map(|e| self.writer(wiring, e, id)).collect()),
        };
        let counters = Arc::new(TaskCounters::default());
        let shared = (Arc::clone(&counters), Arc::clone(&self.control));
        let chain = Chain::new(stage, schema(), tail, options, &functions, shared, Arc::clone(&self.clock)).unwrap();
        let parts = TaskParts {
            id,
            chain,
            restore: None,
            progress_interval: Duration::MAX,
            sides: Vec::new(),
            counters,
            clock: Arc::clone(&self.clock),
            control: Arc::clone(&self.control),
            snapshots: None,
            after: Epoch(0),
            told_under: Epoch(0),
            boundary: None,
            side_end: None,
        };
        let Some(spec) = &stage.source else {
            let (inbox, channels) = wiring.inbox(id, Port::Main).unwrap();
            return Task::Inbox(Box::new(InboxTask::new(parts, inbox, vec![0; channels])));
        };
        let source = self.tables.source(spec, &context, None).unwrap();
        let source = SourceParts::new(spec, source, SideTails::default(), None, &functions).unwrap();
        let (interval, host) = (options.epoch_interval, Arc::<TaskHost>::clone(&self.host));
        Task::Source(Box::new(SourceTask::new(parts, source, self.plan.version, interval, true, host)))
    }
}

/// Runs each task on a thread, as a worker does. Returns how each has ended.
fn run(
    workers: &[(Worker<'_>, &Wiring)],
    placement: &BTreeMap<TaskId, WorkerId>,
    endpoints: &[Endpoint],
) -> BTreeMap<TaskId, Result<()>> {
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (id, at) in placement {
            let place = endpoints.iter().position(|endpoint| endpoint.worker() == *at).unwrap();
            let (worker, wiring) = &workers[place];
            let task = worker.task(wiring, *id);
            running.push((*id, scope.spawn(move || streaming::run(task).map(drop))));
        }
        running.into_iter().map(|(id, running)| (id, running.join().unwrap())).collect()
    })
}

fn random_options(rng: &mut Rng) -> JobOptions {
    JobOptions {
        epoch_interval: Duration::from_micros(200 + rng.below(3000)),
        buffer_timeout: Duration::from_micros([0, 100, 5000][rng.below(3) as usize]),
        batch_rows: 1 + rng.below(200) as usize,
        channel_bytes: 1 + rng.below(4000) as usize,
        ..JobOptions::default()
    }
}

/// A sink writes in an epoch exactly the rows that the sources cut into the epoch: as in one process, no
/// record overtakes a marker, and no marker a record.
fn check_epochs(tables: &Tables, copies: usize, what: &str) {
    let log = tables.log.lock().unwrap();
    let tasks: BTreeSet<u32> = log.cut.keys().map(|(task, _)| *task).collect();
    for epoch in log.written.keys().map(|(_, epoch)| *epoch).collect::<BTreeSet<u64>>() {
        let of_epoch = log.written.iter().filter(|((_, of), _)| *of == epoch);
        let mut written: Vec<(i64, i64)> = of_epoch.flat_map(|(_, rows)| rows.clone()).collect();
        written.sort_unstable();
        let mut expected = Vec::new();
        for task in &tasks {
            let end = |epoch: u64| log.cut.range((*task, 0)..=(*task, epoch)).next_back().map_or(0, |(_, end)| *end);
            let rows = (end(epoch - 1)..end(epoch)).map(|seq| (i64::from(*task), seq));
            expected.extend(rows.flat_map(|row| std::iter::repeat_n(row, copies)));
        }
        assert_eq!(written, expected, "{what}: epoch {epoch}");
    }
}

#[test]
fn tasks_of_several_workers_give_the_rows_of_one_process() {
    const ROWS: i64 = 1000;
    let base = std::env::var("ANABRANCH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    for seed in base..base + 20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let sources = 1 + rng.below(3) as u32;
        let (kind, sinks) = match rng.below(5) {
            0 => (ExchangeKind::Forward, sources),
            1 => (ExchangeKind::Broadcast, 1 + rng.below(3) as u32),
            2 => (ExchangeKind::Rebalance, 1 + rng.below(3) as u32),
            _ => (ExchangeKind::Hash { keys: vec![1] }, 2 + rng.below(2) as u32),
        };
        let copies = if kind == ExchangeKind::Broadcast { sinks as usize } else { 1 };
        let tables = Tables::new(seed, Some(ROWS));
        let plan = plan(sources, kind, sinks, random_options(&mut rng), OnMalformed::Fail);
        let clock = clock();
        let endpoints: Vec<Endpoint> = (0..2 + rng.below(2) as u32).map(|worker| listen(worker, &clock)).collect();
        let at = |rng: &mut Rng| WorkerId(rng.below(endpoints.len() as u64) as u32);
        let placement: BTreeMap<_, _> = all_tasks(&plan).into_iter().map(|task| (task, at(&mut rng))).collect();
        let wirings = connect(&plan, 1, &placement, &endpoints);
        let workers: Vec<_> = wirings.iter().map(|wiring| (Worker::new(&plan, &tables, &clock), wiring)).collect();
        for (task, outcome) in run(&workers, &placement, &endpoints) {
            assert!(outcome.is_ok(), "seed {seed}: {task:?} {outcome:?}");
        }
        for (_, wiring) in &workers {
            wiring.finish().unwrap();
        }
        check_epochs(&tables, copies, &format!("seed {seed}"));
        let log = tables.log.lock().unwrap();
        let rows: usize = log.written.values().map(Vec::len).sum();
        assert_eq!(rows as i64, ROWS * i64::from(sources) * copies as i64, "seed {seed}");
        assert_eq!(log.finished_sinks, sinks);
    }
}

/// One source task and one sink task, at two workers.
struct Pair {
    sender: Box<dyn ChannelSender>,
    inbox: Arc<Inbox>,
    wirings: Vec<Wiring>,
    endpoints: Vec<Endpoint>,
    clock: Arc<dyn Clock>,
}

fn pair(channel_bytes: usize) -> Pair {
    let options = JobOptions { channel_bytes, ..JobOptions::default() };
    let plan = plan(1, ExchangeKind::Forward, 1, options, OnMalformed::Fail);
    let clock = clock();
    let endpoints = vec![listen(1, &clock), listen(2, &clock)];
    let placement = BTreeMap::from([(task(0, 0), WorkerId(1)), (task(1, 0), WorkerId(2))]);
    let wirings = connect(&plan, 1, &placement, &endpoints);
    let mut senders = wirings[0].senders(&plan.exchanges[0], task(0, 0)).unwrap();
    let inbox = wirings[1].inbox(task(1, 0), Port::Main).unwrap().0;
    Pair { sender: senders.remove(0), inbox, wirings, endpoints, clock }
}

impl Pair {
    fn send(&mut self, envelope: Envelope) -> Result<()> {
        send(self.sender.as_mut(), envelope, self.clock.as_ref())
    }

    fn receive(&self) -> Received {
        self.inbox.receive(&[false], None, self.clock.as_ref())
    }

    fn received(&self) -> Envelope {
        match self.receive() {
            Received::Envelope(0, envelope) => envelope,
            Received::Failed(error) => panic!("{error}"),
            _ => panic!("nothing was received"),
        }
    }
}

fn send(sender: &mut dyn ChannelSender, envelope: Envelope, clock: &dyn Clock) -> Result<()> {
    let mut next = sender.offer(envelope, clock)?;
    while let Some(envelope) = next {
        sender.wait_for_room(&envelope);
        next = sender.offer(envelope, clock)?;
    }
    Ok(())
}

fn rows(first: i64, count: i64) -> Envelope {
    let numbers = || Arc::new(Int64Array::from_iter_values(first..first + count)) as ArrayRef;
    let batch = RecordBatch::try_new(schema(), vec![numbers(), numbers()]).unwrap();
    Envelope::Batch(Stamped { value: batch, born: Nanos(0) })
}

fn watermark(ms: i64) -> Envelope {
    Envelope::Watermark(Stamped { value: EventTime(ms), born: Nanos(0) })
}

fn marker(epoch: u64, kind: MarkerKind) -> Envelope {
    Envelope::Marker(Marker { epoch: Epoch(epoch), version: PlanVersion(1), snapshot: false, kind })
}

/// The numbers of rows one by one, and the other envelopes: a batch may be divided.
fn lines(envelope: &Envelope) -> Vec<String> {
    match envelope {
        Envelope::Batch(batch) => {
            batch.value.column(0).as_primitive::<Int64Type>().values().iter().map(|n| format!("row {n}")).collect()
        }
        Envelope::Watermark(watermark) => vec![format!("watermark {}", watermark.value.0)],
        Envelope::Idle => vec!["idle".into()],
        Envelope::Marker(marker) => vec![format!("marker {}", marker.epoch.0)],
    }
}

#[test]
fn all_kinds_of_envelopes_arrive_in_their_order() {
    let mut pair = pair(2000);
    let mut rng = Rng::new(7);
    let mut sent = Vec::new();
    for turn in 0..300 {
        sent.push(match rng.below(6) {
            0 => watermark(turn),
            1 => Envelope::Idle,
            2 => marker(turn.unsigned_abs(), MarkerKind::Cut),
            _ => rows(turn * 1000, 1 + rng.below(900) as i64),
        });
    }
    sent.push(marker(1000, MarkerKind::End));
    let expected: Vec<String> = sent.iter().flat_map(lines).collect();
    let mut received = Vec::new();
    thread::scope(|scope| {
        let inbox = Arc::clone(&pair.inbox);
        let clock = Arc::clone(&pair.clock);
        let sender = pair.sender.as_mut();
        scope.spawn(move || sent.into_iter().for_each(|envelope| send(sender, envelope, clock.as_ref()).unwrap()));
        while received.last().is_none_or(|last| last != "marker 1000") {
            match inbox.receive(&[false], None, pair.clock.as_ref()) {
                Received::Envelope(0, envelope) => received.extend(lines(&envelope)),
                _ => panic!("{} lines came", received.len()),
            }
        }
    });
    assert_eq!(received, expected);
}

/// A stalled task makes others buffer a bounded number of bytes, and its sender learns of it without waiting.
#[test]
fn a_receiver_that_stands_still_stops_its_sender() {
    const CHANNEL_BYTES: usize = 50_000;
    let mut pair = pair(CHANNEL_BYTES);
    let mut accepted = 0;
    // The receiver sets its limit first.
    pair.sender.wait_for_room(&Envelope::Idle);
    let refused = loop {
        match pair.sender.offer(rows(accepted * 100, 100), pair.clock.as_ref()).unwrap() {
            None => accepted += 1,
            Some(refused) => break refused,
        }
    };
    // A batch takes 1,600 bytes. The last one has no credit and waits to be sent.
    let fit = CHANNEL_BYTES as i64 / 1600;
    assert!((fit / 2..=fit + 1).contains(&accepted), "{accepted} of {fit} batches");
    assert!(
        pair.sender.offer(refused, pair.clock.as_ref()).unwrap().is_some(),
        "it is refused as often as it is offered"
    );
    for turn in 0..accepted {
        assert_eq!(lines(&pair.received())[0], format!("row {}", turn * 100));
    }
    pair.send(rows(7, 1)).unwrap();
    assert_eq!(lines(&pair.received()), ["row 7"]);
}

/// A job with a stalled sink: the source stops reading.
#[test]
fn a_source_stops_while_the_sink_at_another_worker_stands_still() {
    let tables = Tables::new(1, None);
    let options = JobOptions { channel_bytes: 10_000, ..JobOptions::default() };
    let plan = plan(1, ExchangeKind::Forward, 1, options, OnMalformed::Fail);
    let clock = clock();
    let endpoints = vec![listen(1, &clock), listen(2, &clock)];
    let placement = BTreeMap::from([(task(0, 0), WorkerId(1)), (task(1, 0), WorkerId(2))]);
    let wirings = connect(&plan, 1, &placement, &endpoints);
    let worker = Worker::new(&plan, &tables, &clock);
    let mut source = worker.task(&wirings[0], task(0, 0));
    // Without rows in between, a source gives up only when it has read some.
    let mut steps = 0;
    let mut input = None;
    let needs = loop {
        match source.advance(clock.now(), input.take()).unwrap() {
            Advance::Continue => {}
            Advance::Input(_) => input = Some(source.receive(Some(Duration::ZERO), None).unwrap()),
            other => break other,
        }
        steps += 1;
        assert!(steps < 1_000_000, "it reads without end");
    };
    assert_eq!(needs, Advance::Room);
    drop(wirings);
    assert!(source.advance(clock.now(), None).is_err(), "its connection is gone");
}

#[test]
fn the_receivers_watermark_is_known_once_it_has_taken_what_was_sent() {
    let mut pair = pair(10_000);
    assert_eq!((pair.sender.sent(), pair.sender.capacity()), (0, 10_000));
    pair.send(watermark(1)).unwrap();
    pair.send(watermark(2)).unwrap();
    let announced = pair.sender.sent();
    assert_eq!((announced, pair.sender.reached(announced + 1)), (2, None), "it is not sent yet");
    assert_eq!(pair.sender.reached(announced), None, "the receiver has taken nothing");
    assert_eq!(lines(&pair.received()), ["watermark 1"]);
    pair.inbox.set_reached(EventTime(77));
    assert_eq!(lines(&pair.received()), ["watermark 2"]);
    // No row follows. The receiver answers while it waits for input.
    let reached = loop {
        if let Some(reached) = pair.sender.reached(announced) {
            break reached;
        }
        let waits = pair.inbox.receive(&[false], Some(Duration::from_millis(1)), pair.clock.as_ref());
        assert!(matches!(waits, Received::Timeout));
    };
    assert_eq!(reached, EventTime(77));
}

#[test]
fn the_channels_of_a_task_share_their_memory() {
    assert_eq!([1, 2, 4].map(|channels| channel_capacity(4 << 20, channels)), [4 << 20; 3]);
    for channels in [5, 8, 64, 1000] {
        assert!(channels * channel_capacity(4 << 20, channels) <= FULL_CHANNELS * (4 << 20), "{channels}");
    }
}
