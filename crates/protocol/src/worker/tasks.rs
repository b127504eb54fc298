//! What the tasks of one incarnation at a worker have reported, together. A report costs no search over all
//! tasks: counts say when the last task has reached something.

use std::collections::VecDeque;

use anabranch_model::{Epoch, Incarnation, TaskId};

use super::message::{Hosting, LastSnapshot, Order, Orders, Snapshots, Summary};
use super::outbox::Urgency;
use crate::coordinator::{Granted, Report, Tasks, turn};

/// How many groups other workers may lack: see [`Summary::groups`].
const GROUPS: usize = 3;

/// One task.
#[derive(Clone, Debug)]
struct Task<S> {
    id: TaskId,
    started: bool,
    /// As a source, the last epoch that it has cut; `None`: it is none, or has finished.
    cut: Option<Epoch>,
    /// As a sink, the last epoch that it has ended; `None`: it is none, or has finished.
    ended: Option<Epoch>,
    /// Its last snapshot.
    last: Option<(Epoch, S)>,
    gone: bool,
}

/// The acknowledgements of one checkpoint.
#[derive(Clone, Debug)]
struct Pending<S> {
    epoch: Epoch,
    /// The snapshot of each task that has not finished by then.
    snapshots: Vec<Option<S>>,
    /// How many there are.
    count: usize,
    declined: bool,
    /// Every task has a snapshot of its own or its last one, or a task has declined.
    complete: bool,
    /// Number of the first summary with it; 0: none yet.
    sent: u64,
}

/// The tasks of one incarnation.
#[derive(Clone, Debug)]
pub(super) struct Hosted<S> {
    pub(super) incarnation: Incarnation,
    all: Tasks,
    tasks: Vec<Task<S>>,
    /// The newest groups: [`GROUPS`] of them at most.
    groups: VecDeque<Granted>,
    /// The epoch that the coordinator waits for before it grants the next group.
    turn: Epoch,
    /// Sources and sinks that run, and those of them that have not reached the turn.
    sources: usize,
    sources_behind: usize,
    sinks: usize,
    sinks_behind: usize,
    /// The last epoch that a source has cut before it finished, and the same of sinks.
    last_cut: Epoch,
    active: Epoch,
    /// What the newest summary says of that.
    active_sent: Epoch,
    last_end: Epoch,
    unstarted: usize,
    finished: usize,
    alive: usize,
    restoring: u64,
    pending: Vec<Pending<S>>,
    /// Number of the first summary with the last snapshots.
    last_sent: u64,
    dropped: bool,
    pub(super) cancelled: bool,
    failed: Option<(TaskId, bool)>,
    pub(super) orders: Orders,
}

impl<S: Clone> Hosted<S> {
    pub(super) fn new(incarnation: Incarnation, tasks: &Tasks, from: Epoch) -> Self {
        let task = |id: &TaskId| Task {
            id: *id,
            started: false,
            cut: tasks.sources.contains(id).then_some(from),
            ended: tasks.sinks.contains(id).then_some(from),
            last: None,
            gone: false,
        };
        let count = tasks.all.len();
        Hosted {
            incarnation,
            all: tasks.clone(),
            tasks: tasks.all.iter().map(task).collect(),
            groups: VecDeque::new(),
            turn: from,
            sources: tasks.sources.len(),
            sources_behind: 0,
            sinks: tasks.sinks.len(),
            sinks_behind: 0,
            last_cut: from,
            active: Epoch(0),
            active_sent: Epoch(0),
            last_end: from,
            unstarted: count,
            finished: 0,
            alive: count,
            restoring: 0,
            pending: Vec::new(),
            last_sent: 0,
            dropped: false,
            cancelled: false,
            failed: None,
            orders: Orders::at(from),
        }
    }

    pub(super) fn all_gone(&self) -> bool {
        self.alive == 0
    }

    /// A group is passed on to the tasks: from now on the coordinator waits for its turn.
    pub(super) fn granted(&mut self, granted: Granted) {
        let group = granted.group;
        if self.groups.len() == GROUPS {
            self.groups.pop_front();
        }
        self.groups.push_back(granted);
        self.orders.granted = group.last;
        self.turn = turn(group);
        let behind = |epoch: Option<Epoch>| usize::from(epoch.is_some_and(|epoch| epoch < self.turn));
        (self.sources_behind, self.sinks_behind) =
            self.tasks.iter().fold((0, 0), |(s, k), task| (s + behind(task.cut), k + behind(task.ended)));
    }

