//! The worker with a hand-written driver, and all interleavings of small instances.

mod explore;

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_model::{Group, PlanVersion, StageId};

use super::*;
use crate::coordinator::{Pace, Then};

const MS: u64 = 1_000_000;

fn task(index: u32) -> TaskId {
    TaskId { stage: StageId(0), index }
}

fn fence(term: u64, incarnation: u64) -> Fence {
    Fence { term: Term(term), incarnation: Incarnation(incarnation), version: PlanVersion(1) }
}

/// Task 0 is a source, the last one a sink.
fn tasks(count: u32) -> Tasks {
    let all: BTreeSet<TaskId> = (0..count).map(task).collect();
    Tasks { version: PlanVersion(1), all, sources: [task(0)].into(), sinks: [task(count - 1)].into() }
}

fn config() -> Config {
    Config { lease: Duration::from_millis(100), linger: Duration::from_millis(20), resend: Duration::from_millis(30) }
}

fn grant(first: u64, last: u64, checkpoint: bool) -> Order<u32> {
    let group = Group { first: Epoch(first), last: Epoch(last) };
    Order::Grant { group, checkpoint, then: Then::Next, pace: Pace::Steady }
}

/// A worker and its clock.
struct Bench {
    worker: Worker<u32>,
    now: Nanos,
    fence: Fence,
    received: u64,
}

impl Bench {
    fn new() -> Self {
        Bench { worker: Worker::new(config()), now: Nanos(0), fence: fence(1, 1), received: 0 }
    }

    /// Three tasks have started, and the coordinator knows.
    fn running() -> Self {
        let mut bench = Bench::new();
        bench.order(Order::Start { tasks: tasks(3), from: None });
        assert!(matches!(bench.orders()[..], [Order::Start { .. }]));
        (0..3).for_each(|index| bench.report(index, Report::Started));
        let [summary] = &bench.sent()[..] else { panic!("one summary") };
        assert!(summary.started);
        bench.acknowledge(summary.number);
        bench
    }

    fn order(&mut self, order: Order<u32>) {
        self.message(self.fence, Some(order));
    }

    /// Every message shows that all heartbeats so far have arrived.
    fn message(&mut self, fence: Fence, order: Option<Order<u32>>) {
        let message = FromCoordinator { fence, heard: self.now, received: self.received, order };
        self.worker.handle(self.now, Input::Message(message));
    }

    fn acknowledge(&mut self, number: u64) {
        self.received = number;
        self.message(self.fence, None);
    }

    fn report(&mut self, index: u32, report: Report<u32>) {
        self.worker.handle(self.now, Input::Task(self.fence.incarnation, task(index), report));
    }

    fn snapshot(&mut self, index: u32, epoch: u64, finished: bool) {
        self.report(index, Report::Acknowledged { epoch: Epoch(epoch), snapshot: index, finished });
    }

    /// Lets time pass, deadline by deadline.
    fn pass(&mut self, ms: u64) {
        let end = Nanos(self.now.0 + ms * MS);
        while let Some(at) = self.worker.next_deadline().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.worker.handle(self.now, Input::Tick);
        }
        self.now = end;
    }

    fn commands(&mut self) -> Vec<Command<u32>> {
        std::iter::from_fn(|| self.worker.poll()).collect()
    }

    /// The commands so far, which are all orders.
    fn orders(&mut self) -> Vec<Order<u32>> {
        let order = |command| match command {
            Command::Tasks(_, order) => order,
            Command::Send(message) => panic!("an order, not {message:?}"),
        };
        self.commands().into_iter().map(order).collect()
    }

    /// The commands so far, which are all summaries.
    fn sent(&mut self) -> Vec<Summary<u32>> {
        let summary = |command| match command {
            Command::Tasks(_, order) => panic!("a summary, not {order:?}"),
            Command::Send(ToCoordinator { summary, .. }) => summary,
        };
        self.commands().into_iter().map(summary).collect()
    }
}

