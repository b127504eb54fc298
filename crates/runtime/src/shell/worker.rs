//! The tasks of one job in this process: executes the commands of the protocol's [`Worker`], and passes the
//! reports of the tasks to it.
//!
//! It has no thread of its own. In an embedded job the coordinator's thread drives it, and their messages are
//! passed as values.

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

/// Reports of the threads that connect the tasks of a worker and load state for the next tasks.
pub(crate) enum FromThread {
    /// The channels to other workers are connected, or cannot be.
    Connected(Incarnation, Result<Wiring>),
    /// State for the next plan version is loaded, or cannot be.
    Loaded(Box<Preparation>, Arc<AtomicBool>, Result<()>),
}

/// Where the tasks of a worker and its threads send their reports.
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
    /// What the tasks of the former plan version have left for the tasks that start.
    handover: Option<Handover>,
    /// The checkpoint from which the tasks have started.
    from: Option<CheckpointId>,
    /// State that is loaded for the next plan version.
    preparing: Option<Preparing>,
    /// Tasks that start once the channels to other workers are connected.
    connecting: Option<Starting>,
    pub(crate) running: Option<Running>,
    /// Whether sinks are full, here and elsewhere.
    held: Held,
    /// The newest event time that sources at other workers have reached, and the incarnation of these
    /// sources, by alignment group.
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
    /// A worker without tasks. Their reports will go to `mail`, and observers will see them in `shared`.
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

    /// The tasks that start from now on belong to this deployment.
    pub(crate) fn deploy(&mut self, deployment: Deployment) {
        self.deployment = deployment;
    }

    /// Sets or clears the reason why the tasks that start next cannot be started.
    pub(crate) fn refuse(&mut self, why: Option<Error>) {
        self.refused = why;
    }

    /// Tables of an earlier incarnation were open: a retry may help if one cannot be opened.
    pub(crate) fn retries_opening(&mut self) {
        self.deployment.retries_opening = true;
    }

    /// The stages of a plan whose tables are only in this process.
    pub(crate) fn stages_here(&self, plan: &Plan) -> Result<BTreeSet<StageId>> {
        stages_here(plan, &self.connectors)
    }

    /// The deployment of the tasks that start next.
    pub(crate) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Holds or releases the sources of the running tasks, as the newest message for their incarnation says.
    fn take_hold(&self) {
        let Some(control) = self.running.as_ref().map(|running| &running.control) else { return };
        self.held.holds(control.incarnation()).into_iter().for_each(|held| control.hold(held));
    }

    /// Sources of an alignment group at other workers have reached an event time.
    pub(crate) fn aligned(&mut self, Reached { incarnation, group, time }: Reached) {
        self.elsewhere.insert(group, (incarnation, time));
        self.take_alignment();
    }

    /// Tells the running tasks the event time of sources elsewhere.
    fn take_alignment(&self) {
        let Some(running) = &self.running else { return };
        for (group, (_, time)) in
            self.elsewhere.iter().filter(|(_, (incarnation, _))| *incarnation == running.control.incarnation())
        {
            running.control.reached_elsewhere(group, *time);
        }
    }

    /// Tells the coordinator the event time of the sources here. `again`: it is another coordinator.
    fn tell_alignment(&mut self, again: bool) {
        let Some(running) = &self.running else { return };
        let incarnation = running.control.incarnation();
        for (group, time) in running.control.reached_here(again, self.clock.now()) {
            self.send_observation(Observed::Reached(Reached { incarnation, group, time }));
        }
    }

    /// Answers with the list that the first task of the job has found.
    fn agreed(&mut self, incarnation: Incarnation, key: &str, list: &[String]) {
        if incarnation == self.incarnation() {
            // A task that has ended needs no answer.
            self.asking.answered(key).into_iter().for_each(|answer| drop(answer.send(list.to_vec())));
        }
    }

    /// Whether the coordinator is in another process.
    fn is_remote(&self) -> bool {
        self.network.as_ref().is_some_and(|(network, _)| network.worker() != HERE.worker)
    }

    /// The checkpoint storage, if local copies of its files are removed here. In its own process, the
    /// coordinator removes them.
    fn copied(&self) -> Option<Store> {
        let checkpoints = self.deployment.checkpoints.as_ref().filter(|_| self.is_remote());
        checkpoints.map(|checkpoints| checkpoints.store.clone())
    }

    fn incarnation(&self) -> Incarnation {
        self.protocol.fence().incarnation
    }

    /// Handles a message of the coordinator. Returns whether it is another coordinator, which has adopted the
    /// tasks.
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
            full.into_iter().for_each(|full| self.send_input(Upward::Full { incarnation, full }));
            self.tell_alignment(true);
            self.give_up_preparing();
        }
        adopted
    }

    /// Whether tasks are here, though they may be ending.
    pub(crate) fn has_tasks(&self) -> bool {
        matches!(self.protocol.phase(), Phase::Running | Phase::Ending)
    }

    /// The incarnation of the tasks, if all of them run.
    pub(crate) fn runs(&self) -> Option<Incarnation> {
        self.protocol.runs()
    }

    /// The tasks, if all of them run, with the fingerprint of their plan.
    pub(crate) fn hosted(&self) -> Option<Hosted> {
        let hosting = self.protocol.hosting()?;
        Some(Hosted { hosting, plan: self.deployment.plan.fingerprint().ok()?, from: self.from })
    }

    /// The process of the coordinator in this term has answered the heartbeat that this process sent at this
    /// time.
    pub(crate) fn answered(&mut self, term: Term, sent: Nanos) {
        self.input(Input::Heard(term, sent));
    }

    /// Handles the time.
    pub(crate) fn tick(&mut self) {
        self.check_loading();
        self.input(Input::Tick);
    }

    /// Handles a report of a task or the recorder.
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
                // Damage is permanent. The next start resumes from an older checkpoint.
                let retry = !matches!(error.kind(), ErrorKind::User | ErrorKind::Damaged);
                self.failed(incarnation, task, error, retry);
            }
            FromTask::NotOpened(incarnation, task, error) => {
                // A table that was open before may come back, even if a user must restore it.
                let retry = self.deployment.retries_opening && error.kind() != ErrorKind::Damaged;
                self.failed(incarnation, task, error, retry);
            }
            FromTask::Opened(incarnation) => self.opened(incarnation),
            FromTask::Dropped(incarnation, dropped) if incarnation == self.incarnation() => {
                self.collector.dropped(&dropped);
                self.dropped.extend(dropped);
            }
            FromTask::Dropped(..) => {}
            FromTask::Checkpoint => self.send_input(Upward::Checkpoint),
            FromTask::Full(incarnation, full) => {
                self.held.says(incarnation, full);
                self.send_input(Upward::Full { incarnation, full });
            }
            FromTask::Reached => self.tell_alignment(false),
            FromTask::Agree(incarnation, key, list, answer) if incarnation == self.incarnation() => {
                if self.asking.asks(&key, answer) {
                    self.send_input(Upward::Agree { incarnation, key, list });
                }
            }
            FromTask::Agree(..) => {}
        }
    }

    /// Handles the report of a thread that has connected the tasks, or loaded state.
    pub(crate) fn thread(&mut self, message: FromThread) {
        match message {
            FromThread::Connected(incarnation, wiring) => self.connected(incarnation, wiring),
            FromThread::Loaded(preparation, given_up, loaded) => self.loaded(preparation, &given_up, loaded),
        }
    }

    /// Sends the coordinator an input of its machines.
    fn send_input(&mut self, message: Upward<TaskState>) {
        self.outbox.push_back(FromWorker::Protocol(Box::new(message)));
    }

    /// Sends the coordinator an observation.
    fn send_observation(&mut self, observed: Observed) {
        self.outbox.push_back(FromWorker::Observed(observed));
    }

    /// The next message for the coordinator.
    pub(crate) fn poll(&mut self) -> Option<FromWorker> {
        self.outbox.pop_front()
    }

    /// The tasks, for observers.
    pub(crate) fn tasks(&self) -> Arc<[TaskView]> {
        self.shared.tasks()
    }

    /// Where the tasks send their reports.
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

    /// Cancels the tasks and waits for them. Returns the tasks that do not end, if any.
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
                            // The metrics at the end include the last reading.
                            self.send_observation(Observed::Metrics(self.shared.metrics()));
                        }
                        let control = self.running.as_ref().map(|running| &running.control);
                        let grant_wait_ns = control.map_or(0, |control| control.take_grant_wait_ns());
                        let passages = control.map(|control| control.take_passages()).unwrap_or_default();
                        let (dropped, incarnation) = (std::mem::take(&mut self.dropped), message.fence.incarnation);
                        let since = Since { incarnation, grant_wait_ns, dropped, passages };
                        if !since.is_empty() {
                            self.send_observation(Observed::Since(since));
                        }
                        self.send_input(Upward::Summary(message));
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
                // A source that reads the grant then knows whether this epoch is its last one.
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
            // With checkpoints, their commits decide what is done. Tasks that could not be started need no
            // orders.
            (Order::EpochDone(_), _) | (_, None) => {}
        }
    }

    /// Tasks without state have started when all tables are open. Others report it when they have restored
    /// their state. The time limit of the start begins here: each table itself limits how long opening it may
    /// take.
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
        self.send_observation(Observed::Failed { incarnation, task, error });
        self.input(Input::Task(incarnation, task, Report::Failed { retry }));
    }
}
