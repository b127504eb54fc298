//! A join of the next plan version goes on with the state of the former one, in memory.

use anabranch_dataflow::StreamJoinSpec;
use anabranch_model::{Error, Result};

use super::snapshot::columns;
use super::{Side, StreamJoin};
use crate::{Functions, Operator};

/// Whether a join can go on with the state of another one. Which columns leave it may be different, and also the condition of an inner
/// join: no row has the number of its matches there.
pub(crate) fn goes_on(former: &StreamJoinSpec, next: &StreamJoinSpec, functions: &Functions) -> bool {
    if former == next {
        return true;
    }
    let kinds =
        |spec: &StreamJoinSpec| (spec.kind, spec.keys, spec.nulls_equal, spec.left.updating, spec.right.updating);
    let times = |spec: &StreamJoinSpec| (spec.left.expiry, spec.right.expiry, spec.delay_ms, spec.versions);
    let join = |spec: &StreamJoinSpec| StreamJoin::new(spec, functions, &Default::default()).ok();
    let (Some(of), Some(then)) = (join(former), join(next)) else { return false };
    let counts = former.versions.is_none() && (of.left.role.counts() || of.right.role.counts());
    let tables = |join: &StreamJoin| join.shapes().iter().map(columns).collect::<Vec<_>>();
    kinds(former) == kinds(next)
        && times(former) == times(next)
        && (!counts || former.filter == next.filter)
        && tables(&of) == tables(&then)
}

impl StreamJoin {
    /// Takes the state of a join [with which](goes_on) it can go on. It has none of its own.
    pub(super) fn take_over(&mut self, former: Box<dyn Operator>) -> Result<()> {
        let former: Box<dyn std::any::Any> = former;
        let Ok(former) = former.downcast::<StreamJoin>() else {
            return Err(Error::internal("a join cannot go on with the state of another kind of operator"));
        };
        let StreamJoin { keys, left, right, snapshots, watermark, disk, timers, due, versions, .. } = *former;
        (self.keys, self.snapshots, self.watermark, self.disk) = (keys, snapshots.succeed(), watermark, disk);
        (self.timers, self.due) = (timers, due);
        let (mut left, mut right): (Side, Side) = (left, right);
        for (own, former) in [(&mut self.left, &mut left), (&mut self.right, &mut right)] {
            former.times = own.times.take().map(|own| own.follow(former.times.take()));
        }
        (self.left, self.right, self.versions) = (left, right, versions);
        Ok(())
    }
}
