//! The coordinator's side of the messages to workers: what each of them must still hear of what the
//! coordinator has commanded, and what its tasks report with its summaries.
//!
//! A driver gives every command of the [`Coordinator`](crate::Coordinator) to [`Peers::command`], and every
//! summary to [`Peers::heard`], which returns the coordinator's next inputs. Then it sends each worker its
//! [`Peers::messages`]. Orders state facts that stay true. So a worker that may have missed some is sent them
//! again, until its summary shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Epoch, Group, Incarnation, Nanos, PlanVersion, TaskId};

use crate::coordinator::{Checkpoint, Command, Granted, Input, Report, Tasks};
use crate::membership::Process;
use crate::worker::{Fence, FromCoordinator, Hosting, Order, Orders, Summary, Term, ToCoordinator};

/// The workers with tasks of one incarnation.
#[derive(Debug)]
pub struct Peers<S> {
    fence: Fence,
    from: Option<Checkpoint<S>>,
    peers: BTreeMap<Process, Peer<S>>,
    /// Groups that some worker has not taken.
    groups: Vec<Granted>,
    done: Orders,
    cancelled: bool,
    /// Some process may lack an order since that was looked at last.
    may_have_news: bool,
    /// The tasks were there before this coordinator was.
    adoption: Option<Adoption<S>>,
    refused: u64,
}

/// What tasks report that were adopted waits until every worker has said which groups it knows: an
/// acknowledgement means nothing before it is known that its checkpoint was granted.
#[derive(Debug)]
enum Adoption<S> {
    Begun(Vec<(TaskId, Report<S>)>),
    Complete,
}

/// A worker's process with tasks of the present incarnation.
#[derive(Debug)]
struct Peer<S> {
    tasks: Tasks,
    /// When it sent the newest heartbeat that has arrived, by its own clock.
    heard: Nanos,
    /// The newest summary of this term.
    summary: Option<Summary<S>>,
    /// Every task has finished, and its last snapshot has arrived.
    finished: bool,
    /// When orders were sent last.
    sent: Nanos,
    told: Told,
    /// Orders that are sent once.
    once: Vec<Epoch>,
}

impl<S> Peer<S> {
    /// Whether it was sent something that its summaries do not show.
    fn awaits_proof(&self) -> bool {
        let Some(Summary { taken, gone, .. }) = &self.summary else { return self.told.start };
        let Orders { granted, epoch_done, checkpoint_done, none_done } = self.told.orders;
        let later = granted > taken.granted
            || epoch_done > taken.epoch_done
            || checkpoint_done > taken.checkpoint_done
            || (none_done && !taken.none_done);
        !gone && (later || self.told.cancelled)
    }
}

/// What was sent to a worker, whether or not it has arrived.
#[derive(Clone, Copy, Debug)]
struct Told {
    start: bool,
    orders: Orders,
    cancelled: bool,
}

const NONE: Orders = Orders { granted: Epoch(0), epoch_done: Epoch(0), checkpoint_done: Epoch(0), none_done: false };

impl<S: Clone> Default for Peers<S> {
    fn default() -> Self {
        Peers {
            fence: Fence::NONE,
            from: None,
            peers: BTreeMap::new(),
            groups: Vec::new(),
            done: NONE,
            cancelled: false,
            may_have_news: false,
            adoption: None,
            refused: 0,
        }
    }
}

impl<S: Clone> Peers<S> {
    /// Where each task is.
    #[must_use]
    pub fn placement(&self) -> BTreeMap<TaskId, Process> {
        let of_peer = |(process, peer): (&Process, &Peer<S>)| {
            let process = *process;
            peer.tasks.all.iter().map(move |task| (*task, process)).collect::<Vec<_>>()
        };
        self.peers.iter().flat_map(of_peer).collect()
    }

