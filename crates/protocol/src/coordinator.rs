//! A job's coordinator as a value. Inputs are reports, answers of the store and the time; outputs are
//! commands and the next deadline. Its driver (threads of one process, a server, the simulator) only carries
//! out.
//!
//! Each concern has its own machine, with its transitions as a table: `life` of the job over its
//! incarnations, the `log` that fences, `grants` of groups of epochs, `group_size`, and `checkpoints`. This
//! module composes them. `docs/protocol/coordinator.md` shows them all.
//!
//! A driver creates a [`Coordinator`] from the entries of the job's log. It calls [`Coordinator::handle`] for
//! everything that happens and at [`Coordinator::next_deadline`], and after each call carries out all
//! commands of [`Coordinator::poll`]. Its further duties:
//!
//! * Commands for tasks carry an incarnation. A worker refuses commands of incarnations older than the newest
//!   it knows, as the coordinator refuses reports of other incarnations. It ends the tasks of an older
//!   incarnation before it starts those of a newer one.
//! * Commands and reports arrive at least once while both processes live, in any order, possibly twice. If
//!   the driver cannot ensure that, it reports the tasks concerned as failed. That includes a task that has
//!   reported that it is gone, if its last acknowledgement has not arrived. A command is meant for one life
//!   of a worker's process: a repeated start must not reach a later process.
//! * Sources take grants in the order of their epochs, and stop only when the epoch to stop after is granted.
//! * Of a group's epochs, a source must report the cut of the [`turn`] and of the last one, and a sink the
//!   end of one. So the cost of coordination is per group, not per epoch. More reports are harmless. Reports
//!   that arrive together are one input; a report is not compared with what all other tasks have done.
//! * A task that drops rows because the job stops reports that, and acknowledges nothing afterwards.
//! * A task that finishes sends a last acknowledgement with `finished`, even if its last epoch is not a
//!   checkpoint. A sink reports that it is gone only when a checkpoint that covers its last epoch is done.
//! * An acknowledgement covers everything that the snapshot refers to, including what a sink prepared at
//!   earlier ends of epochs.

mod change;
mod checkpoints;
mod config;
mod grants;
mod group_size;
mod groups;
mod life;
mod log;
mod message;
mod quiet;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anabranch_model::{Epoch, Incarnation, Nanos, PlanVersion, TaskId};

pub use crate::table::Transition;
pub use config::{Adaptive, Config, GroupSizing, Quiet, Restart};
pub use grants::turn;
pub use life::Phase;
pub use message::{Answer, Cause, Checkpoint, Command, Entry, Granted, Input, Owner, Pace, Report, Tasks, Then};
pub use table::{MACHINES, document};

use checkpoints::{Checkpoints, Step};
use grants::Grants;
use group_size::GroupSize;
use life::{Due, Life};
use log::{Log, Outcome};

use crate::worker::Term;

/// The coordinator of one job. `S` identifies a task's snapshot: a handle, never the state itself.
#[derive(Debug)]
pub struct Coordinator<S> {
    config: Config,
    tasks: Tasks,
    incarnation: Incarnation,
    term: Term,
    life: Life,
    log: Log<S>,
    grants: Grants,
    group_size: GroupSize,
    quiet: quiet::Quiet,
    checkpoints: Checkpoints<S>,
    /// The tasks with which the job goes on, once those of the present incarnation have ended.
    change: Option<Tasks>,
    /// The change waits for a checkpoint of an epoch after this one.
    change_behind: Option<Epoch>,
    /// Those of the plan version before, until a checkpoint by the present one is committed.
    former: Option<Tasks>,
    /// The change is back to those.
    undoes: bool,
    /// Rows were dropped in this incarnation: none of its later epochs counts as done.
    dropped: bool,
    refused: u64,
    commands: VecDeque<Command<S>>,
}

