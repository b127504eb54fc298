//! The coordinator's communication with workers: the placement of tasks, and messages in both directions.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Error, ErrorKind, Incarnation, TaskId};
use anabranch_protocol::coordinator::{Checkpoint, Input, Phase, Report, Tasks};
use anabranch_protocol::membership::Process;
use anabranch_protocol::message::{Downward, Upward};
use anabranch_state::TaskState;

use super::{HERE, REPEAT, Shell, Unplaced, WAITING};
use crate::durable::scribe;
use crate::shell::messages::{FromWorker, Observed, Since, ToWorker};
use crate::shell::remote::RemoteWorker;
use crate::shell::watch::Awaited;

impl Shell {
    /// Chooses a worker for every task, and orders the workers to start their tasks. If workers are missing,
    /// the incarnation waits for them; an incarnation of a new plan version fails instead.
    pub(super) fn place_tasks(&mut self, incarnation: Incarnation, from: Option<Checkpoint<TaskState>>) {
        let taken = (incarnation, self.coordinator.term());
        let placement = match &mut self.remotes {
            None => self.tasks.all.iter().map(|task| (*task, HERE)).collect(),
            Some(remotes) => match remotes.place_tasks(taken, &self.peers.placement(), &mut self.worker) {
                Ok(placement) => placement,
                Err(missing) if self.reconfiguring.changes.has_begun(self.coordinator.version()) => {
                    return self.cannot_place(incarnation, &missing);
                }
                Err(missing) => {
                    self.shared.life.waits_for(Some(missing.clone()));
                    self.watch.begin(Awaited::Workers, self.clock.now());
                    let again = self.clock.now().plus(WAITING);
                    self.unplaced = Some(Unplaced { incarnation, from, missing, again });
                    return;
                }
            },
        };
        self.unplaced = None;
        self.shared.life.waits_for(None);
        if self.watch.done(Awaited::Workers) {
            self.shared.notify("there are enough workers");
        }
        self.peers.start(taken, from, &self.tasks, &placement);
    }

    /// Fails an incarnation: workers for the tasks of a new plan version are missing. The former version
    /// resumes.
    fn cannot_place(&mut self, incarnation: Incarnation, missing: &str) {
        let Some(first) = self.tasks.all.first().copied() else { return };
        let error = Error::outside(format!("the tasks of the new plan version cannot be placed: {missing}"));
        self.failed(incarnation, None, error.remedy("start workers, and change the job again"));
        let failed = [(first, Report::Failed { retry: true })];
        let gone = self.tasks.all.iter().map(|task| (*task, Report::Gone));
        self.inputs.push_back(Input::Tasks(incarnation, failed.into_iter().chain(gone).collect()));
    }

    /// Takes over running tasks. They continue at their workers, which report to this coordinator from now
    /// on.
    pub(crate) fn adopt(
        &mut self,
        incarnation: Incarnation,
        newest: Option<&Checkpoint<TaskState>>,
        hosted: BTreeMap<Process, Tasks>,
    ) {
        // Handles the messages that have arrived: they add the workers that were present when the job was
        // registered.
        while self.step() {}
        let tasks = hosted.iter().flat_map(|(process, tasks)| tasks.all.iter().map(|task| (*task, *process)));
        let placed: BTreeMap<TaskId, Process> = tasks.collect();
        let processes: Vec<Process> = hosted.keys().copied().collect();
        let taken = (incarnation, self.coordinator.term());
        self.peers.adopt(taken, newest, self.tasks.version, hosted);
        self.remotes.iter_mut().for_each(|remotes| remotes.adopt(taken, &placed));
        self.was_open = true;
        self.shared.life.adopted(taken.0, taken.1);
        // Requests a checkpoint. A sink may wait for one that it has requested from the former coordinator.
        // The checkpoint also covers everything that the former coordinator did not commit.
        self.inputs.push_back(Input::Checkpoint);
        for process in processes.into_iter().filter(|process| !self.is_known(*process)).collect::<Vec<_>>() {
            self.lost(process, Error::outside("a worker is lost: it left while its coordinator was replaced"));
        }
        self.process_inputs();
    }

