//! The coordinator's side of the messages between it and the workers: which orders each worker has yet to
//! receive, and which reports its summaries contain.
//!
//! A driver gives every command of the [`Coordinator`](crate::Coordinator) to [`Peers::command`], and every
//! summary to [`Peers::receive_summary`], which returns the coordinator's next inputs. Then it sends each
//! worker its [`Peers::messages`]. Orders state facts that stay true. So a worker that may have missed some
//! is sent them again, until its summary shows them.

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
    /// The checkpoint from which the tasks start.
    from: Option<Checkpoint<S>>,
    peers: BTreeMap<Process, Peer<S>>,
    /// Granted groups that a worker may lack.
    groups: Vec<Granted>,
    /// What the coordinator has commanded.
    commanded: Orders,
    cancelled: bool,
    /// False: every worker was sent everything that the coordinator has commanded.
    may_have_news: bool,
    /// `None`: this coordinator has started the tasks.
    adoption: Option<Adoption<S>>,
    refused: u64,
}

/// The adoption of running tasks. Their reports wait until every worker has reported which groups it knows:
/// the coordinator ignores the acknowledgement of a checkpoint that it does not know to be granted.
#[derive(Debug)]
enum Adoption<S> {
    /// With the reports that wait.
    Begun(Vec<(TaskId, Report<S>)>),
    Complete,
}

/// A worker's process with tasks of the present incarnation.
#[derive(Debug)]
struct Peer<S> {
    tasks: Tasks,
    /// When the process sent the newest heartbeat that has arrived, by its own clock.
    heard: Nanos,
    /// The newest summary with the present fence.
    summary: Option<Summary<S>>,
    /// Every task has finished, and the last snapshots have arrived.
    finished: bool,
    /// When orders were sent last, or would have been repeated if there had been any.
    sent: Nanos,
    told: Told,
    /// Aborted checkpoints whose orders were not sent yet. Such an order is sent once.
    aborted: Vec<Epoch>,
}

impl<S> Peer<S> {
    /// Whether it was sent something that its newest summary does not confirm.
    fn awaits_confirmation(&self) -> bool {
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
    /// Any order; after an adoption, any message.
    start: bool,
    orders: Orders,
    cancelled: bool,
}

impl<S: Clone> Default for Peers<S> {
    fn default() -> Self {
        Peers {
            fence: Fence::NONE,
            from: None,
            peers: BTreeMap::new(),
            groups: Vec::new(),
            commanded: Orders::at(Epoch(0)),
            cancelled: false,
            may_have_news: false,
            adoption: None,
            refused: 0,
        }
    }
}

impl<S: Clone> Peers<S> {
    /// The process that has each task.
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

    /// How many summaries were refused: those with another fence, and those of processes without tasks.
    /// Summaries that arrive again, or after a newer one, do not count.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The tasks of a process, unless they have ended by themselves: then their last snapshots have arrived,
    /// and the newest summary says that all tasks are gone.
    #[must_use]
    pub fn unfinished(&self, process: Process) -> Vec<TaskId> {
        let peer = self.peers.get(&process);
        let ended = |peer: &&Peer<S>| peer.finished && peer.summary.as_ref().is_some_and(|summary| summary.gone);
        peer.filter(|peer| !ended(peer)).map(|peer| peer.tasks.all.iter().copied().collect()).unwrap_or_default()
    }

