//! Drives a job's coordinator: gives it the reports of tasks, the recorder and users, and carries out its commands.
//!
//! It runs on a separate thread, which sleeps unless there is something to decide. No task waits for it: it grants the
//! next group while sources are in the middle of the last one. The cost of coordination is its work for a group, plus
//! the time that a source waited for a grant nevertheless. The coordinator enlarges groups if that is too much.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Epoch, Error, ErrorKind, Incarnation, Nanos, Result, TaskId};
use anabranch_operators::Connectors;
use anabranch_protocol::Coordinator;
use anabranch_protocol::coordinator::{Answer, Cause, Checkpoint, Command, Input, Phase, Report};
use anabranch_state::{Log, Store, TaskState};

use crate::assembly::{Assembly, DurableParts, assemble};
use crate::durable::{FormerNames, JobState, load, resumes};
use crate::job::{Committed, Shared};
use crate::journal::{Journal, in_memory};
use crate::mailbox::Mailbox;
use crate::origin::Origin;
use crate::recorder::Work;
use crate::running::{Drive, END_MAX, Running, Threads};
use crate::settings::all_tasks;
use crate::watch::{Awaited, SLOW, Watch};

/// Messages to the driver. Tasks send a few per granted epoch, which bounds the number of waiting messages.
pub(crate) enum Message {
    Task(Incarnation, TaskId, Report<TaskState>),
    Failed(Incarnation, TaskId, Error),
    /// The reason is given for an answer that does not decide anything.
    Store(u64, Answer<TaskState>, Option<Error>),
    /// A caller waits for a checkpoint that begins from now on.
    Checkpoint(Sender<Committed>),
    Stop,
    /// Ends the job at once, as a crash would, for this reason.
    Cancel(Error),
}

/// The further parts of a job with checkpoints: it writes them, and can restart from them.
pub(crate) struct Durable {
    pub(crate) plan: Plan,
    pub(crate) connectors: Connectors,
    /// What it starts from while it has no checkpoint.
    pub(crate) origin: Option<Origin>,
    pub(crate) store: Store,
    /// Name of the job.
    pub(crate) job: String,
    pub(crate) former: FormerNames,
    /// How often a task reports that it gets further with restoring its state.
    pub(crate) progress_interval: Duration,
    pub(crate) work: Sender<Work>,
}

/// A caller that waits for a checkpoint, and the epoch of the one that was granted for it.
struct Waiting {
    answer: Sender<Committed>,
    epoch: Option<Epoch>,
}

/// The driver of one job.
pub(crate) struct Driver {
    coordinator: Coordinator<TaskState>,
    messages: Receiver<Message>,
    mailbox: Arc<Mailbox>,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    pub(crate) running: Option<Running>,
    drive: Drive,
    durable: Option<Durable>,
    /// The recorder's thread, and a channel that closes at its end.
    recorder: Option<(JoinHandle<()>, Receiver<()>)>,
    /// Inputs that follow from commands, to be given to the coordinator next.
    inputs: VecDeque<Input<TaskState>>,
    /// Why the incarnation failed: its first failure, or the first that the user must resolve.
    failure: Option<Error>,
    store_failure: Option<Error>,
    waiting: Vec<Waiting>,
    stopping: bool,
    pub(crate) outcome: Option<Result<()>>,
    /// Time spent on the current group.
    busy_ns: u64,
    last_grant: Option<Nanos>,
    watch: Watch,
    /// Tasks that restore their state, with their names for messages.
    restoring: BTreeMap<TaskId, String>,
}

