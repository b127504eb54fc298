//! A SQL expression over columns of numbers, evaluated without a job: policies of schedulers are written so.

use std::sync::Arc;

use anabranch_dataflow::{OperatorSpec, Stage};
use anabranch_model::{Error, Result};
use anabranch_operators::{Element, Functions, Operator, Output, build_operator};
use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};

use crate::{Engine, Settings};

#[cfg(test)]
mod tests;

/// An expression that is ready to be evaluated.
pub struct Formula {
    input: SchemaRef,
    operators: Vec<Box<dyn Operator>>,
}

fn not_of_one_row() -> Error {
    let error = Error::user("a priority follows from the metrics of one operator at one moment");
    error.remedy("use no aggregates, subqueries or other tables")
}

impl Formula {
    /// Plans an expression over columns of these names, which are DOUBLE and may be NULL. Its result must be
    /// a number.
    pub fn new(expression: &str, columns: &[&str]) -> Result<Formula> {
        let of = |error: Error| error.only_at(format!("expression \"{expression}\""));
        let columns: Vec<String> = columns.iter().map(|column| format!("`{column}` DOUBLE")).collect();
        if expression.contains(';') {
            return Err(of(Error::user("this is more than an expression").remedy("leave out the semicolon")));
        }
        let script = format!(
            "CREATE TABLE metrics ({}) WITH ('connector' = 'datagen');\n\
             CREATE TABLE result (priority DOUBLE) WITH ('connector' = 'blackhole');\n\
             INSERT INTO result SELECT ({expression}) FROM metrics;",
            columns.join(", ")
        );
        let settings = Settings { parallelism: Some(1), ..Settings::default() };
        let plan = Engine::default().plan(&script, &settings).map_err(of)?.plan;
        let plan = plan.ok_or_else(|| of(Error::user("this is no expression")))?;
        let of_one_row = |stage: &Stage| stage.operators.iter().all(|of| matches!(of, OperatorSpec::Project { .. }));
        let [stage] = &plan.stages[..] else { return Err(of(not_of_one_row())) };
        if !of_one_row(stage) {
            return Err(of(not_of_one_row()));
        }
        let source = stage.source.as_ref().ok_or_else(|| of(Error::internal("a plan without its source")))?;
        let input = Arc::new(source.decoded()?);
        let (mut schema, mut operators) = (Arc::clone(&input), Vec::new());
        for spec in &stage.operators {
            let (operator, output) = build_operator(spec, &schema, &plan.options, &Functions::default()).map_err(of)?;
            operators.push(operator);
            schema = output;
        }
        Ok(Formula { input, operators })
    }

    /// The columns that it reads.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.input.fields().iter().map(|field| field.name().as_str())
    }

    /// The value for each row of the columns of [`Formula::columns`], which have `rows` values. NaN stands
    /// for NULL on both sides.
    pub fn evaluate(&mut self, columns: &[Vec<f64>], rows: usize) -> Result<Vec<f64>> {
        let array = |values: &Vec<f64>| -> ArrayRef {
            Arc::new(values.iter().map(|value| Some(*value).filter(|value| !value.is_nan())).collect::<Float64Array>())
        };
        let arrays: Vec<ArrayRef> = columns.iter().map(array).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let fields = self.input.fields().iter().map(|field| Field::new(field.name(), DataType::Float64, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        for operator in &mut self.operators {
            let mut output = Output::default();
            operator.batch(batch, &mut output)?;
            let mut batches = output.drain().filter_map(|element| match element {
                Element::Batch(batch) => Some(batch),
                Element::Watermark(_) => None,
            });
            batch = match (batches.next(), batches.next()) {
                (Some(batch), None) if batch.num_rows() == rows => batch,
                _ => return Err(Error::internal("an expression has another number of values than rows")),
            };
        }
        let values = batch.column(0).as_primitive_opt::<Float64Type>();
        let values = values.ok_or_else(|| Error::internal("an expression whose value is no DOUBLE"))?;
        Ok(values.iter().map(|value| value.unwrap_or(f64::NAN)).collect())
    }
}
