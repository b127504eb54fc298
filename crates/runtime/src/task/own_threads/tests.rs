use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread::JoinHandle;

use anabranch_dataflow::{Exchange, ExchangeKind, Port, Stage};
use anabranch_model::{KeyGroups, StageId, Stamped, SystemClock, TaskCounters, TaskId};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::Schema;

use super::*;
use crate::task::inbox::Inbox;
use crate::task::processor::nice;

/// A chain of stages, each of which has this number of tasks.
fn plan(stages: u32) -> Plan {
    let stage = |id: u32| Stage {
        id: StageId(id),
        name: format!("stage {id}"),
        parallelism: 1,
        label: None,
        tasks_max: None,
        source: None,
        operators: Vec::new(),
        sink: None,
        query: None,
        schema: Arc::new(Schema::empty()),
        origin: Default::default(),
    };
    let exchange =
        |to: u32| Exchange { from: StageId(to - 1), to: StageId(to), port: Port::Main, kind: ExchangeKind::Forward };
    Plan::new(KeyGroups(8), Default::default(), (0..stages).map(stage).collect(), (1..stages).map(exchange).collect())
}

fn views(stages: u32) -> Arc<[TaskView]> {
    let view = |stage: u32| TaskView {
        id: TaskId { stage: StageId(stage), index: 0 },
        stage_name: format!("stage {stage}"),
        is_source: stage == 0,
        is_sink: stage + 1 == stages,
        restores: false,
        keeps_windows: false,
        counters: Arc::<TaskCounters>::default(),
        inbox: (stage > 0).then(|| Arc::new(Inbox::new(1, 1 << 20))),
    };
    (0..stages).map(view).collect()
}

fn batch(rows: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    RecordBatch::try_from_iter([("n", column)]).expect("a batch")
}

/// A decider whose tasks have waited for cores.
fn pressed(scheduling: Scheduling, views: &[TaskView]) -> Decider {
    let mut decider = Decider::new(scheduling, &plan(3), views).expect("a policy");
    let waited = |ns: u64| vec![ProcessorTime { cpu_ns: 0, core_wait_ns: ns }; views.len()];
    decider.sample(Nanos(1), waited(0));
    decider.sample(Nanos(100_000_000), waited(50_000_000));
    decider.countdown = u32::MAX;
    decider
}

#[test]
fn every_policy_that_users_can_name_is_known() {
    for scheduling in Scheduling::ALL {
        let decider = Decider::new(scheduling, &plan(3), &views(3)).expect("a policy");
        assert_eq!(decider.policy.name(), scheduling.name());
    }
}

#[test]
fn nothing_is_decided_while_no_task_waits_for_a_core() {
    let views = views(3);
    let mut decider = Decider::new(Scheduling::Drain, &plan(3), &views).expect("a policy");
    let times = |cpu_ns: u64, core_wait_ns: u64| vec![ProcessorTime { cpu_ns, core_wait_ns }; 3];
    decider.countdown = u32::MAX;
    assert_eq!(decider.decide(&views, Nanos(1), NICE), None, "nothing is known");
    decider.sample(Nanos(1), times(0, 0));
    decider.sample(Nanos(1_000_000_001), times(900_000_000, 1_000_000));
    assert_eq!(decider.decide(&views, Nanos(1_000_000_002), NICE), None, "busy, but none waits");
    decider.sample(Nanos(2_000_000_001), times(1_200_000_000, 300_000_000));
    assert_eq!(decider.decide(&views, Nanos(2_000_000_002), NICE), Some(vec![10, 0, -10]), "nearest the sink first");
}

#[test]
fn queues_and_epochs_are_read_from_the_tasks() {
    let (views, clock) = (views(3), SystemClock::new());
    let envelope = |rows| anabranch_model::Envelope::Batch(Stamped { value: batch(rows), born: Nanos(0) });
    let offer = |stage: usize, rows| views[stage].inbox.as_ref().expect("an inbox").offer(0, envelope(rows), &clock);
    assert!(offer(1, 300).is_none() && offer(2, 100).is_none());
    let queue_size = pressed(Scheduling::QueueSize, &views).decide(&views, Nanos(100_000_001), NICE).expect("decided");
    assert!(queue_size[1] < queue_size[2], "{queue_size:?}");
    for (view, epoch) in views.iter().zip([9, 7, 9]) {
        view.counters.epoch.store(epoch, Relaxed);
    }
    let marker = pressed(Scheduling::Marker, &views).decide(&views, Nanos(100_000_001), NICE).expect("decided");
    assert!(marker[1] < marker[0] && marker[1] < marker[2], "{marker:?}");
}

/// Spins until the flag is set. Returns its thread's identifier too.
fn spin(ends: &Arc<AtomicBool>) -> (u32, JoinHandle<()>) {
    let (own, ends) = (Arc::<AtomicU32>::default(), Arc::clone(ends));
    let shown = Arc::clone(&own);
    let run = move || {
        let link = std::fs::read_link("/proc/thread-self").expect("Linux");
        shown.store(link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number"), Relaxed);
        while !ends.load(Relaxed) {
            std::hint::spin_loop();
        }
    };
    let thread = std::thread::Builder::new().name("spins".into()).spawn(run).expect("a thread");
    while own.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
    (own.load(Relaxed), thread)
}

/// The kernel's values, while more threads want to run than there are cores.
#[cfg(target_os = "linux")]
#[test]
fn threads_near_the_sink_go_before_those_near_the_source() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let stages = 4;
    let (views, ends) = (views(stages), Arc::<AtomicBool>::default());
    // Others want the cores too.
    let others: Vec<(u32, JoinHandle<()>)> = (0..cores).map(|_| spin(&ends)).collect();
    let threads: Vec<(u32, JoinHandle<()>)> = views.iter().map(|_| spin(&ends)).collect();
    for (view, (id, _)) in views.iter().zip(&threads) {
        view.counters.thread.store(*id, Relaxed);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let own = OwnThreads::start(Scheduling::Drain, &plan(stages), Arc::clone(&views), clock).expect("a thread");
    let values = || threads.iter().map(|(id, _)| nice(*id)).collect::<Vec<_>>();
    if Mechanism::find() == Mechanism::Slice {
        // Slices are not nice values, and this user may not set those.
        assert!(set_slice(threads[0].0, 1_000_000));
    } else {
        let mut tries = 0;
        while !values().windows(2).all(|pair| pair[0] > pair[1]) {
            tries += 1;
            assert!(tries < 3_000, "{:?}", values());
            anabranch_model::pause(TICK);
        }
    }
    drop(own);
    ends.store(true, Relaxed);
    threads.into_iter().chain(others).for_each(|(_, thread)| thread.join().expect("no panic"));
}
