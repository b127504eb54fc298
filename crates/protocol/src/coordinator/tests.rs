//! The coordinator with a hand-written driver; the simulator runs it at random.

mod change;
mod log;
mod quiet;
mod requests;
mod restarts;
mod transitions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Epoch, Group, Incarnation, Nanos, PlanVersion, StageId, TaskId};

use super::*;

const MS: u64 = 1_000_000;

fn task(index: u32) -> TaskId {
    TaskId { stage: StageId(0), index }
}

/// Two sources and a sink.
fn tasks() -> Tasks {
    let set = |indexes: std::ops::Range<u32>| indexes.map(task).collect::<BTreeSet<_>>();
    Tasks { version: PlanVersion(1), all: set(0..3), sources: set(0..2), sinks: set(2..3) }
}

fn config() -> Config {
    Config {
        group_size: GroupSizing::Fixed(4),
        quiet: None,
        checkpoint_interval: Some(Duration::from_millis(100)),
        checkpoint_timeout: Duration::from_millis(500),
        checkpoint_failures_max: 1,
        checkpoints_kept: 1,
        start_timeout: Duration::from_millis(500),
        cancel_timeout: Duration::from_millis(100),
        restart: Restart {
            attempts_max: 2,
            pause_start: Duration::from_millis(10),
            pause_factor: 4,
            pause_max: Duration::from_millis(30),
            forget_after: Duration::from_secs(10),
        },
        store_timeout: Duration::from_millis(50),
        store_retry: Duration::from_millis(5),
        store_patience: Duration::from_secs(5),
        fence_look: Duration::from_secs(1),
    }
}

/// A coordinator, its clock and its store.
struct Bench {
    coordinator: Coordinator<u32>,
    now: Nanos,
    log: BTreeMap<u64, Entry<u32>>,
}

impl Bench {
    fn new(config: Config) -> Self {
        Self::on(config, BTreeMap::new(), Owner(1))
    }

    fn on(config: Config, log: BTreeMap<u64, Entry<u32>>, owner: Owner) -> Self {
        let coordinator = Coordinator::new(Nanos(0), config, owner, log.clone(), tasks(), None);
        Bench { coordinator, now: Nanos(0), log }
    }

    /// Another coordinator that adopts the tasks, with its entry in the log.
    fn adopter(&self) -> Bench {
        let log = self.log.clone();
        let mut coordinator = Coordinator::new(Nanos(0), config(), Owner(2), log.clone(), tasks(), Some(ONE));
        coordinator.poll();
        coordinator.handle(Nanos(0), Input::Store(1, Answer::Appended));
        let mut adopter = Bench { coordinator, now: Nanos(0), log };
        adopter.log.insert(1, Entry::Adopts(ONE, Owner(2)));
        adopter
    }

    /// All commands, after the store has done its part.
    fn commands(&mut self) -> Vec<Command<u32>> {
        let mut commands = Vec::new();
        while let Some(command) = self.coordinator.poll() {
            match command {
                Command::Append(sequence, entry) => {
                    let answer = match self.log.contains_key(&sequence) {
                        true => Answer::Taken,
                        false if self.is_passed(sequence) => Answer::Passed,
                        false => Answer::Appended,
                    };
                    if answer == Answer::Appended {
                        self.log.insert(sequence, entry);
                    }
                    self.tell(Input::Store(sequence, answer));
                }
                Command::Read(sequence) => {
                    let answer = match self.is_passed(sequence) {
                        true => Answer::Passed,
                        false => Answer::Entry(self.log.get(&sequence).cloned()),
                    };
                    self.tell(Input::Store(sequence, answer));
                }
                Command::Remove(sequence) => drop(self.log.remove(&sequence)),
                other => commands.push(other),
            }
        }
        commands
    }

    fn is_passed(&self, sequence: u64) -> bool {
        self.log.range(sequence + 1..).next().is_some()
    }

    fn tell(&mut self, input: Input<u32>) {
        self.coordinator.handle(self.now, input);
    }

    fn report(&mut self, index: u32, report: Report<u32>) {
        self.tell(Input::Task(self.coordinator.incarnation(), task(index), report));
    }

    fn acknowledge(&mut self, index: u32, epoch: u64, finished: bool) {
        let snapshot = index * 1000 + epoch as u32;
        self.report(index, Report::Acknowledged { epoch: Epoch(epoch), snapshot, finished });
    }

    fn all_report(&mut self, report: &Report<u32>) {
        (0..3).for_each(|index| self.report(index, report.clone()));
    }

