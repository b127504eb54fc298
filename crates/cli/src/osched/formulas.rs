//! Policies that are SQL expressions over metrics.

use std::sync::{Mutex, PoisonError};

use anabranch_model::Result;
use anabranch_osched::run::Formulas;
use anabranch_schedule::{Formula, Metric};
use anabranch_server::formula;

/// A second name of `age_ms`.
const LAG: &str = "lag_ms";

/// Compiles expressions by the engine's planner.
pub(super) struct Sql;

/// An expression with the metrics that it reads.
struct OfSql {
    metrics: Vec<Metric>,
    formula: Mutex<formula::Formula>,
}

impl Formulas for Sql {
    fn compile(&self, expression: &str) -> Result<Box<dyn Formula>> {
        let names: Vec<&str> = Metric::all().map(Metric::name).chain([LAG]).collect();
        let formula = formula::Formula::new(expression, &names)?;
        let metrics = formula.columns().map(Metric::parse).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(OfSql { metrics, formula: Mutex::new(formula) }))
    }
}

impl Formula for OfSql {
    fn metrics(&self) -> Vec<Metric> {
        self.metrics.clone()
    }

    fn evaluate(&self, columns: &[Vec<f64>]) -> Result<Vec<f64>> {
        let rows = columns.first().map_or(1, Vec::len);
        self.formula.lock().unwrap_or_else(PoisonError::into_inner).evaluate(columns, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_reads_metrics_by_their_names() {
        let formula = Sql.compile("queue_rows * CASE WHEN lag_ms > 500 THEN 4 ELSE 1 END").expect("a formula");
        let metrics = formula.metrics();
        assert_eq!(metrics.iter().map(|metric| metric.name()).collect::<Vec<_>>(), ["queue_rows", "age_ms"]);
        assert_eq!(formula.evaluate(&[vec![10.0, 20.0], vec![600.0, 1.0]]).expect("values"), [40.0, 20.0]);
        let error = Sql.compile("queue_row * 2").err().expect("refused").to_string();
        assert!(error.contains("queue_rows"), "{error}");
    }
}
