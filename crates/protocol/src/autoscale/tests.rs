//! Single cases, and properties of random jobs whose true costs are known.

mod uniform;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Nanos, Rng, StageId};

use self::world::{SECONDS, World};
use super::*;

const JOBS: u64 = 2_000;

fn settings() -> Settings {
    Settings { quiet: Duration::from_secs_f64(2.0 * SECONDS), ..Settings::default() }
}

fn scaler(world: &World) -> Autoscaler {
    Autoscaler::new(world.graph.clone(), settings()).expect("a graph")
}

fn change(tasks: &[(u32, u32)]) -> Action {
    Action::Change(tasks.iter().map(|(stage, tasks)| (StageId(*stage), *tasks)).collect())
}

fn why(decision: &Decision, stage: usize) -> &Why {
    &decision.findings[stage].why
}

#[test]
fn random_jobs_have_what_they_need_after_at_most_three_changes() {
    let mut steps = BTreeMap::new();
    for seed in 0..JOBS {
        let mut world = World::random(seed);
        let changes = world.run(&mut scaler(&world), 60);
        *steps.entry(changes.len()).or_insert(0) += 1;
        assert!(changes.len() <= 3, "seed {seed}: {changes:?}");
        assert!(changes.iter().all(|(interval, _)| *interval < 30), "seed {seed}: {changes:?}");
        for (stage, need) in world.needs(settings().utilization) {
            let (tasks, need) = (f64::from(world.parallelism[&stage]), (need - 1e-6).ceil().max(1.0));
            assert!(need <= tasks * 1.1 && need >= tasks * 0.9, "seed {seed}: {stage:?} needs {need} and has {tasks}");
        }
    }
    // Without an overhead one change is enough, so most jobs have one.
    assert!(steps[&1] * 2 > JOBS as usize, "{steps:?}");
}

/// Whatever is measured, no stage returns to a number of tasks that was too low for the same load.
#[test]
fn no_job_oscillates_at_a_constant_load() {
    let mut reversals = 0;
    for seed in 0..JOBS {
        let mut world = World::random(seed);
        world.noise = (0.25, 0.02);
        world.overhead *= 10.0;
        let first = world.parallelism.clone();
        let changes = world.run(&mut scaler(&world), 150);
        for stage in world.graph.stages.iter().map(|stage| stage.id) {
            let (mut present, mut too_few) = (first[&stage], 0);
            for tasks in changes.iter().filter_map(|(_, change)| change.get(&stage).copied()) {
                assert!(tasks > too_few, "seed {seed}: {stage:?} returns to {tasks} tasks: {changes:?}");
                if tasks > present {
                    too_few = present;
                } else {
                    reversals += usize::from(too_few > 0);
                }
                present = tasks;
            }
        }
    }
    // The property says something only if some stage shrinks after it has grown.
    assert!(reversals > 0);
}

#[test]
fn a_higher_load_never_needs_fewer_tasks() {
    for seed in 0..JOBS {
        let world = World::random(seed);
        let mut rng = Rng::new(seed);
        let mut more = world.clone();
        more.arrivals.values_mut().for_each(|arrival| *arrival *= 1.0 + rng.below(300) as f64 / 100.0);
        let wanted = |mut world: World| -> Vec<Option<u32>> {
            let mut scaler = scaler(&world);
            scaler.observe(&world.interval());
            scaler.observe(&world.interval()).findings.iter().map(|finding| finding.wanted).collect()
        };
        for (less, more) in wanted(world).into_iter().zip(wanted(more)) {
            assert!(less.zip(more).is_none_or(|(less, more)| less <= more), "seed {seed}: {less:?}, then {more:?}");
        }
    }
}

#[test]
fn all_stages_get_their_need_at_once_though_the_first_one_slows_the_others() {
    // 1.6 million rows per second at 1 µs each and 80 %: two tasks; four times the rows behind a selectivity
    // of 4.
    let mut world = World::chain(3, 1_600_000.0);
    world.selectivity.insert(StageId(1), 4.0);
    let changes = world.run(&mut scaler(&world), 20);
    let expected: BTreeMap<StageId, u32> = [(StageId(0), 2), (StageId(1), 2), (StageId(2), 8)].into();
    assert_eq!(changes, [(3, expected)]);
}

#[test]
fn a_need_must_last() {
    let mut world = World::chain(1, 700_000.0);
    let mut scaler = scaler(&world);
    for _ in 0..3 {
        assert_eq!(*why(&scaler.observe(&world.interval()), 0), Why::Fits);
    }
    for arrival in [3_000_000.0, 3_000_000.0, 700_000.0, 3_000_000.0, 2_900_000.0] {
        world.arrivals.insert(StageId(0), arrival);
        assert_eq!(scaler.observe(&world.interval()).action, Action::Stay(Stay::NoNeed));
    }
    world.arrivals.insert(StageId(0), 2_000_000.0);
    let decision = scaler.observe(&world.interval());
    // The largest need of the three intervals.
    assert_eq!((decision.action, decision.findings[0].wanted), (change(&[(0, 4)]), Some(3)));
}