impl Driver {
    /// For a coordinator that has begun, and its tasks.
    pub(crate) fn new(
        coordinator: Coordinator<TaskState>,
        (mailbox, messages): (Arc<Mailbox>, Receiver<Message>),
        clock: Arc<dyn Clock>,
        shared: Arc<Shared>,
        running: Running,
        drive: Drive,
    ) -> Driver {
        Driver {
            coordinator,
            messages,
            mailbox,
            clock,
            shared,
            running: Some(running),
            drive,
            durable: None,
            recorder: None,
            inputs: VecDeque::new(),
            failure: None,
            store_failure: None,
            waiting: Vec::new(),
            stopping: false,
            outcome: None,
            busy_ns: 0,
            last_grant: None,
            watch: Watch::default(),
            restoring: BTreeMap::new(),
        }
    }

    /// From here on the driver writes checkpoints and restarts the job after failures that may be temporary.
    pub(crate) fn set_durable(&mut self, durable: Durable) {
        self.durable = Some(durable);
    }

    /// The recorder has a thread, which ends after the driver and then drops the other end of `ended`.
    pub(crate) fn wait_for(&mut self, recorder: JoinHandle<()>, ended: Receiver<()>) {
        self.recorder = Some((recorder, ended));
    }

    /// The tasks exist and are visible to observers, though they may not run yet.
    pub(crate) fn started(&mut self) {
        self.report_started();
        self.settle();
    }

    /// Tasks without state have started when they are created. Others report it when they have restored their state. The
    /// time to start begins when all tables are open: each table limits by itself how long that may take.
    fn report_started(&mut self) {
        let (incarnation, tasks) = (self.coordinator.incarnation(), self.shared.tasks());
        self.restoring = tasks.iter().filter(|task| task.restores).map(|task| (task.id, task.place())).collect();
        if !self.restoring.is_empty() {
            self.watch.begin(Awaited::Restore, self.clock.now());
        }
        let opened = tasks.first().map(|task| Input::Task(incarnation, task.id, Report::Restoring));
        opened.into_iter().for_each(|opened| self.inputs.push_front(opened));
        let ready = tasks.iter().filter(|task| !task.restores).map(|task| task.id);
        self.inputs.extend(ready.map(|task| Input::Task(incarnation, task, Report::Started)));
    }

    /// Where the tasks run.
    pub(crate) fn threads(&self) -> Option<Arc<Threads>> {
        self.running.as_ref().map(Running::threads)
    }

    /// Drives the job to its end.
    pub(crate) fn run(mut self) -> Result<()> {
        let outcome = loop {
            if let Some(outcome) = self.outcome.take() {
                break outcome;
            }
            let deadline = [self.coordinator.next_deadline(), self.watch.deadline()].into_iter().flatten().min();
            let received = match deadline {
                Some(at) => self.messages.recv_timeout(at.after(self.clock.now())),
                None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            self.take(received.ok());
        };
        if let Some(hung) = self.running.take().and_then(Running::end) {
            self.shared.notify(format!("the job no longer waits for {hung}, and ends"));
        }
        // This drops the last sender of the recorder's queue.
        self.durable = None;
        if let Some((recorder, ended)) = self.recorder.take() {
            if ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
                self.shared.notify("the job no longer waits for an answer from the place of its checkpoints, and ends");
                return outcome;
            }
            recorder.join().map_err(|panic| crate::running::panicked(panic.as_ref()))?;
        }
        outcome
    }