    /// Adds workers. The tasks of an incarnation that waits for workers are placed, if there are enough now.
    pub(super) fn joined(&mut self, workers: Vec<RemoteWorker>) {
        if let Some(remotes) = &mut self.remotes {
            workers.into_iter().for_each(|worker| remotes.join(worker));
        }
        let is_starting = self.coordinator.phase() == Phase::Restoring;
        if let Some(Unplaced { incarnation, from, .. }) = self.unplaced.take_if(|_| is_starting) {
            self.place_tasks(incarnation, from);
        }
    }

    /// Removes a worker that is lost. Its tasks have failed, unless they had ended.
    pub(super) fn lost(&mut self, process: Process, why: Error) {
        let Some(remotes) = &mut self.remotes else { return };
        remotes.leave(process);
        self.lost_while_preparing(process, &why);
        self.unanswered.remove(&process);
        self.shared.show_remote(process, None);
        if self.unplaced.is_some() {
            // The present incarnation has no tasks yet. `peers` still has those of a past one.
            return;
        }
        let incarnation = self.coordinator.incarnation();
        let tasks = self.peers.unfinished(process);
        let Some(first) = tasks.first().copied() else { return };
        // An outside error that was reported before is a consequence of the loss: other workers report broken
        // connections to the lost one.
        self.failure.take_if(|seen| seen.error().kind() == ErrorKind::Outside);
        self.failed(incarnation, None, why);
        let lost = [(first, Report::Lost)];
        let gone = tasks.into_iter().map(|task| (task, Report::Gone));
        self.inputs.push_back(Input::Tasks(incarnation, lost.into_iter().chain(gone).collect()));
    }

    /// Extends the time limit of a start periodically while the job waits for workers.
    pub(super) fn go_on_waiting(&mut self) {
        let now = self.clock.now();
        let (Some(unplaced), Some(first)) = (&mut self.unplaced, self.tasks.all.first()) else { return };
        if now >= unplaced.again {
            unplaced.again = now.plus(WAITING);
            self.inputs.push_back(Input::Task(unplaced.incarnation, *first, Report::Restoring));
        }
    }

    /// Whether a worker in another process belongs to the job.
    pub(super) fn is_known(&self, process: Process) -> bool {
        self.remotes.as_ref().is_some_and(|remotes| remotes.heard_at(process).is_some())
    }

    /// Handles a message of a worker.
    pub(super) fn heard(&mut self, process: Process, message: FromWorker) {
        match message {
            FromWorker::Deployed { incarnation, restoring } if incarnation == self.coordinator.incarnation() => {
                let workers = self.peers.processes().len();
                let opened = self.remotes.as_mut().map_or(1, |remotes| remotes.opened(process));
                self.was_open |= opened == workers;
                if !restoring.is_empty() {
                    self.watch.begin(Awaited::Restore, self.clock.now());
                }
                self.restoring.extend(restoring);
            }
            FromWorker::Deployed { .. } => {}
            FromWorker::Protocol(message) => self.protocol_message(process, *message),
            FromWorker::Observed(observed) => self.observed(process, observed),
        }
    }

