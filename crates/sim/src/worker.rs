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
use crate::event::{Event, Fate, Handle, Place, Publish, Upload, index};
use crate::scenario::MS;
use crate::task::{Control, Envelope, Output, Task};
use crate::world::World;

/// Lease of workers, and the silence after which they are lost.
pub(crate) const LEASE: u64 = 200 * MS;
/// A cancelled task needs up to this time to end.
const END_MAX: u64 = 10 * MS;

/// Tasks of one incarnation in a process.
#[derive(Debug)]
pub(crate) struct Hosted {
    incarnation: Incarnation,
    control: Control,
    tasks: BTreeMap<TaskId, Task>,
}

/// A worker's process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) up: bool,
    pub(crate) member: Member,
    pub(crate) paused_until: Nanos,
    pub(crate) machine: protocol::Worker<Handle>,
    /// The coordinator of the newest message.
    host: usize,
    ticks_at: Option<Nanos>,
    hosted: Option<Hosted>,
}

impl Worker {
    pub(crate) fn new(member: Member) -> Self {
        let ms = Duration::from_millis;
        let config = Config { lease: Duration::from_nanos(LEASE), linger: ms(10), resend: ms(40) };
        Worker {
            up: true,
            member,
            paused_until: Nanos(0),
            machine: protocol::Worker::new(config),
            host: 0,
            ticks_at: None,
            hosted: None,
        }
    }

    fn hosted(&mut self, incarnation: Incarnation) -> Option<&mut Hosted> {
        self.hosted.as_mut().filter(|hosted| hosted.incarnation == incarnation)
    }

    fn task(&mut self, place: Place) -> Option<&mut Task> {
        self.hosted(place.incarnation)?.tasks.get_mut(&place.task)
    }
}

impl World {
    /// The task of a place, if its process lives and still has it.
    fn task(&mut self, place: Place) -> Option<&mut Task> {
        let worker = &mut self.workers[index(place.process)];
        (worker.up && worker.member.process == place.process).then(|| worker.task(place)).flatten()
    }

    /// A message of a coordinator arrives.
    pub(crate) fn command(&mut self, process: Process, host: usize, message: FromCoordinator<Handle>) {
        let worker = &mut self.workers[index(process)];
        let before = worker.machine.fence();
        let (fence, order) = (message.fence, message.order.clone());
        if !before.refuses(fence) {
            worker.host = host;
        }
        if let (Some(Mutation::GrantsUnordered), Some(Order::Grant { group, checkpoint, then, pace })) =
            (self.options.mutation, order)
            && let Some(hosted) = worker.hosted(fence.incarnation)
        {
            hosted.control.grant(group, pace, checkpoint, then.ends());
        }
        let adopts = fence.incarnation == before.incarnation && fence.term > before.term;
        if adopts && self.options.mutation == Some(Mutation::AdoptionUnreported) {
            worker.machine.handle(self.now, Input::Message(message.clone()));
            let orders = std::iter::from_fn(|| worker.machine.poll());
            let orders: Vec<_> = orders.filter(|command| matches!(command, Command::Tasks(..))).collect();
            orders.into_iter().for_each(|command| self.carry_out_command(process, command));
            let message = FromCoordinator { received: u64::MAX, order: None, ..message };
            return self.work(process, Input::Message(message));
        }
        self.work(process, Input::Message(message));
    }

    /// Time has passed for a process that runs.
    pub(crate) fn wake(&mut self, process: Process) {
        let worker = &self.workers[index(process)];
        if worker.machine.next_deadline().is_some_and(|at| at <= self.now) {
            self.work(process, Input::Tick);
        }
    }

    /// Gives an input to a worker and carries out the resulting commands.
    pub(crate) fn work(&mut self, process: Process, input: Input<Handle>) {
        let ticks = input == Input::Tick;
        self.workers[index(process)].machine.handle(self.now, input);
        while let Some(command) = self.workers[index(process)].machine.poll() {
            if ticks && matches!(command, Command::Tasks(_, Order::Cancel)) {
                self.seen.leases_over += 1;
                if self.options.mutation == Some(Mutation::LeaseIgnored) {
                    self.later(2 * LEASE, Event::LateCommand(process, Box::new(command)));
                    continue;
                }
            }
            self.carry_out_command(process, command);
        }
        let worker = &mut self.workers[index(process)];
        let next = worker.machine.next_deadline();
        if let Some(at) = next.filter(|at| worker.ticks_at.is_none_or(|ticks_at| *at < ticks_at)) {
            worker.ticks_at = Some(at);
            self.at(at, Event::WorkerTick(process));
        }
    }

