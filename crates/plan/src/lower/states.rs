//! The aggregates that can run in two phases, and the columns of their partial states.

use std::sync::Arc;

use anabranch_dataflow::AggregateSpec;
use anabranch_model::Result;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::function::StateFieldsArgs;
use datafusion_expr::{Expr, ExprSchemable};

use crate::place::planning_error;
use crate::rel::Columns;

/// Aggregates whose states merge in any order, and are much smaller than the rows.
const MERGEABLE: [&str; 26] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "var_sample",
    "covar_samp",
    "covar_pop",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "approx_distinct",
    "approx_percentile_cont",
];

/// Whether an aggregate can run in two phases. An aggregate with DISTINCT needs the rows.
pub(super) fn is_mergeable(spec: &AggregateSpec) -> bool {
    !spec.distinct && MERGEABLE.contains(&spec.function.as_str())
}

/// The columns of an aggregate's partial state, named as in its implementation.
pub(super) fn state_fields(spec: &AggregateSpec, call: &AggregateFunction, schema: &Columns) -> Result<Vec<Field>> {
    let input_fields: Vec<FieldRef> = call
        .params
        .args
        .iter()
        .map(|arg: &Expr| arg.to_field(schema).map(|(_, field)| field))
        .collect::<datafusion_common::Result<_>>()
        .map_err(planning_error)?;
    let return_field = Arc::new(spec.field());
    let fields = call
        .func
        .state_fields(StateFieldsArgs {
            name: &spec.name,
            input_fields: &input_fields,
            return_field,
            ordering_fields: &[],
            is_distinct: spec.distinct,
        })
        .map_err(planning_error)?;
    Ok(fields.iter().map(|field| field.as_ref().clone().with_metadata(Default::default())).collect())
}

/// The first column of partial window results.
pub(super) fn pane_start() -> Field {
    Field::new("pane_start", DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None), false)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion_expr::lit;
    use datafusion_physical_expr::aggregate::AggregateExprBuilder;
    use datafusion_physical_expr::expressions;

    use super::*;
    use crate::functions::Functions;

    /// The planned columns of a partial state equal those of the implementation.
    fn check(function: &str, column: &str) {
        let schema = Arc::new(Schema::new(vec![
            Field::new("i", DataType::Int64, true),
            Field::new("f", DataType::Float64, true),
            Field::new("b", DataType::Boolean, true),
        ]));
        let call = Functions::new().aggregate(function).unwrap_or_else(|| panic!("no function {function}"));
        let arity = if function.starts_with("covar") || function.starts_with("corr") || function.starts_with("regr") {
            2
        } else {
            1
        };
        let columns = Columns::of_table("t", schema.fields().iter().cloned());
        let place = schema.index_of(column).expect("a column");
        let mut args = vec![Expr::Column(columns.id(place)); arity];
        let physical_column = expressions::col(column, &schema).expect("column");
        let mut physical_args = vec![physical_column; arity];
        if function == "approx_percentile_cont" {
            args.push(lit(0.5));
            physical_args.push(expressions::lit(0.5));
        }
        let built = AggregateExprBuilder::new(Arc::clone(&call), physical_args)
            .schema(Arc::clone(&schema))
            .alias("a_1")
            .build()
            .unwrap_or_else(|e| panic!("{function}: {e}"));
        let expected: Vec<Field> =
            built.state_fields().expect("states").iter().map(|field| field.as_ref().clone()).collect();
        let spec = AggregateSpec {
            name: "a_1".into(),
            function: function.into(),
            args: Vec::new(),
            distinct: false,
            filter: None,
            data_type: built.field().data_type().clone(),
            nullable: built.field().is_nullable(),
        };
        let call = AggregateFunction::new_udf(call, args, false, None, Vec::new(), None);
        assert_eq!(state_fields(&spec, &call, &columns).expect("states"), expected, "{function}");
    }

    #[test]
    fn states_are_those_of_the_implementation() {
        for function in MERGEABLE {
            let column = match function {
                "bool_and" | "bool_or" => "b",
                "count" | "sum" | "min" | "max" => "i",
                name if name.starts_with("bit_") => "i",
                _ => "f",
            };
            check(function, column);
        }
    }
}
