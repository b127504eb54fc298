//! The coordinator's durable log, and with it the fence against other coordinators of the same job.
//!
//! Entries are numbered, and an entry is written only where there is none, so all coordinators that ever
//! serve a job agree on one sequence. A coordinator writes its incarnation first. A rival with a higher
//! incarnation has then taken a number, and the older coordinator meets that entry with its next write,
//! whatever it writes. Incarnations in the log never decrease. So a checkpoint in the log was committed by
//! the coordinator that was the newest at that place.
//!
//! One entry is written at a time and never abandoned. After an answer that does not say whether the entry is
//! there, the coordinator reads the number. Finding nothing proves nothing either, since the put may still be
//! in flight. The coordinator puts the same entry again, and whichever put arrives first wins.
//!
//! A coordinator that adopts running tasks writes that first, under their incarnation. Entries of its
//! predecessor that it has not read yet are facts for it, and the predecessor meets its entry as it would
//! meet that of a higher incarnation. The number of the entry with which a coordinator takes the job is its
//! term.
//!
//! A coordinator with nothing to write reads the next number from time to time. Workers that a rival took
//! over may just fall silent, and without this read it would wait for them forever.
//!
//! Entries that no longer matter are removed: checkpoints beyond those kept, the beginnings of incarnations
//! before the oldest checkpoint, and what is unusable before the newest. So the log stays short however long
//! a job lives. The freed numbers are all before the newest checkpoint: an entry that a zombie writes there
//! has no effect, even if the zombie dies before it learns that it is fenced. After the newest checkpoint, a
//! late entry would count as the newest one.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use anabranch_model::{Incarnation, Nanos, PlanVersion};

use super::config::Config;
use super::message::{Answer, Checkpoint, Command, Entry, Owner};
use crate::table::{Taken, Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("idle", "an entry to write", "appending", "append under the next number"),
    row("idle", "time to check for a rival", "reading", "read the next number"),
    row("appending", "appended", "idle", "written: the next number is free"),
    row("appending", "taken", "reading", "read the number"),
    row("appending", "passed", "fenced", "stop; write nothing"),
    row("appending", "unknown", "resting", "-"),
    row("appending", "timeout", "reading", "read the number"),
    row("resting", "timeout", "reading", "read the number"),
    row("reading", "timeout", "reading", "read the number"),
    row("reading", "unknown", "resting", "-"),
    row("reading", "passed", "fenced", "stop; write nothing"),
    row("reading", "nothing there", "appending", "append the same entry"),
    row("reading", "nothing there, nothing to write", "idle", "-"),
    row("reading", "own entry", "idle", "written: the next number is free"),
    row(
        "reading",
        "entry of an older incarnation, or of the coordinator before",
        "appending",
        "recover it; append under the next number",
    ),
    row("reading", "the same, and it says that the job has ended", "idle", "finish"),
    row("reading", "entry of a rival, as high or higher", "fenced", "stop; write nothing"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle(Nanos),
    Appending(Nanos),
    Reading(Nanos),
    Resting(Nanos),
    Fenced,
}

impl State {
    /// As in the transition table.
    fn name(self) -> &'static str {
        match self {
            State::Idle(_) => "idle",
            State::Appending(_) => "appending",
            State::Reading(_) => "reading",
            State::Resting(_) => "resting",
            State::Fenced => "fenced",
        }
    }
}

/// What has happened to the entry that is being written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome<S> {
    /// Under this number.
    Written(u64, Entry<S>),
    /// An earlier coordinator has recorded that the job has ended.
    Ended,
    Fenced,
}

