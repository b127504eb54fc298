//! Creates the tasks of a plan: the channels between them, their chains, and the state that they restore.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_dataflow::{
    Exchange, Identities, OnLate, OnMalformed, OperatorSpec, Plan, Port, SinkSpec, SourceSpec, Stage,
};
use anabranch_model::{
    Clock, Epoch, Error, EventTime, Incarnation, KeyGroupRange, Notices, Result, StageId, TaskCounters, TaskId,
};
use anabranch_operators::{
    Connectors, Delivery, Former, Functions, Host, Lookup, LookupContext, StaticSide, TaskContext, build_operator,
};
use anabranch_state::{Log, Others, StateFile};

use crate::change::handover::{Handover, PartOfTask};
use crate::change::preparation::{Preparation, Share};
use crate::change::static_sides::{Join, Placement, Unread, unread};
use crate::durable::recorder::Recorder;
use crate::network::wiring::Wiring;
use crate::task::advance::{Side, Task, TaskParts};
use crate::task::chain::{Chain, Restore, SinkTail, Tail};
use crate::task::control::Control;
use crate::task::exchange::ExchangeWriter;
use crate::task::host::{HostLife, TaskHost};
use crate::task::inbox::Inbox;
use crate::task::inbox_task::InboxTask;
use crate::task::job_state::{JobState, RestoredOperator, RestoredSink, RestoredSource};
use crate::task::mail::Mail;
use crate::task::snapshot::{OperatorFiles, Snapshot};
use crate::task::source_task::{SideTails, SourceParts, SourceTask};
use crate::task::stages::{input, reaches_sink};
use crate::task::view::TaskView;

/// Everything needed to create the tasks of an incarnation. Each task is created where it runs, several at a
/// time.
pub(crate) struct Assembly {
    plan: Arc<Plan>,
    connectors: Connectors,
    functions: Functions,
    clock: Arc<dyn Clock>,
    host: Arc<TaskHost>,
    control: Arc<Control>,
    wiring: Arc<Wiring>,
    /// Whether the coordinator is asked for a list that tasks share, because other workers may have tasks.
    asks: bool,
    after: Epoch,
    durable: Option<DurableParts>,
    /// The parts that the tasks of the former plan version have left, and the state that was loaded ahead.
    left: Mutex<(Option<Handover>, Option<Preparation>)>,
    present: Present,
}

/// What the tasks of a job need if it takes checkpoints or starts from a savepoint.
pub(crate) struct DurableParts {
    /// Name of the job.
    pub(crate) scope: String,
    /// Its former names, see [`FormerNames`](crate::durable::takeover::FormerNames).
    pub(crate) former: Vec<String>,
    pub(crate) state: JobState,
    /// How often a task reports progress while it restores its state.
    pub(crate) progress_interval: Duration,
    /// The recorder's queue. `None`: the job takes no checkpoints.
    pub(crate) snapshots: Option<Sender<Snapshot>>,
    /// The log that names the job's owner. `None`: the job cannot change its owner.
    pub(crate) log: Option<Log>,
}

/// Where tasks report, and the clock that they use.
pub(crate) struct Reporting {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) mail: Arc<dyn Mail>,
}

/// An incarnation at one worker.
pub(crate) struct Life<'a> {
    pub(crate) incarnation: Incarnation,
    /// The epoch of the checkpoint that it resumes from.
    pub(crate) after: Epoch,
    /// The tasks of this worker.
    pub(crate) tasks: &'a BTreeSet<TaskId>,
    pub(crate) placement: &'a Placement,
    /// Whether the coordinator is asked for a list that tasks share, because other workers may have tasks.
    pub(crate) asks: bool,
}

/// All tasks are created: closes the parts of the former plan version that were not taken. Their writes are
/// visible, and nothing follows, so a failure to close them has no effect.
impl Drop for Assembly {
    fn drop(&mut self) {
        let _ = self.left().0.take().map_or(Ok(()), Handover::close);
    }
}

/// The state of a worker's operators that is in memory when its tasks are created.
#[derive(Default)]
struct Present {
    /// Operators that take over state of the former plan version.
    kept: BTreeSet<(TaskId, usize)>,
    /// Operators whose state was loaded ahead, and the files that they have not read.
    prepared: BTreeMap<(TaskId, usize), RestoredOperator>,
    /// The static sides that joins keep.
    sides: BTreeMap<Join, StaticSide>,
    /// Stages whose rows are not needed.
    unread: BTreeSet<StageId>,
}

