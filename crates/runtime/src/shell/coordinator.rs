//! Drives a job's coordinator: passes it the messages of workers, scribe and users, and executes its
//! commands.
//!
//! It runs on a separate thread, which sleeps unless there is something to decide. No task waits for it: it
//! grants the next group while sources are in the middle of the last one. The cost of coordination is its
//! work for a group, plus the time for which a source had to wait for a grant after all. The coordinator
//! enlarges groups if the cost is too high.

mod message;
mod next;
mod outcome;
mod preparing;
mod reconfiguring;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Error, Incarnation, Nanos, Result};
use anabranch_protocol::change::Input as ChangeInput;
use anabranch_protocol::coordinator::{Cause, Checkpoint, Command, Entry, Input, Pace, Phase, Tasks};
use anabranch_protocol::membership::{Process, WorkerId};
use anabranch_protocol::message::Upward;
use anabranch_protocol::{Coordinator, Peers};
use anabranch_state::{Store, TaskState};

use crate::durable::journal::{Journal, in_memory};
use crate::durable::scribe;
use crate::shell::job::Committed;
use crate::shell::messages::FromWorker;
use crate::shell::remote::Remotes;
use crate::shell::running::{END_MAX, NO_ANSWER};
use crate::shell::shared::Shared;
use crate::shell::watch::{Awaited, SLOW, Watch};
use crate::shell::worker::WorkerShell;

pub(crate) use message::Message;
use outcome::Failure;
use reconfiguring::Reconfiguring;
pub(crate) use reconfiguring::Requested;

/// The worker in the coordinator's process.
pub const HERE: Process = Process { worker: WorkerId(0), life: 1 };
/// Its name for users.
pub const HERE_NAME: &str = "local";
/// Interval at which the coordinator is notified that its job still waits for workers.
const WAITING: Duration = Duration::from_millis(100);
/// Time within which a summary of a worker in another process is answered. Usually a grant answers it
/// earlier. The worker repeats its summary later than this ([`REPEAT`]).
const ANSWER: Duration = Duration::from_secs(2);
/// Time after which a message between processes is repeated if it was not handled or answered, in both
/// directions. Connections lose no messages: this is for messages that were refused, such as a start that
/// arrived too late.
pub(crate) const REPEAT: Duration = Duration::from_secs(4);

/// The durable side of a job with checkpoints, which can restart.
pub(crate) struct Durable {
    pub(crate) store: Store,
    pub(crate) scribe: Sender<scribe::Task>,
    pub(crate) epoch_interval: Duration,
}

/// A caller that waits for a checkpoint, and the epoch of the checkpoint that was granted for it.
struct Waiting {
    answer: Sender<Committed>,
    epoch: Option<Epoch>,
}

/// An incarnation that waits for workers.
struct Unplaced {
    incarnation: Incarnation,
    from: Option<Checkpoint<TaskState>>,
    /// What is missing, for messages.
    missing: String,
    /// When the coordinator is notified again that it waits.
    again: Nanos,
}

/// The coordinator of one job, and the worker in its process.
pub(crate) struct Shell {
    coordinator: Coordinator<TaskState>,
    peers: Peers<TaskState>,
    pub(crate) worker: WorkerShell,
    /// Workers in other processes. `None`: all tasks are here.
    remotes: Option<Remotes>,
    /// An incarnation that waits for workers.
    unplaced: Option<Unplaced>,
    tasks: Tasks,
    messages: Receiver<Message>,
    /// Number of messages handled.
    pub(crate) taken: u64,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    durable: Option<Durable>,
    /// The scribe's thread, and a channel that closes at its end.
    scribe: Option<(JoinHandle<()>, Receiver<()>)>,
    /// Inputs that follow from commands, to be given to the coordinator next.
    inputs: VecDeque<Input<TaskState>>,
    /// Why the incarnation failed: its first failure, or the first that the user must resolve.
    failure: Option<Failure>,
    store_failure: Option<Error>,
    waiting: Vec<Waiting>,
    reconfiguring: Reconfiguring,
    /// Whether the present incarnation was cancelled.
    cancelled: bool,
    /// Workers with unanswered summaries, and the deadlines for the answers.
    unanswered: BTreeMap<Process, Nanos>,
    stopping: bool,
    /// Whether tasks at workers continue when the job ends here.
    leaves_tasks: bool,
    /// Whether the tables of an incarnation were ever open.
    pub(crate) was_open: bool,
    pub(crate) outcome: Option<Result<()>>,
    /// Time spent on the current group.
    busy_ns: u64,
    last_grant: Option<Nanos>,
    /// The longest time that a source waited for a grant since the last one.
    grant_wait_ns: u64,
    watch: Watch,
    /// Tasks that had state to restore when their tables had been opened.
    restoring: Vec<String>,
}

