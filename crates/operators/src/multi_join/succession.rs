//! Whether a join of the next plan version takes over the state of the former one, in memory.

use anabranch_dataflow::MultiJoinSpec;

use super::MultiJoin;
use crate::Functions;
use crate::join_tables::columns;

/// Whether a join can take over the state of another one. Output columns and conditions may differ: rows of
/// state do not depend on them.
pub(crate) fn goes_on(former: &MultiJoinSpec, next: &MultiJoinSpec, functions: &Functions) -> bool {
    if former == next {
        return true;
    }
    let kinds = |spec: &MultiJoinSpec| {
        let inputs: Vec<_> = spec.inputs.iter().map(|input| (input.outer, input.side.updating)).collect();
        (spec.keys, spec.nulls_equal, inputs)
    };
    let tables = |spec: &MultiJoinSpec| {
        let join = MultiJoin::new(spec, functions, &Default::default()).ok()?;
        Some(join.tables.shapes().iter().map(columns).collect::<Vec<_>>())
    };
    let former_tables = tables(former);
    kinds(former) == kinds(next) && former_tables.is_some() && former_tables == tables(next)
}