/// Finds the operators of these tasks whose state is in memory.
fn present(
    plan: &Plan,
    life: &Life<'_>,
    (handover, preparation): (Option<&Handover>, Option<&Preparation>),
    state: Option<&JobState>,
    functions: &Functions,
) -> Result<Present> {
    let mut present = Present::default();
    if handover.is_none() && preparation.is_none() {
        return Ok(present);
    }
    let tasks = life.tasks;
    present.sides = handover.map(|handover| handover.sides.of(plan, life.placement)).unwrap_or_default();
    present.unread = unread(plan, &present.sides.keys().copied().collect(), tasks);
    for stage in &plan.stages {
        let mut schema = input(plan, stage, functions)?;
        for (place, spec) in stage.operators.iter().enumerate() {
            let (_, output) = build_operator(spec, &schema, &plan.options, functions)?;
            for task in tasks.iter().filter(|task| task.stage == stage.id) {
                let Some(id) = plan.identities.state(stage.id, place) else { continue };
                let share = (id, plan.assignment.of_task(*task));
                if handover.is_some_and(|left| left.has(share, spec, &plan.options, functions)) {
                    present.kept.insert((*task, place));
                    continue;
                }
                let restored = state.and_then(|state| state.operators.get(&id));
                let left = preparation
                    .zip(restored)
                    .and_then(|(preparation, restored)| preparation.has(share, spec, &schema, &plan.options, restored));
                present.prepared.extend(left.map(|left| ((*task, place), left)));
            }
            schema = output;
        }
    }
    Ok(present)
}

impl Assembly {
    /// For the tasks of a worker.
    pub(crate) fn new(
        (plan, wiring): (Arc<Plan>, Arc<Wiring>),
        connectors: Connectors,
        reporting: Reporting,
        life: &Life<'_>,
        durable: Option<DurableParts>,
        (handover, preparation): (Option<Handover>, Option<Preparation>),
    ) -> Result<Assembly> {
        let inboxes = wiring.inboxes().cloned().collect();
        let (incarnation, after) = (life.incarnation, life.after);
        let Reporting { clock, notices, mail } = reporting;
        let control = Control::new(incarnation, after, mail, inboxes, life.tasks.len());
        let (log, own) = (durable.as_ref().and_then(|durable| durable.log.clone()), Some(Arc::clone(&control)));
        let host_life = HostLife { incarnation, after, log, control: own, asks: life.asks };
        let host = match &handover {
            Some(handover) => {
                handover.host.go_on(host_life);
                Arc::clone(&handover.host)
            }
            None => Arc::new(TaskHost::new(&plan.options.job_name, host_life, notices, Arc::clone(&clock))),
        };
        let (functions, asks) = (Functions::default(), life.asks);
        let state = durable.as_ref().map(|durable| &durable.state);
        let present = present(&plan, life, (handover.as_ref(), preparation.as_ref()), state, &functions)?;
        let left = Mutex::new((handover, preparation));
        Ok(Assembly { plan, connectors, functions, clock, host, control, wiring, asks, after, durable, left, present })
    }

    /// The job, as its tables see it.
    pub(crate) fn host(&self) -> Arc<TaskHost> {
        Arc::clone(&self.host)
    }

    fn left(&self) -> MutexGuard<'_, (Option<Handover>, Option<Preparation>)> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the recorder the files of operators that take over state.
    pub(crate) fn pass_files_on(&self, recorder: &mut Recorder) {
        for (task, place) in &self.present.kept {
            let Some(share) = self.share(*task, *place) else { continue };
            let files = self.left().0.as_mut().and_then(|handover| handover.files(share));
            files.into_iter().for_each(|files| recorder.go_on(*task, share.0, files));
        }
        for (task, place) in self.present.prepared.keys() {
            let files = self.share(*task, *place).and_then(|share| Some((share.0, self.files(share)?)));
            files.into_iter().for_each(|(id, files)| recorder.go_on(*task, id, OperatorFiles::restored(files)));
        }
    }

    fn share(&self, task: TaskId, place: usize) -> Option<Share> {
        let id = self.plan.identities.state(task.stage, place)?;
        Some((id, self.plan.assignment.of_task(task)))
    }

