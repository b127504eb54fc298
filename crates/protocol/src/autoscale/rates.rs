//! The formulas: demand, true rate and need of every stage in one interval.

use std::collections::BTreeMap;

use anabranch_model::StageId;

use super::{Finding, Graph, Hot, Sample, Settings, StageSample, Stay, TaskSample, Why};

/// What one interval shows of a stage.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) stage: StageId,
    parallelism: u32,
    /// Rows per second to process.
    pub(super) demand: Option<f64>,
    true_rate: Option<f64>,
    selectivity: Option<f64>,
    busy: f64,
    /// Tasks needed, without bounds.
    pub(super) wanted: Option<u32>,
    hot: Option<Hot>,
}

impl Measured {
    pub(super) fn finding(&self, why: Why) -> Finding {
        let &Measured { stage, parallelism, demand, true_rate, selectivity, busy, wanted, hot } = self;
        Finding { stage, parallelism, demand, true_rate, selectivity, busy, wanted, why, hot }
    }
}

/// Measures every stage, senders first. `before` is the sample of the interval before, if it adjoins this
/// one.
pub(super) fn measure(
    graph: &Graph,
    settings: &Settings,
    sample: &Sample,
    before: Option<&Sample>,
) -> Result<Vec<Measured>, Stay> {
    let mut all: Vec<Measured> = Vec::with_capacity(graph.stages.len());
    // Rows per second that leave each stage when it processes its demand.
    let mut leaving: BTreeMap<StageId, Option<f64>> = BTreeMap::new();
    for limits in &graph.stages {
        let stage = limits.id;
        let Some(now) = sample.stages.get(&stage) else { return Err(Stay::Incomplete { stage }) };
        let inputs: Vec<StageId> = graph.edges.iter().filter(|edge| edge.to == stage).map(|edge| edge.from).collect();
        let demand = if inputs.is_empty() {
            let before = before.and_then(|sample| sample.stages.get(&stage));
            Some(arrival(now, before, sample, settings).ok_or(Stay::UnknownArrival { stage })?)
        } else {
            inputs.iter().map(|from| leaving.get(from).copied().flatten()).sum()
        };
        let measured = of_stage(stage, now, demand, sample, settings);
        leaving.insert(
            stage,
            match (demand, measured.selectivity) {
                (Some(0.0), _) => Some(0.0),
                (demand, selectivity) => demand.zip(selectivity).map(|(demand, selectivity)| demand * selectivity),
            },
        );
        all.push(measured);
    }
    Ok(all)
}

/// Rows per second that arrive at a source: those that it read, and those by which its lag grew. Without a
/// lag, those that it read, provided that it kept up.
fn arrival(now: &StageSample, before: Option<&StageSample>, sample: &Sample, settings: &Settings) -> Option<f64> {
    let seconds = sample.interval.as_secs_f64();
    let read = rows(now, |task| task.rows_in);
    if let (Some(lag), Some(lag_before)) = (now.lag_rows, before.and_then(|before| before.lag_rows)) {
        return Some(((read + lag as f64 - lag_before as f64) / seconds).max(0.0));
    }
    let keeps_up = |task: &TaskSample| {
        let share = |nanos: u64| nanos as f64 / 1e9 / seconds;
        share(task.backpressured_ns) <= settings.backpressure
            && share(task.busy_ns) + share(task.backpressured_ns) <= 1.0 - settings.backpressure
    };
    now.tasks.iter().all(keeps_up).then_some(read / seconds)
}

fn of_stage(stage: StageId, now: &StageSample, demand: Option<f64>, sample: &Sample, settings: &Settings) -> Measured {
    /// Less than one task, so that a whole number stays one.
    const ROUNDING: f64 = 1e-6;
    let (entered, left) = (rows(now, |task| task.rows_in), rows(now, |task| task.rows_out));
    let useful = rows(now, |task| task.busy_ns) / 1e9;
    let true_rate = (entered > 0.0 && useful > 0.0).then(|| entered / useful);
    let selectivity = (entered > 0.0).then(|| left / entered);
    let wanted = match (demand, true_rate) {
        (Some(0.0), _) => Some(1),
        (Some(demand), Some(rate)) => {
            // The conversion stops at the largest number.
            Some(((demand / (rate * settings.utilization) - ROUNDING).ceil().max(1.0)) as u32)
        }
        _ => None,
    };
    let busy = useful / sample.interval.as_secs_f64() / f64::from(now.parallelism);
    let hot = hot(now, entered, sample, settings);
    Measured { stage, parallelism: now.parallelism, demand, true_rate, selectivity, busy, wanted, hot }
}

fn hot(now: &StageSample, entered: f64, sample: &Sample, settings: &Settings) -> Option<Hot> {
    let (number, task) = now.tasks.iter().enumerate().max_by_key(|(_, task)| task.rows_in)?;
    let share = task.rows_in as f64 / entered;
    if now.tasks.len() < 2 || entered == 0.0 || share * (now.tasks.len() as f64) < settings.skew {
        return None;
    }
    let busy = task.busy_ns as f64 / 1e9 / sample.interval.as_secs_f64();
    Some(Hot { task: u32::try_from(number).ok()?, share, busy })
}

fn rows(stage: &StageSample, of: impl Fn(&TaskSample) -> u64) -> f64 {
    stage.tasks.iter().map(|task| of(task) as f64).sum()
}
