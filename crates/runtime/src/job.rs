//! A running job: makes the tasks of a plan, starts their threads, watches them end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_dataflow::{Exchange, ExchangeKind, OnMalformed, PLAN_FORMAT, Plan, Port, SinkSpec, Stage};
use anabranch_model::{Clock, Epoch, Error, EventTime, Nanos, Result, StageId, TaskCounters, TaskId, TaskMetrics};
use anabranch_operators::{Committable, Connectors, Delivery, Functions, TaskContext};
use anabranch_protocol::Input;

use crate::chain::{Chain, SinkTail, Tail};
use crate::control::{Control, Members};
use crate::durable::{JobState, TakenOver};
use crate::exchange::{ChannelSender, ExchangeWriter};
use crate::inbox::{Inbox, QueueStats};
use crate::inbox_task::{InboxTask, Side, TaskParts};
use crate::outline::Outline;
use crate::recorder::{self, Recorder};
use crate::snapshot::Snapshot;
use crate::source_task::{SourceParts, SourceTask};

/// Epochs of one group at most.
const GROUP_EPOCHS: u64 = 10;

/// A job whose tasks run on threads of this process. Whoever holds it holds the threads.
pub struct Job {
    handle: JobHandle,
    threads: Vec<JoinHandle<()>>,
}

/// A job seen from outside, by any number of observers.
#[derive(Clone)]
pub struct JobHandle {
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
    started: Nanos,
    tasks: Arc<[TaskView]>,
}

/// What a finished job did.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Last reading of every task.
    pub tasks: Vec<TaskMetrics>,
    /// From start to the end of the last task.
    pub elapsed: Duration,
}

/// A task seen from outside.
pub(crate) struct TaskView {
    pub(crate) id: TaskId,
    pub(crate) stage_name: String,
    is_source: bool,
    is_sink: bool,
    counters: Arc<TaskCounters>,
    inbox: Option<Arc<Inbox>>,
}

/// The inboxes of a stage's tasks for one port, with the first channel of each sending stage.
struct Entry {
    inboxes: Vec<Arc<Inbox>>,
    channels: usize,
    first_channel: BTreeMap<StageId, usize>,
}

/// Everything that the making of tasks looks up.
struct Builder<'a> {
    plan: &'a Plan,
    connectors: &'a Connectors,
    functions: &'a Functions,
    clock: Arc<dyn Clock>,
    control: Arc<Control>,
    entries: BTreeMap<(StageId, Option<usize>), Entry>,
    durable: Option<DurableParts>,
}

/// What tasks of a job with checkpoints have beyond the others.
struct DurableParts {
    after: Epoch,
    scope: String,
    outline: Outline,
    state: JobState,
    snapshots: SyncSender<Snapshot>,
}

/// A task before it runs.
pub(crate) enum Task {
    Source(Box<SourceTask>),
    Inbox(Box<InboxTask>),
}

/// The parts of a job, before anything runs.
pub(crate) struct Parts {
    pub(crate) control: Arc<Control>,
    pub(crate) tasks: Vec<(TaskView, Task)>,
    pub(crate) recorder: Option<(Recorder, Receiver<Snapshot>)>,
}

impl Task {
    pub(crate) fn parts(&self) -> &TaskParts {
        match self {
            Task::Source(task) => task.parts(),
            Task::Inbox(task) => task.parts(),
        }
    }

    fn run(self) -> Result<()> {
        match self {
            Task::Source(task) => task.run(),
            Task::Inbox(task) => task.run(),
        }
    }
}