    /// The files of the checkpoint with rows of these key groups.
    fn files(&self, share: Share) -> Option<Vec<StateFile>> {
        let keys = self.left().1.as_ref()?.keys(share)?;
        let restored = self.durable.as_ref()?.state.operators.get(&share.0)?;
        let others = Some(Others { first_key: keys.start, keys: keys.len() });
        let own = |(file, own): (&StateFile, KeyGroupRange)| match file.key_groups == own {
            true => file.clone(),
            false => StateFile { key_groups: own, others, ..file.clone() },
        };
        Some(restored.files(share.1).map(own).collect())
    }

    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Whether tasks should be created concurrently: they read state, or tasks of other processes wait for
    /// them.
    pub(crate) fn opens_apart(&self) -> bool {
        self.after > Epoch(0) || self.asks || self.durable.as_ref().is_some_and(|durable| !durable.state.is_empty())
    }

    /// What observers see of a task.
    pub(crate) fn view(&self, id: TaskId) -> TaskView {
        let stage = self.plan.stage(id.stage);
        let mut states = stage.operators.iter().filter_map(OperatorSpec::stateful);
        TaskView {
            id,
            stage_name: stage.name.clone(),
            is_source: stage.source.is_some(),
            is_sink: stage.sink.is_some(),
            restores: self.restore(stage, id).is_some_and(|restore| !restore.operators.is_empty()),
            keeps_windows: states.any(|state| state.waits_for_event_time()),
            counters: Arc::new(TaskCounters::default()),
            inbox: self.wiring.inbox(id, Port::Main).map(|(inbox, _)| inbox),
        }
    }

    /// Creates a task and opens its tables. A sink first makes visible the prepared results of the
    /// checkpoint.
    pub(crate) fn create(&self, id: TaskId, counters: Arc<TaskCounters>) -> Result<Task> {
        let stage = self.plan.stage(id.stage);
        self.task(stage, id, counters).map_err(|e| e.at(format!("{} ({})", stage.id, stage.name)))
    }

    fn task(&self, stage: &Stage, id: TaskId, counters: Arc<TaskCounters>) -> Result<Task> {
        let context = TaskContext {
            index: id.index,
            parallelism: stage.parallelism,
            batch_rows: self.plan.options.batch_rows,
            delivery: self.delivery(|identities| Some(identities.sink(stage.id)?.number.to_string())),
            clock: Arc::clone(&self.clock),
            host: Arc::clone(&self.host) as Arc<dyn Host>,
        };
        let tail = match &stage.sink {
            Some(sink) => {
                let durable = self.durable.as_ref();
                let prepared = durable.and_then(|d| d.state.sinks.get(&self.plan.identities.sink(stage.id)?));
                let part = self.plan.identities.sink(stage.id);
                let part = part.map(|part| PartOfTask::new(part, id.index, stage.parallelism));
                let left = part.and_then(|part| self.left().0.as_mut()?.sink(part, sink));
                match left {
                    Some(left) => Tail::Sink(left),
                    None => Tail::Sink(self.sink(sink, &context, prepared)?),
                }
            }
            None => Tail::Exchanges(
                self.plan.outputs(stage.id).map(|e| self.writer(e, id, &counters)).collect::<Result<_>>()?,
            ),
        };
        let main = self.wiring.inbox(id, Port::Main);
        let input = input(&self.plan, stage, &self.functions)?;
        let (options, clock) = (&self.plan.options, Arc::clone(&self.clock));
        let shared = (Arc::clone(&counters), Arc::clone(&self.control));
        let mut chain = Chain::new(stage, input, tail, options, &self.functions, shared, clock)?;
        for place in 0..stage.operators.len() {
            let gone = || Error::internal("a kept operator is missing");
            if self.present.kept.contains(&(id, place)) {
                let left = self.share(id, place).and_then(|share| self.left().0.as_mut()?.operator(share));
                let left = left.ok_or_else(gone)?;
                // As after a restore.
                main.iter().for_each(|(inbox, _)| inbox.set_reached(left.watermark));
                chain.succeed(place, left.operator, left.watermark)?;
            } else if self.present.prepared.contains_key(&(id, place)) {
                let prepared = self.share(id, place).and_then(|share| self.left().1.as_mut()?.take(share));
                chain.succeed(place, prepared.ok_or_else(gone)?, EventTime::MIN)?;
            }
        }
        let (restore, after) = (self.restore(stage, id), self.after);
        let sides = self.sides(id, &mut chain)?;
        let parts = TaskParts {
            id,
            chain,
            restore,
            progress_interval: self.durable.as_ref().map_or(Duration::MAX, |durable| durable.progress_interval),
            sides,
            counters,
            clock: Arc::clone(&self.clock),
            control: Arc::clone(&self.control),
            snapshots: self.durable.as_ref().and_then(|durable| durable.snapshots.clone()),
            after,
            told_under: Epoch(0),
            boundary: None,
            side_end: None,
        };
        match (&stage.source, main) {
            (Some(_), _) => Ok(Task::Source(Box::new(self.source(stage, parts, &context)?))),
            (None, Some((inbox, _))) => {
                let lookup = self.lookup(stage, &context, &inbox, &parts.counters)?;
                let inputs = self.wiring.inputs(stage.id);
                Ok(Task::Inbox(Box::new(InboxTask::new(parts, inbox, inputs).with_lookup(lookup)?)))
            }
            _ => Err(Error::internal("a stage without input")),
        }
    }

