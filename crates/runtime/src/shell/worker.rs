//! The tasks of one job in this process: carries out what the protocol's [`Worker`] commands, and gives it
//! what the tasks report.
//!
//! It has no thread of its own. In an embedded job the coordinator's thread drives it, and the messages
//! between the two are values that it hands over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Epoch, Error, ErrorKind, EventTime, Incarnation, Nanos, Result, StageId, TaskId};
use anabranch_operators::Connectors;
use anabranch_protocol::Worker;
use anabranch_protocol::agree::Asking;
use anabranch_protocol::coordinator::{Checkpoint, Report, Tasks};
use anabranch_protocol::hold::Held;
use anabranch_protocol::message::{Downward, Upward};
use anabranch_protocol::worker::{Command, Config, FromCoordinator, Input, Order, Phase, Term};
use anabranch_state::{Store, TaskState};

use crate::change::handover::Handover;
use crate::change::preparation::Preparation;
use crate::durable::collector::Collector;
use crate::durable::journal::CheckpointId;
use crate::network::wiring::{Network, Wiring};
use crate::shell::adoption::Hosted;
use crate::shell::coordinator::HERE;
use crate::shell::deployment::Deployment;
use crate::shell::messages::{FromWorker, Observed, Reached, Since};
use crate::shell::remote::stages_here;
use crate::shell::running::{Drive, Running};
use crate::shell::shared::Shared;
use crate::task::mail::{FromTask, Mail};
use crate::task::view::TaskView;

mod preparing;
mod starting;

use preparing::Preparing;

/// What the threads report that connect the tasks of a worker and load state for the next ones.
pub(crate) enum FromThread {
    /// The channels to other workers are there.
    Connected(Incarnation, Result<Wiring>),
    /// State for the next plan version is loaded, or cannot be.
    Loaded(Box<Preparation>, Arc<AtomicBool>, Result<()>),
}

/// Where the tasks of a worker and its threads send what they report.
pub(crate) trait WorkerMail: Mail {
    fn send_from_thread(&self, message: FromThread);
}

/// The tasks of one job in this process.
pub(crate) struct WorkerShell {
    protocol: Worker<TaskState>,
    deployment: Deployment,
    connectors: Connectors,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    mail: Arc<dyn WorkerMail>,
    drive: Drive,
    /// Where other workers connect, and the number of the job there.
    network: Option<(Arc<dyn Network>, u64)>,
    /// Why the tasks that start next cannot be started.
    refused: Option<Error>,
    /// What the tasks of the plan version before have left for those that start.
    handover: Option<Handover>,
    /// The checkpoint from which the tasks have started.
    from: Option<CheckpointId>,
    /// What is loaded for the next plan version.
    preparing: Option<Preparing>,
    /// Tasks that start when the channels to other workers are there.
    connecting: Option<Starting>,
    pub(crate) running: Option<Running>,
    /// Whether sinks are full, here and elsewhere.
    held: Held,
    /// The newest messages that said how far sources at other workers have come, and for which tasks, by
    /// group.
    elsewhere: BTreeMap<String, (Incarnation, EventTime)>,
    /// Tasks that wait for an agreed list.
    asking: Asking<Sender<Vec<String>>>,
    /// Tasks that restore their state, with their names for messages.
    restoring: BTreeMap<TaskId, String>,
    dropped: Vec<(Epoch, String)>,
    collector: Collector,
    inputs: VecDeque<Input<TaskState>>,
    outbox: VecDeque<FromWorker>,
}

/// An incarnation that starts.
struct Starting {
    incarnation: Incarnation,
    tasks: Tasks,
    from: Option<Checkpoint<TaskState>>,
}