    pub(crate) fn worker_tick(&mut self, process: Process) {
        self.workers[index(process)].ticks_at = None;
        self.work(process, Input::Tick);
    }

    pub(crate) fn carry_out_command(&mut self, process: Process, command: Command<Handle>) {
        let late = self.options.mutation == Some(Mutation::SwitchLate) && index(process) == 0;
        let worker = &mut self.workers[index(process)];
        match command {
            Command::Send(message) => {
                let host = worker.host;
                self.post(Event::ToHost { host, process, message: Box::new(message) });
            }
            Command::Tasks(incarnation, order) => {
                let hosted = worker.hosted(incarnation);
                match order {
                    Order::Start { tasks, from } => self.start(process, incarnation, &tasks.all, from.as_ref()),
                    Order::Grant { group, checkpoint, then, pace } => {
                        let Some(hosted) = hosted else { return };
                        hosted.control.grant(group, pace, checkpoint, then.ends());
                        if late && then == Then::Switch {
                            hosted.control.stop_after = Some(group.last.next());
                        }
                    }
                    Order::CheckpointDone(epoch) => {
                        let Some(hosted) = hosted else { return };
                        hosted.control.done = hosted.control.done.max(epoch);
                        let tasks: Vec<TaskId> = hosted.tasks.keys().copied().collect();
                        for task in tasks {
                            self.checkpoint_done(Place { process, incarnation, task }, epoch);
                        }
                    }
                    Order::Cancel => {
                        let hosted = worker.hosted.take_if(|hosted| hosted.incarnation == incarnation);
                        for (task, _) in hosted.into_iter().flat_map(|hosted| hosted.tasks) {
                            let wait = self.rng.below(END_MAX);
                            self.later(wait, Event::Ended(Place { process, incarnation, task }));
                        }
                    }
                    // In this model tasks wait for no epoch alone, and do not remove objects without a
                    // checkpoint.
                    Order::EpochDone(_) | Order::AbortCheckpoint(_) | Order::NoneDone => {}
                }
            }
        }
    }

    fn start(
        &mut self,
        process: Process,
        incarnation: Incarnation,
        tasks: &std::collections::BTreeSet<TaskId>,
        from: Option<&Checkpoint<Handle>>,
    ) {
        let worker = &mut self.workers[index(process)];
        let epoch = from.map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        let new = |task: &TaskId| (*task, Task::new(&self.scenario, *task, incarnation, epoch));
        let control = Control::new(epoch);
        worker.hosted = Some(Hosted { incarnation, control, tasks: tasks.iter().map(new).collect() });
        for task in tasks {
            self.started.insert((incarnation, *task));
            let snapshot = from.and_then(|checkpoint| checkpoint.tasks.get(task).copied());
            let checkpoint = from.map(|checkpoint| (checkpoint.incarnation, checkpoint.epoch));
            let place = Place { process, incarnation, task: *task };
            self.after_store(Event::Restored { place, snapshot, checkpoint });
        }
    }

    /// The snapshot was read; a sink first makes visible what it contains.
    pub(crate) fn restored(
        &mut self,
        place: Place,
        snapshot: Option<Handle>,
        checkpoint: Option<(Incarnation, Epoch)>,
    ) {
        let is_old = self.truth.is_old(place.incarnation);
        let state = snapshot.map(|snapshot| self.store.objects.get(&snapshot).cloned().flatten());
        let Some(task) = self.task(place) else { return };
        let whole = match &state {
            None => true,
            Some(state) => state.as_ref().is_some_and(|state| task.restore(state)),
        };
        if !whole {
            // Files for an old incarnation may have been deleted since.
            if !is_old {
                self.violated("restore", format!("{} finds no snapshot to restore", place.task));
            }
            return self.report_of(place, Report::Failed { retry: true });
        }
        match checkpoint {
            Some(checkpoint) if task.is_sink() => {
                let committables = task.pending(checkpoint.1);
                self.after_store(Event::Publish(Publish { place, checkpoint, committables, restoring: true }));
            }
            _ => self.ready(place),
        }
    }