    /// The static sides that a task reads. The joins of its chain take over the sides that they keep.
    fn sides(&self, id: TaskId, chain: &mut Chain) -> Result<Vec<Side>> {
        let mut sides = Vec::new();
        for (operator, inbox, channels) in self.wiring.sides(id) {
            match self.present.sides.get(&(id.stage, operator)) {
                Some(side) => {
                    // Senders must not wait for this inbox.
                    inbox.close();
                    chain.take_static_side(operator, side.clone())?;
                }
                None => sides.push(Side::new(operator, inbox, channels, self.after)),
            }
        }
        Ok(sides)
    }

    /// What the operators of a task restore.
    fn restore(&self, stage: &Stage, id: TaskId) -> Option<Restore> {
        let DurableParts { state, .. } = self.durable.as_ref()?;
        let Plan { identities, assignment, key_groups, .. } = &*self.plan;
        let Present { kept, prepared, .. } = &self.present;
        let state = |place| match prepared.get(&(id, place)) {
            Some(left) => Some((place, left.clone())),
            None => Some((place, state.operators.get(&identities.state(stage.id, place)?)?.clone())),
        };
        let restored = (0..stage.operators.len()).filter(|place| !kept.contains(&(id, *place)));
        let operators = restored.filter_map(state).collect();
        let go_on = (0..stage.operators.len()).filter(|place| prepared.contains_key(&(id, *place))).collect();
        let (is_first, own) = (id.index == 0, assignment.of_task(id));
        Some(Restore { operators, go_on, is_first, own, groups: *key_groups })
    }

    /// Opens the outside table that the first operator of a stage looks up, if it does.
    fn lookup(
        &self,
        stage: &Stage,
        task: &TaskContext,
        inbox: &Arc<Inbox>,
        counters: &TaskCounters,
    ) -> Result<Option<Box<dyn Lookup>>> {
        let Some(OperatorSpec::LookupJoin(spec)) = stage.operators.first() else { return Ok(None) };
        let inbox = Arc::clone(inbox);
        let context = LookupContext {
            task: task.clone(),
            wake: Arc::new(move || inbox.wake()),
            counters: Arc::clone(&counters.lookups),
            bytes_max: self.plan.options.state_bytes,
        };
        let connector = self.connectors.get(&spec.table.connector.connector)?;
        connector.lookup(spec, &context).map(Some).map_err(|error| error.at(format!("table {}", spec.table.table)))
    }

    /// When rows leave a sink, and the name that distinguishes its writer from the job's other writers: two
    /// inserts into one table must not treat each other's results as their own.
    fn delivery(&self, writer: impl Fn(&Identities) -> Option<String>) -> Delivery {
        match &self.durable {
            Some(DurableParts { scope, former, state, snapshots: Some(_), .. }) => {
                let writer = writer(&self.plan.identities);
                let scoped =
                    |job: &str| writer.as_ref().map_or_else(|| job.to_owned(), |writer| format!("{job}-{writer}"));
                let scopes = former.iter().map(|job| scoped(job)).collect();
                Delivery::ExactlyOnce { scope: scoped(scope), former: Former { scopes, tasks: state.parallelism } }
            }
            _ => Delivery::AtLeastOnce,
        }
    }

    /// Opens a sink, which first makes visible its own share of the results that were `prepared` before.
    fn sink(&self, spec: &SinkSpec, context: &TaskContext, prepared: Option<&RestoredSink>) -> Result<SinkTail> {
        let place = |e: Error| e.at(format!("table {}", spec.table));
        let connector = self.connectors.get(&spec.connector.connector)?;
        let by_checkpoint = self.durable.as_ref().is_some_and(|durable| durable.snapshots.is_some());
        let mut tail = SinkTail::new(connector.sink(spec, context).map_err(place)?, by_checkpoint);
        let own = prepared.into_iter().flat_map(|prepared| prepared.of_task(context.index, context.parallelism));
        tail.restore(own).map_err(place)?;
        Ok(tail)
    }

