//! Policies that are SQL expressions over metrics.

use anabranch_model::Result;
use anabranch_schedule::{Formula, Metric};
use anabranch_server::formula;

/// A second name of `age_ms`.
const LAG: &str = "lag_ms";

/// Compiles an expression by the engine's planner.
pub(super) fn compile(expression: &str) -> Result<Formula> {
    let names: Vec<&str> = Metric::all().map(Metric::name).chain([LAG]).collect();
    let mut formula = formula::Formula::new(expression, &names)?;
    let metrics = formula.columns().map(Metric::parse).collect::<Result<Vec<_>>>()?;
    let evaluate = move |columns: &[Vec<f64>]| formula.evaluate(columns, columns.first().map_or(1, Vec::len));
    Ok(Formula { metrics, evaluate: Box::new(evaluate) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_reads_metrics_by_their_names() {
        let mut formula = compile("queue_rows * CASE WHEN lag_ms > 500 THEN 4 ELSE 1 END").expect("a formula");
        assert_eq!(formula.metrics.iter().map(|metric| metric.name()).collect::<Vec<_>>(), ["queue_rows", "age_ms"]);
        assert_eq!((formula.evaluate)(&[vec![10.0, 20.0], vec![600.0, 1.0]]).expect("values"), [40.0, 20.0]);
        let error = compile("queue_row * 2").err().expect("refused").to_string();
        assert!(error.contains("queue_rows"), "{error}");
    }
}
