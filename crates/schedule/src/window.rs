//! From counters to rates: what changed between two looks, smoothed.
//!
//! A look may number tasks anew, so former readings are kept by the full name of the task. Limits: a rate
//! needs two readings, so it is unknown after the first one and after a counter has begun anew.

use std::collections::BTreeMap;

use anabranch_model::Nanos;

use crate::{Graph, Metric, Readings, TaskIndex};

/// Time constant of the exponential smoothing: a rate that jumps has made 63 % of the jump after this time.
/// Engines publish counters in steps of up to half a second, while the kernel's are exact at each look: the
/// constant has to be several such steps, or costs per row would follow the steps.
const SMOOTHING_NS: u64 = 2_000_000_000;

/// A rate whose counter has not been read for this time is unknown.
const STALE_AFTER_NS: u64 = 10_000_000_000;

/// Which rate a counter gives, and by what its units per second are divided.
const RATES: [(Metric, Metric, f64); 4] = [
    (Metric::RowsIn, Metric::InRate, 1.0),
    (Metric::RowsOut, Metric::OutRate, 1.0),
    (Metric::CpuNs, Metric::CpuShare, 1e9),
    (Metric::WaitNs, Metric::WaitShare, 1e9),
];

/// The counters of one target as they were, and the rates that follow from them.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// By full name of the task, in the order of [`RATES`].
    former: BTreeMap<String, [Option<Former>; RATES.len()]>,
}

/// The last reading of a counter.
#[derive(Clone, Copy, Debug)]
struct Former {
    value: f64,
    at: Nanos,
    /// Units per second, smoothed. None until there are two readings of one run of the engine.
    per_second: Option<f64>,
}

impl Former {
    /// Takes a new reading. A counter that is lower than it was began anew: its engine or task was restarted,
    /// and the rates of the former run say nothing about this one.
    fn update(&mut self, value: f64, at: Nanos) {
        let passed_ns = at.since(self.at);
        if passed_ns == 0 {
            return;
        }
        self.per_second = (value >= self.value).then(|| {
            let sample = (value - self.value) / (passed_ns as f64 / 1e9);
            match self.per_second {
                Some(smoothed) => {
                    let weight = 1.0 - (-(passed_ns as f64) / SMOOTHING_NS as f64).exp();
                    smoothed + weight * (sample - smoothed)
                }
                None => sample,
            }
        });
        (self.value, self.at) = (value, at);
    }
}

impl Window {
    /// A window that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Window::default()
    }

    /// The readings with the rates that follow from their counters. `readings` are of the tasks of `graph`.
    ///
    /// Counters and gauges pass as they are; values that are not finite, and readings of tasks that the graph
    /// does not have, are left out. A rate that the driver reports itself stays. Readings with the time of
    /// the former ones, and counters that are missing, leave rates as they were, up to [`STALE_AFTER_NS`].
    pub fn update(&mut self, graph: &Graph, readings: &Readings) -> Readings {
        let names: Vec<String> = (0..graph.tasks.len()).map(|task| graph.full_name(TaskIndex(task))).collect();
        let mut output = Readings { at: readings.at, values: Vec::with_capacity(readings.values.len() * 2) };
        let mut reported: Vec<(TaskIndex, Metric)> = Vec::new();
        for reading in &readings.values {
            let Some(name) = names.get(reading.task.0) else { continue };
            if !reading.value.is_finite() {
                continue;
            }
            output.values.push(*reading);
            if RATES.iter().any(|(_, rate, _)| *rate == reading.metric) {
                reported.push((reading.task, reading.metric));
            }
            if let Some(place) = RATES.iter().position(|(counter, ..)| *counter == reading.metric) {
                let begun = Former { value: reading.value, at: readings.at, per_second: None };
                match self.former.get_mut(name) {
                    Some(former) => match &mut former[place] {
                        Some(former) => former.update(reading.value, readings.at),
                        none => *none = Some(begun),
                    },
                    None => self.former.entry(name.clone()).or_default()[place] = Some(begun),
                }
            }
        }
        let is_fresh = |former: &Former| readings.at.since(former.at) <= STALE_AFTER_NS;
        self.former.retain(|_, former| {
            former.iter_mut().for_each(|former| *former = former.filter(is_fresh));
            former.iter().any(Option::is_some)
        });
        reported.sort_unstable();
        self.add_rates(&names, &reported, &mut output);
        output
    }

    fn add_rates(&self, names: &[String], reported: &[(TaskIndex, Metric)], output: &mut Readings) {
        for (task, name) in names.iter().enumerate() {
            let Some(former) = self.former.get(name) else { continue };
            for ((_, rate, per), former) in RATES.iter().zip(former) {
                if let Some(per_second) = former.and_then(|former| former.per_second)
                    && reported.binary_search(&(TaskIndex(task), *rate)).is_err()
                {
                    output.add(TaskIndex(task), *rate, per_second / per);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