impl WorkerShell {
    /// A worker without tasks. Their reports go to `mail`, and observers see them in `shared`.
    pub(crate) fn new(
        config: Config,
        deployment: Deployment,
        connectors: Connectors,
        (shared, mail): (Arc<Shared>, Arc<dyn WorkerMail>),
        network: Option<(Arc<dyn Network>, u64)>,
        drive: Drive,
    ) -> WorkerShell {
        WorkerShell {
            protocol: Worker::new(config),
            deployment,
            connectors,
            clock: shared.clock(),
            shared,
            mail,
            drive,
            network,
            refused: None,
            handover: None,
            from: None,
            preparing: None,
            connecting: None,
            running: None,
            held: Held::default(),
            elsewhere: BTreeMap::new(),
            asking: Asking::default(),
            restoring: BTreeMap::new(),
            dropped: Vec::new(),
            collector: Collector::default(),
            inputs: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }

    /// The tasks that start from now on are those of this deployment.
    pub(crate) fn deploy(&mut self, deployment: Deployment) {
        self.deployment = deployment;
    }

    /// The tasks that start next cannot be started, for this reason, if there is one.
    pub(crate) fn refuse(&mut self, why: Option<Error>) {
        self.refused = why;
    }

    /// Tables of a later incarnation were open before: a retry may help if one cannot be opened.
    pub(crate) fn retries_opening(&mut self) {
        self.deployment.retries_opening = true;
    }

    /// The stages of a plan whose tables are only in this process.
    pub(crate) fn stages_here(&self, plan: &Plan) -> Result<BTreeSet<StageId>> {
        stages_here(plan, &self.connectors)
    }

    /// What the tasks that start next are to know.
    pub(crate) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Holds the sources of the tasks that run, or no longer, as the newest message for their incarnation
    /// says.
    fn take_hold(&self) {
        let Some(control) = self.running.as_ref().map(|running| &running.control) else { return };
        self.held.holds(control.incarnation()).into_iter().for_each(|held| control.hold(held));
    }

    /// The sources of a group at other workers have come so far.
    pub(crate) fn aligned(&mut self, Reached { incarnation, group, time }: Reached) {
        self.elsewhere.insert(group, (incarnation, time));
        self.take_alignment();
    }

    /// The tasks that run learn how far sources elsewhere have come.
    fn take_alignment(&self) {
        let Some(running) = &self.running else { return };
        for (group, (_, time)) in self.elsewhere.iter().filter(|(_, (of, _))| *of == running.control.incarnation()) {
            running.control.reached_elsewhere(group, *time);
        }
    }

    /// The coordinator learns how far the sources here have come. `again`: it is another one.
    fn tell_alignment(&mut self, again: bool) {
        let Some(running) = &self.running else { return };
        let incarnation = running.control.incarnation();
        for (group, time) in running.control.reached_here(again, self.clock.now()) {
            self.observes(Observed::Reached(Reached { incarnation, group, time }));
        }
    }

    /// The list that the first task of the job has found.
    fn agreed(&mut self, incarnation: Incarnation, key: &str, list: &[String]) {
        if incarnation == self.incarnation() {
            // A task that has ended meanwhile needs no answer.
            self.asking.answered(key).into_iter().for_each(|answer| drop(answer.send(list.to_vec())));
        }
    }

    /// Whether the coordinator is in another process.
    fn is_remote(&self) -> bool {
        self.network.as_ref().is_some_and(|(network, _)| network.worker() != HERE.worker)
    }

    /// The place of checkpoints, if copies of its files are removed here: the coordinator does so in its own
    /// process.
    fn copied(&self) -> Option<Store> {
        let checkpoints = self.deployment.checkpoints.as_ref().filter(|_| self.is_remote());
        checkpoints.map(|checkpoints| checkpoints.store.clone())
    }

    fn incarnation(&self) -> Incarnation {
        self.protocol.fence().incarnation
    }

    /// A message of the coordinator has arrived. Returns whether it is another coordinator, which has adopted
    /// the tasks.
    pub(crate) fn hears(&mut self, message: Downward<TaskState>) -> bool {
        match message {
            Downward::Order(message) => return self.message(message),
            Downward::AddOnly => self.add_only(),
            Downward::Load { version, from } => self.load(version, &from),
            Downward::GiveUp => self.give_up_preparing(),
            Downward::Hold { incarnation, held } => {
                self.held.told(incarnation, held);
                self.take_hold();
            }
            Downward::Agreed { incarnation, key, list } => self.agreed(incarnation, &key, &list),
        }
        false
    }

    fn message(&mut self, message: FromCoordinator<TaskState>) -> bool {
        let before = self.protocol.fence();
        self.input(Input::Message(message));
        let now = self.protocol.fence();
        let adopted = now.term > before.term && now.incarnation == before.incarnation;
        if adopted {
            let incarnation = now.incarnation;
            let full = self.held.adopted(incarnation);
            self.take_hold();
            full.into_iter().for_each(|full| self.says(Upward::Full { incarnation, full }));
            self.tell_alignment(true);
            self.give_up_preparing();
        }
        adopted
    }

    /// Whether tasks are here, though they may be ending.
    pub(crate) fn has_tasks(&self) -> bool {
        matches!(self.protocol.phase(), Phase::Running | Phase::Ending)
    }

    /// Whose tasks run, if all of them do.
    pub(crate) fn runs(&self) -> Option<Incarnation> {
        self.protocol.runs()
    }

    /// The tasks, if all of them run, and what distinguishes their plan.
    pub(crate) fn hosted(&self) -> Option<Hosted> {
        let hosting = self.protocol.hosting()?;
        Some(Hosted { hosting, plan: self.deployment.plan.fingerprint().ok()?, from: self.from })
    }

    /// The process of the coordinator in this term has answered the heartbeat that this process sent then.
    pub(crate) fn answered(&mut self, term: Term, sent: Nanos) {
        self.input(Input::Heard(term, sent));
    }

    /// Only time has passed.
    pub(crate) fn tick(&mut self) {
        self.check_loading();
        self.input(Input::Tick);
    }

    /// A task or the recorder reports.
    pub(crate) fn task(&mut self, message: FromTask) {
        match message {
            FromTask::Report(incarnation, task, report) => {
                // A task that was cancelled has not restored its state.
                if report == Report::Started && self.protocol.phase() == Phase::Running {
                    self.restoring.remove(&task);
                }
                self.input(Input::Task(incarnation, task, report));
            }
            FromTask::Failed(incarnation, task, error) => {
                // Damage does not go away. The next start resumes from an older checkpoint.
                let retry = !matches!(error.kind(), ErrorKind::User | ErrorKind::Damaged);
                self.failed(incarnation, task, error, retry);
            }
            FromTask::NotOpened(incarnation, task, error) => {
                // A table that was open before may be there again, also one that a user must put back.
                let retry = self.deployment.retries_opening && error.kind() != ErrorKind::Damaged;
                self.failed(incarnation, task, error, retry);
            }
            FromTask::Opened(incarnation) => self.opened(incarnation),
            FromTask::Dropped(incarnation, dropped) if incarnation == self.incarnation() => {
                self.collector.dropped(&dropped);
                self.dropped.extend(dropped);
            }
            FromTask::Dropped(..) => {}
            FromTask::Checkpoint => self.says(Upward::Checkpoint),
            FromTask::Full(incarnation, full) => {
                self.held.says(incarnation, full);
                self.says(Upward::Full { incarnation, full });
            }
            FromTask::Reached => self.tell_alignment(false),
            FromTask::Agree(incarnation, key, list, answer) if incarnation == self.incarnation() => {
                if self.asking.asks(&key, answer) {
                    self.says(Upward::Agree { incarnation, key, list });
                }
            }
            FromTask::Agree(..) => {}
        }
    }

    /// A thread has connected the tasks, or loaded state.
    pub(crate) fn thread(&mut self, message: FromThread) {
        match message {
            FromThread::Connected(incarnation, wiring) => self.connected(incarnation, wiring),
            FromThread::Loaded(preparation, given_up, loaded) => self.loaded(preparation, &given_up, loaded),
        }
    }

    /// Tells the coordinator what it needs to decide.
    fn says(&mut self, message: Upward<TaskState>) {
        self.outbox.push_back(FromWorker::Protocol(Box::new(message)));
    }

    /// Tells the coordinator what it shows or passes on.
    fn observes(&mut self, observed: Observed) {
        self.outbox.push_back(FromWorker::Observed(observed));
    }

    /// The next message for the coordinator.
    pub(crate) fn poll(&mut self) -> Option<FromWorker> {
        self.outbox.pop_front()
    }

    /// The tasks as observers see them.
    pub(crate) fn tasks(&self) -> Arc<[TaskView]> {
        self.shared.tasks()
    }

    /// Where the tasks report.
    pub(crate) fn mail(&self) -> &dyn Mail {
        &*self.mail
    }

    /// When [`WorkerShell::tick`] must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.protocol.next_deadline().into_iter().chain(self.loading_deadline()).min()
    }