    /// Takes an order that tasks need to hear at most once. Returns whether it is news.
    pub(super) fn is_news(&mut self, order: &Order<S>) -> bool {
        let rises = |known: &mut Epoch, epoch: Epoch| epoch > std::mem::replace(known, epoch.max(*known));
        match order {
            Order::EpochDone(epoch) => rises(&mut self.orders.epoch_done, *epoch),
            Order::CheckpointDone(epoch) => {
                self.pending.retain(|pending| pending.epoch > *epoch);
                rises(&mut self.orders.checkpoint_done, *epoch)
            }
            Order::AbortCheckpoint(epoch) => {
                self.pending.retain(|pending| pending.epoch != *epoch);
                let of_epoch = self.groups.iter_mut().filter(|granted| granted.group.last == *epoch);
                of_epoch.for_each(|granted| granted.aborted = true);
                *epoch > self.orders.checkpoint_done
            }
            Order::NoneDone => !std::mem::replace(&mut self.orders.none_done, true),
            Order::Start { .. } | Order::Grant { .. } | Order::Cancel => false,
        }
    }

    /// A task reports. Returns how urgent the change is; `None` if nothing has changed for the coordinator.
    pub(super) fn report(&mut self, id: TaskId, report: Report<S>) -> Option<Urgency> {
        let at = self.tasks.binary_search_by_key(&id, |task| task.id).ok()?;
        let task = &mut self.tasks[at];
        match report {
            Report::Restoring => {
                self.restoring += 1;
                Some(Urgency::Later)
            }
            Report::Started => {
                self.unstarted -= usize::from(!std::mem::replace(&mut task.started, true));
                (self.unstarted == 0).then_some(Urgency::Now)
            }
            Report::EpochCut(epoch) => {
                let before = task.cut.filter(|cut| *cut < epoch)?;
                task.cut = Some(epoch);
                self.last_cut = self.last_cut.max(epoch);
                let turns = before < self.turn && epoch >= self.turn;
                self.sources_behind -= usize::from(turns);
                // The coordinator may have withheld the next group from sources that pass nothing on.
                let has_news = epoch == self.orders.granted && self.active > self.active_sent;
                Some(urgent_if((turns || has_news) && self.sources_behind == 0))
            }
            Report::Active(epoch) if epoch > self.active => {
                self.active = epoch;
                // Sources wait for that grant.
                Some(urgent_if(epoch > self.orders.granted))
            }
            Report::Active(_) => None,
            Report::SourceFinished => self.source_finished(at),
            Report::EpochEnded(epoch) => {
                let before = task.ended.filter(|ended| *ended < epoch)?;
                task.ended = Some(epoch);
                self.last_end = self.last_end.max(epoch);
                let turns = before < self.turn && epoch >= self.turn;
                self.sinks_behind -= usize::from(turns);
                // With sources here, the summary of their turn contains the ends of epochs too.
                Some(urgent_if(turns && self.sinks_behind == 0 && self.sources == 0))
            }
            Report::SinkFinished => {
                let ended = task.ended.take()?;
                self.sinks -= 1;
                self.sinks_behind -= usize::from(ended < self.turn);
                Some(urgent_if(self.sinks == 0))
            }
            Report::Acknowledged { epoch, snapshot, finished } => self.acknowledged(at, epoch, snapshot, finished),
            Report::Declined(epoch) => {
                let pending = self.pending(epoch)?;
                pending.complete = true;
                (!std::mem::replace(&mut pending.declined, true)).then_some(Urgency::Now)
            }
            Report::Dropped => (!std::mem::replace(&mut self.dropped, true)).then_some(Urgency::Now),
            Report::Failed { retry } => {
                self.alive -= usize::from(!std::mem::replace(&mut task.gone, true));
                // A later failure is no news, but with the last task all are gone.
                (self.fail(id, retry) || self.all_gone()).then_some(Urgency::Now)
            }
            // No task reports that its own worker is lost.
            Report::Gone | Report::Lost => {
                self.alive -= usize::from(!std::mem::replace(&mut task.gone, true));
                self.all_gone().then_some(Urgency::Now)
            }
        }
    }

    fn source_finished(&mut self, at: usize) -> Option<Urgency> {
        let cut = self.tasks[at].cut.take()?;
        self.sources -= 1;
        let was_behind = cut < self.turn;
        self.sources_behind -= usize::from(was_behind);
        Some(urgent_if(self.sources == 0 || (was_behind && self.sources_behind == 0)))
    }

    fn acknowledged(&mut self, at: usize, epoch: Epoch, snapshot: S, finished: bool) -> Option<Urgency> {
        if !finished {
            let pending = self.pending(epoch)?;
            pending.count += usize::from(pending.snapshots[at].is_none());
            pending.snapshots[at].get_or_insert(snapshot);
            return self.complete().then_some(Urgency::Now);
        }
        if self.tasks[at].last.is_some() {
            return None;
        }
        self.tasks[at].last = Some((epoch, snapshot));
        self.finished += 1;
        // The source's own report of this may arrive later. Until then the group would wait for it.
        let source = self.source_finished(at);
        match self.complete() || self.finished == self.tasks.len() {
            true => Some(Urgency::Now),
            false => source,
        }
    }

