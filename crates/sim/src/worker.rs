//! A worker: a process that hosts tasks, receives commands and reports. It refuses commands of incarnations older than
//! the newest that it knows, and ends their tasks when a newer one begins.

use std::collections::BTreeMap;

use anabranch_model::{Epoch, Incarnation, Nanos, TaskId};
use anabranch_protocol::coordinator::{Checkpoint, Report};

use crate::Mutation;
use crate::event::{Event, Fate, Handle, Message, Place, Process, Publish, Upload};
use crate::scenario::MS;
use crate::task::{Control, Envelope, Output, Task};
use crate::world::World;

/// Tasks of one incarnation in a process.
#[derive(Debug)]
pub(crate) struct Hosted {
    /// The coordinator that started them, and receives their reports.
    host: usize,
    control: Control,
    tasks: BTreeMap<TaskId, Task>,
}

/// A worker's process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) up: bool,
    pub(crate) boot: u64,
    pub(crate) paused_until: Nanos,
    /// Older incarnations are refused.
    fence: Incarnation,
    /// Cancelled, even if its start has not arrived yet.
    cancelled: Incarnation,
    hosted: BTreeMap<Incarnation, Hosted>,
}

impl Worker {
    pub(crate) fn new(boot: u64) -> Self {
        let none = Incarnation(0);
        Worker { up: true, boot, paused_until: Nanos(0), fence: none, cancelled: none, hosted: BTreeMap::new() }
    }

    fn task(&mut self, place: Place) -> Option<&mut Task> {
        self.hosted.get_mut(&place.incarnation)?.tasks.get_mut(&place.task)
    }
}

impl World {
    /// The task of a place, if its process lives and still has it.
    fn task(&mut self, place: Place) -> Option<&mut Task> {
        let worker = &mut self.workers[place.process.worker];
        (worker.up && worker.boot == place.process.boot).then(|| worker.task(place)).flatten()
    }

    pub(crate) fn command(&mut self, process: Process, host: usize, incarnation: Incarnation, message: Message) {
        let worker = &mut self.workers[process.worker];
        let starts = matches!(message, Message::Start { .. });
        if incarnation < worker.fence || (starts && incarnation <= worker.cancelled) {
            self.seen.refused_commands += 1;
            return;
        }
        match message {
            Message::Start { tasks, from } => self.start(process, host, incarnation, &tasks, from.as_ref()),
            Message::Cancel => {
                worker.cancelled = worker.cancelled.max(incarnation);
                for (task, _) in worker.hosted.remove(&incarnation).into_iter().flat_map(|hosted| hosted.tasks) {
                    let place = Place { process, incarnation, task };
                    self.report(host, place, Report::Gone);
                }
            }
            Message::Grant { group, checkpoint } => {
                if let Some(hosted) = worker.hosted.get_mut(&incarnation) {
                    hosted.control.grant(group.first, group.last, checkpoint);
                }
            }
            Message::StopAfter(epoch) => {
                if let Some(hosted) = worker.hosted.get_mut(&incarnation) {
                    hosted.control.stop_after = Some(epoch);
                }
            }
            Message::CheckpointDone(epoch) => {
                let Some(hosted) = worker.hosted.get_mut(&incarnation) else { return };
                hosted.control.done = hosted.control.done.max(epoch);
                let tasks: Vec<TaskId> = hosted.tasks.keys().copied().collect();
                for task in tasks {
                    self.checkpoint_done(Place { process, incarnation, task }, epoch);
                }
            }
        }
    }

    fn start(
        &mut self,
        process: Process,
        host: usize,
        incarnation: Incarnation,
        tasks: &[TaskId],
        from: Option<&Checkpoint<Handle>>,
    ) {
        let worker = &mut self.workers[process.worker];
        if worker.hosted.contains_key(&incarnation) {
            return;
        }
        worker.fence = incarnation;
        worker.hosted.clear();
        let epoch = from.map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        let new = |task: &TaskId| (*task, Task::new(&self.scenario, *task, incarnation, epoch));
        let hosted = Hosted { host, control: Control::new(epoch), tasks: tasks.iter().map(new).collect() };
        worker.hosted.insert(incarnation, hosted);
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
        let worker = &mut self.workers[place.process.worker];
        if !worker.up || worker.boot != place.process.boot {
            return;
        }
        let Some(hosted) = worker.hosted.get_mut(&place.incarnation) else { return };
        let Some(task) = hosted.tasks.get_mut(&place.task) else { return };
        let records = &self.scenario.records[place.task.index as usize];
        let outputs = task.turn(&hosted.control, records, cut, batch, mutation);
        let ended = task.ended.is_some();
        self.carry_out(place, outputs);
        if !ended {
            self.turn_later(place);
        }
    }

    /// The next envelope of a channel arrives, if its receiver has started; it is lost with a receiver that is gone.
    pub(crate) fn deliver(&mut self, incarnation: Incarnation, from: TaskId, to: TaskId) {
        let of_task = |(_, worker): &(usize, &Worker)| {
            worker.up && worker.hosted.get(&incarnation).is_some_and(|hosted| hosted.tasks.contains_key(&to))
        };
        let Some((worker, receiver)) = self.workers.iter().enumerate().find(of_task) else {
            let gone = self.started.contains(&(incarnation, to)) || self.truth.is_old(incarnation);
            return match gone {
                true => drop(self.channels.remove(&(incarnation, from, to))),
                false => self.later(10 * MS, Event::Deliver { incarnation, from, to }),
            };
        };
        let (process, until) = (Process { worker, boot: receiver.boot }, receiver.paused_until);
        if until > self.now {
            return self.at(until, Event::Deliver { incarnation, from, to });
        }
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
        for output in outputs {
            if self.task(place).is_none() {
                // It crashed at an earlier output.
                return;
            }
            match output {
                Output::Send(to, envelope) => self.send(place, to, envelope),
                Output::Report(report) => self.report_of(place, report),
                Output::Cut(epoch, position) => {
                    let checked = self.truth.cut(place.incarnation, place.task, epoch, position);
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

    /// A task leaves when its last snapshot is durable; a sink, when everything that it prepared is visible too.
    fn leave(&mut self, place: Place) {
        let done = self.workers[place.process.worker].hosted.get(&place.incarnation).map(|hosted| hosted.control.done);
        let Some(task) = self.task(place) else { return };
        let shown = match (task.ended, done) {
            (Some(end), Some(done)) if task.is_sink() => done >= end && task.pending(end).is_empty(),
            (end, _) => end.is_some(),
        };
        if shown && task.acknowledged_end {
            self.report_of(place, Report::Gone);
            if let Some(hosted) = self.workers[place.process.worker].hosted.get_mut(&place.incarnation) {
                hosted.tasks.remove(&place.task);
            }
        }
    }

    /// A task reports to the coordinator that started it.
    fn report_of(&mut self, place: Place, report: Report<Handle>) {
        let hosted = self.workers[place.process.worker].hosted.get(&place.incarnation);
        if let Some(host) = hosted.map(|hosted| hosted.host) {
            self.report(host, place, report);
        }
    }

    fn report(&mut self, host: usize, place: Place, report: Report<Handle>) {
        self.post(Event::ToHost { host, place, report });
        let crash_at_step = self.scenario.crash_at_step;
        if self.faulty() && self.chance(crash_at_step) {
            self.crash_worker(place.process.worker);
        }
    }
}
