//! The coordinator's side of the messages between processes: it translates what the coordinator commands for tasks into orders for
//! workers, and the summaries of workers into the reports of their tasks.
//!
//! The coordinator takes all reports of a summary in one input. It still speaks of tasks, because the embedded engine has no
//! workers. What is here moves into it with the first
//! driver that has several processes: the orders that a worker has not taken yet, and the summaries that it has received.

use std::collections::BTreeMap;

use anabranch_model::{Epoch, Group, Incarnation, Nanos, TaskId};
use anabranch_protocol::coordinator::{Checkpoint, Report, Tasks};
use anabranch_protocol::membership::Process;
use anabranch_protocol::worker::{Fence, FromCoordinator, Order, Orders, Summary, Term, ToCoordinator};

use crate::event::Handle;

/// Terms that a coordinator may take while it has one incarnation.
const TERMS: u64 = 1_000;

/// A worker's process with tasks of the present incarnation.
#[derive(Debug)]
struct Peer {
    tasks: Tasks,
    /// When it sent the newest heartbeat that has arrived, by its own clock.
    heard: Nanos,
    /// The newest summary of this term.
    summary: Option<Summary<Handle>>,
    /// Every task has finished, and its last snapshot has arrived.
    finished: bool,
    /// When orders were sent last.
    sent: Nanos,
}

/// The messages of one coordinator's process.
#[derive(Debug)]
pub(crate) struct Gateway {
    fence: Fence,
    from: Option<Checkpoint<Handle>>,
    peers: BTreeMap<Process, Peer>,
    groups: Vec<(Group, bool)>,
    stop_after: Option<Epoch>,
    epoch_done: Epoch,
    checkpoint_done: Epoch,
    cancelled: bool,
    pub(crate) refused: u64,
}

impl Gateway {
    pub(crate) fn new() -> Self {
        Gateway {
            fence: Fence::NONE,
            from: None,
            peers: BTreeMap::new(),
            groups: Vec::new(),
            stop_after: None,
            epoch_done: Epoch(0),
            checkpoint_done: Epoch(0),
            cancelled: false,
            refused: 0,
        }
    }

    /// Where each task is.
    pub(crate) fn placement(&self) -> BTreeMap<TaskId, Process> {
        let of_peer = |(process, peer): (&Process, &Peer)| {
            let process = *process;
            peer.tasks.all.iter().map(move |task| (*task, process)).collect::<Vec<_>>()
        };
        self.peers.iter().flat_map(of_peer).collect()
    }

    pub(crate) fn processes(&self) -> Vec<Process> {
        self.peers.keys().copied().collect()
    }

    /// Tasks of a process that has not ended in order: if its last messages are missing, its tasks have not left.
    pub(crate) fn unfinished(&self, process: Process) -> Vec<TaskId> {
        let peer = self.peers.get(&process);
        let left = |peer: &&Peer| peer.finished && peer.summary.as_ref().is_some_and(|summary| summary.gone);
        peer.filter(|peer| !left(peer)).map(|peer| peer.tasks.all.iter().copied().collect()).unwrap_or_default()
    }

    /// The tasks of an incarnation start at these processes.
    pub(crate) fn start(
        &mut self,
        incarnation: Incarnation,
        from: Option<Checkpoint<Handle>>,
        all: &Tasks,
        placement: &BTreeMap<TaskId, Process>,
    ) {
        // The log gives each incarnation to one coordinator: terms that begin with it are never taken twice.
        let first = self.fence.term == Term(0);
        let term = if first { Term(incarnation.0 * TERMS) } else { self.fence.term };
        let epoch = from.as_ref().map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        let refused = self.refused;
        let fence = Fence { term, incarnation, version: all.version };
        *self = Gateway { fence, from, refused, epoch_done: epoch, checkpoint_done: epoch, ..Gateway::new() };
        for (task, process) in placement {
            let none = || Tasks { version: all.version, all: [].into(), sources: [].into(), sinks: [].into() };
            let new = || Peer { tasks: none(), heard: Nanos(0), summary: None, finished: false, sent: Nanos(0) };
            let tasks = &mut self.peers.entry(*process).or_insert_with(new).tasks;
            tasks.all.insert(*task);
            tasks.sources.extend(all.sources.get(task));
            tasks.sinks.extend(all.sinks.get(task));
        }
    }

    pub(crate) fn grant(&mut self, group: Group, checkpoint: bool) {
        self.groups.push((group, checkpoint));
    }

    /// The next group that is granted is the last one.
    pub(crate) fn stop_after(&mut self, epoch: Epoch) {
        self.stop_after = Some(epoch);
    }

    pub(crate) fn epoch_done(&mut self, epoch: Epoch) {
        self.epoch_done = epoch;
    }

    pub(crate) fn checkpoint_done(&mut self, epoch: Epoch) {
        self.checkpoint_done = epoch;
    }

    pub(crate) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// The process that coordinates is another one from here on: it has received nothing, and adopts the tasks as they run. The
    /// coordinator itself stays as it is, which a new process would read from its predecessor or the log.
    pub(crate) fn adopt(&mut self) -> bool {
        let adopts = self.fence.term != Term(0) && self.fence.term.0 % TERMS < TERMS - 1;
        if adopts {
            self.fence.term = Term(self.fence.term.0 + 1);
            for peer in self.peers.values_mut() {
                (peer.summary, peer.finished) = (None, false);
            }
        }
        adopts
    }