impl<S: Clone + PartialEq> Coordinator<S> {
    /// A coordinator that takes the job over: `log` are the entries found in the store, in order, with their
    /// numbers; older ones may be omitted. A missed entry only costs another read. `running` is an
    /// incarnation all of whose tasks run, as far as the driver knows: if it is the newest, they are adopted,
    /// and otherwise the next one begins.
    pub fn new(
        now: Nanos,
        config: Config,
        owner: Owner,
        log: impl IntoIterator<Item = (u64, Entry<S>)>,
        tasks: Tasks,
        running: Option<Incarnation>,
    ) -> Self {
        let mut commands = VecDeque::new();
        let mut own_log = Log::new(now, owner, &config);
        for (sequence, entry) in log {
            own_log.recover(sequence, entry);
        }
        let mut life = Life::new(&config);
        match own_log.has_ended() {
            true => {
                life.end(Phase::Finished);
                commands.push_back(Command::Finish(Incarnation(0)));
            }
            false => {
                if !running.is_some_and(|running| own_log.adopt(now, running, &mut commands)) {
                    own_log.begin(now, tasks.version, &mut commands);
                }
            }
        }
        let none = Epoch(0);
        let interval = config.checkpoint_interval;
        Coordinator {
            incarnation: Incarnation(0),
            term: Term(0),
            life,
            log: own_log,
            grants: Grants::new(&tasks, none),
            group_size: GroupSize::new(&config.group_size),
            quiet: quiet::Quiet::new(now, config.quiet.as_ref(), none),
            checkpoints: Checkpoints::new(now, tasks.all.clone(), interval, config.checkpoint_timeout, none),
            change: None,
            change_behind: None,
            former: None,
            undoes: false,
            dropped: false,
            refused: 0,
            commands,
            config,
            tasks,
        }
    }

    /// Handles an input. [`Coordinator::poll`] then returns the resulting commands.
    pub fn handle(&mut self, now: Nanos, input: Input<S>) {
        if self.phase().is_over() {
            self.refused += u64::from(matches!(input, Input::Task(..) | Input::Tasks(..)));
            return;
        }
        match input {
            Input::Task(incarnation, task, report) => self.task(now, incarnation, task, report),
            Input::Tasks(incarnation, reports) => {
                reports.into_iter().for_each(|(task, report)| self.task(now, incarnation, task, report));
            }
            Input::Granted(incarnation, groups) if incarnation == self.incarnation && self.phase().is_active() => {
                groups.into_iter().for_each(|granted| self.was_granted(now, granted));
            }
            Input::Granted(..) => {}
            Input::Store(sequence, answer) => {
                let outcome = self.log.answer(now, sequence, answer, &mut self.commands);
                self.logged(now, outcome);
            }
            Input::Overhead { coordinating, group } if self.quiet.counts_waits(now) => {
                self.group_size.measured(coordinating, group);
            }
            Input::Overhead { .. } => {}
            Input::Checkpoint => self.checkpoints.requested(),
            Input::Stop => self.life.stop_wanted = true,
            Input::Change(tasks) => self.change(tasks),
            Input::Tick => {}
        }
        self.elapse(now);
        self.settle(now);
    }

    /// The next command, if any.
    pub fn poll(&mut self) -> Option<Command<S>> {
        self.commands.pop_front()
    }