impl Shell {
    /// For a coordinator that has begun an incarnation, and a worker without tasks.
    pub(crate) fn new(
        coordinator: Coordinator<TaskState>,
        tasks: Tasks,
        (worker, remotes): (WorkerShell, Option<Remotes>),
        messages: Receiver<Message>,
        shared: Arc<Shared>,
        durable: Option<Durable>,
    ) -> Shell {
        let reconfiguring = Reconfiguring::new(worker.deployment().plan.version);
        Shell {
            coordinator,
            peers: Peers::default(),
            worker,
            remotes,
            unplaced: None,
            tasks,
            messages,
            taken: 0,
            clock: shared.clock(),
            shared,
            durable,
            scribe: None,
            inputs: VecDeque::new(),
            failure: None,
            store_failure: None,
            waiting: Vec::new(),
            reconfiguring,
            cancelled: false,
            unanswered: BTreeMap::new(),
            stopping: false,
            leaves_tasks: false,
            was_open: false,
            outcome: None,
            busy_ns: 0,
            last_grant: None,
            grant_wait_ns: 0,
            watch: Watch::default(),
            restoring: Vec::new(),
        }
    }

    /// Registers the scribe's thread, which ends after this one and then drops the other end of `ended`.
    pub(crate) fn wait_for(&mut self, scribe: JoinHandle<()>, ended: Receiver<()>) {
        self.scribe = Some((scribe, ended));
    }

    /// Starts the tasks of the first incarnation.
    pub(crate) fn begin(&mut self, incarnation: Incarnation, from: Option<Checkpoint<TaskState>>) {
        self.begins(incarnation, from.as_ref());
        self.place_tasks(incarnation, from);
        self.process_inputs();
    }

    /// Waits until the tables of an incarnation are open, or the job has ended.
    pub(crate) fn wait_open(&mut self) {
        while !self.was_open && self.outcome.is_none() {
            self.receive();
        }
    }

    /// Drives the job to its end.
    pub(crate) fn run(mut self) -> Result<()> {
        while self.outcome.is_none() {
            self.receive();
        }
        self.end()
    }

    /// Waits for the next message, and handles it.
    fn receive(&mut self) {
        let received = match self.deadline() {
            Some(at) => self.messages.recv_timeout(at.after(self.clock.now())),
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        self.handle(received.ok());
    }

    /// The next time at which it must act without a message.
    fn deadline(&self) -> Option<Nanos> {
        let waits = self.unplaced.as_ref().map(|unplaced| unplaced.again);
        let answer = self.unanswered.values().min().copied();
        let (own, worker) = (self.coordinator.next_deadline(), self.worker.next_deadline());
        let repeat = self.remotes.as_ref().and_then(|_| self.peers.repeat_at(REPEAT));
        let deadlines = [own, worker, self.watch.deadline(), waits, answer, repeat];
        deadlines.into_iter().flatten().min()
    }

    /// Ends the threads of a job that has an outcome, and returns the outcome.
    pub(crate) fn end(mut self) -> Result<()> {
        self.forget();
        let outcome = self.outcome.take().unwrap_or_else(|| Err(Error::cancelled()));
        if let Some(hung) = self.worker.end() {
            self.shared.notify(format!("the job no longer waits for {hung}, and ends"));
        }
        // This drops the last sender of the scribe's queue.
        self.durable = None;
        if let Some((scribe, ended)) = self.scribe.take() {
            if ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
                self.shared.notify(format!("the job no longer waits for {NO_ANSWER}, and ends"));
                return outcome;
            }
            scribe.join().map_err(|panic| crate::task::threads::panicked(panic.as_ref()))?;
        }
        outcome
    }

    /// Tells workers that the job is over.
    pub(crate) fn forget(&self) {
        let term = self.coordinator.term();
        let ended = self.outcome.as_ref().is_some_and(Result::is_ok) && !self.stopping;
        self.remotes.iter().filter(|_| !self.leaves_tasks).for_each(|remotes| remotes.forget(term, ended));
    }

    /// Handles the next message without waiting, or the time if there is none. Returns whether there was a
    /// message.
    pub(crate) fn step(&mut self) -> bool {
        let received = self.messages.try_recv().ok();
        let had_message = received.is_some();
        if had_message || self.deadline().is_some_and(|at| at <= self.clock.now()) {
            self.handle(received);
        }
        had_message
    }