    /// The tasks of an incarnation start: `all` of them, at the processes of the placement. `from` is the
    /// checkpoint from which they resume; `None`: they start with epoch 1.
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
            let tasks = hosted.entry(*process).or_insert_with(|| no_tasks(all.version));
            tasks.all.insert(*task);
            tasks.sources.extend(all.sources.get(task));
            tasks.sinks.extend(all.sinks.get(task));
        }
        self.renew(Fence { term, incarnation, version: all.version }, epoch, hosted);
        self.from = from;
    }

    /// The tasks of an incarnation continue at the processes that have them: see [`adoptable`]. `newest` is
    /// the newest checkpoint in the log.
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

    /// Replaces everything by these tasks, as they are after the checkpoint of this epoch. The times of
    /// heartbeats and the number of refused summaries stay.
    fn renew(&mut self, fence: Fence, epoch: Epoch, hosted: BTreeMap<Process, Tasks>) {
        let commanded = Orders::at(epoch);
        let told = Told { start: false, orders: commanded, cancelled: false };
        let peer = |(process, tasks)| {
            let heard = self.peers.get(&process).map_or(Nanos(0), |peer| peer.heard);
            let (summary, finished, sent, aborted) = (None, false, Nanos(0), Vec::new());
            (process, Peer { tasks, heard, summary, finished, sent, told, aborted })
        };
        let peers = hosted.into_iter().map(peer).collect();
        *self = Peers { fence, peers, commanded, may_have_news: true, refused: self.refused, ..Peers::default() };
    }

    /// Takes a command of the coordinator. Returns whether it is an order for workers.
    pub fn command(&mut self, command: &Command<S>) -> bool {
        match command {
            Command::Grant { group, checkpoint, then, pace, .. } => {
                let taken = self.peers.values().map(|peer| peer.summary.as_ref().map(|summary| summary.taken.granted));
                let taken = taken.min().flatten().unwrap_or(Epoch(0));
                self.groups.retain(|granted| granted.group.last > taken);
                let (group, checkpoint, then, pace) = (*group, *checkpoint, *then, *pace);
                self.groups.push(Granted { group, checkpoint, then, pace, aborted: false });
                self.commanded.granted = group.last;
            }
            Command::EpochDone(_, epoch) => self.commanded.epoch_done = *epoch,
            Command::CheckpointDone(_, epoch) => self.commanded.checkpoint_done = *epoch,
            Command::NoneDone(_) => self.commanded.none_done = true,
            Command::AbortCheckpoint(_, epoch) => self.peers.values_mut().for_each(|peer| peer.aborted.push(*epoch)),
            Command::Cancel(_) => self.cancelled = true,
            // The driver calls `Peers::start` for a start and `Peers::adopt` for an adoption. The other
            // commands are for the coordinator's own process.
            Command::Append(..)
            | Command::Read(_)
            | Command::Remove(_)
            | Command::Start { .. }
            | Command::Adopt { .. }
            | Command::Changed(_)
            | Command::NotChanged(_)
            | Command::Forget(..)
            | Command::Finish(_)
            | Command::Fail(..)
            | Command::Fenced(_) => return false,
        }
        self.may_have_news = true;
        true
    }

    /// The messages for a process: the orders that it was not sent yet. If the time `repeat` has passed since
    /// its last orders, they contain all orders that its newest summary does not show. Without orders there
    /// is one message, which only acknowledges. A process without tasks gets none.
    ///
    /// `heard` is when the process sent the newest heartbeat that has arrived. `None`: the last known time
    /// stays.
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
        // Adopted tasks need no start: any message of the new term makes their worker report.
        peer.told.start |= self.adoption.is_some();
        if !orders.is_empty() {
            peer.sent = now;
            peer.told = Told { start: true, orders: self.commanded, cancelled: self.cancelled };
            peer.aborted.clear();
        }
        if due {
            // This counts even without an order: any message asks for the first summary of adopted tasks.
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

    /// When [`Peers::to_repeat`] returns the next process, if nothing arrives before.
    #[must_use]
    pub fn repeat_at(&self, repeat: Duration) -> Option<Nanos> {
        self.peers.values().filter(|peer| peer.awaits_confirmation()).map(|peer| peer.sent.plus(repeat)).min()
    }

    /// The processes that were sent orders the time `repeat` ago or earlier, and have not confirmed all of
    /// them since.
    #[must_use]
    pub fn to_repeat(&self, now: Nanos, repeat: Duration) -> Vec<Process> {
        let is_due = |(_, peer): &(&Process, &Peer<S>)| peer.awaits_confirmation() && now >= peer.sent.plus(repeat);
        self.peers.iter().filter(is_due).map(|(process, _)| *process).collect()
    }

    /// The processes that were not sent everything that the coordinator has commanded, except those whose
    /// tasks have all ended. After it has returned none, it searches the workers again only if there may be
    /// news: after a start, an adoption, a command, or a summary of adopted tasks.
    pub fn with_news(&mut self) -> Vec<Process> {
        if !self.may_have_news {
            return Vec::new();
        }
        let has_news = |(_, peer): &(&Process, &Peer<S>)| {
            let is_gone = peer.summary.as_ref().is_some_and(|summary| summary.gone);
            let untold = match self.cancelled {
                true => !peer.told.cancelled,
                false => !peer.told.start || peer.told.orders != self.commanded || !peer.aborted.is_empty(),
            };
            !is_gone && untold
        };
        let found: Vec<Process> = self.peers.iter().filter(has_news).map(|(process, _)| *process).collect();
        self.may_have_news = !found.is_empty();
        found
    }

    /// The orders that a process was not sent yet. `repeat`: all that its newest summary does not show.
    fn orders(&self, process: Process, repeat: bool) -> Vec<Order<S>> {
        let Some(peer) = self.peers.get(&process) else { return Vec::new() };
        if peer.summary.as_ref().is_some_and(|summary| summary.gone) {
            return Vec::new();
        }
        let epoch = self.from.as_ref().map_or(Epoch(0), |from| from.epoch);
        let known = match repeat {
            true => peer.summary.as_ref().map_or(Orders::at(epoch), |summary| summary.taken),
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
                // After an adoption, groups before it may be unknown here. A worker that lacks them has no
                // running source, so one grant with all of their epochs suffices.
                let group = Group { first: group.first.min(next), last: group.last };
                orders.push(Order::Grant { group, checkpoint: *checkpoint, then: *then, pace: *pace });
                next = group.last.next();
            }
        }
        let Orders { epoch_done, checkpoint_done, none_done, .. } = self.commanded;
        orders.extend((epoch_done > known.epoch_done).then_some(Order::EpochDone(epoch_done)));
        orders.extend((checkpoint_done > known.checkpoint_done).then_some(Order::CheckpointDone(checkpoint_done)));
        orders.extend((none_done && !known.none_done).then_some(Order::NoneDone));
        orders.extend(peer.aborted.iter().map(|epoch| Order::AbortCheckpoint(*epoch)));
        orders
    }

    /// Takes a summary that has arrived. Returns the coordinator's next inputs: none if it is refused, or not
    /// newer than the last one of the process.
    pub fn receive_summary(&mut self, process: Process, message: ToCoordinator<S>) -> Vec<Input<S>> {
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
                // The former coordinator has cancelled the tasks, so the incarnation cannot continue.
                reports.extend(peer.tasks.all.first().map(|task| (*task, Report::Failed { retry: true })));
            }
        }
        let groups = summary.groups.clone();
        peer.summary = Some(summary);
        if let Some(Adoption::Begun(waiting)) = &mut self.adoption {
            waiting.extend(reports);
            let waiting = std::mem::take(waiting);
            return self.adopting(groups, waiting);
        }
        self.inputs(Vec::new(), reports)
    }

    /// Adds the groups that a worker of adopted tasks knows. Once all workers have reported theirs, returns
    /// all groups, and the reports that have waited. After a cancellation it waits for no worker.
    fn adopting(&mut self, groups: Vec<Granted>, waiting: Vec<(TaskId, Report<S>)>) -> Vec<Input<S>> {
        for granted in groups {
            self.commanded.granted = self.commanded.granted.max(granted.group.last);
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

fn no_tasks(version: PlanVersion) -> Tasks {
    Tasks { version, all: [].into(), sources: [].into(), sinks: [].into() }
}

/// The newest hosted incarnation and the tasks of each process, if these are exactly the tasks of `all`, each
/// at one process. `None`: a new incarnation must begin. An older incarnation is never adopted, even if the
/// newest is incomplete. Plan versions are not compared.
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
        let take = |from: &mut BTreeSet<TaskId>, tasks: &BTreeSet<TaskId>| tasks.iter().all(|task| from.remove(task));
        let fits = take(&mut missing.all, &tasks.all)
            && take(&mut missing.sources, &tasks.sources)
            && take(&mut missing.sinks, &tasks.sinks);
        if !fits {
            return None;
        }
    }
    (missing == no_tasks(all.version)).then_some((incarnation, hosted))
}

/// The reports of tasks that a summary contains. Checkpoints, last snapshots, drops, failures and ends are
/// reported again with every summary that contains them. Anything else is reported only if it is newer than
/// in the summary before (`known`). A fact about the whole worker is reported for its first task or source.
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
    fn an_unconfirmed_start_is_repeated_once_in_each_period() {
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