    fn ready(&mut self, place: Place) {
        let Some(task) = self.task(place) else { return };
        task.ready = true;
        let is_source = task.is_source();
        self.report_of(place, Report::Started);
        if is_source {
            self.turn_later(place);
        } else {
            self.process(place);
        }
    }

    fn turn_later(&mut self, place: Place) {
        let wait = (2 + self.rng.below(16)) * MS;
        self.later(wait, Event::Source(place));
    }

    /// A source's turn.
    pub(crate) fn turn(&mut self, place: Place) {
        let (cut, batch) = (self.rng.below(3) == 0, self.rng.below(6) as usize);
        let mutation = self.options.mutation;
        let Some(hosted) = self.workers[index(place.process)].hosted(place.incarnation) else { return };
        let Some(task) = hosted.tasks.get_mut(&place.task) else { return };
        let records = &self.scenario.records[place.task.index as usize];
        let outputs = task.turn(&hosted.control, records, cut, batch, mutation);
        let ended = task.ended.is_some();
        self.carry_out(place, outputs);
        if !ended {
            self.turn_later(place);
        }
    }

    /// The next envelope of a channel arrives, if its receiver has started; it is lost with a receiver that
    /// is gone.
    pub(crate) fn deliver(&mut self, incarnation: Incarnation, from: TaskId, to: TaskId) {
        let has_task = |worker: &&Worker| {
            let hosted = worker.hosted.as_ref().filter(|hosted| hosted.incarnation == incarnation);
            worker.up && hosted.is_some_and(|hosted| hosted.tasks.contains_key(&to))
        };
        let Some(receiver) = self.workers.iter().find(has_task) else {
            let gone = self.started.contains(&(incarnation, to)) || self.truth.is_old(incarnation);
            return match gone {
                true => drop(self.channels.remove(&(incarnation, from, to))),
                false => self.later(10 * MS, Event::Deliver { incarnation, from, to }),
            };
        };
        let (process, until) = (receiver.member.process, receiver.paused_until);
        if until > self.now {
            return self.at(until, Event::Deliver { incarnation, from, to });
        }
        self.wake(process);
        let envelope = self.channels.get_mut(&(incarnation, from, to)).and_then(|channel| channel.pop_front());
        let place = Place { process, incarnation, task: to };
        if let (Some(envelope), Some(task)) = (envelope, self.task(place)) {
            task.receive(from, envelope);
            self.process(place);
        }
    }

    fn process(&mut self, place: Place) {
        if let Some(outputs) = self.task(place).map(Task::process) {
            self.carry_out(place, outputs);
        }
    }

    fn carry_out(&mut self, place: Place, outputs: Vec<Output>) {
        let checked = self.truth.acts(place.incarnation, place.process, place.task);
        self.check(checked);
        for output in outputs {
            if self.task(place).is_none() {
                // It crashed at an earlier output.
                return;
            }
            match output {
                Output::Send(to, envelope) => self.send(place, to, envelope),
                Output::Report(report) => self.report_of(place, report),
                Output::Cut(marker, position) => {
                    let records = self.scenario.records.get(place.task.index as usize).map_or(0, Vec::len);
                    let at = (position, position == records);
                    let checked = self.truth.cut(place.incarnation, place.task, marker, at);
                    self.check(checked);
                }
                Output::Snapshot { epoch, finished, state, prepared } => {
                    self.upload(Box::new(Upload { place, epoch, finished, state, prepared }));
                }
            }
        }
    }

    fn send(&mut self, place: Place, to: TaskId, envelope: Envelope) {
        let (incarnation, from) = (place.incarnation, place.task);
        let overtakes = self.options.mutation == Some(Mutation::MarkerOvertakes);
        let channel = self.channels.entry((incarnation, from, to)).or_default();
        let at = match channel.back() {
            Some(Envelope::Marker(_)) | None => channel.len(),
            Some(_) if overtakes && matches!(envelope, Envelope::Marker(_)) => channel.len() - 1,
            Some(_) => channel.len(),
        };
        channel.insert(at, envelope);
        let wait = self.rng.below(self.scenario.delay + 1);
        self.later(wait, Event::Deliver { incarnation, from, to });
    }