    /// Handles a worker's protocol message: passes it to the machine that it concerns.
    fn protocol_message(&mut self, process: Process, message: Upward<TaskState>) {
        match message {
            Upward::Summary(message) => self.inputs.extend(self.peers.receive_summary(process, message)),
            // The request is not answered: the sink will see the commit of the checkpoint.
            Upward::Checkpoint => self.inputs.push_back(Input::Checkpoint),
            Upward::Loaded { version, error } => self.loaded(process, version, error),
            Upward::Full { incarnation, full } => {
                let Some(remotes) = &mut self.remotes else { return };
                for (other, held) in remotes.sinks.says(process, incarnation, full) {
                    self.send_decision(other, Downward::Hold { incarnation, held });
                }
            }
            Upward::Agree { incarnation, key, list } => {
                let Some(remotes) = &mut self.remotes else { return };
                if let Some(list) = remotes.lists.found(incarnation, &key, list).map(<[_]>::to_vec) {
                    self.send_decision(process, Downward::Agreed { incarnation, key, list });
                }
            }
        }
    }

    /// Handles a worker's observation.
    fn observed(&mut self, process: Process, observed: Observed) {
        let present = self.coordinator.incarnation();
        match observed {
            Observed::Failed { incarnation, task, error } => self.failed(incarnation, Some(task), error),
            Observed::Reached(reached) => {
                let (Some(remotes), all) = (&mut self.remotes, self.peers.processes()) else { return };
                for (other, reached) in remotes.reached(process, reached, &all) {
                    match other == HERE {
                        true => self.worker.aligned(reached),
                        false => remotes.send(other, ToWorker::Observed(reached)),
                    }
                }
            }
            Observed::Since(Since { incarnation, grant_wait_ns, dropped, passages }) if incarnation == present => {
                self.grant_wait_ns = self.grant_wait_ns.max(grant_wait_ns);
                if !passages.is_empty() {
                    self.shared.life.passed(process, &passages);
                }
                if let Some(durable) = self.durable.as_ref().filter(|_| !dropped.is_empty()) {
                    // The scribe ends only after this thread, so sending succeeds.
                    let _ = durable.scribe.send(scribe::Task::Dropped(dropped));
                }
            }
            Observed::Notices(notices) => notices.into_iter().for_each(|notice| self.shared.notify(notice)),
            Observed::Metrics(mut metrics) => {
                // A worker may still report tasks of an earlier incarnation, which may be elsewhere now.
                let placement = self.peers.placement();
                metrics.retain(|metrics| placement.get(&metrics.task) == Some(&process));
                self.shared.show_remote(process, Some(metrics));
            }
            Observed::KeyGroups { incarnation, rows } if incarnation == present => {
                self.shared.show_key_groups(process, incarnation, rows);
            }
            Observed::Since(_) | Observed::KeyGroups { .. } => {}
        }
    }

    /// Sends a decision to a worker.
    pub(super) fn send_decision(&mut self, process: Process, message: Downward<TaskState>) {
        match &self.remotes {
            _ if process == HERE => _ = self.worker.hears(message),
            Some(remotes) => remotes.send(process, ToWorker::Protocol(Box::new(message))),
            None => {}
        }
    }

    /// Answers the summaries whose answer is due, and repeats the orders that no summary has confirmed in
    /// time.
    pub(super) fn answer(&mut self) {
        let now = self.clock.now();
        let mut due: Vec<Process> =
            self.unanswered.extract_if(.., |_, at| *at <= now).map(|(process, _)| process).collect();
        if self.remotes.is_some() {
            due.extend(self.peers.to_repeat(now, REPEAT));
        }
        due.into_iter().for_each(|process| self.send_orders(process));
    }

    /// Sends a worker its pending orders.
    pub(super) fn send_orders(&mut self, process: Process) {
        // Messages within one process are not lost, so they are never repeated.
        let repeat = if self.remotes.is_some() { REPEAT } else { Duration::MAX };
        let now = self.clock.now();
        self.unanswered.remove(&process);
        let heard = self.remotes.as_ref().and_then(|remotes| remotes.heard_at(process));
        let heard = heard.map(|heard| self.shared.hearts.newest(process).map_or(heard, |newest| newest.max(heard)));
        let messages = self.peers.messages(process, heard, now, repeat);
        messages.into_iter().for_each(|message| self.send_decision(process, Downward::Order(message)));
    }
}