    fn handle(&mut self, received: Option<Message>) {
        let start = self.clock.now();
        self.go_on_waiting();
        match received {
            Some(message) => {
                self.taken += 1;
                self.message(message);
            }
            None => {
                self.worker.tick();
                self.inputs.push_back(Input::Tick);
            }
        }
        self.process_inputs();
        self.answer();
        self.watch();
        self.busy_ns += self.clock.now().since(start);
    }

    /// Notifies the user of waits that take long.
    fn watch(&mut self) {
        for what in self.watch.due(self.clock.now()) {
            let what = match (what, self.worker.unfinished()) {
                (Awaited::Tasks, Some(tasks)) => format!("the job waits for {tasks}"),
                (Awaited::Tasks, None) => continue,
                (Awaited::Workers, _) => match &self.unplaced {
                    Some(unplaced) => format!("the job waits for workers: {}", unplaced.missing),
                    None => continue,
                },
                (what, _) => format!("{what} takes more than {} s", SLOW.as_secs()),
            };
            self.shared.notify(what);
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Task(message) => self.worker.task(message),
            Message::Thread(message) => self.worker.thread(message),
            Message::Worker(process, _) if !self.is_known(process) => {}
            Message::Worker(process, message) => {
                let is_summary = |message: &Upward<_>| matches!(message, Upward::Summary(_));
                let awaits_answer = matches!(&message, FromWorker::Protocol(message) if is_summary(message));
                self.heard(process, message);
                if awaits_answer {
                    let at = self.clock.now().plus(ANSWER);
                    self.unanswered.entry(process).or_insert(at);
                }
            }
            Message::Joined(workers) => self.joined(workers),
            Message::Lost(process, why) => self.lost(process, why),
            Message::Store(sequence, answer, error) => {
                let was_slow = self.watch.done(Awaited::Log);
                match &error {
                    Some(error) => {
                        self.shared.notify(format!("a request to the job's log failed and is retried: {error}"));
                    }
                    None if was_slow || self.store_failure.is_some() => {
                        self.shared.notify("the checkpoint storage answers again");
                    }
                    None => {}
                }
                self.store_failure = error;
                self.inputs.push_back(Input::Store(sequence, answer));
            }
            Message::Checkpoint(answer) => {
                self.waiting.push(Waiting { answer, epoch: None });
                self.inputs.push_back(Input::Checkpoint);
            }
            Message::AbortChange(answer) => self.abort_change(answer),
            Message::Stop => {
                self.stopping = true;
                self.change(ChangeInput::Tick, None);
                self.inputs.push_back(Input::Stop);
            }
            Message::Reconfigure(requested) => self.reconfigure(*requested),
            Message::Cancel(why) => self.outcome = Some(Err(why)),
            Message::Leave => {
                self.leaves_tasks = true;
                self.outcome = Some(Err(Error::cancelled()));
            }
        }
    }

    /// Gives the coordinator all inputs, and executes the resulting commands.
    fn process_inputs(&mut self) {
        loop {
            for process in self.peers.with_news() {
                self.send_orders(process);
            }
            while let Some(message) = self.worker.poll() {
                self.heard(HERE, message);
                self.send_orders(HERE);
            }
            if self.inputs.is_empty() {
                // The change may have waited until the tasks run.
                self.change(ChangeInput::Tick, None);
            }
            let Some(input) = self.inputs.pop_front() else { break };
            self.coordinator.handle(self.clock.now(), input);
            while let Some(command) = self.coordinator.poll() {
                self.peers.command(&command);
                self.carry_out(command);
            }
        }
        if self.coordinator.phase() == Phase::Running && self.watch.done(Awaited::Restore) {
            self.restoring.clear();
            self.shared.notify("the state of the job is restored");
        }
        // A former coordinator may have received the request to stop.
        self.stopping |= self.coordinator.is_stopping();
        let now = self.clock.now();
        self.shared.life.entered(self.coordinator.phase(), self.coordinator.incarnation(), self.stopping, now);
        // Stopping a job during a restart ends it at once. The next start resumes from the newest checkpoint.
        let phase = self.coordinator.phase();
        let fails = self.cancelled && matches!(phase, Phase::Pausing | Phase::Starting);
        let coming_back = fails || self.unplaced.is_some();
        if self.stopping && self.outcome.is_none() && coming_back {
            self.outcome = Some(Err(self.take_failure()));
        }
    }

