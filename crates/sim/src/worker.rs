//! A worker's process: drives the real [`protocol::Worker`](anabranch_protocol::Worker), and carries out its
//! commands for the tasks that it hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Epoch, Incarnation, Nanos, TaskId};
use anabranch_protocol as protocol;
use anabranch_protocol::coordinator::{Checkpoint, Report, Then};
use anabranch_protocol::membership::{Member, Process};
use anabranch_protocol::worker::{Command, Config, FromCoordinator, Input, Order};

use crate::Mutation;
use crate::check::CheckpointId;
use crate::scenario::MS;
use crate::task::{Control, End, Output, Task};
use crate::world::{At, World};

/// Lease of workers, and the silence after which they are lost.
pub(crate) const LEASE: u64 = 200 * MS;
/// A cancelled task needs up to this time to end.
const END_MAX: u64 = 10 * MS;

/// A task of an incarnation in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    process: Process,
    incarnation: Incarnation,
    task: TaskId,
}

/// Tasks of one incarnation in a process.
#[derive(Debug)]
struct Hosted {
    incarnation: Incarnation,
    control: Control,
    tasks: BTreeMap<TaskId, Task>,
}

/// A worker's process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) up: bool,
    pub(crate) member: Member,
    pub(crate) suspended_until: Nanos,
    pub(crate) machine: protocol::Worker<End>,
    /// The coordinator of the newest message.
    host: usize,
    hosted: Option<Hosted>,
}

impl Worker {
    pub(crate) fn new(member: Member) -> Self {
        let ms = Duration::from_millis;
        let config = Config { lease: Duration::from_nanos(LEASE), linger: ms(10), resend: ms(40) };
        Worker {
            up: true,
            member,
            suspended_until: Nanos(0),
            machine: protocol::Worker::new(config),
            host: 0,
            hosted: None,
        }
    }

    fn hosted(&mut self, incarnation: Incarnation) -> Option<&mut Hosted> {
        self.hosted.as_mut().filter(|hosted| hosted.incarnation == incarnation)
    }
}

impl World {
    /// The task of a place, if its process lives and still has it.
    fn task(&mut self, place: Place) -> Option<&mut Task> {
        self.living(place.process)?.hosted(place.incarnation)?.tasks.get_mut(&place.task)
    }

    /// A message of a coordinator arrives.
    pub(crate) fn command(&mut self, process: Process, host: usize, message: &FromCoordinator<End>) {
        self.note(|| format!("{process:?} hears {message:?}"));
        let mutation = self.options.mutation;
        let (now, worker) = (self.now, self.worker(process));
        let (before, fence) = (worker.machine.fence(), message.fence);
        if !before.refuses(fence) {
            worker.host = host;
        }
        if let (Some(Mutation::GrantsUnordered), Some(Order::Grant { group, checkpoint, then, pace })) =
            (mutation, &message.order)
            && let Some(hosted) = worker.hosted(fence.incarnation)
        {
            hosted.control.grant(*group, *pace, *checkpoint, then.ends());
        }
        let adopts = fence.incarnation == before.incarnation && fence.term > before.term;
        if adopts && mutation == Some(Mutation::AdoptionUnreported) {
            worker.machine.handle(now, Input::Message(message.clone()));
            let commands: Vec<_> = std::iter::from_fn(|| worker.machine.poll()).collect();
            let orders = commands.into_iter().filter(|command| matches!(command, Command::Tasks(..)));
            orders.for_each(|command| self.carry_out(process, command));
            let message = FromCoordinator { received: u64::MAX, order: None, ..message.clone() };
            return self.work(process, Input::Message(message));
        }
        self.work(process, Input::Message(message.clone()));
    }

    /// Time has passed for a process that runs.
    pub(crate) fn wake(&mut self, process: Process) {
        let now = self.now;
        if self.worker(process).machine.next_deadline().is_some_and(|at| at <= now) {
            self.work(process, Input::Tick);
        }
    }

    /// Gives an input to a worker and carries out the resulting commands.
    pub(crate) fn work(&mut self, process: Process, input: Input<End>) {
        let (now, ticks) = (self.now, input == Input::Tick);
        self.worker(process).machine.handle(now, input);
        while let Some(command) = self.worker(process).machine.poll() {
            if ticks && matches!(command, Command::Tasks(_, Order::Cancel)) {
                self.run.seen.add("leases over", 1);
                if self.options.mutation == Some(Mutation::LeaseIgnored) {
                    self.later(2 * LEASE, At::Worker(process), move |world| world.carry_out(process, command.clone()));
                    continue;
                }
            }
            self.carry_out(process, command);
        }
        if let Some(at) = self.worker(process).machine.next_deadline() {
            // It wakes up.
            self.at(at, At::Worker(process), |_| ());
        }
    }