/// Otherwise what was passed on would wait for the next summary.
#[test]
fn the_coordinator_hears_at_once_that_sources_wait_for_a_grant() {
    let mut bench = Bench::running();
    bench.order(grant(1, 1, false));
    bench.orders();
    bench.report(0, Report::Active(Epoch(1)));
    assert_eq!(bench.sent(), [], "the next summary says so");
    bench.report(0, Report::EpochCut(Epoch(1)));
    let [summary] = &bench.sent()[..] else { panic!("the next group may depend on it") };
    assert_eq!((summary.active, summary.cut), (Epoch(1), Epoch(1)));
    bench.report(0, Report::Active(Epoch(2)));
    let [summary] = &bench.sent()[..] else { panic!("a source waits for the grant") };
    assert_eq!(summary.active, Epoch(2));
    bench.order(grant(2, 2, false));
    bench.orders();
    bench.report(0, Report::Active(Epoch(2)));
    bench.report(0, Report::EpochCut(Epoch(2)));
    assert_eq!(bench.sent(), [], "it is known");
}

#[test]
fn grants_reach_the_tasks_in_the_order_of_their_epochs_and_once() {
    let mut bench = Bench::running();
    let order = [grant(5, 5, false), grant(3, 4, true), grant(3, 4, true)];
    order.into_iter().for_each(|order| bench.order(order));
    assert_eq!(bench.orders(), []);
    bench.order(grant(1, 2, false));
    assert_eq!(bench.orders(), [grant(1, 2, false), grant(3, 4, true), grant(5, 5, false)]);
    bench.order(grant(1, 2, false));
    assert_eq!(bench.orders(), []);
}

#[test]
fn a_group_costs_one_summary_and_its_checkpoint_one_more() {
    let mut bench = Bench::running();
    bench.order(grant(1, 4, true));
    bench.commands();
    for epoch in 1..=4 {
        bench.report(0, Report::EpochCut(Epoch(epoch)));
        bench.report(2, Report::EpochEnded(Epoch(epoch)));
    }
    (0..3).for_each(|index| bench.snapshot(index, 4, false));
    let [turn, checkpoint] = &bench.sent()[..] else { panic!("two summaries") };
    assert_eq!((turn.cut, turn.checkpoints.len()), (Epoch(2), 0));
    let snapshots = (0..3).map(|index| (task(index), index)).collect();
    assert_eq!(checkpoint.checkpoints, [Snapshots { epoch: Epoch(4), tasks: Some(snapshots) }]);
    assert_eq!((checkpoint.cut, checkpoint.ended), (Epoch(4), Epoch(4)));
}

#[test]
fn a_change_that_nobody_waits_for_is_reported_after_a_while() {
    let mut bench = Bench::running();
    bench.order(grant(1, 100, false));
    bench.commands();
    bench.report(0, Report::EpochCut(Epoch(1)));
    bench.pass(19);
    assert_eq!(bench.sent(), []);
    bench.pass(1);
    assert_eq!(bench.sent().iter().map(|summary| summary.cut).collect::<Vec<_>>(), [Epoch(1)]);
}

#[test]
fn a_summary_is_repeated_until_it_is_acknowledged() {
    let mut bench = Bench::running();
    bench.report(0, Report::SourceFinished);
    bench.pass(60);
    let sent = bench.sent();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|summary| *summary == sent[0] && summary.sources_finished), "{sent:?}");
    bench.acknowledge(sent[0].number);
    bench.pass(60);
    assert_eq!(bench.sent(), []);
}

#[test]
fn finished_tasks_count_for_later_checkpoints_and_their_last_snapshots_are_reported_together() {
    let mut bench = Bench::running();
    bench.order(grant(1, 4, true));
    bench.commands();
    bench.snapshot(0, 3, true);
    bench.snapshot(1, 4, false);
    bench.snapshot(1, 4, false);
    bench.sent();
    bench.snapshot(2, 4, false);
    let sent = bench.sent();
    let snapshots = (0..3).map(|index| (task(index), index)).collect();
    assert_eq!(sent[0].checkpoints, [Snapshots { epoch: Epoch(4), tasks: Some(snapshots) }]);
    assert_eq!(sent[0].last, []);
    bench.snapshot(1, 5, true);
    bench.snapshot(2, 5, true);
    let last = bench.sent().pop().expect("a summary").last;
    let last_of = |(task, epoch, snapshot)| LastSnapshot { task, epoch, snapshot };
    assert_eq!(last, [(task(0), Epoch(3), 0), (task(1), Epoch(5), 1), (task(2), Epoch(5), 2)].map(last_of));
}