/// The log as this coordinator knows it, and the entries that it is writing.
#[derive(Debug)]
pub(super) struct Log<S> {
    owner: Owner,
    next: u64,
    highest: Incarnation,
    ended: bool,
    /// Checkpoints that are kept, with the numbers of their entries.
    checkpoints: VecDeque<(u64, Checkpoint<S>)>,
    kept: usize,
    /// Numbers of the entries that begin or adopt an incarnation.
    begins: BTreeSet<u64>,
    /// Numbers of entries that cannot be used.
    unusable: BTreeSet<u64>,
    queue: VecDeque<Entry<S>>,
    /// When the coordinator stops trying to write the current entry.
    patient_until: Option<Nanos>,
    patience: Duration,
    state: State,
    pub(super) taken: Taken,
    timeout: Duration,
    rest: Duration,
    look: Duration,
}

impl<S: Clone + PartialEq> Log<S> {
    pub(super) fn new(now: Nanos, owner: Owner, config: &Config) -> Self {
        Log {
            owner,
            next: 0,
            highest: Incarnation(0),
            ended: false,
            checkpoints: VecDeque::new(),
            kept: config.checkpoints_kept.max(1),
            begins: BTreeSet::new(),
            unusable: BTreeSet::new(),
            queue: VecDeque::new(),
            patient_until: None,
            patience: config.store_patience,
            state: State::Idle(now),
            taken: Taken::new(TABLE),
            timeout: config.store_timeout,
            rest: config.store_retry,
            look: config.fence_look,
        }
    }

    /// Adds an entry that is in the log.
    pub(super) fn recover(&mut self, sequence: u64, entry: Entry<S>) {
        self.next = self.next.max(sequence + 1);
        self.highest = self.highest.max(entry.incarnation());
        match entry {
            Entry::Checkpoint(checkpoint) => self.checkpoints.push_back((sequence, checkpoint)),
            Entry::Begins(..) | Entry::Adopts(..) => _ = self.begins.insert(sequence),
            Entry::Unusable(_) => _ = self.unusable.insert(sequence),
            Entry::Ended(_) => self.ended = true,
        }
    }

    /// Removes entries that no longer matter. Only after an entry of its own: until then the job may belong
    /// to another coordinator.
    fn compact(&mut self, commands: &mut VecDeque<Command<S>>) {
        while self.checkpoints.len() > self.kept {
            if let Some((sequence, old)) = self.checkpoints.pop_front() {
                commands.push_back(Command::Remove(sequence));
                commands.push_back(Command::Forget(old.epoch, old.incarnation));
            }
        }
        let sequence_of = |checkpoint: Option<&(u64, _)>| checkpoint.map_or(0, |(sequence, _)| *sequence);
        let (oldest, newest) = (sequence_of(self.checkpoints.front()), sequence_of(self.checkpoints.back()));
        // If the newest one turns out to be damaged, the entries after the oldest still say which
        // incarnations there were.
        for (entries, needed_from) in [(&mut self.begins, oldest), (&mut self.unusable, newest)] {
            let needed = entries.split_off(&needed_from);
            commands.extend(std::mem::replace(entries, needed).into_iter().map(Command::Remove));
        }
    }

    /// The checkpoint to resume from.
    pub(super) fn newest(&self) -> Option<&Checkpoint<S>> {
        self.checkpoints.back().map(|(_, checkpoint)| checkpoint)
    }

    /// Whether the log says that the job has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Begins the next incarnation; it has begun when the entry is written.
    pub(super) fn begin(&mut self, now: Nanos, version: PlanVersion, commands: &mut VecDeque<Command<S>>) {
        let incarnation = Incarnation(self.highest.0 + 1);
        self.append(now, Entry::Begins(incarnation, self.owner, version), commands);
    }

    /// Adopts the newest incarnation; that has happened when the entry is written. False if this is another
    /// one, or if a later checkpoint than the newest cannot be read.
    pub(super) fn adopt(&mut self, now: Nanos, incarnation: Incarnation, commands: &mut VecDeque<Command<S>>) -> bool {
        let newest = self.checkpoints.back().map_or(0, |(sequence, _)| *sequence);
        let adopts = incarnation == self.highest && self.unusable.range(newest..).next().is_none();
        if adopts {
            self.append(now, Entry::Adopts(incarnation, self.owner), commands);
        }
        adopts
    }

