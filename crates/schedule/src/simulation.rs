//! A machine with cores, a fair scheduler with weights, and an engine with threads, queues and rows: enough
//! of each to see whether a policy reaches its goal. Time goes in steps.

mod tests;
mod workload;

use std::collections::VecDeque;

use anabranch_model::Nanos;

use crate::{Graph, Metric, NICE_RATIO, Readings, TaskIndex};

/// Length of a step.
pub(super) const STEP_NS: u64 = 1_000_000;

/// A row: when it arrived outside, and when a source read it.
#[derive(Clone, Copy, Debug)]
struct Row {
    arrived_ns: u64,
    read_ns: u64,
}

/// What one thread runs.
#[derive(Clone, Debug)]
pub(super) struct SimTask {
    pub(super) cost_ns: f64,
    /// Rows emitted per row received, over all outputs.
    pub(super) selectivity: f64,
    pub(super) downstream: Vec<usize>,
    pub(super) nice: i64,
    queue: VecDeque<Row>,
    /// Processor time spent on the row at the head of the queue.
    spent_ns: f64,
    /// The part of a row that is still to be emitted.
    carry: f64,
    next_output: usize,
    rows_in: u64,
    rows_out: u64,
    cpu_ns: f64,
    wait_ns: f64,
}

/// What left at the sinks.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) rows: u64,
    /// From the arrival outside until the result, sum over rows.
    pub(super) total_ms: f64,
    /// From the reading by a source until the result, sum over rows.
    pub(super) inside_ms: f64,
}

/// The machine with everything that runs on it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) graph: Graph,
    pub(super) tasks: Vec<SimTask>,
    /// Places of sources, and rows per second that arrive at each.
    pub(super) arrivals: Vec<(usize, f64)>,
    pub(super) cores: f64,
    pub(super) now_ns: u64,
    pub(super) results: Results,
}

impl SimTask {
    pub(super) fn new(cost_ns: f64, selectivity: f64) -> SimTask {
        SimTask {
            cost_ns,
            selectivity,
            downstream: Vec::new(),
            nice: 0,
            queue: VecDeque::new(),
            spent_ns: 0.0,
            carry: 0.0,
            next_output: 0,
            rows_in: 0,
            rows_out: 0,
            cpu_ns: 0.0,
            wait_ns: 0.0,
        }
    }

    /// Processor time that it could use now.
    fn work_ns(&self) -> f64 {
        self.queue.len() as f64 * self.cost_ns - self.spent_ns
    }
}

impl Machine {
    /// One step: rows arrive, the cores are divided, tasks run.
    pub(super) fn step(&mut self) {
        self.arrive();
        let granted = self.divide();
        let mut sent: Vec<(usize, Row)> = Vec::new();
        for (task, granted_ns) in granted.into_iter().enumerate() {
            self.run(task, granted_ns, &mut sent);
        }
        // What is emitted in a step is received in the next one, so the order of tasks does not matter.
        for (to, row) in sent {
            self.tasks[to].queue.push_back(row);
        }
        self.now_ns += STEP_NS;
    }

    fn arrive(&mut self) {
        for (source, per_second) in &self.arrivals {
            let until = |ns: u64| (ns as f64 / 1e9 * per_second).floor() as u64;
            for _ in until(self.now_ns)..until(self.now_ns + STEP_NS) {
                self.tasks[*source].queue.push_back(Row { arrived_ns: self.now_ns, read_ns: self.now_ns });
            }
        }
    }

