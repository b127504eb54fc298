//! Jobs with one number of tasks for all stages that may have it.

use super::*;

fn uniform(stages: u32, arrival: f64) -> World {
    let mut world = World::chain(stages, arrival);
    world.graph.uniform = true;
    world
}

#[test]
fn the_stage_that_needs_most_decides_for_all() {
    let mut world = uniform(3, 1_600_000.0);
    world.selectivity.insert(StageId(1), 4.0);
    let all = |tasks: u32| [(StageId(0), tasks), (StageId(1), tasks), (StageId(2), tasks)].into();
    assert_eq!(world.run(&mut scaler(&world), 20), [(3, all(8))]);
    let mut scaler = scaler(&world);
    scaler.observe(&world.interval());
    let decision = scaler.observe(&world.interval());
    let wanted: Vec<Option<u32>> = decision.findings.iter().map(|finding| finding.wanted).collect();
    assert_eq!(wanted, [Some(2), Some(2), Some(8)], "each need is shown");
    assert_eq!([why(&decision, 0), why(&decision, 2)], [&Why::Follows, &Why::Fits]);
    world.arrivals.insert(StageId(0), 400_000.0);
    assert_eq!(world.run(&mut scaler, 20), [(2, all(2))]);
}

#[test]
fn a_stage_that_may_not_have_so_many_keeps_as_many_as_it_may() {
    let mut world = uniform(2, 1_600_000.0);
    world.graph.stages[0].max = 3;
    world.cost_ns.insert(StageId(1), 5_000.0);
    let expected = [(StageId(0), 3), (StageId(1), 10)].into();
    assert_eq!(world.run(&mut scaler(&world), 20), [(3, expected)]);
    // What it lacks does not give the others more.
    let mut world = uniform(2, 8_000_000.0);
    world.graph.stages[0].max = 2;
    world.cost_ns.insert(StageId(1), 100.0);
    let expected = [(StageId(0), 2), (StageId(1), 2)].into();
    assert_eq!(world.run(&mut scaler(&world), 20), [(3, expected)]);
}

#[test]
fn a_stage_with_a_number_of_its_own_keeps_it_and_decides_for_no_other() {
    let mut world = uniform(3, 1_600_000.0);
    (world.graph.stages[1].min, world.graph.stages[1].max) = (5, 5);
    world.parallelism.insert(StageId(1), 5);
    world.cost_ns.insert(StageId(1), 2_500.0);
    let mut scaler = scaler(&world);
    let expected = [(StageId(0), 2), (StageId(2), 2)].into();
    assert_eq!(world.run(&mut scaler, 20), [(3, expected)]);
    assert_eq!(*why(&scaler.observe(&world.interval()), 1), Why::Fits);
}

#[test]
fn another_plan_begins_a_quiet_time_and_what_was_too_few_is_known_further() {
    for forgets in [false, true] {
        let mut world = uniform(1, 4_000_000.0);
        world.parallelism.insert(StageId(0), 4);
        let mut scaler = scaler(&world);
        assert_eq!(world.run(&mut scaler, 10), [(3, [(StageId(0), 5)].into())]);
        world.cost_ns.insert(StageId(0), 500.0);
        let sample = world.interval();
        scaler.go_on(world.graph.clone(), sample.at, forgets).expect("a graph");
        assert!(matches!(scaler.observe(&sample).action, Action::Stay(Stay::Quiet { .. })));
        let changes = world.run(&mut scaler, 10);
        match forgets {
            false => assert_eq!(changes, []),
            true => assert_eq!(changes.last().map(|(_, change)| change[&StageId(0)]), Some(3)),
        }
    }
}

#[test]
fn the_bounds_of_the_job_hold_for_every_stage_that_may_have_so_many() {
    let mut world = uniform(2, 10_000.0);
    world.graph.stages[0].max = 2;
    let bounded = |tasks_min, tasks_max| {
        let settings = Settings { tasks_min, tasks_max, ..settings() };
        Autoscaler::new(world.graph.clone(), settings).expect("a graph")
    };
    let (mut least, mut most) = (bounded(4, 8), bounded(1, 8));
    assert_eq!(world.clone().run(&mut least, 10), [(0, [(StageId(0), 2), (StageId(1), 4)].into())]);
    world.arrivals.insert(StageId(0), 80_000_000.0);
    world.cost_ns.insert(StageId(0), 10.0);
    assert_eq!(world.run(&mut most, 10), [(3, [(StageId(0), 2), (StageId(1), 8)].into())]);
}
