//! Changes of a running job's plan, as a value: which request is next, whether its state is loaded ahead,
//! when the tasks switch, and what is undone. Inputs are requests and what the coordinator and the workers
//! report; outputs are commands.
//!
//! One change is carried out at a time, others wait. If much state moves to other workers or tasks, they load
//! it first: in the first round the newest checkpoint, in the next ones what later checkpoints add. Each
//! round is shorter than the one before, because less has been added. When little is left, or a round is not
//! much shorter any more, the tasks switch. This is how virtual machines are moved while they run (Clark et
//! al., "Live migration of virtual machines", NSDI 2005).
//!
//! The [`Coordinator`](crate::Coordinator) carries out the switch and its undoing; this machine learns of
//! them. A driver gives [`Changes::handle`] everything that happens, with what the job does at that time, and
//! carries out all commands of [`Changes::poll`] in their order. It answers [`Command::Check`] and
//! [`Command::Load`] before it gives any other input. `docs/protocol/change.md` shows the transitions.

mod message;
mod rounds;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anabranch_model::{Epoch, PlanVersion};

pub use message::{Answer, Changing, Checked, Command, Copied, Input, Job, Next, NotAborted, Request, Ticket};

use crate::membership::Process;
use crate::table::{Machine, Taken, Transition, row};
use rounds::Rounds;

const TABLE: &[Transition] = &[
    row("idle", "a request; the job runs or stops, or the request only asks", "checking", "check the request"),
    row("checking", "the request is answered: it is refused, or nothing is to change", "idle", "-"),
    row("checking", "much state moves", "preparing", "tell workers what they will load; request a checkpoint"),
    row(
        "checking",
        "little state moves",
        "switching",
        "if the last checkpoint was large, request one that only adds; then let the tasks end",
    ),
    row("preparing", "a checkpoint that was granted since is committed", "loading", "workers load what it adds"),
    row("preparing", "abort, stop, restart, or a worker that prepares fails or is lost", "idle", "give up; answer"),
    row("loading", "a worker has loaded, and others have not", "loading", "-"),
    row("loading", "all have loaded, and another round is worth it", "preparing", "request a checkpoint"),
    row("loading", "all have loaded, but the job does not run", "preparing", "-: its restart gives the change up"),
    row("loading", "all have loaded, and another round is not worth it", "switching", "let the tasks end"),
    row("loading", "abort, stop, restart, or a worker that prepares fails or is lost", "idle", "give up; answer"),
    row("switching", "the tasks of the next version begin", "begun", "-"),
    row("switching", "the coordinator gives the change up", "idle", "answer"),
    row("begun", "the tasks of the next version begin again", "begun", "-"),
    row("begun", "a checkpoint by the next version is committed", "idle", "answer"),
    row("begun", "the next version fails before that", "undoing", "answer"),
    row("undoing", "the tasks of the version before begin, under the next number", "idle", "-"),
];

/// The machines of changes by name, with what each is for and its transitions.
pub const MACHINES: &[Machine] = &[("change", "the change of a job's plan that is carried out", TABLE)];

/// The machines as a document.
#[must_use]
pub fn document() -> String {
    crate::table::document(HEAD, MACHINES)
}

const HEAD: &str = "\
# Changes of a running job

Generated from the transition table in `crates/protocol/src/change.rs`; `UPDATE_GOLDEN=1 cargo test -p
anabranch-protocol` writes it anew. `docs/design/change.md` says what a change is for.

One change is carried out at a time. Requests wait in their order, also those that only ask what a change would do.
A request is checked while every task runs. A job that stops refuses it.

Rounds: another one is worth it if the last one loaded more than is little, and either was the first one or loaded less
than half of the one before. There are at most eight.

The machine decides until the tasks switch. From then on the coordinator decides: it lets the tasks end with a
checkpoint, begins the next version, and undoes it if it fails before it has committed a checkpoint.
";

/// The change that is carried out.
#[derive(Clone, Copy, Debug)]
struct Change {
    ticket: Ticket,
    version: PlanVersion,
    copied: Copied,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Checking(Ticket),
    /// The next round begins with the next checkpoint.
    Preparing(Change, Rounds),
    Loading(Change, Rounds),
    Switching(Change),
    Begun(Change),
    Undoing,
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Checking(_) => "checking",
            State::Preparing(..) => "preparing",
            State::Loading(..) => "loading",
            State::Switching(_) => "switching",
            State::Begun(_) => "begun",
            State::Undoing => "undoing",
        }
    }
}