    /// When the driver must call [`Coordinator::handle`] at the latest, with [`Input::Tick`] if there is no
    /// other input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.phase().is_over() {
            return None;
        }
        let checkpoints = self.checkpoints.deadline().filter(|_| self.phase().is_active());
        [self.life.deadline(), self.log.deadline(), checkpoints, self.group_deadline()].into_iter().flatten().min()
    }

    /// The transitions that the machines `life` and `log` have taken: `(machine, from, to)`. A simulation
    /// compares them with [`MACHINES`].
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        let of = |machine| move |(from, to)| (machine, from, to);
        self.life.taken.iter().map(of("life")).chain(self.log.taken.iter().map(of("log")))
    }

    /// The phase of the job's life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.life.phase()
    }

    /// The current incarnation; 0 before the first has begun.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Whether the job stops at the end of an epoch, by a request here or to the coordinator before.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.life.stop_wanted
    }

    /// The term of this coordinator: the number, from 1, of the log's entry with which it took the job. 0
    /// before that.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// The version of the plan whose tasks run.
    #[must_use]
    pub fn version(&self) -> PlanVersion {
        self.tasks.version
    }

    /// How many reports of other incarnations were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The last epoch that is granted.
    #[must_use]
    pub fn last_granted(&self) -> Epoch {
        self.grants.last()
    }

    /// The newest committed checkpoint that this coordinator knows of.
    #[must_use]
    pub fn newest_checkpoint(&self) -> Option<&Checkpoint<S>> {
        self.log.newest()
    }

    /// Epochs of the next group.
    #[must_use]
    pub fn group_epochs(&self) -> u64 {
        self.group_size.epochs()
    }

    /// Share of the time of groups that coordination took, averaged; none before the first group was
    /// measured.
    #[must_use]
    pub fn overhead(&self) -> Option<f64> {
        self.group_size.overhead()
    }

    fn task(&mut self, now: Nanos, incarnation: Incarnation, task: TaskId, report: Report<S>) {
        let listens = self.phase().is_active() || self.phase() == Phase::Cancelling;
        if incarnation != self.incarnation || !listens || !self.tasks.all.contains(&task) {
            self.refused += 1;
            return;
        }
        match report {
            Report::Failed { retry } => {
                self.life.gone(task);
                self.fail(now, Cause::Task(task), retry);
            }
            Report::Lost => {
                self.life.gone(task);
                self.life.lost();
                self.fail(now, Cause::Task(task), true);
            }
            Report::Gone => self.life.gone(task),
            _ if !self.phase().is_active() => {}
            Report::Restoring => self.life.restoring(now),
            Report::Started => {
                self.life.started(now, task);
            }
            Report::EpochCut(epoch) => {
                self.grants.cut(task, epoch);
                self.checkpoints.reached(now, epoch);
            }
            Report::Active(epoch) => self.quiet.passed_on(epoch),
            Report::SourceFinished => self.grants.source_finished(task),
            Report::EpochEnded(epoch) => self.ended(task, epoch),
            Report::SinkFinished => self.ended(task, Epoch(u64::MAX)),
            Report::Acknowledged { epoch, snapshot, finished } => {
                if finished {
                    // The source's own report of this may arrive later. Until then the coordinator would
                    // grant it epochs that it never cuts.
                    self.grants.source_finished(task);
                }
                self.checkpoints.acknowledged(now, task, epoch, snapshot, finished);
            }
            Report::Declined(epoch) => self.abort(now, epoch),
            Report::Dropped => {
                if !std::mem::replace(&mut self.dropped, true) {
                    self.commands.push_back(Command::NoneDone(self.incarnation));
                }
                if self.change.is_some() && self.grants.is_stopping() && self.phase().is_active() {
                    // Its static side was cut short by the change: nothing is wrong with the job.
                    self.fail(now, Cause::Task(task), true);
                    self.life.undo();
                }
            }
        }
    }

    fn ended(&mut self, task: TaskId, epoch: Epoch) {
        // With checkpoints, tasks wait for those.
        let is_awaited = !self.dropped && self.config.checkpoint_interval.is_none();
        if let Some(done) = self.grants.ended(task, epoch).filter(|_| is_awaited) {
            self.commands.push_back(Command::EpochDone(self.incarnation, done));
        }
    }

    fn fail(&mut self, now: Nanos, cause: Cause, retry: bool) {
        if self.life.failed(now, cause, retry) {
            self.give_up_change();
            self.undo();
            self.commands.push_back(Command::Cancel(self.incarnation));
        }
    }

    fn abort(&mut self, now: Nanos, epoch: Epoch) {
        if !self.checkpoints.declined(epoch) {
            return;
        }
        self.commands.push_back(Command::AbortCheckpoint(self.incarnation, epoch));
        // Without a next group there is no next checkpoint: only a restart can help.
        if self.checkpoints.failures() > self.config.checkpoint_failures_max || self.grants.is_over() {
            self.fail(now, Cause::Checkpoints, true);
        }
    }

    fn logged(&mut self, now: Nanos, outcome: Option<Outcome<S>>) {
        match outcome {
            None => {}
            Some(Outcome::Fenced) => {
                // The rival may have adopted the tasks. Those that it has not end with their lease.
                self.life.end(Phase::Fenced);
                self.commands.push_back(Command::Fenced(self.incarnation));
            }
            Some(Outcome::Ended) => self.finish(),
            Some(Outcome::Written(_, Entry::Ended(_))) if self.phase() == Phase::Ending => self.finish(),
            Some(Outcome::Written(sequence, Entry::Begins(incarnation, _, version))) => {
                if let Some(tasks) = self.change.take_if(|tasks| tasks.version == version) {
                    let former = std::mem::replace(&mut self.tasks, tasks);
                    self.former = (!std::mem::take(&mut self.undoes)).then_some(former);
                    self.checkpoints.requested();
                }
                let from = self.take(now, sequence, incarnation);
                self.commands.push_back(Command::Start { incarnation, from });
            }
            Some(Outcome::Written(sequence, Entry::Adopts(incarnation, _))) => {
                let newest = self.take(now, sequence, incarnation);
                self.commands.push_back(Command::Adopt { incarnation, newest });
            }
            Some(Outcome::Written(_, Entry::Checkpoint(checkpoint)))
                if self.phase().is_active() && checkpoint.incarnation == self.incarnation =>
            {
                self.checkpoints.committed(checkpoint.epoch);
                self.settled(&checkpoint);
                self.commands.push_back(Command::CheckpointDone(self.incarnation, checkpoint.epoch));
            }
            // A checkpoint of an incarnation that is being cancelled: the next incarnation resumes from it.
            Some(Outcome::Written(_, Entry::Checkpoint(checkpoint))) => self.settled(&checkpoint),
            Some(Outcome::Written(..)) => {}
        }
    }

    fn finish(&mut self) {
        self.life.end(Phase::Finished);
        self.commands.push_back(Command::Finish(self.incarnation));
    }

    /// This coordinator has an incarnation, whose tasks are to report. Returns the newest checkpoint.
    fn take(&mut self, now: Nanos, sequence: u64, incarnation: Incarnation) -> Option<Checkpoint<S>> {
        let from = self.log.newest().cloned();
        let epoch = from.as_ref().map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        let (interval, timeout) = (self.config.checkpoint_interval, self.config.checkpoint_timeout);
        let requested = self.checkpoints.has_open_request();
        (self.incarnation, self.term) = (incarnation, Term(sequence + 1));
        (self.dropped, self.change_behind) = (false, None);
        self.grants = Grants::new(&self.tasks, epoch);
        self.quiet = quiet::Quiet::new(now, self.config.quiet.as_ref(), epoch);
        self.checkpoints = Checkpoints::new(now, self.tasks.all.clone(), interval, timeout, epoch);
        if requested {
            self.checkpoints.requested();
        }
        self.life.begun(now, &self.tasks.all);
        from
    }

    fn elapse(&mut self, now: Nanos) {
        if self.log.elapse(now, &mut self.commands) {
            match self.life.give_up(now, Cause::Store) {
                true => self.commands.push_back(Command::Cancel(self.incarnation)),
                false if self.phase() == Phase::Failed => {
                    self.commands.push_back(Command::Fail(self.incarnation, Cause::Store));
                }
                false => {}
            }
        }
        while self.phase().is_active()
            && let Some(epoch) = self.checkpoints.expired(now)
        {
            self.abort(now, epoch);
        }
        while let Some(due) = self.life.due(now) {
            match due {
                Due::Begin => {
                    // A change from outside waits until tasks run that can end for it: their sinks still have
                    // to commit.
                    let back = self.change.as_ref().filter(|_| self.undoes);
                    let version = back.map_or(self.tasks.version, |tasks| tasks.version);
                    self.log.begin(now, version, &mut self.commands);
                }
                Due::StartTimeout => self.fail(now, Cause::StartTimeout, true),
                Due::Fail(cause) => self.commands.push_back(Command::Fail(self.incarnation, cause)),
            }
        }
    }

    /// Derives the next commands from the states of all machines together.
    fn settle(&mut self, now: Nanos) {
        if !self.phase().is_active() {
            return;
        }
        let steps = if self.dropped { Vec::new() } else { self.checkpoints.steps() };
        for step in steps {
            match step {
                Step::Abort(epoch) => self.commands.push_back(Command::AbortCheckpoint(self.incarnation, epoch)),
                Step::Commit(epoch, tasks) => {
                    let (incarnation, version) = (self.incarnation, self.tasks.version);
                    let entry = Entry::Checkpoint(Checkpoint { epoch, incarnation, version, tasks });
                    self.log.append(now, entry, &mut self.commands);
                }
            }
        }
        if self.life.all_gone() && (self.checkpoints.is_final() || !self.checkpoints.is_enabled() || self.dropped) {
            self.all_gone(now);
            return;
        }
        if self.phase() != Phase::Running {
            return;
        }
        if self.life.stop_wanted {
            self.life.stopping();
            if let Some(group) = self.grants.stop() {
                self.give_up_change();
                self.granted(now, (group, Pace::Steady), self.checkpoints.is_enabled(), Then::Stop);
            }
        } else if self.change.is_some() && self.change_behind.is_none() {
            self.life.switching();
            if let Some(group) = self.grants.stop() {
                self.granted(now, (group, Pace::Steady), true, Then::Switch);
            }
        } else if self.checkpoints.is_requested()
            && let Some(group) = self.grants.hurry()
        {
            self.granted(now, (group, Pace::AtOnce), true, Then::Next);
        } else if self.grants.is_due() {
            self.next_group(now);
        }
    }

    /// Every task has ended by itself. Then the next plan version begins; or the job was stopped; or else an
    /// entry of the log records that it has ended.
    fn all_gone(&mut self, now: Nanos) {
        if let Some(tasks) = self.change.as_ref().filter(|_| self.grants.is_stopping() && !self.dropped) {
            self.life.switched();
            return self.log.begin(now, tasks.version, &mut self.commands);
        }
        self.give_up_change();
        match self.dropped || self.grants.is_stopping() {
            true => self.finish(),
            false => {
                self.life.ending();
                self.log.append(now, Entry::Ended(self.incarnation), &mut self.commands);
            }
        }
    }
}