    /// Takes the next message without waiting, or handles the time if there is none. Returns whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        let received = self.messages.try_recv().ok();
        let had_message = received.is_some();
        if had_message || self.coordinator.next_deadline().is_some_and(|at| at <= self.clock.now()) {
            self.take(received);
        }
        had_message
    }

    fn take(&mut self, received: Option<Message>) {
        let start = self.clock.now();
        match received {
            Some(message) => self.message(message),
            None => self.inputs.push_back(Input::Tick),
        }
        self.settle();
        self.watch();
        self.busy_ns += self.clock.now().since(start);
    }

    /// Notifies the user of what takes long.
    fn watch(&mut self) {
        for what in self.watch.due(self.clock.now()) {
            let what = match (what, &self.running) {
                (Awaited::Tasks, Some(running)) => match running.unfinished() {
                    Some(tasks) => format!("the job waits for {tasks}"),
                    None => continue,
                },
                (Awaited::Tasks, None) => continue,
                (what, _) => format!("{what} takes more than {} s", SLOW.as_secs()),
            };
            self.shared.notify(what);
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Task(incarnation, task, report) => {
                if report == Report::Started && incarnation == self.coordinator.incarnation() {
                    self.restored(task);
                }
                self.inputs.push_back(Input::Task(incarnation, task, report));
            }
            Message::Failed(incarnation, task, error) => self.failed(incarnation, task, error),
            Message::Store(sequence, answer, error) => {
                let was_slow = self.watch.done(Awaited::Log);
                match &error {
                    Some(error) => {
                        self.shared.notify(format!("a request to the job's log failed and is retried: {error}"));
                    }
                    None if was_slow || self.store_failure.is_some() => {
                        self.shared.notify("the place of the job's checkpoints answers again");
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
            Message::Stop => {
                self.stopping = true;
                self.inputs.push_back(Input::Stop);
            }
            Message::Cancel(why) => self.outcome = Some(Err(why)),
        }
    }

    fn restored(&mut self, task: TaskId) {
        // A task that was cancelled has not restored its state.
        if self.coordinator.phase() != Phase::Restoring {
            return;
        }
        self.restoring.remove(&task);
        if self.restoring.is_empty() && self.watch.done(Awaited::Restore) {
            self.shared.notify("the state of the job is restored");
        }
    }

    fn failed(&mut self, incarnation: Incarnation, task: TaskId, error: Error) {
        // Damage does not go away. The next start resumes from an older checkpoint.
        let retry = !matches!(error.kind(), ErrorKind::User | ErrorKind::Damaged);
        let known = self.failure.as_ref().map(Error::kind);
        if incarnation == self.coordinator.incarnation()
            && (known.is_none() || (!retry && known != Some(ErrorKind::User)))
        {
            self.failure = Some(error);
        }
        self.inputs.push_back(Input::Task(incarnation, task, Report::Failed { retry }));
    }

    /// Gives the coordinator all inputs, and carries out the resulting commands.
    fn settle(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            self.coordinator.handle(self.clock.now(), input);
            while let Some(command) = self.coordinator.poll() {
                self.carry_out(command);
            }
        }
        // Stopping a job during a restart ends it at once. The next start resumes from the newest checkpoint.
        let coming_back = matches!(self.coordinator.phase(), Phase::Pausing | Phase::Starting);
        if self.stopping && self.outcome.is_none() && coming_back {
            self.outcome = Some(Err(self.take_failure()));
        }
    }

    fn carry_out(&mut self, command: Command<TaskState>) {
        let control = self.running.as_ref().map(|running| &running.control);
        match (command, control) {
            (command @ (Command::Append(..) | Command::Read(_) | Command::Remove(_) | Command::Forget(..)), _) => {
                self.log(command);
            }
            (Command::Start { incarnation, from }, _) => self.start(incarnation, from.as_ref()),
            (Command::Grant { group, checkpoint, .. }, Some(control)) => {
                control.grant(group, checkpoint);
                let waited_ns = control.take_grant_wait_ns();
                if checkpoint {
                    let epochs = u32::try_from(group.len()).unwrap_or(u32::MAX);
                    let interval = self.durable.as_ref().map(|durable| durable.plan.options.epoch_interval);
                    let group_time = interval.unwrap_or_default().saturating_mul(epochs);
                    self.watch.begin(Awaited::Checkpoint(group.last), self.clock.now().plus(group_time));
                    self.waiting.iter_mut().for_each(|w| w.epoch = w.epoch.or(Some(group.last)));
                }
                self.granted(waited_ns);
            }
            (Command::StopAfter(_, epoch), Some(control)) => control.stop(epoch),
            (Command::EpochDone(_, epoch), Some(control)) if self.durable.is_none() => control.set_done(epoch),
            (Command::NoneDone(_), Some(control)) => control.set_none_done(),
            (Command::CheckpointDone(incarnation, epoch), Some(control)) => {
                control.set_done(epoch);
                control.wake();
                if self.watch.done(Awaited::Checkpoint(epoch)) {
                    self.shared.notify(format!("the checkpoint of epoch {} is complete", epoch.0));
                }
                self.committed(Committed { incarnation, epoch });
            }
            (Command::Cancel(_), Some(control)) => {
                control.cancel();
                self.watch.begin(Awaited::Tasks, self.clock.now());
            }
            (Command::Finish(_), _) => self.finish(),
            (Command::Fail(_, cause), _) => {
                let store = self.durable.as_ref().map(|durable| &durable.store);
                let own = self.coordinator.incarnation();
                let error = match (cause, store) {
                    (Cause::Store, store) => self.store_failure.take().or_else(|| store.map(Journal::no_answer)),
                    // The next owner removes files and fences transactions: the resulting errors of tasks are not the
                    // cause.
                    (_, Some(store)) if Journal::is_taken_over(store, own) => Some(Journal::lost(store)),
                    _ => None,
                };
                self.outcome = Some(Err(error.unwrap_or_else(|| self.take_failure())));
            }
            (Command::Fenced(_), _) => {
                let place = self.durable.as_ref().map(|durable| &durable.store);
                let error = place.map_or_else(|| Error::internal("a job without a log was fenced"), Journal::lost);
                self.outcome = Some(Err(error));
            }
            // A request for a checkpoint that is abandoned waits for the next checkpoint.
            (Command::AbortCheckpoint(_, epoch), _) => {
                self.watch.done(Awaited::Checkpoint(epoch));
                if let Some(running) = &self.running {
                    running.control.checkpoint_aborted(epoch);
                }
                self.shared
                    .notify(format!("the checkpoint of epoch {} was abandoned; the job takes the next one", epoch.0));
            }
            // With checkpoints, these decide what is done.
            (Command::EpochDone(..), _) => {}
            // Tasks that could not be started need no command.
            (_, None) => {}
        }
    }

    fn log(&mut self, command: Command<TaskState>) {
        match &self.durable {
            Some(durable) => {
                if matches!(command, Command::Append(..) | Command::Read(_)) {
                    self.watch.begin(Awaited::Log, self.clock.now());
                }
                // The recorder ends only after the driver.
                let _ = durable.work.send(Work::Log(Box::new(command)));
            }
            None => self.inputs.extend(in_memory(&command).map(|(sequence, answer)| Input::Store(sequence, answer))),
        }
    }

    /// A group was granted: reports the cost of the group before it.
    fn granted(&mut self, waited_ns: u64) {
        let now = self.clock.now();
        let spent_ns = std::mem::take(&mut self.busy_ns) + waited_ns;
        if let Some(last) = self.last_grant.replace(now) {
            let coordinating = Duration::from_nanos(spent_ns);
            self.inputs.push_back(Input::Overhead { coordinating, group: now.after(last) });
        }
        let (group_epochs, overhead) = (self.coordinator.group_epochs(), self.coordinator.overhead());
        self.shared.granted(group_epochs, overhead);
    }

    /// Starts the tasks again, from the newest checkpoint.
    fn start(&mut self, incarnation: Incarnation, from: Option<&Checkpoint<TaskState>>) {
        let error = self.take_failure();
        self.restoring.clear();
        self.watch = Watch::default();
        if let Some(hung) = self.running.take().and_then(Running::end) {
            let message = format!(
                "the job cannot restart in this process because it still waits for {hung}; the failure before: {error}"
            );
            self.outcome =
                Some(Err(Error::outside(message).remedy("start the job again: it resumes from its newest checkpoint")));
            return;
        }
        let Some(durable) = &self.durable else {
            self.outcome = Some(Err(error));
            return;
        };
        self.shared.restarted(error.to_string());
        if let Some(Checkpoint { epoch, incarnation, .. }) = from {
            self.shared.notify(resumes(*incarnation, *epoch));
        }
        self.last_grant = None;
        self.waiting.iter_mut().for_each(|waiting| waiting.epoch = None);
        let tasks = all_tasks(&durable.plan);
        match durable.start(incarnation, from, (&self.clock, &self.mailbox, &self.shared), self.drive) {
            Ok(running) => {
                self.running = Some(running);
                self.report_started();
            }
            Err(error) => {
                let gone = tasks.iter().map(|task| Input::Task(incarnation, *task, Report::Gone)).collect::<Vec<_>>();
                self.failed(incarnation, tasks[0], error);
                self.inputs.extend(gone);
            }
        }
    }

    fn committed(&mut self, committed: Committed) {
        self.waiting.retain(|waiting| {
            let fulfilled = waiting.epoch.is_some_and(|epoch| epoch <= committed.epoch);
            // A caller that has stopped waiting needs no answer.
            let sent = fulfilled.then(|| waiting.answer.send(committed));
            sent.is_none()
        });
    }

    /// The job has ended. If it takes checkpoints, the last one covers everything.
    fn finish(&mut self) {
        if let Some(last) = self.coordinator.newest_checkpoint() {
            let committed = Committed { incarnation: last.incarnation, epoch: last.epoch };
            for waiting in self.waiting.drain(..).filter(|_| committed.incarnation == self.coordinator.incarnation()) {
                let _ = waiting.answer.send(committed);
            }
        }
        self.outcome = Some(Ok(()));
    }

    /// Why the incarnation has failed. A failure that no task reported was found by the coordinator: a restore without
    /// progress, or checkpoints that do not complete.
    fn take_failure(&mut self) -> Error {
        self.failure.take().unwrap_or_else(|| {
            if !self.restoring.is_empty() {
                let tasks: Vec<&str> = self.restoring.values().map(String::as_str).collect();
                return Error::outside(format!("restoring state makes no progress in {}", tasks.join(", ")))
                    .remedy("check the place of the checkpoints, or allow more time ('checkpoint-timeout')");
            }
            Error::outside("several checkpoints in a row failed or took too long")
                .remedy("check the place where they are kept, or allow more time ('checkpoint-timeout')")
        })
    }
}

impl Durable {
    fn start(
        &self,
        incarnation: Incarnation,
        from: Option<&Checkpoint<TaskState>>,
        (clock, mailbox, shared): (&Arc<dyn Clock>, &Arc<Mailbox>, &Shared),
        drive: Drive,
    ) -> Result<Running> {
        // The recorder ends only after the driver.
        let _ = self.work.send(Work::Begin(incarnation));
        let state = match from {
            Some(checkpoint) => load(&self.store, self.plan.key_groups, checkpoint)?,
            None => self.origin.as_ref().map_or(Ok(JobState::default()), |origin| origin.load(&self.plan))?,
        };
        let parts = DurableParts {
            after: from.map_or(Epoch(0), |checkpoint| checkpoint.epoch),
            scope: &self.job,
            former: from.map_or(&[], |checkpoint| self.former.behind(checkpoint.incarnation)),
            state,
            progress_interval: self.progress_interval,
            work: Some(self.work.clone()),
            log: Some(Log::new(self.store.clone())),
        };
        let (plan, connectors) = (&self.plan, &self.connectors);
        let (clock, mailbox) = (Arc::clone(clock), Arc::clone(mailbox));
        let assembly = assemble(plan, connectors, clock, incarnation, mailbox, Some(parts))?;
        let Assembly { control, views, tasks } = assembly;
        let mut running = Running::new(control);
        running.start(&views, tasks, drive)?;
        shared.show(views.into());
        Ok(running)
    }
}