    /// The acknowledgements of a checkpoint that is not over.
    fn pending(&mut self, epoch: Epoch) -> Option<&mut Pending<S>> {
        if epoch <= self.orders.checkpoint_done {
            return None;
        }
        let at = self.pending.binary_search_by_key(&epoch, |pending| pending.epoch).unwrap_or_else(|at| {
            let snapshots = self.tasks.iter().map(|_| None).collect();
            let pending = Pending { epoch, snapshots, count: 0, declined: false, complete: false, sent: 0 };
            self.pending.insert(at, pending);
            at
        });
        Some(&mut self.pending[at])
    }

    /// Whether a further checkpoint is acknowledged by every task, each with a snapshot of its own or with
    /// its last one.
    fn complete(&mut self) -> bool {
        let mut news = false;
        for pending in self.pending.iter_mut().filter(|pending| !pending.complete) {
            // Asked at each acknowledgement: the tasks are not searched before there can be enough.
            if pending.count + self.finished < self.tasks.len() {
                continue;
            }
            let mut covered = self.tasks.iter().zip(&pending.snapshots);
            pending.complete = covered.all(|(task, own)| own.is_some() || task.last_by(pending.epoch).is_some());
            news |= pending.complete;
        }
        news
    }

    /// A task has failed. Returns whether the coordinator does not know of a failure, or of one without a
    /// retry.
    pub(super) fn fail(&mut self, task: TaskId, retry: bool) -> bool {
        let news = self.failed.is_none_or(|(_, known)| known && !retry);
        if news {
            self.failed = Some((task, retry));
        }
        news
    }

    /// The coordinator is silent for too long: every task counts as failed.
    pub(super) fn fail_any(&mut self) {
        if let Some(task) = self.tasks.first().map(|task| task.id) {
            self.fail(task, true);
        }
    }

    /// Whether every task has started, and none has failed.
    pub(super) fn run(&self) -> bool {
        self.unstarted == 0 && self.failed.is_none() && !self.all_gone()
    }

    pub(super) fn hosting(&self) -> Hosting {
        Hosting { incarnation: self.incarnation, tasks: self.all.clone() }
    }

    /// What is to be reported under this number, when summaries up to `received` were acknowledged.
    pub(super) fn summary(&mut self, number: u64, received: u64) -> Summary<S> {
        let unknown = |sent: &mut u64| {
            let first = if *sent == 0 { number } else { *sent };
            *sent = first;
            first > received
        };
        self.active_sent = self.active;
        let all_finished = self.finished == self.tasks.len();
        let last = match all_finished && unknown(&mut self.last_sent) {
            true => self.tasks.iter().filter_map(Task::last).collect(),
            false => Vec::new(),
        };
        let complete = self.pending.iter_mut().filter(|pending| pending.complete);
        let to_report =
            complete.filter_map(|pending| unknown(&mut pending.sent).then(|| pending.snapshots(&self.tasks)));
        let checkpoints = to_report.collect();
        Summary {
            number,
            taken: self.orders,
            restoring: self.restoring,
            started: self.unstarted == 0,
            cut: self.tasks.iter().filter_map(|task| task.cut).min().unwrap_or(self.last_cut),
            active: self.active,
            sources_finished: self.sources == 0,
            ended: self.tasks.iter().filter_map(|task| task.ended).min().unwrap_or(self.last_end),
            sinks_finished: self.sinks == 0,
            checkpoints,
            last,
            groups: if received == 0 { self.groups.iter().copied().collect() } else { Vec::new() },
            dropped: self.dropped,
            cancelled: self.cancelled,
            failed: self.failed,
            gone: self.all_gone(),
        }
    }
}

impl<S: Clone> Pending<S> {
    fn snapshots(&self, tasks: &[Task<S>]) -> Snapshots<S> {
        let covering = |(task, own): (&Task<S>, &Option<S>)| {
            let snapshot = own.as_ref().or_else(|| task.last_by(self.epoch))?;
            Some((task.id, snapshot.clone()))
        };
        let all = || tasks.iter().zip(&self.snapshots).filter_map(covering).collect();
        Snapshots { epoch: self.epoch, tasks: (!self.declined).then(all) }
    }
}

impl<S: Clone> Task<S> {
    /// The last snapshot, if the task had finished by this epoch.
    fn last_by(&self, epoch: Epoch) -> Option<&S> {
        self.last.as_ref().filter(|(end, _)| *end <= epoch).map(|(_, snapshot)| snapshot)
    }

    fn last(&self) -> Option<LastSnapshot<S>> {
        let (epoch, snapshot) = self.last.as_ref()?;
        Some(LastSnapshot { task: self.id, epoch: *epoch, snapshot: snapshot.clone() })
    }
}

fn urgent_if(waits: bool) -> Urgency {
    if waits { Urgency::Now } else { Urgency::Later }
}