    /// Lets time pass, deadline by deadline.
    fn pass(&mut self, ms: u64) {
        let end = Nanos(self.now.0 + ms * MS);
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.tell(Input::Tick);
        }
        self.now = end;
        self.tell(Input::Tick);
    }

    fn running(config: Config) -> Self {
        let mut bench = Bench::new(config);
        let start = bench.commands();
        assert_eq!(start, [Command::Start { incarnation: Incarnation(1), from: None }]);
        bench.all_report(&Report::Started);
        assert_eq!(bench.commands(), [grant(1, 1, 4, false)]);
        bench
    }

    /// Running, with the end of epoch 8 granted as a checkpoint.
    fn checkpointing() -> Self {
        let mut bench = Bench::running(config());
        bench.pass(100);
        bench.report(0, Report::EpochCut(Epoch(2)));
        bench.report(1, Report::EpochCut(Epoch(2)));
        assert_eq!(bench.commands(), [grant(1, 5, 8, true)]);
        bench
    }
}

fn grant(incarnation: u64, first: u64, last: u64, checkpoint: bool) -> Command<u32> {
    let group = Group { first: Epoch(first), last: Epoch(last) };
    Command::Grant { incarnation: Incarnation(incarnation), group, checkpoint, then: Then::Next, pace: Pace::Steady }
}

/// The grant after which sources end, in the first incarnation.
fn last_grant(first: u64, last: u64, checkpoint: bool) -> Command<u32> {
    let group = Group { first: Epoch(first), last: Epoch(last) };
    Command::Grant { incarnation: ONE, group, checkpoint, then: Then::Stop, pace: Pace::Steady }
}

const ONE: Incarnation = Incarnation(1);

#[test]
fn a_checkpoint_is_committed_with_the_last_acknowledgement_and_not_before() {
    let mut bench = Bench::checkpointing();
    for index in [0, 2, 0, 2] {
        bench.acknowledge(index, 8, false);
        assert_eq!(bench.commands(), []);
    }
    bench.acknowledge(1, 7, false);
    assert_eq!(bench.commands(), []);
    bench.acknowledge(1, 8, false);
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(8))]);
    let checkpoint = bench.coordinator.newest_checkpoint().unwrap();
    assert_eq!(checkpoint.tasks, BTreeMap::from([(task(0), 8), (task(1), 1008), (task(2), 2008)]));
    let entries: Vec<u64> = bench.log.keys().copied().collect();
    assert_eq!(entries, [1], "the checkpoint records that the incarnation began");
}

#[test]
fn the_reports_of_a_worker_are_handled_together() {
    let mut bench = Bench::running(config());
    let reports = [Report::EpochCut(Epoch(2)), Report::EpochEnded(Epoch(1)), Report::EpochCut(Epoch(3))];
    let of_worker = |incarnation| {
        let reports = (0..3).flat_map(|index| reports.iter().map(move |report| (task(index), report.clone())));
        Input::Tasks(Incarnation(incarnation), reports.collect())
    };
    bench.tell(of_worker(1));
    assert_eq!(bench.commands(), [grant(1, 5, 8, false)]);
    bench.tell(of_worker(0));
    assert_eq!((bench.commands(), bench.coordinator.refused()), (vec![], 9));
}

#[test]
fn a_stop_grants_one_epoch_more_and_ends_when_its_checkpoint_is_done_and_all_tasks_are_gone() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Stop);
    bench.tell(Input::Stop);
    assert_eq!(bench.commands(), [last_grant(5, 5, true)]);
    (0..3).for_each(|index| bench.acknowledge(index, 5, true));
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(5))]);
    bench.all_report(&Report::Gone);
    assert_eq!(bench.commands(), [Command::Finish(ONE)]);
    assert_eq!(bench.coordinator.next_deadline(), None);
}

#[test]
fn sources_that_end_leave_a_last_checkpoint_of_their_last_snapshots() {
    let mut bench = Bench::running(config());
    for (index, epoch) in [(0, 2), (1, 3), (2, 3)] {
        bench.report(index, Report::SourceFinished);
        bench.acknowledge(index, epoch, true);
    }
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(3))]);
}

#[test]
fn nothing_is_granted_to_sources_whose_last_acknowledgement_overtakes_their_report_that_they_finished() {
    let mut bench = Bench::new(Config { checkpoint_interval: Some(Duration::ZERO), ..config() });
    bench.commands();
    (0..3).for_each(|index| bench.acknowledge(index, 1, true));
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(1))]);
    bench.all_report(&Report::Started);
    (0..2).for_each(|index| bench.report(index, Report::SourceFinished));
    assert_eq!(bench.commands(), []);
    bench.all_report(&Report::Gone);
    assert_eq!(bench.commands(), [Command::Finish(ONE)]);
}