    /// Writes an entry after those already waiting.
    pub(super) fn append(&mut self, now: Nanos, entry: Entry<S>, commands: &mut VecDeque<Command<S>>) {
        self.queue.push_back(entry);
        self.patient_until.get_or_insert(now.plus(self.patience));
        if matches!(self.state, State::Idle(_)) {
            self.put(now, commands);
        }
    }

    fn enter(&mut self, state: State) {
        self.taken.insert(self.state.name(), state.name());
        self.state = state;
    }

    fn put(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) {
        if let Some(entry) = self.queue.front() {
            commands.push_back(Command::Append(self.next, entry.clone()));
            self.enter(State::Appending(now.plus(self.timeout)));
        } else if !matches!(self.state, State::Idle(_)) {
            self.enter(State::Idle(now.plus(self.look)));
        }
    }

    fn read(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) {
        commands.push_back(Command::Read(self.next));
        self.enter(State::Reading(now.plus(self.timeout)));
    }

    /// Handles an answer of the store. Answers to earlier requests change nothing.
    pub(super) fn answer(
        &mut self,
        now: Nanos,
        sequence: u64,
        answer: Answer<S>,
        commands: &mut VecDeque<Command<S>>,
    ) -> Option<Outcome<S>> {
        if sequence != self.next {
            return None;
        }
        match (self.state, answer) {
            (State::Appending(_), Answer::Appended) => return self.written(now, commands),
            (State::Appending(_), Answer::Taken) => self.read(now, commands),
            (State::Appending(_) | State::Reading(_), Answer::Passed) => {
                self.enter(State::Fenced);
                return Some(Outcome::Fenced);
            }
            (State::Appending(_) | State::Reading(_), Answer::Unknown) => {
                self.enter(State::Resting(now.plus(self.rest)));
            }
            (State::Reading(_), Answer::Entry(None)) => self.put(now, commands),
            (State::Reading(_), Answer::Entry(Some(found))) => return self.found(now, found, commands),
            _ => {}
        }
        None
    }

    fn found(&mut self, now: Nanos, found: Entry<S>, commands: &mut VecDeque<Command<S>>) -> Option<Outcome<S>> {
        let own = self.queue.front();
        if own == Some(&found) {
            return self.written(now, commands);
        }
        let is_rival = match (own, &found) {
            // The coordinator before has written this.
            (Some(Entry::Adopts(own, _)), Entry::Checkpoint(_) | Entry::Ended(_)) => found.incarnation() > *own,
            _ => found.incarnation() >= own.map_or(self.highest, Entry::incarnation),
        };
        if is_rival {
            self.enter(State::Fenced);
            return Some(Outcome::Fenced);
        }
        let ended = matches!(found, Entry::Ended(_));
        self.recover(self.next, found);
        if ended {
            self.queue.clear();
        }
        self.put(now, commands);
        ended.then_some(Outcome::Ended)
    }

    fn written(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) -> Option<Outcome<S>> {
        let (entry, sequence) = (self.queue.pop_front()?, self.next);
        self.recover(sequence, entry.clone());
        self.compact(commands);
        self.patient_until = (!self.queue.is_empty()).then(|| now.plus(self.patience));
        self.enter(State::Idle(now.plus(self.look)));
        self.put(now, commands);
        Some(Outcome::Written(sequence, entry))
    }

    fn next_step(&self) -> Option<Nanos> {
        match self.state {
            State::Idle(at) | State::Appending(at) | State::Reading(at) | State::Resting(at) => Some(at),
            State::Fenced => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        [self.next_step(), self.patient_until].into_iter().flatten().min()
    }

    /// Handles what is due. Returns, once, whether the time for the current entry is over.
    pub(super) fn elapse(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) -> bool {
        if self.next_step().is_some_and(|at| at <= now) {
            self.read(now, commands);
        }
        self.patient_until.take_if(|at| *at <= now).is_some()
    }
}
