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
#[derive(Debug)]
pub(super) struct Alternative {
    pub(super) needs: &'static [Metric],
    /// One value per node, NaN where it is not known.
    pub(super) derive: fn(&mut Scene) -> Vec<f64>,
}

const fn from(needs: &'static [Metric], derive: fn(&mut Scene) -> Vec<f64>) -> Alternative {
    Alternative { needs, derive }
}

/// All derivations.
pub(super) static ALL: [Definition; 14] = [
    Definition { metric: InRate, alternatives: &[from(&[RowsIn], |scene| local::windowed(scene, InRate))] },
    Definition { metric: OutRate, alternatives: &[from(&[RowsOut], |scene| local::windowed(scene, OutRate))] },
    Definition { metric: CpuShare, alternatives: &[from(&[CpuNs], |scene| local::windowed(scene, CpuShare))] },
    Definition { metric: WaitShare, alternatives: &[from(&[WaitNs], |scene| local::windowed(scene, WaitShare))] },
    Definition {
        metric: QueueRows,
        alternatives: &[
            // Rows emitted upstream less rows received here, since the queue was last without a batch.
            from(&[RowsIn, RowsOut, QueueBatches], queue::from_counters),
            from(&[RowsIn, RowsOut], queue::from_counters),
            // Batches, the fill level or bytes in place of rows.
            from(&[QueueBatches], |scene| scene.get(QueueBatches).to_vec()),
            from(&[QueueShare], |scene| scene.get(QueueShare).to_vec()),
            from(&[QueueBytes], |scene| scene.get(QueueBytes).to_vec()),
        ],
    },
    Definition { metric: Selectivity, alternatives: &[from(&[InRate, OutRate], local::selectivity)] },
    Definition {
        metric: CostNs,
        alternatives: &[from(&[CpuShare, InRate, OutRate], local::cost), from(&[CpuShare, InRate], local::cost)],
    },
    // With rates, paths count by their share of the rows; without, in equal shares.
    Definition {
        metric: PathSelectivity,
        alternatives: &[
            from(&[Selectivity, InRate, OutRate], paths::selectivity),
            from(&[Selectivity], paths::selectivity),
        ],
    },
    Definition {
        metric: PathCostNs,
        alternatives: &[
            from(&[CostNs, Selectivity, InRate, OutRate], paths::cost),
            from(&[CostNs, Selectivity], paths::cost),
        ],
    },
    Definition { metric: PathRate, alternatives: &[from(&[PathSelectivity, PathCostNs], paths::rate)] },
    Definition {
        metric: AgeMs,
        alternatives: &[from(&[QueuedMs], local::age_from_queued), from(&[QueueRows, InRate], local::age_by_little)],
    },
    Definition { metric: LatencyMs, alternatives: &[from(&[AgeMs], local::latency)] },
    Definition { metric: DistanceToSink, alternatives: &[from(&[], paths::distance)] },
    Definition {
        metric: Relief,
        alternatives: &[
            from(&[QueueRows, CostNs, Selectivity, InRate, OutRate], paths::relief),
            from(&[QueueRows, CostNs, Selectivity], paths::relief),
        ],
    },
];