    /// The processes that have tasks.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        self.peers.keys().copied().collect()
    }

    /// How many summaries were refused because they were old.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Tasks of a process that has not ended in order: if its last messages are missing, its tasks have not
    /// left.
    #[must_use]
    pub fn unfinished(&self, process: Process) -> Vec<TaskId> {
        let peer = self.peers.get(&process);
        let left = |peer: &&Peer<S>| peer.finished && peer.summary.as_ref().is_some_and(|summary| summary.gone);
        peer.filter(|peer| !left(peer)).map(|peer| peer.tasks.all.iter().copied().collect()).unwrap_or_default()
    }

    /// The tasks of an incarnation start at these processes, `all` of them together from a checkpoint.
    pub fn start(
        &mut self,
        (incarnation, term): (Incarnation, Term),
        from: Option<Checkpoint<S>>,
        all: &Tasks,
        placement: &BTreeMap<TaskId, Process>,
    ) {
        let epoch = from.as_ref().map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        let mut hosted: BTreeMap<Process, Tasks> = BTreeMap::new();
        for (task, process) in placement {
            let tasks = hosted.entry(*process).or_insert_with(|| none(all.version));
            tasks.all.insert(*task);
            tasks.sources.extend(all.sources.get(task));
            tasks.sinks.extend(all.sinks.get(task));
        }
        self.renew(Fence { term, incarnation, version: all.version }, epoch, hosted);
        self.from = from;
    }

    /// The tasks of an incarnation go on where they are: see [`adoptable`]. `newest` is the last checkpoint
    /// in the log.
    pub fn adopt(
        &mut self,
        (incarnation, term): (Incarnation, Term),
        newest: Option<&Checkpoint<S>>,
        version: PlanVersion,
        hosted: BTreeMap<Process, Tasks>,
    ) {
        let epoch = newest.map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        self.renew(Fence { term, incarnation, version }, epoch, hosted);
        self.adoption = Some(Adoption::Begun(Vec::new()));
    }

    fn renew(&mut self, fence: Fence, epoch: Epoch, hosted: BTreeMap<Process, Tasks>) {
        let done = Orders { granted: epoch, epoch_done: epoch, checkpoint_done: epoch, none_done: false };
        let told = Told { start: false, orders: done, cancelled: false };
        let peer = |(process, tasks)| {
            let heard = self.peers.get(&process).map_or(Nanos(0), |peer| peer.heard);
            let (summary, finished, sent, once) = (None, false, Nanos(0), Vec::new());
            (process, Peer { tasks, heard, summary, finished, sent, told, once })
        };
        let peers = hosted.into_iter().map(peer).collect();
        *self = Peers { fence, peers, done, may_have_news: true, refused: self.refused, ..Peers::default() };
    }

    /// Takes a command of the coordinator. Returns whether workers must hear of it.
    pub fn command(&mut self, command: &Command<S>) -> bool {
        match command {
            Command::Grant { group, checkpoint, then, pace, .. } => {
                let taken = self.peers.values().map(|peer| peer.summary.as_ref().map(|summary| summary.taken.granted));
                let taken = taken.min().flatten().unwrap_or(Epoch(0));
                self.groups.retain(|granted| granted.group.last > taken);
                let (group, checkpoint, then, pace) = (*group, *checkpoint, *then, *pace);
                self.groups.push(Granted { group, checkpoint, then, pace, aborted: false });
                self.done.granted = group.last;
            }
            Command::EpochDone(_, epoch) => self.done.epoch_done = *epoch,
            Command::CheckpointDone(_, epoch) => self.done.checkpoint_done = *epoch,
            Command::NoneDone(_) => self.done.none_done = true,
            Command::AbortCheckpoint(_, epoch) => self.peers.values_mut().for_each(|peer| peer.once.push(*epoch)),
            Command::Cancel(_) => self.cancelled = true,
            _ => return false,
        }
        self.may_have_news = true;
        true
    }

    /// The messages for a process: the orders that it was not sent yet, and after the time `repeat` those
    /// that no summary shows; without any, only an answer. `heard` is when it sent the newest heartbeat that
    /// has arrived.
    pub fn messages(
        &mut self,
        process: Process,
        heard: Option<Nanos>,
        now: Nanos,
        repeat: Duration,
    ) -> Vec<FromCoordinator<S>> {
        let due = self.peers.get(&process).is_some_and(|peer| now >= peer.sent.plus(repeat));
        let orders = self.orders(process, due);
        let Some(peer) = self.peers.get_mut(&process) else { return Vec::new() };
        peer.heard = heard.unwrap_or(peer.heard);
        // The term alone makes the tasks that are adopted report.
        peer.told.start |= self.adoption.is_some();
        if !orders.is_empty() {
            peer.sent = now;
            peer.told = Told { start: true, orders: self.done, cancelled: self.cancelled };
            peer.once.clear();
        }
        if due {
            // What is awaited may be an answer to no order.
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

    /// When [`Peers::to_repeat`] names a process next, if nothing arrives before.
    #[must_use]
    pub fn repeat_at(&self, repeat: Duration) -> Option<Nanos> {
        self.peers.values().filter(|peer| peer.awaits_proof()).map(|peer| peer.sent.plus(repeat)).min()
    }

    /// The processes that have not shown for the time `repeat` that they have taken what they were sent.
    #[must_use]
    pub fn to_repeat(&self, now: Nanos, repeat: Duration) -> Vec<Process> {
        let is_due = |(_, peer): &(&Process, &Peer<S>)| peer.awaits_proof() && now >= peer.sent.plus(repeat);
        self.peers.iter().filter(is_due).map(|(process, _)| *process).collect()
    }

    /// The processes that were not sent everything that the coordinator has commanded. After an input without
    /// a command this costs no look at them.
    pub fn with_news(&mut self) -> Vec<Process> {
        if !self.may_have_news {
            return Vec::new();
        }
        let has_news = |(_, peer): &(&Process, &Peer<S>)| {
            let is_gone = peer.summary.as_ref().is_some_and(|summary| summary.gone);
            let untold = match self.cancelled {
                true => !peer.told.cancelled,
                false => !peer.told.start || peer.told.orders != self.done || !peer.once.is_empty(),
            };
            !is_gone && untold
        };
        let found: Vec<Process> = self.peers.iter().filter(has_news).map(|(process, _)| *process).collect();
        self.may_have_news = !found.is_empty();
        found
    }

    fn orders(&self, process: Process, repeat: bool) -> Vec<Order<S>> {
        let Some(peer) = self.peers.get(&process) else { return Vec::new() };
        if peer.summary.as_ref().is_some_and(|summary| summary.gone) {
            return Vec::new();
        }
        let epoch = self.from.as_ref().map_or(Epoch(0), |from| from.epoch);
        let begun = Orders { granted: epoch, epoch_done: epoch, checkpoint_done: epoch, none_done: false };
        let known = match repeat {
            true => peer.summary.as_ref().map_or(begun, |summary| summary.taken),
            false => peer.told.orders,
        };
        if self.cancelled {
            return if repeat || !peer.told.cancelled { vec![Order::Cancel] } else { Vec::new() };
        }
        let mut orders = Vec::new();
        if self.adoption.is_some() && peer.summary.is_none() {
            return Vec::new();
        }
        if (repeat || !peer.told.start) && peer.summary.is_none() {
            orders.push(Order::Start { tasks: peer.tasks.clone(), from: self.from.clone() });
        }
        let mut next = known.granted.next();
        for Granted { group, checkpoint, then, pace, .. } in &self.groups {
            if group.last >= next {
                // If groups before it are unknown here, no source of the worker runs that could lack them.
                let group = Group { first: group.first.min(next), last: group.last };
                orders.push(Order::Grant { group, checkpoint: *checkpoint, then: *then, pace: *pace });
                next = group.last.next();
            }
        }
        orders.extend((self.done.epoch_done > known.epoch_done).then_some(Order::EpochDone(self.done.epoch_done)));
        let committed = self.done.checkpoint_done;
        orders.extend((committed > known.checkpoint_done).then_some(Order::CheckpointDone(committed)));
        orders.extend((self.done.none_done && !known.none_done).then_some(Order::NoneDone));
        orders.extend(peer.once.iter().map(|epoch| Order::AbortCheckpoint(*epoch)));
        orders
    }

    /// A summary has arrived: returns what it means for the coordinator. A summary that is old means nothing.
    pub fn heard(&mut self, process: Process, message: ToCoordinator<S>) -> Vec<Input<S>> {
        let ToCoordinator { fence, summary } = message;
        let Some(peer) = self.peers.get_mut(&process).filter(|_| fence == self.fence) else {
            self.refused += 1;
            return Vec::new();
        };
        if peer.summary.as_ref().is_some_and(|known| known.number >= summary.number) {
            return Vec::new();
        }
        let mut reports = reports(&peer.tasks, peer.summary.as_ref(), &summary);
        peer.finished |= !summary.last.is_empty();
        if self.adoption.is_some() {
            self.may_have_news = true;
            if peer.summary.is_none() {
                peer.told.orders = summary.taken;
            }
            if summary.cancelled && summary.failed.is_none() {
                // The coordinator before has done that.
                reports.extend(peer.tasks.all.first().map(|task| (*task, Report::Failed { retry: true })));
            }
        }
        let groups = summary.groups.clone();
        peer.summary = Some(summary);
        match self.adoption {
            Some(Adoption::Begun(_)) => self.adopting(groups, reports),
            _ => self.inputs(Vec::new(), reports),
        }
    }

    /// What workers report waits until all have reported which groups they know.
    fn adopting(&mut self, groups: Vec<Granted>, reports: Vec<(TaskId, Report<S>)>) -> Vec<Input<S>> {
        let Some(Adoption::Begun(waiting)) = &mut self.adoption else { return Vec::new() };
        waiting.extend(reports);
        let waiting = std::mem::take(waiting);
        for granted in groups {
            self.done.granted = self.done.granted.max(granted.group.last);
            match self.groups.binary_search_by_key(&granted.group.last, |known| known.group.last) {
                Ok(at) => self.groups[at].aborted |= granted.aborted,
                Err(at) => self.groups.insert(at, granted),
            }
        }
        if !self.cancelled && self.peers.values().any(|peer| peer.summary.is_none()) {
            self.adoption = Some(Adoption::Begun(waiting));
            return Vec::new();
        }
        self.adoption = Some(Adoption::Complete);
        self.inputs(self.groups.clone(), waiting)
    }

    fn inputs(&self, groups: Vec<Granted>, reports: Vec<(TaskId, Report<S>)>) -> Vec<Input<S>> {
        let incarnation = self.fence.incarnation;
        let groups = (!groups.is_empty()).then_some(Input::Granted(incarnation, groups));
        groups.into_iter().chain((!reports.is_empty()).then_some(Input::Tasks(incarnation, reports))).collect()
    }
}

fn none(version: PlanVersion) -> Tasks {
    Tasks { version, all: [].into(), sources: [].into(), sinks: [].into() }
}

/// The newest incarnation whose tasks all run, and which process has which of them. `None`: a new one must
/// begin. The version of their plan is that of the incarnation, whatever `all` says.
#[must_use]
pub fn adoptable(
    all: &Tasks,
    hosted: impl IntoIterator<Item = (Process, Hosting)>,
) -> Option<(Incarnation, BTreeMap<Process, Tasks>)> {
    let mut found: BTreeMap<Incarnation, BTreeMap<Process, Tasks>> = BTreeMap::new();
    for (process, Hosting { incarnation, tasks }) in hosted {
        found.entry(incarnation).or_default().insert(process, tasks);
    }
    let (incarnation, hosted) = found.pop_last()?;
    let mut missing = all.clone();
    for tasks in hosted.values() {
        let own = |all: &mut BTreeSet<TaskId>, tasks: &BTreeSet<TaskId>| tasks.iter().all(|task| all.remove(task));
        let fits = own(&mut missing.all, &tasks.all)
            && own(&mut missing.sources, &tasks.sources)
            && own(&mut missing.sinks, &tasks.sinks);
        if !fits {
            return None;
        }
    }
    (missing == none(all.version)).then_some((incarnation, hosted))
}

/// What tasks have reported between two summaries.
fn reports<S: Clone>(tasks: &Tasks, known: Option<&Summary<S>>, summary: &Summary<S>) -> Vec<(TaskId, Report<S>)> {
    let Tasks { all, sources, sinks, .. } = tasks;
    let mut reports = Vec::new();
    let of = |tasks: &BTreeSet<TaskId>, report: Report<S>| {
        tasks.iter().map(|task| (*task, report.clone())).collect::<Vec<_>>()
    };
    if summary.restoring > known.map_or(0, |known| known.restoring) {
        reports.extend(all.first().map(|task| (*task, Report::Restoring)));
    }
    if summary.started && !known.is_some_and(|known| known.started) {
        reports.extend(of(all, Report::Started));
    }
    if known.is_none_or(|known| known.cut < summary.cut) {
        reports.extend(of(sources, Report::EpochCut(summary.cut)));
    }
    if known.is_none_or(|known| known.active < summary.active) {
        reports.extend(sources.first().map(|task| (*task, Report::Active(summary.active))));
    }
    if summary.sources_finished && !known.is_some_and(|known| known.sources_finished) {
        reports.extend(of(sources, Report::SourceFinished));
    }
    if known.is_none_or(|known| known.ended < summary.ended) {
        reports.extend(of(sinks, Report::EpochEnded(summary.ended)));
    }
    if summary.sinks_finished && !known.is_some_and(|known| known.sinks_finished) {
        reports.extend(of(sinks, Report::SinkFinished));
    }
    for snapshots in &summary.checkpoints {
        let epoch = snapshots.epoch;
        match &snapshots.tasks {
            Some(tasks) => reports.extend(tasks.iter().map(|(task, snapshot)| {
                (*task, Report::Acknowledged { epoch, snapshot: snapshot.clone(), finished: false })
            })),
            None => reports.extend(all.first().map(|task| (*task, Report::Declined(epoch)))),
        }
    }
    reports.extend(summary.last.iter().map(|last| {
        (last.task, Report::Acknowledged { epoch: last.epoch, snapshot: last.snapshot.clone(), finished: true })
    }));
    if summary.dropped {
        reports.extend(all.first().map(|task| (*task, Report::Dropped)));
    }
    reports.extend(summary.failed.map(|(task, retry)| (task, Report::Failed { retry })));
    if summary.gone {
        reports.extend(of(all, Report::Gone));
    }
    reports
}

#[cfg(test)]
mod tests {
    use anabranch_model::StageId;

    use super::*;
    use crate::membership::WorkerId;

    #[test]
    fn a_start_that_no_summary_shows_is_repeated_after_its_time_and_not_again_before_that_has_passed_again() {
        let (process, task) = (Process { worker: WorkerId(1), life: 1 }, TaskId { stage: StageId(0), index: 0 });
        let all = Tasks { version: PlanVersion(1), all: [task].into(), sources: [].into(), sinks: [task].into() };
        let mut peers = Peers::<u32>::default();
        peers.start((Incarnation(1), Term(1)), None, &all, &[(task, process)].into());
        let (repeat, at) = (Duration::from_secs(4), |s: u64| Nanos(s * 1_000_000_000));
        assert_eq!((peers.with_news(), peers.repeat_at(repeat)), (vec![process], None), "nothing was sent yet");
        assert_eq!(peers.messages(process, None, at(10), repeat).len(), 1);
        assert_eq!((peers.with_news(), peers.repeat_at(repeat)), (vec![], Some(at(14))));
        assert_eq!(peers.to_repeat(at(13), repeat), []);
        assert_eq!(peers.to_repeat(at(14), repeat), [process]);
        let repeated = peers.messages(process, None, at(14), repeat);
        assert!(matches!(repeated[0].order, Some(Order::Start { .. })));
        assert_eq!(peers.repeat_at(repeat), Some(at(18)));
    }
}