/// The changes of one job.
#[derive(Clone, Debug)]
pub struct Changes {
    state: State,
    waiting: VecDeque<Request>,
    /// The highest version that has begun or was asked for.
    last: PlanVersion,
    commands: VecDeque<Command>,
    taken: Taken,
}

impl Changes {
    /// For a job that has this version of its plan.
    #[must_use]
    pub fn new(version: PlanVersion) -> Self {
        Changes {
            state: State::Idle,
            waiting: VecDeque::new(),
            last: version,
            commands: VecDeque::new(),
            taken: Taken::new(TABLE),
        }
    }

    /// Handles an input; `job` is what the job does now. [`Changes::poll`] then returns the resulting
    /// commands.
    pub fn handle(&mut self, job: Job, input: Input) {
        if job == Job::Stops {
            self.give_up();
        }
        match input {
            Input::Requested(request) => self.waiting.push_back(request),
            Input::Checked(checked) => self.checked(checked),
            Input::Committed(epoch) => self.committed(epoch),
            Input::Loads(bytes) => {
                if let State::Loading(_, rounds) = &mut self.state {
                    rounds.loads(bytes);
                }
            }
            Input::Loaded { process, version, succeeded } => self.loaded(job, (process, version), succeeded),
            Input::Lost(process) => {
                if self.rounds().is_some_and(|rounds| rounds.told.contains(&process)) {
                    self.give_up();
                }
            }
            Input::Abort => self.abort(),
            Input::Begins(version) => self.begins(version),
            Input::Settled { version, changed } => self.settled(version, changed),
            Input::Tick => {}
        }
        if matches!(self.state, State::Idle)
            && let Some(next) = self.waiting.pop_front_if(|next| next.dry_run || job != Job::Waits)
        {
            self.enter(State::Checking(next.ticket));
            self.commands.push_back(Command::Check(next.ticket));
        }
    }

    /// The next command, if any.
    pub fn poll(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The version that the next change gets.
    #[must_use]
    pub fn next_version(&self) -> PlanVersion {
        PlanVersion(self.last.0 + 1)
    }

    /// Whether the tasks of this version have begun, and no checkpoint by it is committed yet.
    #[must_use]
    pub fn has_begun(&self, version: PlanVersion) -> bool {
        matches!(&self.state, State::Begun(change) if change.version == version)
    }

    /// How far the change is that is carried out.
    #[must_use]
    pub fn changing(&self) -> Option<Changing> {
        match &self.state {
            State::Preparing(_, rounds) | State::Loading(_, rounds) => Some(Changing::Preparing(rounds.copied)),
            State::Switching(_) | State::Begun(_) => Some(Changing::Switching),
            State::Checking(_) => Some(Changing::Waiting),
            State::Idle | State::Undoing => (!self.waiting.is_empty()).then_some(Changing::Waiting),
        }
    }

    /// The transitions taken: `(machine, from, to)`.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.taken.iter().map(|(from, to)| ("change", from, to))
    }

    fn rounds(&self) -> Option<&Rounds> {
        match &self.state {
            State::Preparing(_, rounds) | State::Loading(_, rounds) => Some(rounds),
            _ => None,
        }
    }

    fn enter(&mut self, next: State) -> State {
        self.taken.insert(self.state.name(), next.name());
        std::mem::replace(&mut self.state, next)
    }

    /// The driver has compared the request with the present plan.
    fn checked(&mut self, checked: Checked) {
        let State::Checking(ticket) = self.state else { return };
        let next = match checked {
            Checked::Answered => {
                self.enter(State::Idle);
                return;
            }
            Checked::Next(next) => next,
        };
        let change = Change { ticket, version: self.next_version(), copied: Copied::default() };
        self.last = change.version;
        let prepares = next.moves_much();
        let checkpoint_is_large = next.checkpoint_bytes.is_none_or(|bytes| bytes > next.little_bytes);
        match prepares {
            true => {
                let rounds = Rounds::new(next);
                self.commands.push_back(Command::Prepare(ticket, rounds.told.clone()));
                self.enter(State::Preparing(change, rounds));
                self.commands.push_back(Command::Checkpoint);
            }
            false => {
                if checkpoint_is_large {
                    // What the tasks write while no row is processed is then only what follows this.
                    self.commands.extend([Command::AddOnly, Command::Checkpoint]);
                }
                self.switch(change);
            }
        }
    }