#[test]
fn a_small_difference_changes_nothing() {
    let mut world = World::chain(1, 8_000_000.0);
    for (tasks, acts) in [(12, true), (11, false), (10, false), (9, true)] {
        world.parallelism.insert(StageId(0), tasks);
        let changes = world.clone().run(&mut scaler(&world), 4);
        assert_eq!(!changes.is_empty(), acts, "{tasks} tasks, 10 are needed: {changes:?}");
    }
}

#[test]
fn nothing_changes_while_it_is_quiet_or_tasks_restore_state() {
    let mut world = World::chain(1, 1_600_000.0);
    let mut scaler = scaler(&world);
    world.run(&mut scaler, 4);
    assert_eq!(world.parallelism[&StageId(0)], 2);
    world.arrivals.insert(StageId(0), 8_000_000.0);
    let mut warming = world.interval();
    warming.warming = true;
    assert_eq!(scaler.observe(&warming).action, Action::Stay(Stay::Warming));
    // The change was carried out in the interval that ended ten seconds ago, and quiet lasts twenty from
    // there.
    let left = Duration::from_secs(10);
    assert_eq!(scaler.observe(&world.interval()).action, Action::Stay(Stay::Quiet { left }));
    assert_eq!(world.run(&mut scaler, 3), [(2, [(StageId(0), 10)].into())]);
}

#[test]
fn a_change_by_someone_else_begins_a_quiet_time() {
    let mut world = World::chain(1, 1_600_000.0);
    world.parallelism.insert(StageId(0), 2);
    let mut scaler = scaler(&world);
    world.run(&mut scaler, 4);
    world.parallelism.insert(StageId(0), 20);
    let decision = scaler.observe(&world.interval());
    assert_eq!(decision.action, Action::Stay(Stay::Quiet { left: Duration::from_secs(20) }));
}

#[test]
fn an_incomplete_interval_decides_nothing_and_begins_the_count_anew() {
    let mut world = World::chain(2, 1_600_000.0);
    let mut scaler = scaler(&world);
    world.run(&mut scaler, 2);
    let mut sample = world.interval();
    sample.stages.get_mut(&StageId(1)).expect("stage 1").tasks.clear();
    let decision = scaler.observe(&sample);
    assert_eq!(decision.action, Action::Stay(Stay::Incomplete { stage: StageId(1) }));
    assert!(decision.findings.is_empty());
    let mut sample = world.interval();
    sample.stages.remove(&StageId(0));
    assert_eq!(scaler.observe(&sample).action, Action::Stay(Stay::Incomplete { stage: StageId(0) }));
    let mut sample = world.interval();
    sample.stages.insert(StageId(7), sample.stages[&StageId(0)].clone());
    assert_eq!(scaler.observe(&sample).action, Action::Stay(Stay::Incomplete { stage: StageId(7) }));
    let expected = [(StageId(0), 2), (StageId(1), 2)].into();
    // Three intervals in order, and the lag before the first of them.
    assert_eq!(world.run(&mut scaler, 4), [(3, expected)]);
}

#[test]
fn an_interval_that_was_missed_begins_the_count_anew() {
    let mut world = World::chain(1, 1_600_000.0);
    let mut scaler = scaler(&world);
    world.run(&mut scaler, 3);
    let decision = {
        let _missed = (world.interval(), world.interval());
        scaler.observe(&world.interval())
    };
    // Nobody knows by how much the lag has grown in this interval.
    assert_eq!(decision.action, Action::Stay(Stay::UnknownArrival { stage: StageId(0) }));
    assert_eq!(world.run(&mut scaler, 3), [(2, [(StageId(0), 2)].into())]);
    // The intervals after it count also if no lag is needed.
    let mut world = World::chain(1, 500_000.0);
    world.tells_lag = false;
    world.parallelism.insert(StageId(0), 8);
    let mut scaler = self::scaler(&world);
    world.run(&mut scaler, 2);
    let _missed = (world.interval(), world.interval());
    assert_eq!(world.run(&mut scaler, 3), [(2, [(StageId(0), 1)].into())]);
}

