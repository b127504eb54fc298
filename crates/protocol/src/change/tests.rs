//! Single cases. `explore` has small instances in all interleavings.

mod explore;

use super::*;
use crate::membership::WorkerId;

fn process(worker: u32) -> Process {
    Process { worker: WorkerId(worker), life: 1 }
}

const LITTLE: u64 = 100;
const FIRST: Ticket = Ticket(1);
const NEXT: PlanVersion = PlanVersion(2);
const NOT_CHANGED: Answer = Answer::NotChanged { undoes: false };

/// Worker 1 has all tasks, and worker 2 will have one of them.
fn next(moved_bytes: u64) -> Next {
    Next {
        moved_bytes,
        loading: [process(2)].into(),
        present: [process(1)].into(),
        granted: Epoch(4),
        checkpoint_bytes: Some(LITTLE),
        little_bytes: LITTLE,
    }
}

struct Bench(Changes);

impl Bench {
    /// The first request is checked.
    fn checking() -> Bench {
        let mut bench = Bench(Changes::new(PlanVersion(1)));
        let request = Request { ticket: FIRST, dry_run: false };
        assert_eq!(bench.gives(Job::Runs, Input::Requested(request)), [Command::Check(FIRST)]);
        bench
    }

    /// Worker 2 is to load state.
    fn preparing() -> Bench {
        let mut bench = Bench::checking();
        let commands = bench.gives(Job::Runs, Input::Checked(Checked::Next(next(1000))));
        let told = [process(1), process(2)].into();
        assert_eq!(commands, [Command::Prepare(FIRST, told), Command::Checkpoint]);
        bench
    }

    fn gives(&mut self, job: Job, input: Input) -> Vec<Command> {
        self.0.handle(job, input);
        std::iter::from_fn(|| self.0.poll()).collect()
    }

    /// The checkpoint of an epoch is committed, and worker 2 loads these bytes of it.
    fn round(&mut self, epoch: u64, bytes: u64) -> Vec<Command> {
        let commands = self.gives(Job::Runs, Input::Committed(Epoch(epoch)));
        assert_eq!(commands, [Command::Load(FIRST, [process(2)].into())]);
        self.gives(Job::Runs, Input::Loads(bytes));
        self.loaded(Job::Runs, true)
    }

    fn loaded(&mut self, job: Job, succeeded: bool) -> Vec<Command> {
        self.gives(job, Input::Loaded { process: process(2), version: NEXT, succeeded })
    }
}

fn given_up() -> [Command; 2] {
    let told = [process(1), process(2)].into();
    [Command::GiveUp(told), Command::Answer(FIRST, NOT_CHANGED)]
}

#[test]
fn rounds_go_on_while_each_is_less_than_half_of_the_one_before_and_more_than_little() {
    for (rounds, switches) in [
        (vec![LITTLE], true),
        (vec![LITTLE + 1], false),
        (vec![1000, 499], false),
        (vec![1000, 500], true),
        (vec![1000, 499, 99], true),
        ((0..8).map(|round| 1_000_000 >> (2 * round)).collect(), true),
        ((0..7).map(|round| 10_000_000 >> (2 * round)).collect(), false),
    ] {
        let mut bench = Bench::preparing();
        let copied = Copied { rounds: rounds.len() as u32, bytes: rounds.iter().sum() };
        for (number, bytes) in rounds.iter().enumerate() {
            let commands = bench.round(5 + number as u64, *bytes);
            let last = number + 1 == rounds.len();
            let next = if last && switches { Command::Switch(FIRST, copied) } else { Command::Checkpoint };
            assert_eq!(commands, [next], "round {number} of {rounds:?}");
        }
        if switches {
            bench.gives(Job::Waits, Input::Begins(NEXT));
            let answer = Command::Answer(FIRST, Answer::Changed(copied));
            let commands = bench.gives(Job::Runs, Input::Settled { version: NEXT, changed: true });
            assert_eq!(commands, [answer]);
        }
    }
}

#[test]
fn a_round_begins_with_a_checkpoint_that_was_granted_since() {
    let mut bench = Bench::preparing();
    assert_eq!(bench.gives(Job::Runs, Input::Committed(Epoch(4))), [], "it was granted before");
    assert_eq!(bench.gives(Job::Runs, Input::Committed(Epoch(5))).len(), 1);
    assert_eq!(bench.gives(Job::Runs, Input::Committed(Epoch(6))), [], "the workers are loading");
}