#[test]
fn a_finished_task_counts_for_later_checkpoints_and_not_for_earlier_ones() {
    let mut bench = Bench::checkpointing();
    bench.acknowledge(0, 9, true);
    bench.acknowledge(1, 8, false);
    bench.acknowledge(2, 8, false);
    assert_eq!(bench.commands(), []);
    let mut bench = Bench::checkpointing();
    bench.acknowledge(0, 3, true);
    bench.acknowledge(1, 8, false);
    bench.acknowledge(2, 8, false);
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(8))]);
}

#[test]
fn a_checkpoint_out_of_time_is_aborted_and_tried_again_with_the_next_group() {
    let mut bench = Bench::checkpointing();
    bench.report(0, Report::EpochCut(Epoch(8)));
    bench.pass(499);
    assert_eq!(bench.commands(), []);
    bench.pass(1);
    assert_eq!(bench.commands(), [Command::AbortCheckpoint(ONE, Epoch(8))]);
    (0..3).for_each(|index| bench.acknowledge(index, 8, false));
    assert_eq!(bench.commands(), []);
    bench.report(1, Report::EpochCut(Epoch(8)));
    assert_eq!(bench.commands(), [grant(1, 9, 12, true)]);
    bench.report(2, Report::Declined(Epoch(12)));
    let twice = [Command::AbortCheckpoint(ONE, Epoch(12)), Command::Cancel(ONE)];
    assert_eq!(bench.commands()[..2], twice, "one failure is tolerated, not two");
}

#[test]
fn tasks_that_restore_have_time_as_long_as_they_get_further() {
    let mut bench = Bench::new(config());
    bench.commands();
    for _ in 0..5 {
        bench.pass(499);
        bench.report(1, Report::Restoring);
    }
    bench.pass(499);
    assert_eq!(bench.commands(), []);
    bench.pass(1);
    assert_eq!(bench.commands(), [Command::Cancel(ONE)]);
}

#[test]
fn a_second_coordinator_takes_over_and_the_first_is_fenced_at_its_next_entry() {
    let mut first = Bench::checkpointing();
    let mut second = Bench::on(config(), first.log.clone(), Owner(2));
    assert_eq!(second.commands(), [Command::Start { incarnation: Incarnation(2), from: None }]);
    first.log = second.log.clone();
    (0..3).for_each(|index| first.acknowledge(index, 8, false));
    assert_eq!(first.commands(), [Command::Fenced(ONE)]);
    assert_eq!(first.coordinator.next_deadline(), None);
}

#[test]
fn of_two_coordinators_with_one_incarnation_one_is_fenced_and_a_missed_checkpoint_is_taken_in() {
    let mut first = Bench::checkpointing();
    let stale = first.log.clone();
    (0..3).for_each(|index| first.acknowledge(index, 8, false));
    first.commands();
    let checkpoint = first.coordinator.newest_checkpoint().cloned();
    let mut second = Bench::on(config(), stale.clone(), Owner(2));
    second.log = first.log.clone();
    assert_eq!(second.commands(), [Command::Start { incarnation: Incarnation(2), from: checkpoint }]);
    let mut third = Bench::on(config(), stale, Owner(3));
    third.log = second.log.clone();
    assert_eq!(third.commands(), [Command::Fenced(Incarnation(0))]);
}

#[test]
fn an_open_answer_is_settled_by_reading_whether_the_entry_is_there_or_not() {
    for written in [false, true] {
        let mut bench = Bench::new(config());
        let Some(Command::Append(0, entry)) = bench.coordinator.poll() else { panic!("the incarnation is written") };
        if written {
            bench.log.insert(0, entry);
        }
        bench.tell(Input::Store(0, Answer::Unknown));
        assert_eq!(bench.commands(), []);
        bench.pass(5);
        assert_eq!(bench.commands(), [Command::Start { incarnation: ONE, from: None }]);
        assert_eq!(bench.log.len(), 1);
    }
}

#[test]
fn a_coordinator_with_nothing_to_write_also_learns_that_a_rival_has_taken_over() {
    let mut bench = Bench::running(config());
    bench.pass(1_000);
    assert_eq!(bench.commands(), []);
    assert_eq!(bench.coordinator.phase(), Phase::Running);
    bench.log.insert(1, Entry::Begins(Incarnation(2), Owner(2), PlanVersion(1)));
    bench.pass(1_000);
    assert_eq!(bench.commands(), [Command::Fenced(ONE)]);
}

#[test]
fn only_the_kept_number_of_checkpoints_stays() {
    let mut bench = Bench::checkpointing();
    (0..3).for_each(|index| bench.acknowledge(index, 8, false));
    bench.commands();
    bench.pass(100);
    bench.report(0, Report::EpochCut(Epoch(6)));
    bench.report(1, Report::EpochCut(Epoch(6)));
    assert_eq!(bench.commands(), [grant(1, 9, 12, true)]);
    (0..3).for_each(|index| bench.acknowledge(index, 12, false));
    let done = [Command::Forget(Epoch(8), ONE), Command::CheckpointDone(ONE, Epoch(12))];
    assert_eq!(bench.commands(), done);
}