#[test]
fn a_new_term_hears_all_that_the_old_one_had_acknowledged() {
    let mut bench = Bench::running();
    bench.order(grant(1, 2, true));
    (0..3).for_each(|index| bench.snapshot(index, 2, false));
    bench.commands();
    bench.acknowledge(99);
    bench.fence = fence(2, 1);
    bench.received = 0;
    bench.message(bench.fence, None);
    let [all] = &bench.sent()[..] else { panic!("one summary") };
    assert_eq!((all.checkpoints.len(), all.started, all.taken.granted), (1, true, Epoch(2)));
    bench.message(fence(1, 1), Some(Order::Cancel));
    assert_eq!((bench.commands(), bench.worker.refused()), (vec![], 1), "the old term is refused");
    bench.order(Order::CheckpointDone(Epoch(2)));
    bench.fence = fence(3, 1);
    bench.message(bench.fence, None);
    let all = bench.commands().into_iter().find_map(|command| match command {
        Command::Send(message) => Some(message.summary),
        Command::Tasks(..) => None,
    });
    assert_eq!(all.expect("a summary").checkpoints, [], "the committed checkpoint covers it");
}

#[test]
fn without_an_answer_the_tasks_are_cancelled_when_the_lease_is_over() {
    let mut bench = Bench::running();
    bench.pass(60);
    bench.message(bench.fence, None);
    bench.pass(99);
    assert_eq!(bench.commands(), []);
    // The answer is old: the heartbeat that it answers was sent at 60 ms.
    let old = FromCoordinator { fence: bench.fence, heard: Nanos(60 * MS), received: 1, order: None };
    bench.worker.handle(bench.now, Input::Message(old));
    bench.pass(1);
    let commands = bench.commands();
    let [Command::Tasks(_, Order::Cancel), Command::Send(message)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((message.summary.failed, message.summary.gone), (Some((task(0), true)), false));
    (0..3).for_each(|index| bench.report(index, Report::Gone));
    assert!(bench.sent()[0].gone);
    // The coordinator has not noticed. Its orders change nothing.
    bench.order(Order::Start { tasks: tasks(3), from: None });
    bench.order(grant(1, 1, false));
    bench.order(Order::Cancel);
    assert_eq!(bench.orders(), []);
}

#[test]
fn a_newer_incarnation_starts_when_the_tasks_of_the_older_one_are_gone() {
    let mut bench = Bench::running();
    bench.fence = fence(1, 2);
    bench.order(Order::Start { tasks: tasks(3), from: None });
    assert_eq!(bench.orders(), [Order::Cancel]);
    let gone = |bench: &mut Bench, index| {
        bench.worker.handle(bench.now, Input::Task(Incarnation(1), task(index), Report::Gone));
    };
    (0..2).for_each(|index| gone(&mut bench, index));
    assert_eq!(bench.orders(), []);
    gone(&mut bench, 2);
    assert_eq!(bench.orders(), [Order::Start { tasks: tasks(3), from: None }]);
    bench.message(fence(1, 1), Some(Order::Cancel));
    bench.worker.handle(bench.now, Input::Task(Incarnation(1), task(0), Report::EpochCut(Epoch(1))));
    assert_eq!((bench.orders(), bench.worker.refused()), (vec![], 2));
}

/// Between the two messages the coordinator has declared the worker lost, and the worker has joined again.
#[test]
fn a_start_that_is_older_than_the_lease_is_refused_though_a_later_message_has_arrived() {
    let mut bench = Bench::new();
    bench.pass(120);
    bench.message(bench.fence, None);
    let order = Some(Order::Start { tasks: tasks(3), from: None });
    let start = |heard| FromCoordinator { fence: fence(1, 1), heard, received: 0, order: order.clone() };
    bench.worker.handle(bench.now, Input::Message(start(Nanos(20 * MS))));
    assert_eq!((bench.commands(), bench.worker.refused()), (vec![], 1));
    bench.worker.handle(bench.now, Input::Message(start(Nanos(21 * MS))));
    assert!(matches!(bench.orders()[..], [Order::Start { .. }]));
}

#[test]
fn a_cancel_that_overtakes_its_start_prevents_it() {
    let mut bench = Bench::new();
    bench.order(Order::Cancel);
    assert!(bench.sent()[0].gone);
    bench.order(Order::Start { tasks: tasks(3), from: None });
    assert_eq!(bench.orders(), []);
}

#[test]
fn a_declined_checkpoint_is_reported_once_and_not_completed() {
    let mut bench = Bench::running();
    bench.order(grant(1, 2, true));
    bench.commands();
    bench.snapshot(0, 2, false);
    bench.report(1, Report::Declined(Epoch(2)));
    (1..3).for_each(|index| bench.snapshot(index, 2, false));
    let [summary] = &bench.sent()[..] else { panic!("one summary") };
    assert_eq!(summary.checkpoints, [Snapshots { epoch: Epoch(2), tasks: None }]);
    bench.order(Order::AbortCheckpoint(Epoch(2)));
    bench.order(Order::AbortCheckpoint(Epoch(2)));
    bench.commands();
    bench.fence = fence(2, 1);
    bench.message(bench.fence, None);
    assert_eq!(bench.sent()[0].checkpoints, []);
}

#[test]
fn the_lease_is_over_even_if_the_answer_that_would_extend_it_has_waited_for_a_suspended_process() {
    let mut bench = Bench::running();
    bench.now = Nanos(100 * MS);
    bench.message(bench.fence, None);
    let commands = bench.commands();
    assert!(matches!(commands[0], Command::Tasks(_, Order::Cancel)), "{commands:?}");
}

#[test]
fn only_what_the_new_coordinator_has_heard_extends_the_lease() {
    let mut bench = Bench::running();
    bench.pass(60);
    bench.message(bench.fence, None);
    let adopts = FromCoordinator { fence: fence(2, 1), heard: Nanos(20 * MS), received: 0, order: None };
    bench.worker.handle(bench.now, Input::Message(adopts));
    bench.commands();
    bench.fence = fence(2, 1);
    bench.pass(59);
    assert!(!bench.commands().iter().any(|command| matches!(command, Command::Tasks(..))));
    bench.pass(1);
    assert!(matches!(bench.commands()[..], [Command::Tasks(_, Order::Cancel), ..]));
}

/// The former coordinator granted the end of the plan version with the last of them. The new one does not
/// know that.
#[test]
fn groups_that_a_former_coordinator_granted_and_a_gap_held_back_are_not_passed_on_after_an_adoption() {
    let mut bench = Bench::running();
    let Order::Grant { group, checkpoint, pace, .. } = grant(3, 3, true) else { panic!("a grant") };
    bench.order(Order::Grant { group, checkpoint, then: Then::Switch, pace });
    assert_eq!(bench.commands(), [], "the one before is missing");
    bench.fence = fence(2, 1);
    bench.message(bench.fence, None);
    bench.commands();
    let passed_on = |bench: &mut Bench, first, last| {
        bench.order(grant(first, last, false));
        let commands = bench.commands().into_iter();
        let groups = commands.filter_map(|command| match command {
            Command::Tasks(_, Order::Grant { group, then, .. }) => Some((group.first.0, group.last.0, then)),
            _ => None,
        });
        groups.collect::<Vec<_>>()
    };
    assert_eq!(passed_on(&mut bench, 1, 2), [(1, 2, Then::Next)]);
    assert_eq!(passed_on(&mut bench, 3, 4), [(3, 4, Then::Next)]);
}

#[test]
fn an_answer_for_all_jobs_extends_the_lease_unless_it_is_of_another_term_or_comes_too_late() {
    let heard = |bench: &mut Bench, term: u64, ms: u64| {
        bench.worker.handle(bench.now, Input::Heard(Term(term), Nanos(ms * MS)));
    };
    let mut bench = Bench::running();
    bench.pass(99);
    heard(&mut bench, 1, 90);
    bench.pass(90);
    assert_eq!(bench.commands(), []);
    // The driver reports the newest answer only when the time comes.
    bench.now = Nanos(190 * MS);
    heard(&mut bench, 1, 180);
    assert_eq!(bench.commands(), []);
    heard(&mut bench, 2, 189);
    bench.pass(89);
    assert_eq!(bench.commands(), []);
    bench.pass(1);
    assert!(matches!(bench.commands()[..], [Command::Tasks(_, Order::Cancel), ..]));
    heard(&mut bench, 1, 270);
    assert_eq!(bench.worker.phase(), Phase::Ending, "tasks that were cancelled do not come back");
}

/// The tasks of incarnation 1 are still ending.
fn ending_for(incarnation: u64) -> Bench {
    let mut bench = Bench::running();
    bench.fence = fence(1, incarnation);
    bench.order(Order::Start { tasks: tasks(3), from: None });
    assert_eq!(bench.orders(), [Order::Cancel]);
    bench
}

fn all_gone(bench: &mut Bench) {
    for index in 0..3 {
        bench.worker.handle(bench.now, Input::Task(Incarnation(1), task(index), Report::Gone));
    }
}

#[test]
fn an_incarnation_that_is_cancelled_while_it_waits_for_an_older_one_does_not_start() {
    let mut bench = ending_for(2);
    bench.order(Order::Cancel);
    bench.order(Order::Start { tasks: tasks(3), from: None });
    all_gone(&mut bench);
    let [summary] = &bench.sent()[..] else { panic!("one summary") };
    assert!(summary.gone);
    let mut without_repetition = ending_for(2);
    without_repetition.order(Order::Cancel);
    all_gone(&mut without_repetition);
    assert!(without_repetition.sent()[0].gone);
}

#[test]
fn a_start_that_waits_for_an_older_incarnation_is_as_old_as_its_last_repetition() {
    for (repeated, starts) in [(false, false), (true, true)] {
        let mut bench = ending_for(2);
        bench.pass(90);
        if repeated {
            bench.order(Order::Start { tasks: tasks(3), from: None });
        }
        bench.pass(30);
        bench.message(bench.fence, None);
        all_gone(&mut bench);
        assert_eq!(matches!(bench.orders()[..], [Order::Start { .. }]), starts);
    }
}

#[test]
fn a_source_that_finishes_is_no_longer_waited_for() {
    let mut bench = Bench::new();
    let sources = [task(0), task(1)].into();
    bench.order(Order::Start { tasks: Tasks { sources, ..tasks(3) }, from: None });
    bench.order(grant(1, 4, false));
    bench.report(0, Report::EpochCut(Epoch(2)));
    bench.commands();
    bench.report(1, Report::SourceFinished);
    let [summary] = &bench.sent()[..] else { panic!("one summary") };
    assert_eq!((summary.cut, summary.sources_finished), (Epoch(2), false));
}

#[test]
fn a_last_snapshot_counts_for_no_checkpoint_before_it() {
    let mut bench = Bench::running();
    bench.order(grant(1, 4, true));
    bench.commands();
    [0, 2].into_iter().for_each(|index| bench.snapshot(index, 4, false));
    bench.snapshot(1, 5, true);
    assert_eq!(bench.sent(), []);
}

#[test]
fn a_plan_version_that_is_older_is_refused() {
    let mut bench = Bench::running();
    bench.fence.version = PlanVersion(2);
    bench.message(bench.fence, None);
    bench.fence.version = PlanVersion(1);
    bench.order(Order::Cancel);
    assert_eq!((bench.commands(), bench.worker.refused()), (vec![], 1));
}

/// Tasks that used the same connection fail together. The last failure says nothing new but that no task is
/// left.
#[test]
fn when_the_last_task_fails_after_another_one_all_are_reported_as_gone() {
    let mut bench = Bench::running();
    (0..3).for_each(|index| bench.report(index, Report::Failed { retry: true }));
    let sent = bench.sent();
    assert!(sent.last().is_some_and(|summary| summary.gone), "{sent:?}");
}