    /// A checkpoint is committed: workers load what it adds, unless they are loading.
    fn committed(&mut self, epoch: Epoch) {
        // The snapshots of a checkpoint that was granted before may have been replaced by the next one.
        if let State::Preparing(change, rounds) = &mut self.state
            && epoch > rounds.after
        {
            let (change, mut rounds) = (*change, rounds.clone());
            rounds.awaited.clone_from(&rounds.loading);
            self.commands.push_back(Command::Load(change.ticket, rounds.loading.clone()));
            self.enter(State::Loading(change, rounds));
        }
    }

    /// A worker has loaded its part of a round, or cannot. It may say that of a change that was given up.
    fn loaded(&mut self, job: Job, (process, version): (Process, PlanVersion), succeeded: bool) {
        let is_present = match &self.state {
            State::Preparing(change, _) | State::Loading(change, _) => change.version == version,
            _ => false,
        };
        if is_present && !succeeded {
            self.give_up();
        }
        let State::Loading(change, rounds) = &mut self.state else { return };
        if !is_present || !rounds.awaited.remove(&process) {
            return;
        }
        let (change, rounds) = (*change, rounds.clone());
        match job {
            _ if !rounds.awaited.is_empty() => drop(self.enter(State::Loading(change, rounds))),
            Job::Runs if !rounds.goes_on() => self.switch(Change { copied: rounds.copied, ..change }),
            Job::Runs => {
                self.enter(State::Preparing(change, rounds));
                self.commands.push_back(Command::Checkpoint);
            }
            Job::Stops | Job::Waits => drop(self.enter(State::Preparing(change, rounds))),
        }
    }

    /// Lets the tasks end for the next version.
    fn switch(&mut self, change: Change) {
        self.enter(State::Switching(change));
        self.commands.push_back(Command::Switch(change.ticket, change.copied));
    }

    /// The present version goes on, without having ended: what workers have loaded is dropped.
    fn give_up(&mut self) {
        if !matches!(self.state, State::Preparing(..) | State::Loading(..)) {
            return;
        }
        if let State::Preparing(change, rounds) | State::Loading(change, rounds) = self.enter(State::Idle) {
            self.commands.push_back(Command::GiveUp(rounds.told));
            self.commands.push_back(Command::Answer(change.ticket, Answer::NotChanged { undoes: false }));
        }
    }

    /// A user does not want the change any more.
    fn abort(&mut self) {
        let answer = match &self.state {
            State::Preparing(..) | State::Loading(..) => {
                self.give_up();
                Ok(())
            }
            State::Switching(_) | State::Begun(_) => Err(NotAborted::Switches),
            State::Idle | State::Checking(_) | State::Undoing => {
                let next = self.waiting.pop_front();
                let refused = Answer::NotChanged { undoes: false };
                self.commands.extend(next.map(|next| Command::Answer(next.ticket, refused)));
                next.map(drop).ok_or(NotAborted::NoChange)
            }
        };
        self.commands.push_back(Command::Aborted(answer));
    }

    /// An incarnation begins, by this version of the plan.
    fn begins(&mut self, version: PlanVersion) {
        // Tasks have failed: those that prepared are gone.
        self.give_up();
        self.last = self.last.max(version);
        match self.state {
            State::Switching(change) | State::Begun(change) if change.version == version => {
                self.enter(State::Begun(change));
            }
            State::Undoing => {
                self.enter(State::Idle);
            }
            _ => {}
        }
    }

    /// The job has changed to this version, or it does not.
    fn settled(&mut self, version: PlanVersion, changed: bool) {
        let (change, next) = match self.state {
            State::Begun(change) if !changed => (change, State::Undoing),
            State::Switching(change) | State::Begun(change) => (change, State::Idle),
            _ => return,
        };
        if change.version == version {
            let answer = match changed {
                true => Answer::Changed(change.copied),
                false => Answer::NotChanged { undoes: matches!(next, State::Undoing) },
            };
            self.enter(next);
            self.commands.push_back(Command::Answer(change.ticket, answer));
        }
    }
}