#[test]
fn an_old_sample_is_ignored() {
    let mut world = World::chain(1, 1_600_000.0);
    let mut scaler = scaler(&world);
    world.run(&mut scaler, 2);
    let sample = world.interval();
    scaler.observe(&sample);
    assert_eq!(scaler.observe(&sample).action, Action::Stay(Stay::OutOfOrder));
    assert_eq!(scaler.observe(&Sample { at: Nanos(1), ..sample }).action, Action::Stay(Stay::OutOfOrder));
}

#[test]
fn a_source_that_cannot_keep_up_must_tell_its_lag() {
    let decide = |arrival: f64, cost_ns: f64| {
        let mut world = World::chain(2, arrival);
        world.tells_lag = false;
        world.cost_ns.insert(StageId(0), cost_ns);
        scaler(&world).observe(&world.interval())
    };
    let unknown = Action::Stay(Stay::UnknownArrival { stage: StageId(0) });
    assert_eq!(decide(1_600_000.0, 1_000.0).action, unknown);
    // A source that is busy all the time may lack rows without any back-pressure.
    assert_eq!(decide(500_000.0, 1_990.0).action, unknown);
    // A source that reads all that comes shows how much that is.
    let decision = decide(500_000.0, 1_000.0);
    assert_eq!((decision.findings[0].demand, decision.findings[0].wanted), (Some(500_000.0), Some(1)));
}

#[test]
fn a_lag_that_shrinks_does_not_count_as_arrival() {
    let mut world = World::chain(1, 1_600_000.0);
    let mut scaler = scaler(&world);
    world.run(&mut scaler, 4);
    let rows = |sample: &Sample| sample.stages[&StageId(0)].tasks.iter().map(|task| task.rows_in).sum::<u64>();
    let sample = world.interval();
    assert!(rows(&sample) > 16_000_000, "the job works off what it has not read");
    (0..3).for_each(|_| drop(scaler.observe(&world.interval())));
    let decision = scaler.observe(&world.interval());
    assert_eq!(decision.findings[0].demand, Some(1_600_000.0));
}

#[test]
fn no_stage_has_more_tasks_than_it_may() {
    let mut world = World::chain(2, 80_000_000.0);
    world.graph.stages[0].max = 6;
    let settings = Settings { key_groups: 16, ..settings() };
    let mut scaler = Autoscaler::new(world.graph.clone(), settings).expect("a graph");
    let changes = world.run(&mut scaler, 20);
    assert_eq!(changes, [(3, [(StageId(0), 6), (StageId(1), 16)].into())]);
    let decision = scaler.observe(&world.interval());
    assert_eq!((why(&decision, 0), decision.findings[0].wanted), (&Why::AtMax, Some(100)));
    // Bounds that were narrowed are kept at once.
    world.graph.stages[1].max = 3;
    let mut scaler = Autoscaler::new(world.graph.clone(), Settings::default()).expect("a graph");
    scaler.observe(&world.interval());
    let decision = scaler.observe(&world.interval());
    assert_eq!((&decision.action, why(&decision, 1)), (&change(&[(1, 3)]), &Why::OutOfBounds));
}

#[test]
fn stages_with_a_forward_exchange_keep_equal_numbers() {
    let mut world = World::chain(3, 1_600_000.0);
    world.graph.edges[1].forward = true;
    world.cost_ns.insert(StageId(2), 5_000.0);
    world.graph.stages[1].max = 9;
    let expected = [(StageId(0), 2), (StageId(1), 9), (StageId(2), 9)].into();
    assert_eq!(world.run(&mut scaler(&world), 20), [(3, expected)]);
}

#[test]
fn an_idle_job_shrinks_to_its_least() {
    let mut world = World::chain(2, 0.0);
    world.parallelism = [(StageId(0), 8), (StageId(1), 8)].into();
    world.graph.stages[1].min = 2;
    assert_eq!(world.run(&mut scaler(&world), 20), [(2, [(StageId(0), 1), (StageId(1), 2)].into())]);
}

#[test]
fn a_stage_without_rows_keeps_its_tasks() {
    let mut world = World::chain(3, 500_000.0);
    world.parallelism.insert(StageId(2), 8);
    world.selectivity.insert(StageId(0), 0.0);
    let mut scaler = scaler(&world);
    assert!(world.clone().run(&mut scaler.clone(), 3).iter().all(|(_, change)| change.contains_key(&StageId(2))));
    // Rows leave stage 0, but have not come to stage 1 yet.
    let mut late = |world: &mut World| {
        let mut sample = world.interval();
        sample.stages.get_mut(&StageId(0)).expect("stage 0").tasks[0].rows_out = 5_000_000;
        scaler.observe(&sample)
    };
    let decisions: Vec<Decision> = (0..5).map(|_| late(&mut world)).collect();
    assert!(decisions.iter().all(|decision| decision.action == Action::Stay(Stay::NoNeed)));
    assert_eq!((why(&decisions[4], 1), why(&decisions[4], 2)), (&Why::Unknown, &Why::Unknown));
    assert_eq!((decisions[4].findings[1].demand, decisions[4].findings[2].demand), (Some(500_000.0), None));
}