    fn carry_out(&mut self, process: Process, command: Command<End>) {
        let late = self.options.mutation == Some(Mutation::SwitchLate) && process.worker.0 == 0;
        let worker = self.worker(process);
        let (incarnation, order) = match command {
            Command::Tasks(incarnation, order) => (incarnation, order),
            Command::Send(message) => {
                let host = worker.host;
                return self.post_up(process, host, move |world| world.reported(host, process, &message));
            }
        };
        if let Order::Start { tasks, from } = order {
            let epoch = from.as_ref().map_or(Epoch(0), |checkpoint| checkpoint.epoch);
            let new = |task: &TaskId| (*task, Task::new(*task, incarnation, epoch));
            let control = Control::new(epoch);
            worker.hosted = Some(Hosted { incarnation, control, tasks: tasks.all.iter().map(new).collect() });
            tasks.all.iter().for_each(|task| self.start(Place { process, incarnation, task: *task }, from.as_ref()));
            return;
        }
        let Some(hosted) = worker.hosted(incarnation) else { return };
        let places: Vec<_> = hosted.tasks.keys().map(|task| Place { process, incarnation, task: *task }).collect();
        match order {
            Order::Grant { group, checkpoint, then, pace } => {
                hosted.control.grant(group, pace, checkpoint, then.ends());
                if late && then == Then::Switch {
                    hosted.control.stop_after = Some(group.last.next());
                }
            }
            Order::CheckpointDone(epoch) => {
                let sinks = places.into_iter().filter(|place| place.task.stage.0 == 2);
                sinks.for_each(|place| self.show(place, (incarnation, epoch), false));
            }
            Order::Cancel => {
                worker.hosted = None;
                for place in places {
                    let wait = self.rng.below(END_MAX);
                    self.later(wait, At::Worker(process), move |world| world.report(place, Report::Gone));
                }
            }
            // Here tasks wait for no epoch alone, and nothing is removed without a checkpoint.
            Order::Start { .. } | Order::EpochDone(_) | Order::AbortCheckpoint(_) | Order::NoneDone => {}
        }
    }

    /// A task starts once its snapshot was read; a sink first makes visible what the checkpoint contains.
    fn start(&mut self, place: Place, from: Option<&Checkpoint<End>>) {
        let snapshot = from.and_then(|from| from.tasks.get(&place.task).copied());
        let from = from.map(|from| (from.incarnation, from.epoch));
        self.after_store(At::Worker(place.process), move |world| {
            let restored = world.truth.restores(place.incarnation, from);
            let Some(task) = world.task(place) else { return };
            snapshot.iter().for_each(|snapshot| task.restore(snapshot));
            match (restored, from) {
                (Ok(true), Some(from)) if place.task.stage.0 == 2 => world.show(place, from, true),
                (Ok(true), _) => world.ready(place),
                (restored, _) => {
                    world.check(restored.map(|_| ()));
                    world.report(place, Report::Failed { retry: true });
                }
            }
        });
    }

    fn ready(&mut self, place: Place) {
        if self.task(place).is_some() {
            self.report(place, Report::Started);
            self.step_later(place);
        }
    }

    fn step_later(&mut self, place: Place) {
        let wait = (2 + self.rng.below(16)) * MS;
        self.later(wait, At::Worker(place.process), move |world| world.step(place));
    }

    /// A task does what it can, from time to time.
    fn step(&mut self, place: Place) {
        let (cut, batch) = (self.rng.below(3) == 0, self.rng.below(6));
        let worker = &mut self.workers[place.process.worker.0 as usize];
        let Some(hosted) = worker.hosted(place.incarnation) else { return };
        let Some(task) = hosted.tasks.get_mut(&place.task).filter(|task| task.ended.is_none()) else { return };
        let outputs = match self.scenario.records(place.task) {
            Some(records) => task.turn(&hosted.control, records, cut, batch),
            None => task.align(&self.scenario.before(place.task), &self.truth),
        };
        let checked = self.truth.acts(place.incarnation, place.process, place.task);
        self.check(checked);
        for output in outputs {
            if self.task(place).is_none() {
                // It crashed at an earlier output.
                return;
            }
            match output {
                Output::Report(report) => self.report(place, report),
                Output::Ended(end) => {
                    let checked = self.truth.ends(end, &self.scenario);
                    self.check(checked);
                    if end.snapshot || end.closes {
                        self.store(place, end);
                    }
                }
            }
        }
        self.step_later(place);
    }

    /// Stores a snapshot, again and again until the store answers.
    fn store(&mut self, place: Place, end: End) {
        let (open, longest) = (self.scenario.open, self.scenario.store_delay);
        let (stored, wait) = (!self.chance(open), self.rng.below(2 * longest + 1));
        self.later(wait, At::Worker(place.process), move |world| {
            let Some(task) = world.task(place) else { return };
            if !stored {
                return world.store(place, end);
            }
            task.acknowledged_end |= end.closes;
            let End { epoch, closes, .. } = end;
            world.report(place, Report::Acknowledged { epoch, snapshot: end, finished: closes });
            world.leave(place);
        });
    }

    /// A sink makes visible what a checkpoint contains, whether or not its task still lives then.
    fn show(&mut self, place: Place, checkpoint: CheckpointId, restoring: bool) {
        self.after_store(At::Outside, move |world| {
            let checked = world.truth.shows(place.task, checkpoint);
            world.check(checked);
            world.after_store(At::Worker(place.process), move |world| {
                let Some(task) = world.task(place) else { return };
                task.shown = checkpoint.1.max(task.shown);
                match restoring {
                    true => world.ready(place),
                    false => world.leave(place),
                }
            });
        });
    }

    /// A task leaves when its last snapshot is durable; a sink, when everything that it prepared is visible
    /// too.
    fn leave(&mut self, place: Place) {
        let Some(task) = self.task(place) else { return };
        let shown = |end: Epoch| place.task.stage.0 != 2 || task.shown >= end;
        if task.acknowledged_end && task.ended.is_some_and(shown) {
            if let Some(hosted) = self.worker(place.process).hosted(place.incarnation) {
                hosted.tasks.remove(&place.task);
            }
            self.report(place, Report::Gone);
        }
    }

    /// A task reports to its worker.
    fn report(&mut self, place: Place, report: Report<End>) {
        self.note(|| format!("{place:?}: {report:?}"));
        self.work(place.process, Input::Task(place.incarnation, place.task, report));
        let crash_at_step = self.scenario.crash_at_step;
        if self.faulty() && self.chance(crash_at_step) {
            self.crash_worker(place.process.worker.0 as usize);
        }
    }
}
