//! Communication between the tasks of an incarnation and its coordinator, outside of the channels.
//!
//! Tasks report by messages, at most a few per epoch. The worker's [`Orders`] for all tasks are one value
//! that tasks read without a lock. What tasks have [`Reported`] for each other are numbers.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anabranch_model::{Epoch, Error, ErrorKind, EventTime, Group, Incarnation, Nanos, Result, TaskId};
use anabranch_protocol::alignment::Aligned;
use anabranch_protocol::coordinator::{Pace, Report, Tasks, Then};
use anabranch_state::TaskState;

use crate::task::gathered::Gathered;
use crate::task::hold_back::Foremost;
use crate::task::inbox::Inbox;
use crate::task::mail::{FromTask, Mail};
use crate::task::orders::{Orders, Published};
use crate::task::phases::Passage;
use crate::task::reported::Reported;
use crate::task::sync::atomic::Ordering::SeqCst;
use crate::task::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often a task that waits for other workers checks whether it must end.
const LOOK: Duration = Duration::from_millis(100);

/// Shared by all tasks of an incarnation.
pub(crate) struct Control {
    incarnation: Incarnation,
    mail: Arc<dyn Mail>,
    /// Locked while the worker is given reports, so that none overtakes another.
    gathered: Mutex<Gathered>,
    orders: Published,
    reported: Reported,
    /// Measurements of checkpoints for the next summary.
    passages: Mutex<Vec<Passage>>,
    /// Held while the orders change, or another value that a task may wait for.
    waiting: Mutex<()>,
    changed: Condvar,
    /// Notified when sources have something else to do than to wait for rows. Few of the changes of `changed`
    /// are of that kind.
    interrupted: Condvar,
    inboxes: Vec<Arc<Inbox>>,
    /// Sources in alignment groups, by group.
    aligned: Mutex<BTreeMap<String, Aligned>>,
}

impl Control {
    /// For this number of tasks, which resume after the epoch `after`, and their inboxes.
    pub(crate) fn new(
        incarnation: Incarnation,
        after: Epoch,
        mail: Arc<dyn Mail>,
        inboxes: Vec<Arc<Inbox>>,
        tasks: usize,
    ) -> Arc<Self> {
        Arc::new(Control {
            incarnation,
            mail,
            gathered: Mutex::new(Gathered::none()),
            orders: Published::after(after),
            reported: Reported::after(after, tasks),
            passages: Mutex::new(Vec::new()),
            waiting: Mutex::new(()),
            changed: Condvar::new(),
            interrupted: Condvar::new(),
            inboxes,
            aligned: Mutex::new(BTreeMap::new()),
        })
    }

    /// Sets the alignment groups of the tasks' sources.
    pub(crate) fn align(&self, groups: BTreeMap<String, Aligned>) {
        *self.aligned() = groups;
    }

    fn aligned(&self) -> MutexGuard<'_, BTreeMap<String, Aligned>> {
        self.aligned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A source has reached an event time. Returns that of the slowest source of its group, as far as it is
    /// known here.
    pub(crate) fn reached(&self, group: &str, task: TaskId, time: EventTime, now: Nanos) -> EventTime {
        let mut groups = self.aligned();
        let Some(of_group) = groups.get_mut(group) else { return EventTime::MAX };
        let before = of_group.least();
        of_group.reached(task, time);
        let (least, has_news) = (of_group.least(), of_group.has_news(now));
        drop(groups);
        if has_news {
            self.mail.send(FromTask::Reached);
        }
        if least > before {
            self.change(|| ());
        }
        least
    }

    /// The event time of the slowest source of a group.
    fn least(&self, group: &str) -> EventTime {
        self.aligned().get(group).map_or(EventTime::MAX, Aligned::least)
    }

    /// Sources at other workers have reached this event time.
    pub(crate) fn reached_elsewhere(&self, group: &str, time: EventTime) {
        if let Some(of_group) = self.aligned().get_mut(group) {
            of_group.elsewhere(time);
        }
        self.change(|| ());
    }

    /// The event times of the groups to report to the coordinator. `again`: it is another coordinator, and
    /// knows none.
    pub(crate) fn reached_here(&self, again: bool, now: Nanos) -> Vec<(String, EventTime)> {
        let mut groups = self.aligned();
        let news = groups.iter_mut().filter_map(|(name, group)| {
            if again {
                group.forget_told();
            }
            Some((name.clone(), group.news(now)?))
        });
        news.collect()
    }

