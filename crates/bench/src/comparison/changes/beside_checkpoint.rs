//! A change of a running job that moves no state, beside a checkpoint of the same job.

use std::time::{Duration, Instant};

use anabranch_model::Result;

use super::super::Scale;
use super::{median_and_worst, with_job};
use crate::measure::process_cpu_s;
use crate::report::{Bounded, Section, Table};
use crate::trace::millis;

/// Time from the beginning of one measurement to the next one: as many rows change the state before each.
const TURN: Duration = Duration::from_millis(1500);
/// Longer than all takes, so that no other checkpoint falls into a measurement.
const NEVER: &str = "1 h";

/// Time and processor time of one checkpoint or change, without what the job uses anyway.
#[derive(Clone, Copy)]
struct Cost {
    time_ms: f64,
    cpu_ms: f64,
}

fn time_ms(cost: &Cost) -> f64 {
    cost.time_ms
}

fn cpu_ms(cost: &Cost) -> f64 {
    cost.cpu_ms
}

/// Does something at the beginning of a turn. The processor time is that of the whole turn.
fn turn(action: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let (begun, cpu_before_s) = (Instant::now(), process_cpu_s()?);
    action()?;
    let time_ms = millis(begun.elapsed());
    std::thread::sleep(TURN.saturating_sub(begun.elapsed()));
    // A slow action makes the turn longer, and so does a busy machine.
    let turns = begun.elapsed().as_secs_f64() / TURN.as_secs_f64();
    Ok(Cost { time_ms, cpu_ms: (process_cpu_s()? - cpu_before_s) * 1e3 / turns })
}

/// A filter is changed while all state stays where it is, and checkpoints are requested.
pub(crate) fn beside_checkpoint(scale: Scale, (keys, filling): (u64, Duration)) -> Result<Section> {
    let rounds = scale.repetitions.min(3);
    with_job((keys, filling), NEVER, |subject, job, rows_per_s| {
        // The first checkpoint has all state.
        job.checkpoint_now()?;
        let (mut checkpoints, mut changes) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let quiet = turn(|| Ok(()))?;
            let beyond = |cost: Cost| Cost { cpu_ms: cost.cpu_ms - quiet.cpu_ms, ..cost };
            // The rows of the turn without either are in the next checkpoint.
            job.checkpoint_now()?;
            std::thread::sleep(TURN);
            checkpoints.push(beyond(turn(|| job.checkpoint_now().map(|_| ()))?));
            subject.text.filter = round + 1;
            changes.push(beyond(turn(|| subject.reconfigure(&job))?));
        }
        let median = |costs: &[Cost], of: fn(&Cost) -> f64| median_and_worst(costs.iter().map(of).collect()).0;
        let mut values = Vec::new();
        for (measure, of) in [("time", time_ms as fn(&Cost) -> f64), ("processor time", cpu_ms)] {
            let (checkpoint_ms, change_ms) = (median(&checkpoints, of), median(&changes, of));
            for (name, median_ms) in [("requested checkpoint", checkpoint_ms), ("filter changed", change_ms)] {
                values.push(Bounded::plain(format!("{name}: {measure}"), format!("{median_ms:.1} ms")));
            }
            let ratio = format!("{:.2}", change_ms / checkpoint_ms);
            values.push(Bounded::plain(format!("{measure} of the change over that of the checkpoint"), ratio));
        }
        let note = format!(
            "The job of the sections above, with {rows_per_s} rows per second and about {keys} keys, and without checkpoints other than those here: \
             {rounds} rounds, median. Each is requested {:.1} s after the former one. Processor time is that of all threads in {:.1} s from the \
             request on, less that of as long a time before without either; a change with much state takes a checkpoint before, one at its \
             switch and one after it.",
            TURN.as_secs_f64(),
            TURN.as_secs_f64()
        );
        let title = format!("A change that moves nothing, beside a checkpoint, {keys} keys");
        Ok(Section { title, note, table: Table::Bounds(values) })
    })
}
