//! The catalog of metrics: each with its name and kind, and how readings of several tasks become one
//! value. How one is derived from others is in [`provider`](crate::Provider).

use anabranch_model::{Error, Result, nearest};

/// What is known, or can be derived, about a task or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Rows that it has received.
    RowsIn,
    /// Rows that it has emitted. A row that goes to several operators counts once for each of them.
    RowsOut,
    /// Processor time that its threads have used.
    CpuNs,
    /// Time for which its threads were runnable and waited for a core.
    WaitNs,
    /// Rows that wait before it.
    QueueRows,
    /// Batches, buffers or messages that wait before it.
    QueueBatches,
    /// Bytes that wait before it.
    QueueBytes,
    /// How full its queue is: 0 to 1.
    QueueShare,
    /// How long the oldest row that waits before it has been in the system, since a source read it.
    AgeMs,
    /// How long the oldest row that waits before it has been in its queue.
    QueuedMs,
    /// Event time until its next window ends: the end less the watermark. Below zero if the end has passed.
    UntilWindowMs,
    /// How many epochs (or checkpoints) it is behind the newest one.
    EpochsBehind,
    /// Time from the reading of a row until its result leaves, for sinks.
    LatencyMs,
    /// Rows received per second.
    InRate,
    /// Rows emitted per second.
    OutRate,
    /// Cores that its threads use: 1 is one core for the whole time.
    CpuShare,
    /// Share of the time for which its threads wait for a core. Several threads may sum up to more than 1.
    WaitShare,
    /// Rows emitted per row received.
    Selectivity,
    /// Processor time per row received. A source receives the rows that it reads.
    CostNs,
    /// Rows that reach a sink per row received, over all paths.
    PathSelectivity,
    /// Processor time per row received, with that of all operators behind.
    PathCostNs,
    /// Rows that reach a sink per second of processor time: what the policy of the highest rate compares.
    PathRate,
    /// The greatest number of edges on a path from it to a sink.
    DistanceToSink,
    /// Own queue less what it adds to those behind it, times the rows that it can process per second.
    Relief,
}

/// How a value changes with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Grows until its engine begins anew.
    Counter,
    /// True at a moment.
    Gauge,
}

/// How the readings of an operator's tasks become the operator's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    /// Amounts.
    Sum,
    /// Ages and fill levels: the worst task is what matters.
    Max,
    /// Time left: the task that has the least.
    Min,
    /// Ratios.
    Mean,
}

/// Which operators of a task that runs several a reading is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The first one, which takes the rows from the queue.
    Input,
    /// The last one, which emits.
    Output,
    /// All of them, each by an equal part: engines and the kernel count the thread's time only.
    Processor,
    /// All of them, each with the whole value.
    Whole,
}

/// One line of the catalog.
struct Entry(Metric, &'static str, Kind, Combine, Side);

use self::{Combine::*, Kind::*, Metric as M, Side::*};

/// In the order of the variants.
const CATALOG: [Entry; 24] = [
    Entry(M::RowsIn, "rows_in", Counter, Sum, Input),
    Entry(M::RowsOut, "rows_out", Counter, Sum, Output),
    Entry(M::CpuNs, "cpu_ns", Counter, Sum, Processor),
    Entry(M::WaitNs, "wait_ns", Counter, Sum, Processor),
    Entry(M::QueueRows, "queue_rows", Gauge, Sum, Input),
    Entry(M::QueueBatches, "queue_batches", Gauge, Sum, Input),
    Entry(M::QueueBytes, "queue_bytes", Gauge, Sum, Input),
    Entry(M::QueueShare, "queue_share", Gauge, Max, Input),
    Entry(M::AgeMs, "age_ms", Gauge, Max, Input),
    Entry(M::QueuedMs, "queued_ms", Gauge, Max, Input),
    Entry(M::UntilWindowMs, "until_window_ms", Gauge, Min, Whole),
    Entry(M::EpochsBehind, "epochs_behind", Gauge, Max, Whole),
    Entry(M::LatencyMs, "latency_ms", Gauge, Max, Output),
    Entry(M::InRate, "in_rate", Gauge, Sum, Input),
    Entry(M::OutRate, "out_rate", Gauge, Sum, Output),
    Entry(M::CpuShare, "cpu_share", Gauge, Sum, Processor),
    Entry(M::WaitShare, "wait_share", Gauge, Sum, Processor),
    Entry(M::Selectivity, "selectivity", Gauge, Mean, Output),
    Entry(M::CostNs, "cost_ns", Gauge, Mean, Processor),
    Entry(M::PathSelectivity, "path_selectivity", Gauge, Mean, Whole),
    Entry(M::PathCostNs, "path_cost_ns", Gauge, Mean, Whole),
    Entry(M::PathRate, "path_rate", Gauge, Mean, Whole),
    Entry(M::DistanceToSink, "distance_to_sink", Gauge, Max, Whole),
    Entry(M::Relief, "relief", Gauge, Mean, Whole),
];

/// A second name of [`Metric::AgeMs`]: users of engines call the age of the oldest waiting row its lag.
const LAG_MS: &str = "lag_ms";

impl Metric {
    fn entry(self) -> &'static Entry {
        &CATALOG[self as usize]
    }

    /// All metrics, in the catalog's order.
    pub fn all() -> impl Iterator<Item = Metric> {
        CATALOG.iter().map(|entry| entry.0)
    }

    /// Its name in configurations, formulas and answers, as `queue_rows`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// How its value changes with time.
    pub(crate) fn kind(self) -> Kind {
        self.entry().2
    }

    /// How the values of an operator's tasks become the operator's.
    pub(crate) fn combine(self) -> Combine {
        self.entry().3
    }

    /// Which of the operators that a task runs it is about.
    pub(crate) fn side(self) -> Side {
        self.entry().4
    }

    /// The metric of a name; `lag_ms` is a second name of `age_ms`. Errors: the name is unknown.
    pub fn parse(name: &str) -> Result<Metric> {
        if name == LAG_MS {
            return Ok(Metric::AgeMs);
        }
        Metric::all().find(|metric| metric.name() == name).ok_or_else(|| {
            let remedy = match nearest(name, CATALOG.iter().map(|entry| entry.1)) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("use one of: {}", CATALOG.iter().map(|entry| entry.1).collect::<Vec<_>>().join(", ")),
            };
            Error::user(format!("unknown metric '{name}'")).remedy(remedy)
        })
    }

    /// What makes engines report it, for the remedy of a policy that needs it. For metrics that are always
    /// derived, what they are derived from has the remedy.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            M::CpuNs | M::WaitNs => {
                "run osched on the machine of the engine, so that it can read /proc/PID/task/TID/schedstat"
            }
            M::UntilWindowMs => "use a query with windows over event time, on an engine that reports watermarks",
            M::EpochsBehind => "switch checkpoints on; only Anabranch reports epochs of single tasks",
            _ => {
                "switch the engine's metrics reporter on (Flink: Prometheus, Storm: Graphite; \
                 `anabranch osched check` prints the lines); without one, use 'drain'"
            }
        }
    }
}

#[cfg(test)]
mod tests;
