//! What one worker does for one job, as a value. Inputs are messages of the coordinator, reports of its
//! tasks, and the time; outputs are orders for its tasks, messages to the coordinator, and the next deadline.
//!
//! Each concern has its own machine, with its transitions as a table: the `life` of the tasks, the order of
//! `grants`, and the `outbox`. This module composes them. `docs/protocol/worker.md` shows them all, and the
//! rules between them.
//!
//! A driver creates a [`Worker`] for a job. It calls [`Worker::handle`] for everything that happens and at
//! [`Worker::next_deadline`], and after each call carries out all commands of [`Worker::poll`]. Its further
//! duties:
//!
//! * A message is meant for one process: it must not reach a process that has restarted under the same name.
//! * Each task reports that it is gone, or that it has failed, once it does nothing any more. Its earlier
//!   reports come first.
//! * After a suspension of the process, the worker handles the time before any task continues.

mod grants;
mod life;
mod message;
mod outbox;
mod table;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use anabranch_model::{Epoch, Incarnation, Nanos, TaskId};

pub use life::Phase;
pub use message::{
    Command, Config, Fence, FromCoordinator, Hosting, Input, LastSnapshot, Order, Orders, Snapshots, Summary, Term,
    ToCoordinator,
};
pub use table::{MACHINES, document};

use crate::coordinator::{Checkpoint, Granted, Report, Tasks};
use grants::Grants;
use life::Life;
use outbox::{Outbox, Urgency};
use tasks::Hosted;

/// One worker's part in one job. `S` identifies a task's snapshot: a handle, never the state itself.
#[derive(Clone, Debug)]
pub struct Worker<S> {
    config: Config,
    /// Of the newest message; older ones are refused.
    fence: Fence,
    /// No incarnation up to this one starts any more.
    cancelled: Incarnation,
    /// When this process sent the newest heartbeat that the coordinator has answered.
    contact: Nanos,
    life: Life,
    /// The tasks of the present incarnation, or of an older one that is ending.
    hosted: Option<Hosted<S>>,
    /// Waits until the tasks of the older incarnation are gone.
    next: Option<Start<S>>,
    grants: Grants,
    outbox: Outbox,
    refused: u64,
    commands: VecDeque<Command<S>>,
}

#[derive(Clone, Debug)]
struct Start<S> {
    tasks: Tasks,
    from: Option<Checkpoint<S>>,
    /// What the coordinator had heard when it sent the order.
    heard: Nanos,
}