    /// Gathers reports for which nobody waits, until all of these tasks have made them.
    pub(crate) fn gather(&self, tasks: &Tasks, after: Epoch, has_checkpoints: bool) {
        *self.gathered.lock().unwrap_or_else(PoisonError::into_inner) = Gathered::new(tasks, after, has_checkpoints);
    }

    /// Sends a task's report to the coordinator, or gathers it.
    pub(crate) fn report(&self, task: TaskId, report: Report<TaskState>) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        for (task, report) in gathered.add(task, report) {
            self.mail.send(FromTask::Report(self.incarnation, task, report));
        }
    }

    /// The furthest event time of any partition at this worker.
    pub(crate) fn foremost_time(&self) -> &Foremost {
        &self.reported.foremost_time
    }

    /// A task has failed. A task that ends because it was cancelled has not.
    pub(crate) fn failed(&self, task: TaskId, error: Error) {
        if error.kind() == ErrorKind::Cancelled {
            return;
        }
        self.mail.send(FromTask::Failed(self.incarnation, task, error));
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// A task's tables are open. The last task of the worker reports that: no source of the worker reads
    /// before.
    pub(crate) fn opened(&self) {
        if self.reported.unopened.fetch_sub(1, SeqCst) == 1 {
            self.change(|| ());
            self.mail.send(FromTask::Opened(self.incarnation));
        }
    }

    /// Waits until the tables of all tasks are open, or the tasks must end.
    pub(crate) fn wait_opened(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let not_open = |_: &mut ()| self.reported.unopened.load(SeqCst) > 0 && !self.is_cancelled();
        drop(self.changed.wait_while(waiting, not_open));
    }

    /// A task could not be created: a table of it cannot be opened.
    pub(crate) fn not_opened(&self, task: TaskId, error: Error) {
        if error.kind() != ErrorKind::Cancelled {
            self.mail.send(FromTask::NotOpened(self.incarnation, task, error));
        }
    }

    /// A source had to wait this long for the grant to cut an epoch.
    pub(crate) fn waited_for_grant(&self, ns: u64) {
        self.reported.grant_wait_ns.fetch_max(ns, SeqCst);
    }

    /// The longest wait for a grant since the last call.
    pub(crate) fn take_grant_wait_ns(&self) -> u64 {
        self.reported.grant_wait_ns.swap(0, SeqCst)
    }

    /// The present orders of the worker.
    fn orders(&self) -> Orders {
        self.orders.read().unwrap_or_else(|| {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let orders = self.orders.read_locked();
            drop(waiting);
            orders
        })
    }

    /// Publishes other orders, and wakes tasks that wait.
    fn order<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        self.change(|| self.orders.change(change))
    }

    /// Sources may cut the epochs of this group. `checkpoint`: a checkpoint at the end of the group was
    /// requested, and this process has received the request at this time.
    pub(crate) fn grant(&self, group: Group, pace: Pace, then: Then, checkpoint: Option<Nanos>) {
        let awaited = self.order(|orders| {
            let checkpoint = checkpoint.map(|at| (at, self.reported.requests.load(SeqCst)));
            let granted = orders.granted;
            orders.grant(group, pace, then, checkpoint);
            then.ends() || pace == Pace::AtOnce || self.foremost() >= granted
        });
        if awaited {
            self.interrupted.notify_all();
        }
    }

    /// When this process has received the request for the checkpoint of this epoch, if it is the last
    /// checkpoint that was granted.
    pub(crate) fn requested_at(&self, epoch: Epoch) -> Option<Nanos> {
        let orders = self.orders();
        (orders.checkpoint == epoch).then_some(orders.requested_at)
    }

    /// Records a task's measurements of a checkpoint. The task's acknowledgement follows.
    pub(crate) fn passed(&self, passage: Passage) {
        self.passages.lock().unwrap_or_else(PoisonError::into_inner).push(passage);
    }

    /// Takes the measurements of checkpoints since the last call.
    pub(crate) fn take_passages(&self) -> Vec<Passage> {
        std::mem::take(&mut *self.passages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes snapshots incremental, or no longer: the plan is about to change, or its next version is being
    /// prepared from them.
    pub(crate) fn set_adds(&self, adds: bool) {
        self.order(|orders| orders.adds = adds);
    }

    pub(crate) fn adds(&self) -> bool {
        self.orders().adds
    }

    /// A source has output in this epoch: reports that, unless another source of this worker has.
    pub(crate) fn tell_active(&self, task: TaskId, epoch: Epoch) {
        if self.reported.told_active.fetch_max(epoch.0, SeqCst) < epoch.0 {
            self.report(task, Report::Active(epoch));
        }
    }

    /// Whether an epoch was granted that sources have waited for.
    fn has_awaited_grant(&self, orders: &Orders) -> bool {
        let told = Epoch(self.reported.told_active.load(SeqCst));
        told > self.foremost() && told <= orders.granted
    }

    /// A sink is full, or has room again. While a sink is full, sources are held.
    pub(crate) fn set_full(&self, full: bool) {
        let before = self.change(|| match full {
            true => self.reported.full_sinks.fetch_add(1, SeqCst),
            false => self.reported.full_sinks.fetch_sub(1, SeqCst),
        });
        self.interrupted.notify_all();
        if before == usize::from(!full) {
            self.mail.send(FromTask::Full(self.incarnation, full));
        }
    }

    /// Sinks at other workers are full and request a checkpoint, or none is full any more.
    pub(crate) fn hold(&self, held: bool) {
        self.order(|orders| {
            orders.wants_checkpoint |= held;
            orders.held_by_others = held;
        });
        self.interrupted.notify_all();
    }

    /// Returns the list of the first task of the job that has found one. Waits for the coordinator's answer.
    pub(crate) fn agree(&self, key: &str, list: Vec<String>) -> Result<Vec<String>> {
        let (answer, answered) = channel();
        self.mail.send(FromTask::Agree(self.incarnation, key.to_owned(), list, answer));
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(list) => return Ok(list),
                Err(RecvTimeoutError::Timeout) if !self.is_cancelled() => {}
                Err(_) => return Err(Error::cancelled()),
            }
        }
    }

    /// Whether sources are held.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held_by(&self.orders())
    }

    fn is_held_by(&self, orders: &Orders) -> bool {
        orders.held_by_others || self.reported.full_sinks.load(SeqCst) > 0
    }

    /// The checkpoint at the end of this epoch is abandoned. A sink that waits for it waits for the next one.
    pub(crate) fn checkpoint_aborted(&self, epoch: Epoch) {
        self.order(|orders| {
            orders.aborted = orders.aborted.max(epoch);
            orders.wants_checkpoint = true;
        });
    }

    /// A sink requests a checkpoint.
    pub(crate) fn request_checkpoint(&self) {
        self.reported.requests.fetch_add(1, SeqCst);
        self.mail.send(FromTask::Checkpoint);
    }

    /// Sources cut all epochs up to this one at once.
    pub(crate) fn at_once(&self) -> Epoch {
        self.orders().at_once
    }

    /// Whether an epoch ends before its time is over.
    pub(crate) fn cuts_early(&self, epoch: Epoch) -> bool {
        let orders = self.orders();
        orders.cuts_early(epoch, self.is_held_by(&orders), self.reported.requests.load(SeqCst))
    }

    /// Waits while sources are held, or while the slowest source of the group in `ahead_of` has not passed
    /// the given time. The wait of a source in `epoch` ends after `timeout`, or when it has something else to
    /// do. `done` is the last epoch that the source knows to be done.
    pub(crate) fn wait_held(
        &self,
        (epoch, done): (Epoch, Epoch),
        ahead_of: Option<(&str, EventTime)>,
        timeout: Duration,
    ) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ahead = || ahead_of.is_some_and(|(group, least)| self.least(group) <= least);
        let nothing_to_do = |_: &mut ()| {
            let orders = self.orders();
            let waits = self.is_held_by(&orders) || is_ahead();
            waits && !self.cuts_early(epoch) && orders.done <= done && !orders.cancelled
        };
        // Whatever ended the wait, the source checks everything again.
        drop(self.changed.wait_timeout_while(waiting, timeout, nothing_to_do));
    }

    /// Waits for this time, or until a source has something else to do than to wait for rows.
    pub(crate) fn wait_for_rows(&self, time: Duration) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (was, foremost) = (self.orders(), self.foremost());
        let (was_held, was_at_once) = (self.is_held_by(&was), was.at_once.min(foremost));
        let has_cut_all = foremost >= was.granted;
        let nothing_else = |_: &mut ()| {
            let orders = self.orders();
            let no_grant = !(has_cut_all && orders.granted > was.granted) && orders.at_once == was_at_once;
            let unchanged = no_grant && !self.has_awaited_grant(&orders) && self.is_held_by(&orders) == was_held;
            unchanged && orders.stop_after.is_none() && !orders.cancelled
        };
        drop(self.interrupted.wait_timeout_while(waiting, time, nothing_else));
    }

    /// A source has cut an epoch. The coordinator needs the reports of two epochs per group: the turning
    /// epoch and the last one. A source that has cut a group's turning epoch has also cut every epoch of the
    /// groups before it. `active` is the newest epoch up to this one in which the source had output.
    pub(crate) fn cut(&self, task: TaskId, epoch: Epoch, active: Epoch) {
        let Orders { granted, turn, .. } = self.orders();
        if epoch == granted || epoch == turn {
            self.tell_active(task, active);
            self.report(task, Report::EpochCut(epoch));
        }
    }

    /// The time of this epoch is over at one source, and so at all of them. The time of the next epoch is
    /// over at `next_cut`.
    pub(crate) fn lead(&self, epoch: Epoch, next_cut: Nanos) {
        self.reported.next_cut.fetch_max(next_cut.0, SeqCst);
        self.reported.foremost.fetch_max(epoch.0, SeqCst);
    }

    /// When the time of the epoch after the foremost is over.
    pub(crate) fn next_cut(&self) -> Nanos {
        Nanos(self.reported.next_cut.load(SeqCst))
    }

    /// The last epoch whose time is over at any source.
    pub(crate) fn foremost(&self) -> Epoch {
        Epoch(self.reported.foremost.load(SeqCst))
    }

    /// Whether the tasks leave their parts.
    pub(crate) fn leaves_parts(&self) -> bool {
        let orders = self.orders();
        orders.leaves_parts && !orders.cancelled
    }

    /// Everything up to the end of this epoch is done.
    pub(crate) fn set_done(&self, epoch: Epoch) {
        self.order(|orders| orders.done = epoch);
    }

    /// Wakes sinks that wait, so that they check what is done and make visible what they prepared.
    pub(crate) fn wake(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.wake());
    }

    /// No further epoch will be done.
    pub(crate) fn set_none_done(&self) {
        self.order(|orders| orders.none_done = true);
    }

    /// Cancels all tasks; each ends at its next check.
    pub(crate) fn cancel(&self) {
        self.order(|orders| orders.cancelled = true);
        self.interrupted.notify_all();
        self.inboxes.iter().for_each(|inbox| inbox.close());
    }

    fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change();
        drop(waiting);
        self.changed.notify_all();
        changed
    }

    /// Whether this epoch ends with a checkpoint.
    pub(crate) fn is_checkpoint(&self, epoch: Epoch) -> bool {
        self.orders().checkpoint == epoch
    }

    /// The last epoch that sources may cut.
    pub(crate) fn granted(&self) -> Epoch {
        self.orders().granted
    }

    /// The epoch after which sources end, once a stop was requested.
    pub(crate) fn stop_after(&self) -> Option<Epoch> {
        self.orders().stop_after
    }

    /// Whether sources end with this epoch or an earlier one.
    pub(crate) fn stops_after(&self, epoch: Epoch) -> bool {
        self.orders().stops_after(epoch)
    }

    /// The last epoch that every sink has written; with checkpoints, the last one that a checkpoint covers.
    pub(crate) fn done(&self) -> Epoch {
        self.orders().done
    }

    /// Whether the tasks must end at once.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.orders().cancelled
    }

    /// Whether `epoch` is done, or will certainly not be done.
    pub(crate) fn is_settled(&self, epoch: Epoch) -> bool {
        self.orders().is_settled(epoch)
    }

    /// Whether `epoch` is done and the tasks should still make results visible: a cancelled incarnation
    /// leaves that to the next one.
    pub(crate) fn is_done(&self, epoch: Epoch) -> bool {
        let orders = self.orders();
        orders.done >= epoch && !orders.cancelled
    }

    /// Waits until `epoch` is done or will certainly not be.
    pub(crate) fn wait_settled(&self, epoch: Epoch) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_settled(epoch) {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