#[test]
fn without_checkpoints_epochs_are_done_by_the_slowest_sink_and_a_job_ends_when_its_tasks_are_gone() {
    let mut bench = Bench::running(Config { checkpoint_interval: None, ..config() });
    bench.report(2, Report::EpochEnded(Epoch(1)));
    bench.report(2, Report::EpochEnded(Epoch(1)));
    assert_eq!(bench.commands(), [Command::EpochDone(ONE, Epoch(1))]);
    bench.tell(Input::Stop);
    assert_eq!(bench.commands(), [last_grant(5, 5, false)]);
    bench.all_report(&Report::Gone);
    assert_eq!(bench.commands(), [Command::Finish(ONE)]);
}

/// A job all of whose sources have ended with epoch 3.
fn ended() -> Bench {
    let mut bench = Bench::running(config());
    for index in 0..3 {
        bench.report(index, Report::SourceFinished);
        bench.acknowledge(index, 3, true);
    }
    assert_eq!(bench.commands(), [Command::CheckpointDone(ONE, Epoch(3))]);
    bench.all_report(&Report::Gone);
    assert_eq!(bench.coordinator.phase(), Phase::Ending);
    bench
}

#[test]
fn a_job_that_has_ended_says_so_in_its_log_and_is_not_started_again() {
    let mut bench = ended();
    let before = bench.log.clone();
    assert_eq!(bench.commands(), [Command::Finish(ONE)]);
    assert_eq!(bench.log.last_key_value(), Some((&2, &Entry::Ended(ONE))));
    let finish = [Command::Finish(Incarnation(0))];
    let mut again = Bench::on(config(), bench.log.clone(), Owner(2));
    assert_eq!((again.commands(), again.coordinator.phase()), (finish.to_vec(), Phase::Finished));
    let mut stale = Bench::on(config(), before, Owner(3));
    stale.log = bench.log.clone();
    assert_eq!((stale.commands(), stale.coordinator.phase()), (finish.to_vec(), Phase::Finished));
    assert_eq!(stale.log, bench.log);
}

#[test]
fn a_job_that_was_stopped_resumes_at_the_next_start() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Stop);
    (0..3).for_each(|index| bench.acknowledge(index, 5, true));
    bench.all_report(&Report::Gone);
    bench.commands();
    assert_eq!(bench.coordinator.phase(), Phase::Finished);
    let from = bench.coordinator.newest_checkpoint().cloned();
    let mut again = Bench::on(config(), bench.log, Owner(2));
    assert_eq!(again.commands(), [Command::Start { incarnation: Incarnation(2), from }]);
}

#[test]
fn a_task_that_drops_rows_lets_nothing_be_done_any_more_and_the_job_ends_without_a_last_checkpoint() {
    let mut bench = Bench::running(config());
    bench.tell(Input::Stop);
    bench.report(1, Report::Dropped);
    bench.report(1, Report::Dropped);
    let stop = [last_grant(5, 5, true), Command::NoneDone(ONE)];
    assert_eq!(bench.commands(), stop);
    bench.acknowledge(0, 5, true);
    bench.acknowledge(2, 5, true);
    bench.report(2, Report::SinkFinished);
    bench.all_report(&Report::Gone);
    assert_eq!(bench.commands(), [Command::Finish(ONE)]);
    assert_eq!(bench.log.len(), 1, "neither a checkpoint nor an end");
}

#[test]
fn a_store_that_does_not_answer_for_too_long_fails_the_job() {
    let mut bench = Bench::checkpointing();
    (0..3).for_each(|index| bench.acknowledge(index, 8, false));
    let unheard = |bench: &mut Bench| {
        let commands = std::iter::from_fn(|| bench.coordinator.poll());
        commands.filter(|command| !matches!(command, Command::Append(..) | Command::Read(_))).collect::<Vec<_>>()
    };
    assert_eq!(unheard(&mut bench), []);
    bench.pass(4_999);
    assert_eq!((unheard(&mut bench), bench.coordinator.phase()), (Vec::new(), Phase::Running));
    bench.pass(1);
    assert_eq!(unheard(&mut bench), [Command::Cancel(ONE)]);
    bench.all_report(&Report::Gone);
    assert_eq!(unheard(&mut bench), [Command::Fail(ONE, Cause::Store)]);
    let mut ending = ended();
    ending.pass(5_000);
    assert_eq!(unheard(&mut ending), [Command::Fail(ONE, Cause::Store)]);
}