    fn source(&self, stage: &Stage, parts: TaskParts, context: &TaskContext) -> Result<SourceTask> {
        let Some(spec) = &stage.source else { return Err(Error::internal("not a source")) };
        let place = |e: Error| e.at(format!("table {}", spec.table));
        let restored = self
            .durable
            .as_ref()
            .and_then(|durable| durable.state.sources.get(&self.plan.identities.source(stage.id)?));
        let (version, interval) = (self.plan.version, self.plan.options.epoch_interval);
        let (reaches_sink, host) = (reaches_sink(&self.plan, stage.id), Arc::clone(&self.host) as Arc<dyn Host>);
        let part = self.plan.identities.source(stage.id);
        let part = part.map(|part| PartOfTask::new(part, context.index, context.parallelism));
        let left = part.and_then(|part| self.left().0.as_mut()?.source(part, spec));
        if let Some(left) = left {
            let source = left.go_on(spec, &self.functions).map_err(place)?;
            return Ok(SourceTask::new(parts, source, version, interval, reaches_sink, host).goes_on());
        }
        if self.present.unread.contains(&stage.id) {
            let (on_malformed, on_late) = (OnMalformed::Leave, OnLate::Leave);
            let spec = SourceSpec { on_malformed, on_late, ..spec.clone() };
            let source = SourceParts::new(&spec, Box::new(Unread), SideTails::default(), None, &self.functions)
                .map_err(place)?;
            return Ok(SourceTask::new(parts, source, version, interval, reaches_sink, host));
        }
        let positions = restored.map(|restored| &restored.positions);
        let source = self.connectors.get(&spec.connector.connector)?.source(spec, context, positions).map_err(place)?;
        let tails = self.side_tails(stage, spec, context, restored)?;
        let source = SourceParts::new(spec, source, tails, restored, &self.functions).map_err(place)?;
        Ok(SourceTask::new(parts, source, version, interval, reaches_sink, host))
    }

    /// Opens the tables for a source's malformed records and late rows.
    fn side_tails(
        &self,
        stage: &Stage,
        spec: &SourceSpec,
        context: &TaskContext,
        restored: Option<&RestoredSource>,
    ) -> Result<SideTails> {
        // The stage may also have a sink, so this writer needs a different name.
        let open = |sink: &SinkSpec, what: &str, prepared: Option<&RestoredSink>| {
            let scope = |identities: &Identities| Some(format!("{what}-{}", identities.source(stage.id)?.number));
            let context = TaskContext { delivery: self.delivery(scope), ..context.clone() };
            self.sink(sink, &context, prepared).map(Some)
        };
        // In the former statements this reader wrote them. Its prepared results have no table any more.
        let left_out = |what: &str, prepared: Option<&RestoredSink>, is_left: bool| {
            if prepared.is_some_and(|prepared| !prepared.is_empty()) {
                let table = &spec.table;
                let why = match is_left {
                    true => format!("another reader of the table reports {what} now"),
                    false => format!("the table no longer declares a table for {what}"),
                };
                self.host.notify(format!(
                    "table {table}: {what} that the checkpoint holds for this reader are not written, because {why}"
                ));
            }
            None
        };
        let prepared = (restored.map(|restored| &restored.dead_letters), restored.map(|restored| &restored.late_rows));
        let malformed = match &spec.on_malformed {
            OnMalformed::DeadLetter(sink) => open(sink, "malformed", prepared.0)?,
            other => left_out("malformed records", prepared.0, *other == OnMalformed::Leave),
        };
        let late = match &spec.on_late {
            OnLate::Write(sink) => open(sink, "late", prepared.1)?,
            other => left_out("late rows", prepared.1, *other == OnLate::Leave),
        };
        Ok(SideTails { malformed, late })
    }

    /// The sending side of an exchange for one task.
    fn writer(&self, exchange: &Exchange, from: TaskId, counters: &TaskCounters) -> Result<ExchangeWriter> {
        let senders = self.wiring.senders(exchange, from)?;
        let (options, clock) = (&self.plan.options, Arc::clone(&self.clock));
        let owners = (self.plan.key_groups, self.plan.assignment.of(exchange.to));
        let writer = ExchangeWriter::new(exchange.kind.clone(), senders, owners, options, clock);
        Ok(writer.counting(|| counters.key_groups_of(exchange.to, self.plan.key_groups)))
    }
}
