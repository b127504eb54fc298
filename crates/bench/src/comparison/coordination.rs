//! What the coordination of a job with many workers costs.

use anabranch_model::Result;

use super::Scale;
use crate::coordination::{EPOCH, Outcome, Setup, TASKS, simulate};
use crate::report::{Bounded, Section, Table};

/// Workers of the large job.
const WORKERS: u32 = 128;
/// Largest share of a core for the coordinator.
const SHARE_BOUND: f64 = 0.05;
/// Most summaries of a worker per group.
const SUMMARIES_BOUND: f64 = 1.0;
/// How much more a task may cost in the large job than in a small one.
const GROWTH_BOUND: f64 = 1.5;
/// Sizes of groups.
const GROUPS: [u64; 4] = [1, 4, 16, 64];

/// The coordinator and its peers alone.
pub(crate) fn coordination(scale: Scale) -> Result<Section> {
    let epochs = u64::from(scale.rounds / 50).clamp(20, 1000);
    let of =
        |workers, group, checkpoints| simulate(Setup { workers, group, epochs: epochs.max(group * 4), checkpoints });
    let plain = of(WORKERS, 1, false)?;
    let share = plain.busy.as_secs_f64() / plain.elapsed.as_secs_f64();
    let mut values = vec![
        Bounded::new("summaries of a worker per group", summaries(&plain), SUMMARIES_BOUND, ""),
        Bounded::plain("messages to a worker per group", format!("{:.2}", per_worker_and_group(plain.orders, &plain))),
        Bounded::new("CPU of the coordinator, no checkpoints", 100.0 * share, 100.0 * SHARE_BOUND, "% of a core"),
    ];
    let mut of_task_us = Vec::new();
    for workers in [8, 32, WORKERS] {
        // As many tasks in all, so that each is measured as well.
        let outcome = (0..WORKERS / workers).try_fold(Outcome::default(), |mut sum, _| {
            let outcome = of(workers, 1, true)?;
            sum.busy += outcome.busy;
            sum.checkpoints += outcome.checkpoints;
            Ok::<_, anabranch_model::Error>(sum)
        })?;
        let us = outcome.busy.as_secs_f64() * 1e6 / outcome.checkpoints.max(1) as f64;
        let value = format!("{us:.1} µs, {:.3} µs per task", us / f64::from(workers * TASKS));
        values.push(Bounded::plain(format!("a group with a checkpoint, {workers} workers"), value));
        of_task_us.push(us / f64::from(workers * TASKS));
    }
    let growth = of_task_us[2] / of_task_us[0];
    values.push(Bounded::new(format!("cost per task, {WORKERS} workers over 8"), growth, GROWTH_BOUND, ""));
    let mut smallest_ms = None;
    for group in GROUPS {
        let outcome = of(WORKERS, group, false)?;
        let wait_ms = outcome.wait_p99().as_secs_f64() * 1e3;
        let bound_ms = *smallest_ms.get_or_insert(wait_ms);
        let name = format!("wait of a cut for its grant, p99, groups of {group}");
        values.push(Bounded::new(name, wait_ms, bound_ms, "ms"));
    }
    Ok(Section {
        title: "Coordination of many workers".into(),
        note: format!(
            "The coordinator and its peers as values, with {WORKERS} workers of {TASKS} tasks as values, in virtual time: no messages are \
             encoded, and none is sent. Epochs of {} ms, groups of one epoch where nothing else is said. Sources cut an epoch up to 5 ms \
             after its time, a message takes 1 ms, and the store 5 ms.",
            EPOCH.as_millis()
        ),
        table: Table::Bounds(values),
    })
}

fn summaries(outcome: &Outcome) -> f64 {
    // The first summary says that the tasks have started.
    let first = u64::from(WORKERS);
    per_worker_and_group(outcome.summaries.saturating_sub(first), outcome)
}

fn per_worker_and_group(messages: u64, outcome: &Outcome) -> f64 {
    messages as f64 / (u64::from(WORKERS) * outcome.groups.max(1)) as f64
}
