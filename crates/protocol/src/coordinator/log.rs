//! The coordinator's durable log, and with it the fence against other coordinators of the same job.
//!
//! Entries are numbered and put only where there is none, so all coordinators that ever serve a job agree on one
//! sequence. A coordinator writes its incarnation first; a rival with a higher one has then taken a number that this
//! one will run into with its next entry, whatever it is. Incarnations in the log never fall, so a checkpoint that got
//! in was committed by the coordinator that was the newest there.
//!
//! One entry is written at a time, and is never given up: after an answer that leaves it open whether the entry is
//! there, the number is read. Reading nothing proves nothing either, as the put may still be under way; the same entry is put
//! again, and whichever put arrives first wins.
//!
//! A coordinator that has nothing to write looks from time to time whether somebody else has: workers that a rival took
//! over may just fall silent, and without this look it would wait for them for ever.
//!
//! Entries that say nothing any more are removed: checkpoints beyond those kept, and all others in front of the newest one.
//! So the log stays short, however long a job lives. Numbers become free by that, but only in front of the newest
//! checkpoint: what a zombie puts there says nothing, even if the zombie dies before it is told so. Behind it a late
//! entry would pass for the newest checkpoint.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use anabranch_model::{Incarnation, Nanos};

use super::config::Config;
use super::message::{Answer, Checkpoint, Command, Entry, Owner};
use super::table::{Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("idle", "an entry to write", "appending", "append under the next number"),
    row("idle", "time to look", "reading", "read the next number"),
    row("appending", "appended", "idle", "written: the next number is free"),
    row("appending", "taken", "reading", "read the number"),
    row("appending", "passed", "fenced", "stop without harm"),
    row("appending", "unknown", "resting", "-"),
    row("appending", "timeout", "reading", "read the number"),
    row("resting", "timeout", "reading", "read the number"),
    row("reading", "timeout", "reading", "read the number"),
    row("reading", "unknown", "resting", "-"),
    row("reading", "passed", "fenced", "stop without harm"),
    row("reading", "nothing there", "appending", "append the same entry"),
    row("reading", "nothing there, nothing to write", "idle", "-"),
    row("reading", "own entry", "idle", "written: the next number is free"),
    row("reading", "entry of an older incarnation", "appending", "take it in; append under the next number"),
    row("reading", "entry that the job has ended, of an older incarnation", "idle", "finish"),
    row("reading", "entry of a rival, as high or higher", "fenced", "stop without harm"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle(Nanos),
    Appending(Nanos),
    Reading(Nanos),
    Resting(Nanos),
    Fenced,
}

/// What has become of the entry in hand.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome<S> {
    Written(Entry<S>),
    /// Somebody before has brought the job to its end.
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
    /// Numbers of other entries that are there.
    others: BTreeSet<u64>,
    queue: VecDeque<Entry<S>>,
    /// When the entry in hand is given up.
    patient_until: Option<Nanos>,
    patience: Duration,
    state: State,
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
            others: BTreeSet::new(),
            queue: VecDeque::new(),
            patient_until: None,
            patience: config.store_patience,
            state: State::Idle(now),
            timeout: config.store_timeout,
            rest: config.store_retry,
            look: config.fence_look,
        }
    }

    /// Takes in an entry that is in the log.
    pub(super) fn recover(&mut self, sequence: u64, entry: Entry<S>) {
        self.next = self.next.max(sequence + 1);
        self.highest = self.highest.max(entry.incarnation());
        match entry {
            Entry::Checkpoint(checkpoint) => self.checkpoints.push_back((sequence, checkpoint)),
            Entry::Begins(..) | Entry::Unusable(_) => _ = self.others.insert(sequence),
            Entry::Ended(_) => self.ended = true,
        }
    }

    /// Removes what says nothing any more. Only after an entry of one's own: until then the job may be somebody else's.
    fn compact(&mut self, commands: &mut VecDeque<Command<S>>) {
        while self.checkpoints.len() > self.kept {
            if let Some((sequence, old)) = self.checkpoints.pop_front() {
                commands.push_back(Command::Remove(sequence));
                commands.push_back(Command::Forget(old.epoch, old.incarnation));
            }
        }
        let newest = self.checkpoints.back().map_or(0, |(sequence, _)| *sequence);
        let stay = self.others.split_off(&newest);
        commands.extend(std::mem::replace(&mut self.others, stay).into_iter().map(Command::Remove));
    }

    /// The checkpoint to go on from.
    pub(super) fn newest(&self) -> Option<&Checkpoint<S>> {
        self.checkpoints.back().map(|(_, checkpoint)| checkpoint)
    }

    /// Whether the log says that the job has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Begins the next incarnation; it has begun when the entry is written.
    pub(super) fn begin(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) {
        let incarnation = Incarnation(self.highest.0 + 1);
        self.append(now, Entry::Begins(incarnation, self.owner), commands);
    }

    /// Writes an entry after those in hand.
    pub(super) fn append(&mut self, now: Nanos, entry: Entry<S>, commands: &mut VecDeque<Command<S>>) {
        self.queue.push_back(entry);
        self.patient_until.get_or_insert(now.plus(self.patience));
        if matches!(self.state, State::Idle(_)) {
            self.put(now, commands);
        }
    }

    fn put(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) {
        self.state = State::Idle(now.plus(self.look));
        if let Some(entry) = self.queue.front() {
            commands.push_back(Command::Append(self.next, entry.clone()));
            self.state = State::Appending(now.plus(self.timeout));
        }
    }

    fn read(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) {
        commands.push_back(Command::Read(self.next));
        self.state = State::Reading(now.plus(self.timeout));
    }

    /// The store has answered. Answers to earlier questions change nothing.
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
                self.state = State::Fenced;
                return Some(Outcome::Fenced);
            }
            (State::Appending(_) | State::Reading(_), Answer::Unknown) => {
                self.state = State::Resting(now.plus(self.rest));
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
        if found.incarnation() >= own.map_or(self.highest, Entry::incarnation) {
            self.state = State::Fenced;
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
        let entry = self.queue.pop_front()?;
        self.recover(self.next, entry.clone());
        self.compact(commands);
        self.patient_until = (!self.queue.is_empty()).then(|| now.plus(self.patience));
        self.put(now, commands);
        Some(Outcome::Written(entry))
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

    /// What is due now. Whether patience with the entry in hand is over; that is said once.
    pub(super) fn elapse(&mut self, now: Nanos, commands: &mut VecDeque<Command<S>>) -> bool {
        if self.next_step().is_some_and(|at| at <= now) {
            self.read(now, commands);
        }
        self.patient_until.take_if(|at| *at <= now).is_some()
    }
}
