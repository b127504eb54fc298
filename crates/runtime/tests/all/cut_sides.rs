//! A job that stops while a static table is still being read.

use std::sync::Arc;

use crate::support::{Tables, plan, schema};
use anabranch_dataflow::{
    Exchange, ExchangeKind, Expr, JobOptions, JoinKind, OnMalformed, OperatorSpec, Plan, Port, Stage, StaticJoinSpec,
};
use anabranch_model::{Clock, Envelope, ManualClock, MarkerKind, StageId};
use anabranch_operators::Connectors;
use anabranch_runtime::stepped::{Parts, SteppedJob};

/// An announcement that it is idle would let event time advance at its receivers: windows would fire without
/// its rows.
#[test]
fn a_task_whose_static_side_is_cut_short_only_passes_the_stop_on() {
    let two_stages = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), OnMalformed::Fail);
    let [read, write] = &two_stages.stages[..] else { panic!("two stages") };
    let join = StaticJoinSpec {
        kind: JoinKind::LeftSemi,
        probe_keys: vec![Expr::Column(1)],
        build_keys: vec![Expr::Column(1)],
        filter: None,
        probe_schema: schema(),
        build_schema: schema(),
        output: vec![0, 1],
    };
    let mut side = read.clone();
    side.source.as_mut().unwrap().connector.connector = "side".into();
    let joined = Stage { id: StageId(1), operators: vec![OperatorSpec::StaticJoin(join)], ..read.clone() };
    let written = Stage { id: StageId(2), ..write.clone() };
    let exchange = |from, to, port, kind| Exchange { from: StageId(from), to: StageId(to), port, kind };
    let exchanges =
        vec![exchange(0, 1, Port::Side(0), ExchangeKind::Broadcast), exchange(1, 2, Port::Main, ExchangeKind::Forward)];
    let stages = vec![side, joined, written];
    let plan = Plan::new(two_stages.key_groups, two_stages.options.clone(), stages, exchanges);

    let clock = Arc::new(ManualClock::default());
    let shared: Arc<dyn Clock> = clock.clone();
    let mut connectors = Connectors::default();
    // Neither table ends.
    connectors.register("log", Arc::new(Tables::new(1, None)));
    connectors.register("side", Arc::new(Tables::new(2, None)));
    let mut taken = Vec::new();
    let workers = None;
    let parts =
        Parts { plan: &plan, connectors: &connectors, clock: &shared, checkpointing: None, origin: None, workers };
    let mut job = SteppedJob::start(parts).unwrap().unwrap();
    for turn in 0..1_000 {
        if turn == 20 {
            job.handle().stop();
        }
        clock.advance(plan.options.epoch_interval);
        let mut tasks = job.tasks();
        for task in 0..tasks.count() {
            if let Some(envelope) = tasks.take(task, 0) {
                taken.push((task, envelope.clone()));
                tasks.give(task, 0, vec![envelope]);
            }
            tasks.step(task, 0);
        }
        while job.coordinate() {}
        if let Some(outcome) = job.outcome() {
            outcome.expect("it stops");
            break;
        }
    }
    let by_sink: Vec<&Envelope> = taken.iter().filter(|(task, _)| *task == 2).map(|(_, envelope)| envelope).collect();
    assert!(matches!(by_sink.last(), Some(Envelope::Marker(marker)) if marker.kind == MarkerKind::Stop), "{by_sink:?}");
    assert!(by_sink.iter().all(|envelope| matches!(envelope, Envelope::Marker(_))), "{by_sink:?}");
}