    /// Stores a snapshot under a name that was never used: the write of an earlier attempt may still arrive.
    fn upload(&mut self, upload: Box<Upload>) {
        let open = self.scenario.open;
        let fate = match self.chance(open) {
            false => Fate::Written,
            true if self.rng.below(2) == 0 => Fate::Torn,
            true => Fate::Unanswered,
        };
        self.after_store(Event::Upload(upload, fate));
    }

    pub(crate) fn upload_ends(&mut self, upload: Box<Upload>, fate: Fate) {
        let name = self.store.name();
        let whole = (fate != Fate::Torn).then(|| upload.state.clone());
        self.seen.torn += u64::from(whole.is_none());
        for (committable, rows) in upload.prepared.iter().filter(|_| whole.is_some()) {
            self.store.prepare(*committable, rows.clone());
        }
        self.store.objects.insert(name, whole);
        self.after_store(Event::Uploaded(upload, (fate == Fate::Written).then_some(name)));
    }

    pub(crate) fn uploaded(&mut self, upload: Box<Upload>, snapshot: Option<Handle>) {
        let (place, epoch, finished) = (upload.place, upload.epoch, upload.finished);
        let Some(task) = self.task(place) else { return };
        let Some(snapshot) = snapshot else { return self.upload(upload) };
        task.safe(&upload.prepared);
        task.acknowledged_end |= finished;
        self.truth.acknowledged(place.incarnation, place.task, epoch, snapshot, finished);
        self.report_of(place, Report::Acknowledged { epoch, snapshot, finished });
        self.leave(place);
    }

    fn checkpoint_done(&mut self, place: Place, epoch: Epoch) {
        let checkpoint = (place.incarnation, epoch);
        let Some(task) = self.task(place) else { return };
        if task.is_sink() {
            let committables = task.pending(epoch);
            self.after_store(Event::Publish(Publish { place, checkpoint, committables, restoring: false }));
        }
    }

    /// The sink's commit takes effect, whether or not its task still lives.
    pub(crate) fn publish(&mut self, publish: Publish) {
        let again = publish.restoring && self.options.mutation == Some(Mutation::CommittedTwice);
        let mut rows = 0;
        for committable in &publish.committables {
            match self.store.commit(*committable, again) {
                Some(new) => rows += new.len(),
                None => self.violated("prefix", format!("{committable:?} was never prepared")),
            }
        }
        let sink = publish.place.task.index;
        let checked = self.truth.published(sink, publish.checkpoint, rows, &self.scenario, &self.store);
        self.check(checked);
        self.after_store(Event::Published(publish));
    }

    pub(crate) fn published(&mut self, publish: &Publish) {
        let place = publish.place;
        let Some(task) = self.task(place) else { return };
        task.published(&publish.committables);
        match publish.restoring {
            true => self.ready(place),
            false => self.leave(place),
        }
    }

    /// A task leaves when its last snapshot is durable; a sink, when everything that it prepared is visible
    /// too.
    fn leave(&mut self, place: Place) {
        let done = self.workers[index(place.process)].hosted(place.incarnation).map(|hosted| hosted.control.done);
        let Some(task) = self.task(place) else { return };
        let shown = match (task.ended, done) {
            (Some(end), Some(done)) if task.is_sink() => done >= end && task.pending(end).is_empty(),
            (end, _) => end.is_some(),
        };
        if shown && task.acknowledged_end {
            if let Some(hosted) = self.workers[index(place.process)].hosted(place.incarnation) {
                hosted.tasks.remove(&place.task);
            }
            self.report_of(place, Report::Gone);
        }
    }

    /// A task reports to its worker.
    pub(crate) fn report_of(&mut self, place: Place, report: Report<Handle>) {
        self.note(|| format!("{:?}: {} of incarnation {}: {report:?}", place.process, place.task, place.incarnation.0));
        self.work(place.process, Input::Task(place.incarnation, place.task, report));
        let crash_at_step = self.scenario.crash_at_step;
        if self.faulty() && self.chance(crash_at_step) {
            self.crash_worker(index(place.process));
        }
    }
}