#[test]
fn a_number_that_was_too_low_returns_when_the_load_has_fallen() {
    let mut world = World::chain(1, 4_000_000.0);
    world.parallelism.insert(StageId(0), 4);
    let mut scaler = scaler(&world);
    assert_eq!(world.run(&mut scaler, 10), [(3, [(StageId(0), 5)].into())]);
    // The same rows are suddenly much cheaper, perhaps for a while only.
    world.cost_ns.insert(StageId(0), 500.0);
    assert_eq!(world.run(&mut scaler, 10), []);
    assert_eq!(*why(&scaler.observe(&world.interval()), 0), Why::TooFewBefore { tasks: 4 });
    world.arrivals.insert(StageId(0), 3_000_000.0);
    assert_eq!(world.run(&mut scaler, 10), [(2, [(StageId(0), 2)].into())]);
}

#[test]
fn a_hot_task_is_named() {
    let mut world = World::chain(1, 400_000.0);
    world.parallelism.insert(StageId(0), 4);
    let mut sample = world.interval();
    let tasks = &mut sample.stages.get_mut(&StageId(0)).expect("stage 0").tasks;
    for (number, task) in tasks.iter_mut().enumerate() {
        let rows = if number == 2 { 2_500_000 } else { 500_000 };
        (task.rows_in, task.busy_ns) = (rows, rows * 1_000);
    }
    let decision = scaler(&world).observe(&sample);
    let hot = decision.findings[0].hot.expect("hot");
    assert_eq!((hot.task, hot.share, hot.busy), (2, 0.625, 0.25));
    assert!(decision.to_string().contains("task 2 has 62 % of the rows"), "{decision}");
    assert_eq!(scaler(&world).observe(&world.interval()).findings[0].hot, None);
}

#[test]
fn recorded_samples_are_rehearsed() {
    let mut world = World::chain(2, 1_600_000.0);
    let graph = world.graph.clone();
    let record = (0..8).map(|_| Observation { graph: graph.clone(), sample: world.interval() });
    let record: Vec<Observation> = record.collect();
    let json = serde_json::to_string(&record).expect("to JSON");
    let record: Vec<Observation> = serde_json::from_str(&json).expect("from JSON");
    let decisions = rehearse(&settings(), &record).expect("a graph");
    let changes: Vec<usize> = (0..8).filter(|number| decisions[*number].action == change(&[(0, 2), (1, 2)])).collect();
    // Nobody carries the first one out, so it comes again after the quiet time.
    assert_eq!(changes, [3, 7]);
    let text = decisions[3].to_string();
    assert!(text.starts_with("stage 0: 2 tasks, stage 1: 2 tasks\n"), "{text}");
    assert!(text.contains("1600000 rows/s to process, 1000000 rows/s per task; needs 2: grows"), "{text}");
    let back: Vec<Decision> = serde_json::from_str(&serde_json::to_string(&decisions).expect("to JSON")).expect("back");
    assert_eq!(back, decisions);
}

#[test]
fn settings_and_graphs_that_make_no_sense_are_refused() {
    let graph = World::chain(2, 1.0).graph;
    for wrong in [
        Settings { utilization: 0.0, ..Settings::default() },
        Settings { utilization: f64::NAN, ..Settings::default() },
        Settings { utilization: 0.95, ..Settings::default() },
        Settings { threshold: -0.1, ..Settings::default() },
        Settings { intervals: 0, ..Settings::default() },
        Settings { skew: 0.5, ..Settings::default() },
        Settings { key_groups: 0, ..Settings::default() },
        Settings { tasks_min: 0, ..Settings::default() },
        Settings { tasks_min: 3, tasks_max: 2, ..Settings::default() },
    ] {
        let error = Autoscaler::new(graph.clone(), wrong.clone()).expect_err("refused");
        assert!(error.help().is_some(), "{wrong:?}: {error}");
    }
    let broken = |edit: fn(&mut Graph)| {
        let mut graph = graph.clone();
        edit(&mut graph);
        Autoscaler::new(graph, Settings::default()).expect_err("refused").to_string()
    };
    assert!(broken(|graph| graph.stages[1].min = 101).contains("at least 101 and at most 100 tasks"));
    assert!(broken(|graph| graph.edges[0].to = StageId(9)).contains("does not have"));
    assert!(broken(|graph| graph.edges[0].to = StageId(0)).contains("comes before it"));
    assert!(broken(|graph| graph.stages.reverse()).contains("not in order"));
}
