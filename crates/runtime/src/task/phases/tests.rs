use anabranch_model::StageId;
use anabranch_protocol::membership::WorkerId;

use super::*;

const MS: u64 = 1_000_000;
const EPOCH: Epoch = Epoch(8);

fn at(worker: u32) -> Process {
    Process { worker: WorkerId(worker), life: 1 }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn now(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

/// Times of a task in milliseconds: entered, snapshot taken, write begun, written.
fn passage(stage: u32, index: u32, times: [u64; 4]) -> Passage {
    let [entered_ns, taken_ns, begun_ns, written_ns] = times.map(|time| time * MS);
    let task = TaskId { stage: StageId(stage), index };
    Passage { task, epoch: EPOCH, due_ns: None, entered_ns, taken_ns, begun_ns, written_ns }
}

/// Like it, for a task that reads a source and must cut the epoch at `cut`.
fn source(index: u32, due: u64, times: [u64; 4]) -> Passage {
    Passage { due_ns: Some(due * MS), ..passage(0, index, times) }
}

/// Two sources, and two tasks after them.
fn passages() -> Vec<(u32, Passage)> {
    vec![
        (1, source(0, 100, [101, 101, 101, 103])),
        (2, source(1, 100, [120, 121, 121, 122])),
        (1, passage(1, 0, [121, 124, 160, 165])),
        (2, passage(1, 1, [121, 150, 150, 158])),
    ]
}

/// Requested at 1 s, acknowledged by all 170 ms later, and committed 10 ms after that.
fn measured(passages: &[(u32, Passage)]) -> Option<(Duration, Option<Phases>)> {
    let mut measuring = Measuring::default();
    measuring.requested(EPOCH, now(1000));
    for (worker, passage) in passages {
        measuring.passed(at(*worker), passage);
    }
    measuring.acknowledged(EPOCH, now(1170));
    measuring.committed(EPOCH, now(1180))
}

#[test]
fn phases_add_up_and_the_slowest_task_is_named_in_any_order_of_tasks_and_with_repetitions() {
    let slowest = Slowest {
        task: TaskId { stage: StageId(1), index: 1 },
        process: at(2),
        phase: TaskPhase::Alignment,
        took: ms(29),
    };
    let expected = Phases { request: ms(120), alignment: ms(30), write: ms(20), commit: ms(10), slowest };
    let mut passages = passages();
    for turn in 0..passages.len() {
        passages.rotate_left(1);
        for reversed in [false, true] {
            if reversed {
                passages.reverse();
            }
            let twice: Vec<_> = passages.iter().chain(&passages[turn..]).copied().collect();
            assert_eq!(measured(&twice), Some((ms(180), Some(expected))));
        }
    }
}

#[test]
fn what_a_task_waits_for_others_does_not_make_it_the_slowest() {
    let slowest = |changed: Passage, of: usize| {
        let mut passages = passages();
        passages[of].1 = changed;
        let (_, phases) = measured(&passages)?;
        phases.map(|phases| (phases.slowest.task.stage.0, phases.slowest.task.index, phases.slowest.phase))
    };
    // The boundary came late, and the recorder had the snapshots of others to write.
    assert_eq!(slowest(passage(1, 0, [149, 150, 160, 161]), 2), Some((1, 1, TaskPhase::Alignment)));
    assert_eq!(slowest(passage(1, 0, [121, 124, 130, 165]), 2), Some((1, 0, TaskPhase::Write)));
    assert_eq!(slowest(source(1, 80, [120, 121, 121, 122]), 1), Some((0, 1, TaskPhase::Request)));
    assert_eq!(slowest(source(1, 119, [120, 150, 150, 152]), 1), Some((0, 1, TaskPhase::Alignment)));
}

#[test]
fn a_task_that_has_finished_before_measures_nothing_and_without_sources_nothing_is_divided() {
    let all = passages();
    let without_first: Vec<_> = all[1..].to_vec();
    let of = |passages: &[_]| measured(passages).and_then(|(_, phases)| phases);
    assert_eq!(of(&without_first), of(&all), "the other source was later");
    assert_eq!(of(&all[2..]), None, "no source");
    assert_eq!(measured(&[]), Some((ms(180), None)));
}

#[test]
fn times_that_contradict_each_other_give_no_phase_that_is_longer_than_the_checkpoint() {
    // A request that took long to arrive, and a clock that goes faster.
    let late = [(1, source(0, 0, [500, 400, 400, 300])), (1, passage(1, 0, [900, 800, 0, 0]))];
    let (took, phases) = measured(&late).expect("it was requested");
    let Phases { request, alignment, write, commit, slowest } = phases.expect("a source has measured");
    assert_eq!((request, alignment, write, commit), (ms(170), ms(0), ms(0), ms(10)));
    assert_eq!(request + alignment + write + commit, took);
    assert_eq!((slowest.phase, slowest.took), (TaskPhase::Request, ms(500)));
}

#[test]
fn tasks_that_start_again_leave_nothing_for_the_next_checkpoint() {
    let mut measuring = Measuring::default();
    measuring.requested(EPOCH, now(0));
    measuring.passed(at(1), &source(0, 0, [500, 500, 500, 500]));
    measuring.clear();
    assert_eq!(measuring.committed(EPOCH, now(600)), None);
    measuring.requested(EPOCH, now(1000));
    measuring.passed(at(1), &source(0, 0, [5, 5, 5, 6]));
    measuring.acknowledged(EPOCH, now(1010));
    let (took, phases) = measuring.committed(EPOCH, now(1012)).expect("requested");
    assert_eq!((took, phases.map(|phases| phases.request)), (ms(12), Some(ms(5))));
}

#[test]
fn an_abandoned_checkpoint_is_not_measured_any_more_and_a_committed_one_ends_those_before_it() {
    let mut measuring = Measuring::default();
    let [first, second, third] = [Epoch(6), Epoch(7), EPOCH];
    measuring.requested(first, now(0));
    assert_eq!(measuring.abandoned(first, now(30)), Some(ms(30)));
    measuring.passed(at(1), &Passage { epoch: first, ..source(0, 0, [40, 40, 40, 40]) });
    measuring.acknowledged(first, now(50));
    assert_eq!(measuring.committed(first, now(60)), None);
    assert_eq!(measuring.abandoned(first, now(60)), None);
    measuring.requested(second, now(100));
    measuring.requested(third, now(110));
    measuring.passed(at(1), &source(0, 0, [4, 4, 4, 5]));
    measuring.acknowledged(third, now(120));
    let (took, phases) = measuring.committed(third, now(125)).expect("requested");
    assert_eq!((took, phases.map(|phases| phases.write)), (ms(15), Some(ms(6))));
    assert_eq!(measuring.committed(second, now(130)), None, "a later one covers it");
}

#[test]
fn a_source_that_cuts_before_its_time_is_not_late_and_is_due_with_the_request_at_the_earliest() {
    let task = TaskId { stage: StageId(0), index: 0 };
    let written = |due| {
        let boundary = Boundary { epoch: EPOCH, due: Some(due), entered: now(30) };
        let passing = Passing { requested: now(10), boundary, taken: now(32) };
        passing.written(task, now(40), now(45))
    };
    let times = [20, 22, 30, 35];
    assert_eq!(written(now(90)), source(0, 20, times));
    assert_eq!(written(now(25)), source(0, 15, times));
    assert_eq!(written(Nanos(0)), source(0, 0, times));
}
