//! The table of derivations. An engine that offers a metric itself needs no line of it.

use super::{Scene, local, paths, queue};
use crate::Metric::{
    self, AgeMs, CostNs, CpuNs, CpuShare, DistanceToSink, InRate, LatencyMs, OutRate, PathCostNs, PathRate,
    PathSelectivity, QueueBatches, QueueBytes, QueueRows, QueueShare, QueuedMs, Relief, RowsIn, RowsOut, Selectivity,
    WaitNs, WaitShare,
};

/// A metric that can be derived.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) metric: Metric,
    /// The first one whose needs can be had is taken.
    pub(super) alternatives: &'static [Alternative],
}

/// One way to derive a metric.
pub(super) struct Alternative {
    pub(super) needs: &'static [Metric],
    /// One value per node, NaN where it is not known.
    pub(super) derive: fn(&mut Scene) -> Vec<f64>,
    /// How, for people.
    pub(super) how: &'static str,
    /// Which neighbours' values of the same metric it uses.
    pub(super) from: From,
}

/// Whose values of a metric its derivation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Only the needs at the node itself.
    Itself,
    /// The metric at the nodes before.
    Upstream,
    /// The metric at the nodes behind.
    Downstream,
}

impl std::fmt::Debug for Alternative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alternative").field("needs", &self.needs).field("how", &self.how).finish_non_exhaustive()
    }
}

const fn own(needs: &'static [Metric], derive: fn(&mut Scene) -> Vec<f64>, how: &'static str) -> Alternative {
    Alternative { needs, derive, how, from: From::Itself }
}

const fn behind(needs: &'static [Metric], derive: fn(&mut Scene) -> Vec<f64>, how: &'static str) -> Alternative {
    Alternative { needs, derive, how, from: From::Downstream }
}

const fn before(needs: &'static [Metric], derive: fn(&mut Scene) -> Vec<f64>, how: &'static str) -> Alternative {
    Alternative { needs, derive, how, from: From::Upstream }
}

const PER_SECOND: &str = "growth of the counter per second, smoothed over 2 s";
const SELECTIVITY: &str = "rows emitted per row received; 1 for sources and sinks";
const SELECTIVITY_BY_SHARE: &str = "selectivity times that of the paths behind, by their share of the rows";
const SELECTIVITY_EQUAL: &str = "selectivity times that of the paths behind, in equal shares";
const COST_BY_SHARE: &str = "cost plus selectivity times the cost of the paths behind, by their share of the rows";
const COST_EQUAL: &str = "cost plus selectivity times the cost of the paths behind, in equal shares";
const RELIEF: &str = "(own queue less selectivity times the queues behind) per cost";
const SHARE_OF_TIME: &str = "growth of the time per time passed, smoothed over 2 s";

/// All derivations.
pub(super) static ALL: [Definition; 14] = [
    Definition { metric: InRate, alternatives: &[own(&[RowsIn], |scene| local::windowed(scene, InRate), PER_SECOND)] },
    Definition {
        metric: OutRate,
        alternatives: &[own(&[RowsOut], |scene| local::windowed(scene, OutRate), PER_SECOND)],
    },
    Definition {
        metric: CpuShare,
        alternatives: &[own(&[CpuNs], |scene| local::windowed(scene, CpuShare), SHARE_OF_TIME)],
    },
    Definition {
        metric: WaitShare,
        alternatives: &[own(&[WaitNs], |scene| local::windowed(scene, WaitShare), SHARE_OF_TIME)],
    },
    Definition {
        metric: QueueRows,
        alternatives: &[
            before(
                &[RowsIn, RowsOut, QueueBatches],
                queue::from_counters,
                "rows emitted upstream less rows received here, since the queue was last without a batch",
            ),
            before(&[RowsIn, RowsOut], queue::from_counters, "rows emitted upstream less rows received here"),
            own(&[QueueBatches], |scene| scene.get(QueueBatches).to_vec(), "batches in place of rows"),
            own(&[QueueShare], |scene| scene.get(QueueShare).to_vec(), "fill level in place of rows"),
            own(&[QueueBytes], |scene| scene.get(QueueBytes).to_vec(), "bytes in place of rows"),
        ],
    },
    Definition { metric: Selectivity, alternatives: &[own(&[InRate, OutRate], local::selectivity, SELECTIVITY)] },
    Definition {
        metric: CostNs,
        alternatives: &[
            own(&[CpuShare, InRate, OutRate], local::cost, "processor time per row received (source: emitted)"),
            own(&[CpuShare, InRate], local::cost, "processor time per row received"),
        ],
    },
    Definition {
        metric: PathSelectivity,
        alternatives: &[
            behind(&[Selectivity, InRate, OutRate], paths::selectivity, SELECTIVITY_BY_SHARE),
            behind(&[Selectivity], paths::selectivity, SELECTIVITY_EQUAL),
        ],
    },
    Definition {
        metric: PathCostNs,
        alternatives: &[
            behind(&[CostNs, Selectivity, InRate, OutRate], paths::cost, COST_BY_SHARE),
            behind(&[CostNs, Selectivity], paths::cost, COST_EQUAL),
        ],
    },
    Definition {
        metric: PathRate,
        alternatives: &[own(&[PathSelectivity, PathCostNs], paths::rate, "path selectivity per path cost")],
    },
    Definition {
        metric: AgeMs,
        alternatives: &[
            before(&[QueuedMs], local::age_from_queued, "time in the queue plus the greatest age upstream"),
            before(
                &[QueueRows, InRate],
                local::age_by_little,
                "rows in the queue per rate, plus the greatest age upstream",
            ),
        ],
    },
    Definition {
        metric: LatencyMs,
        alternatives: &[own(&[AgeMs], local::latency, "age of the oldest row before the sink")],
    },
    Definition {
        metric: DistanceToSink,
        alternatives: &[behind(&[], paths::distance, "one more than the greatest distance behind")],
    },
    Definition {
        metric: Relief,
        alternatives: &[
            own(&[QueueRows, CostNs, Selectivity, InRate, OutRate], paths::relief, RELIEF),
            own(&[QueueRows, CostNs, Selectivity], paths::relief, RELIEF),
        ],
    },
];