    fn carry_out(&mut self, command: Command<TaskState>) {
        match command {
            command @ (Command::Append(..) | Command::Read(_) | Command::Remove(_) | Command::Forget(..)) => {
                self.log(command);
            }
            Command::Start { incarnation, from } => self.restart(incarnation, from),
            // This is only ever the first command.
            Command::Adopt { .. } => {}
            Command::Grant { group, checkpoint, pace, .. } => {
                if checkpoint {
                    let epochs = u32::try_from(group.len()).unwrap_or(u32::MAX);
                    let interval = self.durable.as_ref().map(|durable| durable.epoch_interval);
                    let group_time = interval.unwrap_or_default().saturating_mul(epochs);
                    self.watch.begin(Awaited::Checkpoint(group.last), self.clock.now().plus(group_time));
                    self.waiting.iter_mut().for_each(|w| w.epoch = w.epoch.or(Some(group.last)));
                    self.shared.life.checkpoint_requested(group.last, self.clock.now());
                }
                if pace == Pace::Steady {
                    self.granted();
                }
            }
            Command::CheckpointDone(incarnation, epoch) => {
                if self.watch.done(Awaited::Checkpoint(epoch)) {
                    self.shared.notify(format!("the checkpoint of epoch {} is complete", epoch.0));
                }
                self.shared.life.checkpoint_completed(self.coordinator.newest_checkpoint(), self.clock.now());
                self.committed(Committed { incarnation, epoch });
                self.change(ChangeInput::Committed(epoch), None);
            }
            Command::Cancel(_) => {
                self.cancelled = true;
                self.watch.begin(Awaited::Tasks, self.clock.now());
            }
            Command::Changed(version) => self.change(ChangeInput::Settled { version, changed: true }, None),
            Command::NotChanged(version) => self.change(ChangeInput::Settled { version, changed: false }, None),
            Command::Finish(_) => self.finish(),
            Command::Fail(_, cause) => {
                let store = self.durable.as_ref().map(|durable| &durable.store);
                let own = self.coordinator.incarnation();
                let error = match (cause, store) {
                    (Cause::Store, store) => self.store_failure.take().or_else(|| store.map(Journal::no_answer)),
                    // The next owner removes files and fences transactions: the resulting errors of tasks are
                    // not the cause of the failure.
                    (_, Some(store)) if Journal::is_taken_over(store, own) => Some(Journal::lost(store)),
                    _ => None,
                };
                self.outcome = Some(Err(error.unwrap_or_else(|| self.take_failure())));
            }
            Command::Fenced(_) => {
                let place = self.durable.as_ref().map(|durable| &durable.store);
                let error = place.map_or_else(|| Error::internal("a job without a log was fenced"), Journal::lost);
                // The other owner may have adopted the tasks.
                self.leaves_tasks = true;
                self.outcome = Some(Err(error));
            }
            // A request for a checkpoint that is abandoned waits for the next checkpoint.
            Command::AbortCheckpoint(_, epoch) => {
                self.watch.done(Awaited::Checkpoint(epoch));
                self.shared.life.checkpoint_abandoned(epoch, self.clock.now());
                self.shared
                    .notify(format!("the checkpoint of epoch {} was abandoned; the job takes the next one", epoch.0));
            }
            // Only workers need these.
            Command::EpochDone(..) | Command::NoneDone(_) => {}
        }
    }

    fn log(&mut self, command: Command<TaskState>) {
        if let Command::Append(_, Entry::Checkpoint(checkpoint)) = &command {
            self.shared.life.checkpoint_acknowledged(checkpoint.epoch, self.clock.now());
        }
        match &self.durable {
            Some(durable) => {
                if matches!(command, Command::Append(..) | Command::Read(_)) {
                    self.watch.begin(Awaited::Log, self.clock.now());
                }
                // The scribe ends only after this thread.
                let _ = durable.scribe.send(scribe::Task::Log(Box::new(command)));
            }
            None => self.inputs.extend(in_memory(&command).map(|(sequence, answer)| Input::Store(sequence, answer))),
        }
    }

    /// A group was granted in its turn: reports the cost of the group before it, and of groups that were
    /// granted early.
    fn granted(&mut self) {
        let now = self.clock.now();
        let spent_ns = std::mem::take(&mut self.busy_ns) + std::mem::take(&mut self.grant_wait_ns);
        if let Some(last) = self.last_grant.replace(now) {
            let coordinating = Duration::from_nanos(spent_ns);
            self.inputs.push_back(Input::Overhead { coordinating, group: now.after(last) });
        }
        let (group_epochs, overhead) = (self.coordinator.group_epochs(), self.coordinator.overhead());
        self.shared.granted(group_epochs, overhead);
    }
}