    /// Shares of the step by weight, as a fair scheduler gives them: what a thread does not need, or cannot
    /// use because it runs on one core only, goes to the others.
    fn divide(&mut self) -> Vec<f64> {
        let step_ns = STEP_NS as f64;
        let needs: Vec<f64> = self.tasks.iter().map(|task| task.work_ns().min(step_ns)).collect();
        let weights: Vec<f64> = self.tasks.iter().map(|task| NICE_RATIO.powi(-task.nice as i32)).collect();
        let mut granted = vec![0.0; needs.len()];
        let mut open: Vec<usize> = (0..needs.len()).filter(|task| needs[*task] > 0.0).collect();
        let mut left_ns = self.cores * step_ns;
        loop {
            let weight: f64 = open.iter().map(|task| weights[*task]).sum();
            let per_weight = left_ns / weight;
            let (filled, wanting): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|task| needs[**task] <= per_weight * weights[**task]);
            if filled.is_empty() {
                open.iter().for_each(|task| granted[*task] = per_weight * weights[*task]);
                break;
            }
            for task in filled {
                granted[task] = needs[task];
                left_ns -= needs[task];
            }
            open = wanting;
        }
        for (task, granted_ns) in self.tasks.iter_mut().zip(&granted) {
            task.cpu_ns += granted_ns;
            task.wait_ns +=
                if task.queue.is_empty() { 0.0 } else { (task.work_ns().min(step_ns) - granted_ns).max(0.0) };
        }
        granted
    }

    fn run(&mut self, place: usize, granted_ns: f64, sent: &mut Vec<(usize, Row)>) {
        let end_ns = self.now_ns + STEP_NS;
        let is_source = self.arrivals.iter().any(|(source, _)| *source == place);
        let task = &mut self.tasks[place];
        task.spent_ns += granted_ns;
        // A thousandth of a nanosecond is rounding.
        while task.spent_ns + 1e-3 >= task.cost_ns {
            let Some(mut row) = task.queue.pop_front() else { break };
            task.spent_ns = (task.spent_ns - task.cost_ns).max(0.0);
            task.rows_in += 1;
            if is_source {
                row.read_ns = end_ns;
            }
            if task.downstream.is_empty() {
                self.results.rows += 1;
                self.results.total_ms += (end_ns - row.arrived_ns) as f64 / 1e6;
                self.results.inside_ms += (end_ns - row.read_ns) as f64 / 1e6;
                continue;
            }
            task.carry += task.selectivity;
            while task.carry >= 1.0 {
                task.carry -= 1.0;
                task.rows_out += 1;
                sent.push((task.downstream[task.next_output], row));
                task.next_output = (task.next_output + 1) % task.downstream.len();
            }
        }
    }

    /// What the engine and the kernel report. `rich`: the engine reports queues and ages as well, not only
    /// counters.
    pub(super) fn readings(&self, rich: bool) -> Readings {
        let mut readings = Readings { at: Nanos(self.now_ns), values: Vec::new() };
        for (place, task) in self.tasks.iter().enumerate() {
            let place = TaskIndex(place);
            readings.add(place, Metric::RowsIn, task.rows_in as f64);
            readings.add(place, Metric::RowsOut, task.rows_out as f64);
            readings.add(place, Metric::CpuNs, task.cpu_ns);
            readings.add(place, Metric::WaitNs, task.wait_ns);
            if rich {
                let oldest = task.queue.front().map_or(self.now_ns, |row| row.arrived_ns);
                readings.add(place, Metric::QueueRows, task.queue.len() as f64);
                readings.add(place, Metric::AgeMs, (self.now_ns - oldest) as f64 / 1e6);
            }
        }
        readings
    }

    /// The metrics that [`Machine::readings`] has.
    pub(super) fn offers(rich: bool) -> Vec<Metric> {
        let mut offers = vec![Metric::RowsIn, Metric::RowsOut, Metric::CpuNs, Metric::WaitNs];
        offers.extend([Metric::QueueRows, Metric::AgeMs].into_iter().filter(|_| rich));
        offers
    }

    /// Rows that wait before each task.
    pub(super) fn queues(&self) -> Vec<f64> {
        self.tasks.iter().map(|task| task.queue.len() as f64).collect()
    }

    /// The greatest age of a row that waits, since it arrived.
    pub(super) fn age_ms_max(&self) -> f64 {
        let oldest = self.tasks.iter().filter_map(|task| task.queue.front()).map(|row| row.arrived_ns).min();
        oldest.map_or(0.0, |oldest| (self.now_ns - oldest) as f64 / 1e6)
    }
}
