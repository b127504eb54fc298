//! When a worker sends its summary: at once, or with the next one, and again until the coordinator has
//! acknowledged it.

use std::time::Duration;

use anabranch_model::Nanos;

use super::message::Config;
use crate::table::{Taken, Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("quiet", "a change that the coordinator waits for", "sent", "send"),
    row("quiet", "another change", "gathering", "-"),
    row("quiet", "a new term adopts the tasks", "sent", "send everything"),
    row("gathering", "a change that the coordinator waits for", "sent", "send"),
    row("gathering", "the time to gather is over", "sent", "send"),
    row("gathering", "a new term adopts the tasks", "sent", "send everything"),
    row("gathering", "another change", "gathering", "-"),
    row("sent", "an older summary is acknowledged", "sent", "-"),
    row("sent", "the newest summary is acknowledged", "quiet", "-"),
    row("sent", "another change", "gathering", "-"),
    row("sent", "a change that the coordinator waits for", "sent", "send"),
    row("sent", "the time to repeat it has come", "sent", "send again"),
    row("sent", "a new term adopts the tasks", "sent", "send everything"),
];

/// How urgent a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// The coordinator waits for it.
    Now,
    /// It can wait for the next summary.
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Quiet,
    Gathering,
    Sent,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Quiet => "quiet",
            State::Gathering => "gathering",
            State::Sent => "sent",
        }
    }
}

/// The machine of a worker's summaries, within one incarnation.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    state: State,
    /// Number of the newest summary.
    pub(super) number: u64,
    /// Number of the newest summary that was acknowledged in this term.
    pub(super) received: u64,
    /// The next summary is a new one, no repetition.
    unsent: bool,
    deadline: Option<Nanos>,
    linger: Duration,
    resend: Duration,
    pub(super) taken: Taken,
}

impl Outbox {
    pub(super) fn new(config: &Config) -> Self {
        Outbox {
            state: State::Quiet,
            number: 0,
            received: 0,
            unsent: false,
            deadline: None,
            linger: config.linger,
            resend: config.resend,
            taken: Taken::new(TABLE),
        }
    }

    /// For the tasks of another incarnation.
    pub(super) fn renew(&mut self) {
        (self.state, self.number, self.received, self.unsent, self.deadline) = (State::Quiet, 0, 0, false, None);
    }

    fn enter(&mut self, state: State) {
        self.taken.insert(self.state.name(), state.name());
        self.state = state;
    }

    /// Something has changed since the newest summary.
    pub(super) fn changed(&mut self, now: Nanos, urgency: Urgency) {
        match (urgency, self.state) {
            (Urgency::Now, _) => self.must_send(now),
            (Urgency::Later, State::Gathering) => self.enter(State::Gathering),
            (Urgency::Later, _) => {
                self.unsent = true;
                let linger = now.plus(self.linger);
                self.deadline = Some(self.deadline.map_or(linger, |at| at.min(linger)));
                self.enter(State::Gathering);
            }
        }
    }

    fn must_send(&mut self, now: Nanos) {
        self.unsent = true;
        self.deadline = Some(now);
    }

    /// A new term adopts the tasks: it has received nothing yet.
    pub(super) fn adopted(&mut self, now: Nanos) {
        self.received = 0;
        self.must_send(now);
    }

    /// The coordinator has received the summaries up to this number.
    pub(super) fn received(&mut self, number: u64) {
        self.received = self.received.max(number.min(self.number));
        if self.state == State::Sent && number > 0 {
            let newest = self.received == self.number;
            self.deadline = self.deadline.filter(|_| !newest);
            self.enter(if newest { State::Quiet } else { State::Sent });
        }
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// Whether the summary must be sent now; then it is, under [`Outbox::number`].
    pub(super) fn must_be_sent(&mut self, now: Nanos) -> bool {
        let due = self.deadline.is_some_and(|at| at <= now);
        if due {
            self.number += u64::from(std::mem::take(&mut self.unsent));
            self.deadline = Some(now.plus(self.resend));
            self.enter(State::Sent);
        }
        due
    }
}