#[test]
fn a_change_that_moves_little_switches_at_once_and_behind_a_checkpoint_if_the_last_one_was_large() {
    let small = next(LITTLE);
    let large = Next { checkpoint_bytes: Some(LITTLE + 1), ..small.clone() };
    let unknown = Next { checkpoint_bytes: None, ..small.clone() };
    let before = [Command::AddOnly, Command::Checkpoint];
    for (next, before) in [(small, &before[..0]), (large, &before), (unknown, &before)] {
        let mut bench = Bench::checking();
        let commands = bench.gives(Job::Runs, Input::Checked(Checked::Next(next)));
        assert_eq!(commands, [before, &[Command::Switch(FIRST, Copied::default())]].concat());
    }
}

#[test]
fn what_is_prepared_is_given_up_when_the_job_stops_or_restarts_or_a_worker_that_prepares_fails() {
    let failed = Input::Loaded { process: process(2), version: NEXT, succeeded: false };
    for (job, input) in [
        (Job::Stops, Input::Tick),
        (Job::Waits, Input::Begins(PlanVersion(1))),
        (Job::Runs, failed),
        (Job::Runs, Input::Lost(process(1))),
        (Job::Runs, Input::Lost(process(2))),
    ] {
        let mut bench = Bench::preparing();
        assert_eq!(bench.gives(job, input), given_up());
        assert_eq!(bench.0.changing(), None);
    }
    let mut bench = Bench::preparing();
    assert_eq!(bench.gives(Job::Runs, Input::Lost(process(3))), [], "it prepares nothing");
    let former = Input::Loaded { process: process(2), version: PlanVersion(1), succeeded: false };
    assert_eq!(bench.gives(Job::Runs, former), [], "of a change that was given up");
    bench.gives(Job::Runs, Input::Committed(Epoch(5)));
    assert_eq!(bench.loaded(Job::Waits, true), [], "the job is about to restart");
}

#[test]
fn a_change_is_aborted_until_the_tasks_switch() {
    let mut bench = Bench::preparing();
    let [give_up, answer] = given_up();
    assert_eq!(bench.gives(Job::Runs, Input::Abort), [give_up, answer.clone(), Command::Aborted(Ok(()))]);
    assert_eq!(bench.gives(Job::Runs, Input::Abort), [Command::Aborted(Err(NotAborted::NoChange))]);
    let waits = Request { ticket: FIRST, dry_run: false };
    assert_eq!(bench.gives(Job::Waits, Input::Requested(waits)), []);
    assert_eq!(bench.gives(Job::Waits, Input::Abort), [answer, Command::Aborted(Ok(()))]);
    let mut bench = Bench::checking();
    bench.gives(Job::Runs, Input::Checked(Checked::Next(next(0))));
    assert_eq!(bench.gives(Job::Runs, Input::Abort), [Command::Aborted(Err(NotAborted::Switches))]);
}

#[test]
fn the_next_change_waits_until_the_version_before_has_begun_again_and_versions_are_used_once() {
    let mut bench = Bench::checking();
    bench.gives(Job::Runs, Input::Checked(Checked::Next(next(0))));
    assert_eq!(bench.gives(Job::Waits, Input::Begins(NEXT)), []);
    assert!(bench.0.has_begun(NEXT));
    let answer = Command::Answer(FIRST, Answer::NotChanged { undoes: true });
    assert_eq!(bench.gives(Job::Waits, Input::Settled { version: NEXT, changed: false }), [answer]);
    let second = Request { ticket: Ticket(2), dry_run: true };
    assert_eq!(bench.gives(Job::Waits, Input::Requested(second)), []);
    assert_eq!(bench.0.changing(), Some(Changing::Waiting));
    assert_eq!(bench.gives(Job::Waits, Input::Begins(PlanVersion(3))), [Command::Check(Ticket(2))]);
    assert_eq!(bench.0.next_version(), PlanVersion(4));
}

#[test]
fn requests_are_checked_in_their_order_and_those_that_only_ask_do_not_wait_for_the_tasks() {
    let mut bench = Bench(Changes::new(PlanVersion(1)));
    let request = |ticket, dry_run| Input::Requested(Request { ticket: Ticket(ticket), dry_run });
    assert_eq!(bench.gives(Job::Waits, request(1, true)), [Command::Check(Ticket(1))]);
    assert_eq!(bench.gives(Job::Waits, request(2, false)), []);
    assert_eq!(bench.gives(Job::Waits, Input::Checked(Checked::Answered)), []);
    assert_eq!(bench.gives(Job::Waits, request(3, true)), [], "it is behind one that waits");
    assert_eq!(bench.gives(Job::Stops, Input::Tick), [Command::Check(Ticket(2))], "a job that stops refuses it");
    assert_eq!(bench.gives(Job::Stops, Input::Checked(Checked::Answered)), [Command::Check(Ticket(3))]);
}
