//! A worker allocates nothing per task and epoch: the cost of a group does not grow with allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anabranch_model::{Epoch, Group, Incarnation, Nanos, PlanVersion, StageId, TaskId};
use anabranch_protocol::coordinator::{Pace, Report, Tasks, Then};
use anabranch_protocol::worker::{Command, Config, Fence, FromCoordinator, Input, Order, Term, Worker};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` is of this allocator, which is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FENCE: Fence = Fence { term: Term(1), incarnation: Incarnation(1), version: PlanVersion(1) };
const SOURCES: u32 = 100;

fn task(stage: u32, index: u32) -> TaskId {
    TaskId { stage: StageId(stage), index }
}

/// One group of four epochs at all tasks. Returns the number of summaries.
fn group(worker: &mut Worker<u64>, first: u64, received: u64) -> u64 {
    let now = Nanos(first);
    let last = first + 3;
    let mut sent = 0;
    let mut take = |worker: &mut Worker<u64>| {
        while let Some(command) = worker.poll() {
            sent += u64::from(matches!(command, Command::Send(_)));
        }
    };
    let group = Group { first: Epoch(first), last: Epoch(last) };
    let order = Some(Order::Grant { group, checkpoint: false, then: Then::Next, pace: Pace::Steady });
    worker.handle(now, Input::Message(FromCoordinator { fence: FENCE, heard: now, received, order }));
    take(worker);
    for epoch in (first..=last).map(Epoch) {
        for index in 0..SOURCES {
            worker.handle(now, Input::Task(FENCE.incarnation, task(0, index), Report::EpochCut(epoch)));
            worker.handle(now, Input::Task(FENCE.incarnation, task(1, index), Report::EpochEnded(epoch)));
            take(worker);
        }
    }
    sent
}

#[test]
fn groups_of_epochs_cost_no_allocation_and_one_summary_each() {
    let mut worker = Worker::new(Config::default());
    let stage = |stage| (0..SOURCES).map(move |index| task(stage, index));
    let (sources, sinks) = (stage(0).collect(), stage(1).collect());
    let all = stage(0).chain(stage(1)).collect();
    let tasks = Tasks { version: PlanVersion(1), all, sources, sinks };
    let order = Some(Order::Start { tasks, from: None });
    worker.handle(Nanos(0), Input::Message(FromCoordinator { fence: FENCE, heard: Nanos(0), received: 0, order }));
    for task in stage(0).chain(stage(1)) {
        worker.handle(Nanos(0), Input::Task(FENCE.incarnation, task, Report::Started));
    }
    let mut summaries = 1 + group(&mut worker, 1, 1);
    let before = ALLOCATIONS.get();
    for first in (5..400).step_by(4) {
        let sent = group(&mut worker, first, summaries);
        assert_eq!(sent, 1, "the group that begins with {first}");
        summaries += sent;
    }
    assert!(before > 0, "allocations are counted");
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