impl<S: Clone> Worker<S> {
    /// A worker without tasks.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Worker {
            fence: Fence::NONE,
            cancelled: Incarnation(0),
            contact: Nanos(0),
            life: Life::new(),
            hosted: None,
            next: None,
            grants: Grants::new(Epoch(0)),
            outbox: Outbox::new(&config),
            refused: 0,
            commands: VecDeque::new(),
            config,
        }
    }

    /// Handles an input. [`Worker::poll`] then returns the resulting commands.
    pub fn handle(&mut self, now: Nanos, input: Input<S>) {
        if let Input::Heard(term, heard) = input
            && term == self.fence.term
        {
            self.contact = self.contact.max(heard);
        }
        // A lease that is over is over, even if a message that would extend it has waited.
        self.elapse(now);
        match input {
            Input::Message(message) => self.message(now, message),
            Input::Heard(..) => {}
            Input::Task(incarnation, task, report) => self.report(now, incarnation, task, report),
            Input::Tick => {}
        }
        self.elapse(now);
    }

    /// The next command, if any.
    pub fn poll(&mut self) -> Option<Command<S>> {
        self.commands.pop_front()
    }

    /// When the driver must call [`Worker::handle`] at the latest, with [`Input::Tick`] if there is no other
    /// input.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let outbox = self.outbox.deadline().filter(|_| self.is_present());
        [self.lease_end(), outbox].into_iter().flatten().min()
    }

    /// Whether tasks are there.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.life.phase
    }

    /// The newest incarnation, if all its tasks here run.
    #[must_use]
    pub fn runs(&self) -> Option<Incarnation> {
        self.running().map(|hosted| hosted.incarnation)
    }

    /// Its tasks.
    #[must_use]
    pub fn hosting(&self) -> Option<Hosting> {
        self.running().map(Hosted::hosting)
    }

    fn running(&self) -> Option<&Hosted<S>> {
        let runs = self.phase() == Phase::Running && self.is_present();
        self.hosted.as_ref().filter(|hosted| runs && hosted.run())
    }

    /// What the newest message carried.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How many messages and reports were refused because they were old.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The transitions that the machines have taken: `(machine, from, to)`.
    pub fn taken(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        let of = |machine| move |(from, to)| (machine, from, to);
        let (life, grants, outbox) = (&self.life.taken, &self.grants.taken, &self.outbox.taken);
        life.iter().map(of("life")).chain(grants.iter().map(of("grants"))).chain(outbox.iter().map(of("outbox")))
    }

    fn message(&mut self, now: Nanos, message: FromCoordinator<S>) {
        let FromCoordinator { fence, heard, received, order } = message;
        if self.fence.refuses(fence) {
            self.refused += 1;
            return;
        }
        let newer = fence.incarnation > self.fence.incarnation;
        let adopted = fence.term > self.fence.term;
        self.fence = fence;
        // Another coordinator may have declared this worker lost; only what this one has heard extends the
        // lease.
        self.contact = if newer || adopted { heard } else { self.contact.max(heard) };
        match &self.hosted {
            Some(hosted) if newer => {
                let old = hosted.incarnation;
                self.next = None;
                self.cancel(old);
            }
            Some(hosted) if hosted.incarnation == fence.incarnation && adopted => {
                self.grants.adopted();
                self.outbox.adopted(now);
            }
            Some(hosted) if hosted.incarnation == fence.incarnation => self.outbox.received(received),
            _ => {}
        }
        if let Some(order) = order {
            self.order(now, heard, order);
        }
    }

    fn order(&mut self, now: Nanos, heard: Nanos, order: Order<S>) {
        let incarnation = self.fence.incarnation;
        match order {
            Order::Start { tasks, from } => {
                if self.is_present() || incarnation <= self.cancelled {
                    return;
                }
                let heard = self.next.as_ref().map_or(heard, |next| next.heard.max(heard));
                self.next = Some(Start { tasks, from, heard });
                if self.phase() != Phase::Ending {
                    self.start(now);
                }
            }
            Order::Cancel if incarnation > self.cancelled => {
                self.cancelled = incarnation;
                self.next = None;
                match self.phase() {
                    Phase::Running => self.cancel(incarnation),
                    Phase::Ending => {}
                    Phase::Idle | Phase::Gone => self.none_there(now),
                }
            }
            Order::Cancel => {}
            Order::Grant { group, checkpoint, then, pace } => {
                let (Some(hosted), commands) = (&mut self.hosted, &mut self.commands) else { return };
                if hosted.incarnation != incarnation || self.life.phase != Phase::Running {
                    return;
                }
                let before = hosted.orders.granted;
                let granted = Granted { group, checkpoint, then, pace, aborted: false };
                self.grants.arrived(granted, |granted @ Granted { group, checkpoint, then, pace, .. }| {
                    hosted.granted(granted);
                    commands.push_back(Command::Tasks(incarnation, Order::Grant { group, checkpoint, then, pace }));
                });
                if hosted.orders.granted > before {
                    self.outbox.changed(now, Urgency::Later);
                }
            }
            order => {
                let Some(hosted) = &mut self.hosted else { return };
                if hosted.incarnation == incarnation && self.life.phase == Phase::Running && hosted.is_news(&order) {
                    self.commands.push_back(Command::Tasks(incarnation, order));
                    self.outbox.changed(now, Urgency::Later);
                }
            }
        }
    }

    /// Whether the tasks of the present incarnation are or were here.
    fn is_present(&self) -> bool {
        self.hosted.as_ref().is_some_and(|hosted| hosted.incarnation == self.fence.incarnation)
    }

    /// Starts the tasks that wait, unless the order is too old: the coordinator may have declared this worker
    /// lost since. Then later messages, which extend the lease, say nothing of the tasks. A coordinator that
    /// still wants them repeats the order.
    fn start(&mut self, now: Nanos) -> bool {
        let Some(Start { tasks, from, heard }) = self.next.take() else { return false };
        if heard.plus(self.config.lease) <= now {
            self.refused += 1;
            return false;
        }
        let incarnation = self.fence.incarnation;
        let epoch = from.as_ref().map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        self.renew(Hosted::new(incarnation, &tasks, epoch), epoch);
        self.life.enter(Phase::Running);
        self.commands.push_back(Command::Tasks(incarnation, Order::Start { tasks, from }));
        true
    }

    /// The tasks of an incarnation that was cancelled before it started here count as gone.
    fn none_there(&mut self, now: Nanos) {
        if self.is_present() {
            return;
        }
        let (all, sources, sinks) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let tasks = Tasks { version: self.fence.version, all, sources, sinks };
        self.renew(Hosted::new(self.fence.incarnation, &tasks, Epoch(0)), Epoch(0));
        self.life.enter(Phase::Gone);
        self.outbox.changed(now, Urgency::Now);
    }

    fn renew(&mut self, hosted: Hosted<S>, from: Epoch) {
        self.hosted = Some(hosted);
        self.grants.renew(from);
        self.outbox.renew();
    }

    fn cancel(&mut self, incarnation: Incarnation) {
        if self.phase() == Phase::Running {
            self.life.enter(Phase::Ending);
            self.hosted.iter_mut().for_each(|hosted| hosted.cancelled = true);
            self.commands.push_back(Command::Tasks(incarnation, Order::Cancel));
        }
    }

    fn report(&mut self, now: Nanos, incarnation: Incarnation, task: TaskId, report: Report<S>) {
        let there = matches!(self.phase(), Phase::Running | Phase::Ending);
        let Some(hosted) = self.hosted.as_mut().filter(|hosted| there && hosted.incarnation == incarnation) else {
            self.refused += 1;
            return;
        };
        let urgency = hosted.report(task, report);
        let all_gone = hosted.all_gone();
        if let Some(urgency) = urgency.filter(|_| incarnation == self.fence.incarnation) {
            self.outbox.changed(now, urgency);
        }
        if all_gone && !self.start(now) {
            self.life.enter(Phase::Gone);
            if self.cancelled == self.fence.incarnation {
                self.none_there(now);
            }
        }
    }

    /// When the tasks must end unless the coordinator is heard.
    fn lease_end(&self) -> Option<Nanos> {
        (self.phase() == Phase::Running).then(|| self.contact.plus(self.config.lease))
    }

    fn elapse(&mut self, now: Nanos) {
        if self.lease_end().is_some_and(|end| end <= now) {
            self.cancelled = self.fence.incarnation;
            if let Some(hosted) = &mut self.hosted {
                hosted.fail_any();
            }
            self.cancel(self.fence.incarnation);
            self.outbox.changed(now, Urgency::Now);
        }
        let Some(hosted) = self.hosted.as_mut().filter(|hosted| hosted.incarnation == self.fence.incarnation) else {
            return;
        };
        if self.outbox.must_be_sent(now) {
            let summary = hosted.summary(self.outbox.number, self.outbox.received);
            self.commands.push_back(Command::Send(ToCoordinator { fence: self.fence, summary }));
        }
    }
}
