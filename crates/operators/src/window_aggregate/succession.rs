//! Whether an aggregate of the next plan version takes over the state of the former one, in memory.

use anabranch_dataflow::{AggregateSpec, Expr, WindowAggregateSpec};
use anabranch_model::Result;
use arrow::datatypes::Field;

use super::function::AggregateFunctions;
use super::{Panes, state_schema};
use crate::operator::same_kind;
use crate::{Functions, State};

/// Whether an aggregate can take over the state of another one. The expressions of keys, arguments, filters
/// and event time may differ: state has only their values. Constant arguments, such as a separator, must be
/// the same: they are part of the functions that have the state.
pub(crate) fn goes_on(former: &WindowAggregateSpec, next: &WindowAggregateSpec, functions: &Functions) -> bool {
    let kinds = |spec: &WindowAggregateSpec| {
        (spec.phase, spec.window, spec.time_type.clone(), spec.keys.len(), spec.aggregates.len())
    };
    let call = |a: &AggregateSpec| (a.function.clone(), a.distinct, a.data_type.clone(), a.args.len());
    let is_constant = |arg: &Expr| matches!(arg, Expr::Literal(_));
    let same_argument = |(former, next): (&Expr, &Expr)| former == next || !(is_constant(former) || is_constant(next));
    let same_call = |(former, next): (&AggregateSpec, &AggregateSpec)| {
        call(former) == call(next) && former.args.iter().zip(&next.args).all(same_argument)
    };
    if former == next {
        return true;
    }
    if kinds(former) != kinds(next) || !former.aggregates.iter().zip(&next.aggregates).all(same_call) {
        return false;
    }
    let states = |spec: &WindowAggregateSpec| {
        let all = AggregateFunctions::new(&spec.aggregates, &spec.input_schema, functions).ok()?;
        Some((all.argument_types(), state_schema(spec, true, &all)))
    };
    let (Some((arguments, state)), Some((next_arguments, next_state))) = (states(former), states(next)) else {
        return false;
    };
    let fits = |(former, next): (&std::sync::Arc<Field>, &std::sync::Arc<Field>)| {
        former.data_type().equals_datatype(next.data_type()) && next.is_nullable() == former.is_nullable()
    };
    arguments == next_arguments
        && state.fields().len() == next_state.fields().len()
        && state.fields().iter().zip(next_state.fields()).all(fits)
}

impl Panes {
    /// Takes over the state of another aggregate, if [`goes_on`] allows it. This one has none of its own yet.
    pub(super) fn take_over(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut Panes = same_kind(former)?;
        std::mem::swap(&mut self.snapshots, &mut former.snapshots);
        std::mem::swap(&mut self.panes, &mut former.panes);
        std::mem::swap(&mut self.disk, &mut former.disk);
        std::mem::swap(&mut self.sizes, &mut former.sizes);
        std::mem::swap(&mut self.firing, &mut former.firing);
        (self.watermark, self.dropped) = (former.watermark, former.dropped);
        self.snapshots.succeed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::{AggregatePhase, NamedExpr, Window};
    use arrow::datatypes::{DataType, Schema};

    use super::super::PANE_TYPE;
    use super::*;

    /// The greatest of column `of`, of the type `of_type`, for each value of column `by`.
    fn greatest(of: usize, of_type: DataType, by: usize) -> WindowAggregateSpec {
        let mut fields = vec![Field::new("other", DataType::Utf8View, true); of.max(by) + 1];
        fields[of] = Field::new("value", of_type, true);
        fields[by] = Field::new("key", DataType::Utf8View, true);
        let key =
            NamedExpr { name: "key".into(), expr: Expr::Column(by), data_type: DataType::Utf8View, nullable: true };
        let of_value = AggregateSpec {
            name: "most".into(),
            function: "max".into(),
            args: vec![Expr::Column(of)],
            distinct: false,
            filter: None,
            data_type: fields[of].data_type().clone(),
            nullable: true,
        };
        WindowAggregateSpec {
            phase: AggregatePhase::Final,
            window: Window::Global,
            time: None,
            time_type: PANE_TYPE,
            keys: vec![key],
            aggregates: vec![of_value],
            input_schema: std::sync::Arc::new(Schema::new(fields)),
            zone: None,
        }
    }

    #[test]
    fn state_goes_on_if_only_the_expressions_before_it_have_changed() {
        let goes_on =
            |next: &WindowAggregateSpec| goes_on(&greatest(0, DataType::Int64, 1), next, &Functions::default());
        assert!(goes_on(&greatest(0, DataType::Int64, 1)));
        assert!(goes_on(&greatest(3, DataType::Int64, 2)), "the columns before it are others");
        let mut named = greatest(1, DataType::Int64, 0);
        named.aggregates[0].name = "greatest".into();
        named.aggregates[0].filter = Some(Expr::IsNull(Box::new(Expr::Column(1))));
        assert!(goes_on(&named));
        assert!(!goes_on(&greatest(0, DataType::Float64, 1)));
        let mut phase = greatest(0, DataType::Int64, 1);
        phase.phase = AggregatePhase::Complete;
        assert!(!goes_on(&phase));
        let mut key = greatest(0, DataType::Int64, 1);
        key.keys[0].nullable = false;
        assert!(!goes_on(&key), "the state may have a NULL");
        let mut constant = greatest(0, DataType::Int64, 1);
        constant.aggregates[0].args = vec![Expr::number(1)];
        assert!(!goes_on(&constant), "a constant may be part of what the function is");
        let mut function = greatest(0, DataType::Int64, 1);
        function.aggregates[0].function = "min".into();
        assert!(!goes_on(&function));
    }
}
