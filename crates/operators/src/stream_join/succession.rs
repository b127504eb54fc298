//! Whether a join of the next plan version takes over the state of the former one, in memory.

use anabranch_dataflow::StreamJoinSpec;

use super::{JoinSide, StreamJoin};
use crate::Functions;
use crate::join_tables::columns;

/// Whether a join can take over the state of another one. The output columns may differ, and also the
/// condition of an inner join, which keeps no numbers of matches.
pub(crate) fn goes_on(former: &StreamJoinSpec, next: &StreamJoinSpec, functions: &Functions) -> bool {
    if former == next {
        return true;
    }
    let kinds =
        |spec: &StreamJoinSpec| (spec.kind, spec.keys, spec.nulls_equal, spec.left.updating, spec.right.updating);
    let times = |spec: &StreamJoinSpec| (spec.left.expiry, spec.right.expiry, spec.delay_ms, spec.versions);
    let join = |spec: &StreamJoinSpec| StreamJoin::new(spec, functions, &Default::default()).ok();
    let (Some(former_join), Some(next_join)) = (join(former), join(next)) else { return false };
    let counts = former.versions.is_none()
        && [JoinSide::Left, JoinSide::Right].into_iter().any(|side| former_join.side(side).role.counts());
    let tables = |join: &StreamJoin| join.tables.shapes().iter().map(columns).collect::<Vec<_>>();
    kinds(former) == kinds(next)
        && times(former) == times(next)
        && (!counts || former.filter == next.filter)
        && tables(&former_join) == tables(&next_join)
}