    /// The messages for a process: the orders that no summary shows as taken, or only an answer.
    pub(crate) fn messages(
        &mut self,
        process: Process,
        heard: Option<Nanos>,
        now: Nanos,
        repeat: u64,
    ) -> Vec<FromCoordinator<Handle>> {
        let due = self.peers.get(&process).is_some_and(|peer| now.0 >= peer.sent.0 + repeat);
        let orders = if due { self.orders(process) } else { Vec::new() };
        let Some(peer) = self.peers.get_mut(&process) else { return Vec::new() };
        peer.heard = heard.unwrap_or(peer.heard);
        if !orders.is_empty() {
            peer.sent = now;
        }
        let received = peer.summary.as_ref().map_or(0, |summary| summary.number);
        let (fence, heard) = (self.fence, peer.heard);
        let message = |order| FromCoordinator { fence, heard, received, order };
        match orders.is_empty() {
            true => vec![message(None)],
            false => orders.into_iter().map(|order| message(Some(order))).collect(),
        }
    }

    fn orders(&self, process: Process) -> Vec<Order<Handle>> {
        let Some(peer) = self.peers.get(&process) else { return Vec::new() };
        let none = Epoch(0);
        let begun = Orders { granted: none, epoch_done: none, checkpoint_done: none, none_done: false };
        let taken = peer.summary.as_ref().map_or(begun, |summary| summary.taken);
        if peer.summary.as_ref().is_some_and(|summary| summary.gone) {
            return Vec::new();
        }
        if self.cancelled {
            return vec![Order::Cancel];
        }
        let mut orders = Vec::new();
        if peer.summary.is_none() {
            let own = |checkpoint: &Checkpoint<Handle>| {
                let mut own = checkpoint.clone();
                own.tasks.retain(|task, _| peer.tasks.all.contains(task));
                own
            };
            orders.push(Order::Start { tasks: peer.tasks.clone(), from: self.from.as_ref().map(own) });
        }
        let missing = self.groups.iter().filter(|(group, _)| group.last > taken.granted);
        orders.extend(missing.map(|(group, checkpoint)| Order::Grant {
            group: *group,
            checkpoint: *checkpoint,
            stop: self.stop_after == Some(group.last),
        }));
        let after = |done: Epoch| self.from.as_ref().is_none_or(|from| done > from.epoch) && done > none;
        if self.epoch_done > taken.epoch_done && after(self.epoch_done) {
            orders.push(Order::EpochDone(self.epoch_done));
        }
        if self.checkpoint_done > taken.checkpoint_done && after(self.checkpoint_done) {
            orders.push(Order::CheckpointDone(self.checkpoint_done));
        }
        orders
    }

    /// A message for the tasks of a process that is sent once.
    pub(crate) fn once(&self, process: Process, order: Order<Handle>) -> Option<FromCoordinator<Handle>> {
        let peer = self.peers.get(&process)?;
        let received = peer.summary.as_ref().map_or(0, |summary| summary.number);
        Some(FromCoordinator { fence: self.fence, heard: peer.heard, received, order: Some(order) })
    }

    /// A summary has arrived: what the tasks of the process report with it. A summary that is old reports nothing.
    pub(crate) fn heard(&mut self, process: Process, message: ToCoordinator<Handle>) -> Vec<(TaskId, Report<Handle>)> {
        let ToCoordinator { fence, summary } = message;
        let Some(peer) = self.peers.get_mut(&process).filter(|_| fence == self.fence) else {
            self.refused += 1;
            return Vec::new();
        };
        if peer.summary.as_ref().is_some_and(|known| known.number >= summary.number) {
            return Vec::new();
        }
        let mut reports = Vec::new();
        let of = |tasks: &std::collections::BTreeSet<TaskId>, report: Report<Handle>| {
            tasks.iter().map(|task| (*task, report.clone())).collect::<Vec<_>>()
        };
        let Tasks { all, sources, sinks, .. } = &peer.tasks;
        let known = peer.summary.as_ref();
        if summary.restoring > known.map_or(0, |known| known.restoring) {
            reports.extend(all.first().map(|task| (*task, Report::Restoring)));
        }
        if summary.started && !known.is_some_and(|known| known.started) {
            reports.extend(of(all, Report::Started));
        }
        reports.extend(of(sources, Report::EpochCut(summary.cut)));
        if summary.sources_finished {
            reports.extend(of(sources, Report::SourceFinished));
        }
        reports.extend(of(sinks, Report::EpochEnded(summary.ended)));
        if summary.sinks_finished {
            reports.extend(of(sinks, Report::SinkFinished));
        }
        for snapshots in &summary.checkpoints {
            let epoch = snapshots.epoch;
            match &snapshots.tasks {
                Some(tasks) => reports.extend(tasks.iter().map(|(task, snapshot)| {
                    (*task, Report::Acknowledged { epoch, snapshot: *snapshot, finished: false })
                })),
                None => reports.extend(all.first().map(|task| (*task, Report::Declined(epoch)))),
            }
        }
        reports.extend(summary.last.iter().map(|(task, epoch, snapshot)| {
            (*task, Report::Acknowledged { epoch: *epoch, snapshot: *snapshot, finished: true })
        }));
        peer.finished |= !summary.last.is_empty();
        if summary.dropped {
            reports.extend(all.first().map(|task| (*task, Report::Dropped)));
        }
        reports.extend(summary.failed.map(|(task, retry)| (task, Report::Failed { retry })));
        if summary.gone {
            reports.extend(of(all, Report::Gone));
        }
        peer.summary = Some(summary);
        reports
    }
}