impl Job {
    /// Starts a plan: one thread per task, named after its stage. With `taken_over` it goes on from the checkpoint and takes
    /// checkpoints; without, it begins anew and leaves nothing.
    pub fn start(
        plan: &Plan,
        connectors: &Connectors,
        clock: Arc<dyn Clock>,
        taken_over: Option<TakenOver>,
    ) -> Result<Job> {
        let Parts { control, tasks, recorder } = build(plan, connectors, &clock, taken_over)?;
        let (views, tasks): (Vec<TaskView>, Vec<Task>) = tasks.into_iter().unzip();
        let started = clock.now();
        let mut job = Job { handle: JobHandle { control, clock, started, tasks: views.into() }, threads: Vec::new() };
        if let Some((recorder, received)) = recorder {
            let thread = recorder::spawn(recorder, received, Arc::clone(&job.handle.control));
            job.threads.push(thread.map_err(|error| no_thread(&error))?);
        }
        for (index, task) in tasks.into_iter().enumerate() {
            job.spawn(index, task)?;
        }
        Ok(job)
    }

    fn spawn(&mut self, index: usize, task: Task) -> Result<()> {
        let view = &self.handle.tasks[index];
        let place = format!("{} task {} ({})", view.id.stage, view.id.index, view.stage_name);
        let control = Arc::clone(&self.handle.control);
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| task.run())).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text =
                    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
                Err(Error::internal(format!("panic: {text}")))
            });
            if let Err(error) = outcome {
                control.fail(error.at(place));
            }
            control.task_ended();
        };
        // Linux shows 15 bytes of a thread's name.
        let name: String = format!("{}.{} {}", view.id.stage.0, view.id.index, view.stage_name);
        match std::thread::Builder::new().name(name).spawn(run) {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.handle.control.fail(Error::outside("thread"));
                Err(no_thread(&error))
            }
        }
    }

    /// The job for observers.
    #[must_use]
    pub fn handle(&self) -> JobHandle {
        self.handle.clone()
    }

    /// Waits for the end of the job: all sources exhausted, the stop carried out, or the first failure.
    pub fn wait(mut self) -> Result<Summary> {
        self.handle.control.wait_ended(None);
        for thread in self.threads.drain(..) {
            // A panic of the body was caught inside and has become the job's failure.
            let _ = thread.join();
        }
        match self.handle.control.take_failure() {
            Some(error) => Err(error),
            None => {
                let elapsed = Duration::from_nanos(self.handle.clock.now().since(self.handle.started));
                Ok(Summary { tasks: self.handle.metrics(), elapsed })
            }
        }
    }
}

impl JobHandle {
    /// Asks the job to stop at the end of an epoch: what was read is processed, open windows stay open.
    pub fn stop(&self) {
        self.control.tell(Input::Stop);
    }

    /// Tears the job down where it is, as a crash would.
    pub fn cancel(&self) {
        self.control.fail(Error::user("the job was dropped"));
    }

    /// Waits until all tasks have ended, at most for `timeout`. Whether they have.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.control.wait_ended(Some(timeout))
    }

    /// A reading of every task, in order of stages.
    #[must_use]
    pub fn metrics(&self) -> Vec<TaskMetrics> {
        let now = self.clock.now();
        self.tasks.iter().map(|task| task.metrics(now)).collect()
    }

    /// Forgets the latencies recorded so far: what a measurement calls after its warm-up.
    pub fn reset_latencies(&self) {
        for task in self.tasks.iter() {
            task.counters.latency.reset();
            task.counters.result_latency.reset();
        }
    }
}