    /// Tasks that restore their state.
    pub(crate) fn restoring(&self) -> Vec<&str> {
        self.restoring.values().map(String::as_str).collect()
    }

    /// Tasks that were cancelled and have not ended, if any.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let ends = self.protocol.phase() == Phase::Ending;
        self.running.as_ref().filter(|_| ends).and_then(Running::unfinished)
    }

    /// Cancels the tasks and waits for them. Returns what does not end, if anything.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.asking.cancelled();
        if let (Some(starting), Some((network, job))) = (self.connecting.take(), &self.network) {
            // Nobody waits for the peers any more.
            network.cancel(*job, starting.incarnation);
        }
        self.running.take().and_then(Running::end)
    }

    fn input(&mut self, input: Input<TaskState>) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            self.protocol.handle(self.clock.now(), input);
            while let Some(command) = self.protocol.poll() {
                match command {
                    Command::Tasks(incarnation, order) => self.order(incarnation, order),
                    Command::Send(message) => {
                        if message.summary.gone && self.is_remote() {
                            // The last reading of the tasks is not missing at the end.
                            self.observes(Observed::Metrics(self.shared.metrics()));
                        }
                        let control = self.running.as_ref().map(|running| &running.control);
                        let grant_wait_ns = control.map_or(0, |control| control.take_grant_wait_ns());
                        let passages = control.map(|control| control.take_passages()).unwrap_or_default();
                        let (dropped, incarnation) = (std::mem::take(&mut self.dropped), message.fence.incarnation);
                        let since = Since { incarnation, grant_wait_ns, dropped, passages };
                        if !since.is_empty() {
                            self.observes(Observed::Since(since));
                        }
                        self.says(Upward::Summary(message));
                    }
                }
            }
        }
    }

    fn order(&mut self, incarnation: Incarnation, order: Order<TaskState>) {
        let by_checkpoint = self.deployment.checkpoints.is_some();
        let control = self.running.as_ref().map(|running| &running.control);
        match (order, control) {
            (Order::Start { tasks, from }, _) => self.start(Starting { incarnation, tasks, from }),
            (Order::Grant { group, checkpoint, then, pace }, Some(control)) => {
                // A source that takes the grant then knows whether this epoch is its last one.
                control.grant(group, pace, then, checkpoint.then(|| self.clock.now()));
            }
            (Order::EpochDone(epoch), Some(control)) if !by_checkpoint => control.set_done(epoch),
            (Order::CheckpointDone(epoch), Some(control)) => {
                control.set_done(epoch);
                control.wake();
                let copied = self.copied().into_iter();
                copied.for_each(|store| self.collector.checkpoint_done(&store, incarnation, epoch));
            }
            (Order::AbortCheckpoint(epoch), Some(control)) => control.checkpoint_aborted(epoch),
            (Order::NoneDone, Some(control)) => control.set_none_done(),
            (Order::Cancel, _) => {
                self.asking.cancelled();
                self.running.iter().for_each(Running::cancel);
                if let Some((network, job)) = &self.network {
                    network.cancel(*job, incarnation);
                }
            }
            // With checkpoints, these decide what is done. Tasks that could not be started need no order.
            (Order::EpochDone(_), _) | (_, None) => {}
        }
    }

    /// Tasks without state have started when all tables are open. Others report it when they have restored
    /// their state. The time to start begins here: each table limits by itself how long opening it may take.
    fn opened(&mut self, incarnation: Incarnation) {
        if incarnation != self.protocol.fence().incarnation {
            return;
        }
        let restoring = self.restoring.values().cloned().collect();
        self.outbox.push_back(FromWorker::Deployed { incarnation, restoring });
        self.tell_alignment(false);
        let tasks = self.shared.tasks();
        let opened = tasks.first().map(|task| Input::Task(incarnation, task.id, Report::Restoring));
        let ready = tasks.iter().filter(|task| !task.restores).map(|task| task.id);
        self.inputs.extend(opened);
        self.inputs.extend(ready.map(|task| Input::Task(incarnation, task, Report::Started)));
        self.tick();
    }

    /// A task has failed. `retry`: whether a retry may help.
    fn failed(&mut self, incarnation: Incarnation, task: TaskId, error: Error, retry: bool) {
        self.observes(Observed::Failed { incarnation, task, error });
        self.input(Input::Task(incarnation, task, Report::Failed { retry }));
    }
}