/// A job that is dropped without [`Job::wait`] is torn down; no thread outlives it.
impl Drop for Job {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.handle.cancel();
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

impl TaskView {
    pub(crate) fn metrics(&self, now: Nanos) -> TaskMetrics {
        let queue = self.inbox.as_ref().map_or(QueueStats::default(), |inbox| inbox.stats(now));
        let counters = &self.counters;
        TaskMetrics {
            task: self.id,
            stage_name: self.stage_name.clone(),
            is_source: self.is_source,
            is_sink: self.is_sink,
            rows_in: counters.rows_in.load(Relaxed),
            bytes_in: counters.bytes_in.load(Relaxed),
            rows_out: counters.rows_out.load(Relaxed),
            bytes_out: counters.bytes_out.load(Relaxed),
            busy_ns: counters.busy_ns.load(Relaxed),
            idle_ns: counters.idle_ns.load(Relaxed),
            backpressured_ns: counters.backpressured_ns.load(Relaxed),
            late_rows: counters.late_rows.load(Relaxed),
            malformed_rows: counters.malformed_rows.load(Relaxed),
            watermark: EventTime(counters.watermark_ms.load(Relaxed)),
            epoch: counters.epoch.load(Relaxed),
            queue_batches: queue.batches,
            queue_bytes: queue.bytes,
            oldest_queued_ns: queue.oldest_ns,
            latency: counters.latency.summary(),
            result_latency: counters.result_latency.summary(),
        }
    }
}

/// Makes the tasks of a plan and what they share; nothing runs yet, but sinks make visible what was prepared before.
pub(crate) fn build(
    plan: &Plan,
    connectors: &Connectors,
    clock: &Arc<dyn Clock>,
    taken_over: Option<TakenOver>,
) -> Result<Parts> {
    if plan.format != PLAN_FORMAT {
        return Err(Error::user(format!("the plan has format {}, this version reads {PLAN_FORMAT}", plan.format))
            .remedy("plan the query again with this version"));
    }
    let of = |wanted: fn(&Stage) -> bool| -> Vec<TaskId> {
        plan.stages.iter().filter(|s| wanted(s)).flat_map(tasks_of).collect()
    };
    let epoch_interval = plan.options.epoch_interval;
    let checkpoints = taken_over.as_ref().map(|taken| taken.checkpointing.config());
    let control = Control::new(
        Members { sources: of(|s| s.source.is_some()), sinks: of(|s| s.sink.is_some()), all: of(|_| true) },
        checkpoints.map_or(GROUP_EPOCHS, |config| group_epochs(config.interval_ns, epoch_interval)),
        checkpoints,
        taken_over.as_ref().map_or(Epoch(0), |taken| taken.after),
        Arc::clone(clock),
    );
    let (durable, recorder) = match taken_over {
        None => (None, None),
        Some(TakenOver { recorder, after, state, .. }) => {
            // Room for one of each task, and for both that a task may take in a row: at a checkpoint and at its end.
            let (snapshots, received) = sync_channel(plan.task_count() as usize + 1);
            let (scope, outline) = (recorder.job.clone(), recorder.outline.clone());
            (Some(DurableParts { after, scope, outline, state, snapshots }), Some((recorder, received)))
        }
    };
    let entries = entries(plan);
    control.watch(entries.values().flat_map(|e| e.inboxes.iter().cloned()));
    let functions = Functions::default();
    let clock = Arc::clone(clock);
    let builder = Builder { plan, connectors, functions: &functions, clock, control, entries, durable };
    let mut tasks = Vec::new();
    for stage in &plan.stages {
        for id in tasks_of(stage) {
            let place = |e: Error| e.at(format!("{} ({})", stage.id, stage.name));
            tasks.push(builder.task(stage, id).map_err(place)?);
        }
    }
    Ok(Parts { control: builder.control, tasks, recorder })
}

/// Epochs of a group: so many that checkpoints, which end groups, come about as often as they should.
fn group_epochs(checkpoint_interval_ns: u64, epoch_interval: Duration) -> u64 {
    let epoch_ns = u64::try_from(epoch_interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    (checkpoint_interval_ns / epoch_ns / 2).clamp(1, GROUP_EPOCHS)
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::outside(format!("cannot start a thread: {error}"))
        .remedy("lower the parallelism, or raise the limit of threads (ulimit -u)")
}

fn tasks_of(stage: &Stage) -> impl Iterator<Item = TaskId> + use<> {
    let id = stage.id;
    (0..stage.parallelism).map(move |index| TaskId { stage: id, index })
}

fn port_key(port: Port) -> Option<usize> {
    match port {
        Port::Main => None,
        Port::Side(operator) => Some(operator),
    }
}

/// Channels that an exchange makes to one receiving task.
fn channels_of(plan: &Plan, exchange: &Exchange) -> usize {
    match exchange.kind {
        ExchangeKind::Forward => 1,
        _ => plan.stage(exchange.from).parallelism as usize,
    }
}

fn entries(plan: &Plan) -> BTreeMap<(StageId, Option<usize>), Entry> {
    let mut entries: BTreeMap<(StageId, Option<usize>), Entry> = BTreeMap::new();
    for exchange in &plan.exchanges {
        let key = (exchange.to, port_key(exchange.port));
        let none = Entry { inboxes: Vec::new(), channels: 0, first_channel: BTreeMap::new() };
        let entry = entries.entry(key).or_insert(none);
        entry.first_channel.insert(exchange.from, entry.channels);
        entry.channels += channels_of(plan, exchange);
    }
    for ((to, _), entry) in &mut entries {
        let inbox = || Arc::new(Inbox::new(entry.channels, plan.options.channel_bytes));
        entry.inboxes = (0..plan.stage(*to).parallelism).map(|_| inbox()).collect();
    }
    entries
}

impl Builder<'_> {
    fn task(&self, stage: &Stage, id: TaskId) -> Result<(TaskView, Task)> {
        let context = TaskContext {
            index: id.index,
            parallelism: stage.parallelism,
            batch_rows: self.plan.options.batch_rows,
            delivery: self.delivery(|outline| Some(outline.sink(stage.id)?.to_string())),
            clock: Arc::clone(&self.clock),
        };
        let counters = Arc::new(TaskCounters::default());
        let tail = match &stage.sink {
            Some(sink) => {
                let durable = self.durable.as_ref();
                let prepared = durable.and_then(|d| d.state.sinks.get(&d.outline.sink(stage.id)?));
                Tail::Sink(self.sink(sink, &context, prepared)?)
            }
            None => Tail::Exchanges(self.plan.outputs(stage.id).map(|e| self.writer(e, id)).collect::<Result<_>>()?),
        };
        let main = self.entries.get(&(stage.id, None));
        let input = match (&stage.source, self.plan.inputs(stage.id).find(|e| e.port == Port::Main)) {
            (Some(source), None) => SourceParts::schema(source, self.functions)?,
            (None, Some(exchange)) => Arc::clone(&self.plan.stage(exchange.from).schema),
            _ => return Err(Error::internal("a stage has either a source or exchanges into its main port")),
        };
        let (options, clock) = (&self.plan.options, Arc::clone(&self.clock));
        let mut chain = Chain::new(stage, input, tail, options, self.functions, Arc::clone(&counters), clock)?;
        if let Some(DurableParts { outline, state, .. }) = &self.durable {
            let states = (0..stage.operators.len())
                .filter_map(|place| Some((place, state.operators.get(&outline.operator(stage.id, place)?)?)));
            chain.restore(&states.collect(), id, stage.parallelism, self.plan.key_groups)?;
        }
        let after = self.durable.as_ref().map_or(Epoch(0), |durable| durable.after);
        let sides = self.entries.iter().filter(|((to, _), _)| *to == stage.id).filter_map(|((_, port), entry)| {
            let inbox = Arc::clone(&entry.inboxes[id.index as usize]);
            port.map(|operator| Side::new(operator, inbox, entry.channels, after))
        });
        let parts = TaskParts {
            id,
            chain,
            sides: sides.collect(),
            counters: Arc::clone(&counters),
            clock: Arc::clone(&self.clock),
            control: Arc::clone(&self.control),
            snapshots: self.durable.as_ref().map(|durable| durable.snapshots.clone()),
            after,
        };
        let inbox = main.map(|entry| Arc::clone(&entry.inboxes[id.index as usize]));
        let view = TaskView {
            id,
            stage_name: stage.name.clone(),
            is_source: stage.source.is_some(),
            is_sink: stage.sink.is_some(),
            counters,
            inbox: inbox.clone(),
        };
        let task = match (&stage.source, inbox, main) {
            (Some(_), ..) => Task::Source(Box::new(self.source(stage, parts, &context)?)),
            (None, Some(inbox), Some(entry)) => Task::Inbox(Box::new(InboxTask::new(parts, inbox, entry.channels))),
            _ => return Err(Error::internal("a stage without input")),
        };
        Ok((view, task))
    }

    /// When rows leave a sink, and what tells its writer from the job's other ones: two inserts into one table must not take
    /// each other's for their own.
    fn delivery(&self, writer: impl Fn(&Outline) -> Option<String>) -> Delivery {
        match &self.durable {
            None => Delivery::AtLeastOnce,
            Some(DurableParts { scope, outline, .. }) => Delivery::ExactlyOnce {
                scope: writer(outline).map_or_else(|| scope.clone(), |writer| format!("{scope}-{writer}")),
            },
        }
    }

    /// Opens a sink, which first makes visible what is its own of what was `prepared` before.
    fn sink(&self, spec: &SinkSpec, context: &TaskContext, prepared: Option<&Vec<Committable>>) -> Result<SinkTail> {
        let place = |e: Error| e.at(format!("table {}", spec.table));
        let connector = self.connectors.get(&spec.connector.connector)?;
        let mut tail = SinkTail::new(connector.sink(spec, context).map_err(place)?, self.durable.is_some());
        tail.restore(prepared.map_or(&[], Vec::as_slice), context.index, context.parallelism).map_err(place)?;
        Ok(tail)
    }

    fn source(&self, stage: &Stage, parts: TaskParts, context: &TaskContext) -> Result<SourceTask> {
        let Some(spec) = &stage.source else { return Err(Error::internal("not a source")) };
        let place = |e: Error| e.at(format!("table {}", spec.table));
        let restored = self.durable.as_ref().and_then(|durable| {
            let number = durable.outline.source(stage.id)?;
            durable.state.sources.get(&number)
        });
        let positions = restored.map(|restored| &restored.positions);
        let source = self.connectors.get(&spec.connector.connector)?.source(spec, context, positions).map_err(place)?;
        let dead_letter = match &spec.on_malformed {
            OnMalformed::DeadLetter(sink) => {
                // The stage may have a sink of its own, with a name of its own.
                let delivery = self.delivery(|outline| Some(format!("malformed-{}", outline.source(stage.id)?)));
                let context = TaskContext { delivery, ..context.clone() };
                Some(self.sink(sink, &context, restored.map(|restored| &restored.dead_letters))?)
            }
            _ => None,
        };
        let source = SourceParts::new(spec, source, dead_letter, restored, self.functions).map_err(place)?;
        let (version, interval) = (self.plan.version, self.plan.options.epoch_interval);
        Ok(SourceTask::new(parts, source, version, interval))
    }

    /// The sending side of an exchange for one task.
    fn writer(&self, exchange: &Exchange, from: TaskId) -> Result<ExchangeWriter> {
        let entry = self.entries.get(&(exchange.to, port_key(exchange.port)));
        let entry = entry.ok_or_else(|| Error::internal("an exchange without receiver"))?;
        let first = entry.first_channel[&exchange.from];
        let forward = exchange.kind == ExchangeKind::Forward;
        if forward && entry.inboxes.len() != self.plan.stage(exchange.from).parallelism as usize {
            return Err(Error::internal("a forward exchange between stages of different parallelism"));
        }
        let channel = if forward { first } else { first + from.index as usize };
        let all = entry.inboxes.iter().enumerate().filter(|(to, _)| !forward || *to == from.index as usize);
        let senders = all.map(|(_, inbox)| ChannelSender { inbox: Arc::clone(inbox), channel }).collect();
        let (options, clock) = (&self.plan.options, Arc::clone(&self.clock));
        Ok(ExchangeWriter::new(exchange.kind.clone(), senders, self.plan.key_groups, options, clock))
    }
}
