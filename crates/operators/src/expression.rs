//! Expressions of the plan compiled to DataFusion's vectorized physical expressions, and to our own where
//! those differ from SQL.

mod cast;
pub(crate) mod compile;
mod constant;
pub(crate) mod decimal;
mod float;
mod own;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{Expr, NamedExpr, sql_names};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::{AggregateUDF, ColumnarValue, ScalarUDF};
use datafusion_physical_expr::{PhysicalExpr, expressions};

/// Functions by name, as the planner resolved them.
pub struct Functions {
    scalar: &'static BTreeMap<String, Arc<ScalarUDF>>,
    aggregate: BTreeMap<String, Arc<AggregateUDF>>,
    config: Arc<ConfigOptions>,
}

impl Default for Functions {
    fn default() -> Self {
        let aggregate = datafusion_functions_aggregate::all_default_aggregate_functions();
        Functions {
            scalar: anabranch_functions::scalar_functions(),
            aggregate: aggregate.into_iter().map(|f| (f.name().to_owned(), f)).collect(),
            config: Arc::new(ConfigOptions::default()),
        }
    }
}

impl Functions {
    pub(crate) fn scalar(&self, name: &str) -> Result<Arc<ScalarUDF>> {
        self.scalar.get(name).cloned().ok_or_else(|| unknown(name))
    }

    pub(crate) fn aggregate(&self, name: &str) -> Result<Arc<AggregateUDF>> {
        self.aggregate.get(name).cloned().ok_or_else(|| unknown(name))
    }
}

fn unknown(name: &str) -> Error {
    Error::user(format!("the plan calls the function '{name}', which this version does not have"))
        .remedy("plan the query again with this version")
}

/// An expression ready to run over batches of one schema.
pub struct CompiledExpr {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    /// For messages.
    text: String,
    may_fail: bool,
    /// The values of a literal, for the longest batch so far.
    constant: Option<ArrayRef>,
}

impl CompiledExpr {
    /// Compiles `expr` over columns of `schema`.
    pub fn new(expr: &Expr, schema: &Schema, functions: &Functions) -> Result<Self> {
        let physical = compile::physical(expr, schema, functions)?;
        let data_type = physical.data_type(schema).map_err(|e| Error::internal(e.strip_backtrace()))?;
        let may_fail = expr.may_fail(&types_of(schema));
        Ok(CompiledExpr { physical, data_type, text: text_of(expr, schema), may_fail, constant: None })
    }

    /// Type of the values.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The expression, for messages.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// See [`Expr::may_fail`].
    pub(crate) fn may_fail(&self) -> bool {
        self.may_fail
    }

    pub(crate) fn physical(&self) -> &Arc<dyn PhysicalExpr> {
        &self.physical
    }

    /// One value per row of `batch`.
    pub fn evaluate(&mut self, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        if let Some(constant) = self.constant.as_ref().filter(|c| c.len() >= rows) {
            return Ok(constant.slice(0, rows));
        }
        match self.physical.evaluate(batch).map_err(|e| runtime_error(&e).at(self.text.clone()))? {
            ColumnarValue::Array(array) => Ok(array),
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array_of_size(rows).map_err(|e| runtime_error(&e))?;
                if self.physical.is::<expressions::Literal>() {
                    self.constant = Some(array.clone());
                }
                Ok(array)
            }
        }
    }

    /// One value per row of `batch` in `selection`. Other rows have an unspecified value, and cannot make the
    /// expression fail.
    pub(crate) fn evaluate_where(&mut self, batch: &RecordBatch, selection: &BooleanArray) -> Result<ArrayRef> {
        let values = self.physical.evaluate_selection(batch, selection);
        let values = values.map_err(|e| runtime_error(&e).at(self.text.clone()))?;
        values.into_array(batch.num_rows()).map_err(|e| runtime_error(&e))
    }

    /// The rows of `batch` for which the expression is true.
    pub fn evaluate_predicate(&mut self, batch: &RecordBatch) -> Result<BooleanArray> {
        let array = self.evaluate(batch)?;
        let values = array.as_boolean_opt().ok_or_else(|| Error::internal("a predicate is not boolean"))?;
        Ok(match values.null_count() {
            0 => values.clone(),
            _ => arrow::compute::prep_null_mask_filter(values),
        })
    }
}

/// The types of columns, for [`Expr::may_fail`].
pub(crate) fn types_of(schema: &Schema) -> impl Fn(usize) -> Option<DataType> + '_ {
    |index| schema.fields().get(index).map(|field| field.data_type().clone())
}

/// Named expressions evaluated together into a batch.
pub struct Projection {
    columns: Vec<CompiledExpr>,
    schema: SchemaRef,
}

impl Projection {
    /// Compiles `columns` over `input`.
    pub fn new(columns: &[NamedExpr], input: &Schema, functions: &Functions) -> Result<Self> {
        let fields: Vec<_> = columns.iter().map(NamedExpr::field).collect();
        let compile = |c: &NamedExpr| CompiledExpr::new(&c.expr, input, functions).map_err(|e| e.at(c.name.clone()));
        Ok(Projection {
            columns: columns.iter().map(compile).collect::<Result<_>>()?,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// Schema of the batches that [`Projection::apply`] returns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Evaluates the columns over a batch.
    pub fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(|c| c.evaluate(batch)).collect::<Result<_>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// An error of an expression over data: a user's error, in the data or the query.
pub(crate) fn runtime_error(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Internal(message) => Error::internal(message.clone()),
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::CastError(message) | ArrowError::ParseError(message) => {
                Error::user(sql_names(message)).remedy("TRY_CAST gives NULL for a value that does not fit")
            }
            ArrowError::DivideByZero => {
                Error::user("division by zero").remedy("a / NULLIF(b, 0) gives NULL where b is 0")
            }
            ArrowError::ArithmeticOverflow(message) => Error::user(format!("a number is out of range: {message}"))
                .remedy("cast the operands to a wider type, for example DECIMAL(38, 0) or DOUBLE"),
            ArrowError::ComputeError(message)
                if message.starts_with("Date arithmetic overflow") || message == "Timestamp out of range" =>
            {
                Error::user("a time is out of range").remedy("exclude such rows with WHERE, or use a smaller interval")
            }
            other => Error::user(sql_names(&other.to_string())),
        },
        other => {
            let said = other.strip_backtrace();
            Error::user(sql_names(
                said.strip_prefix("Execution error: ")
                    .or_else(|| said.strip_prefix("Error during planning: "))
                    .unwrap_or(&said),
            ))
        }
    }
}

/// The text of an expression, with column names instead of `#` and an index.
fn text_of(expr: &Expr, schema: &Schema) -> String {
    let numbered = expr.to_string();
    let mut text = String::new();
    // Every second piece is inside the quotes of a string.
    for (index, piece) in numbered.split('\'').enumerate() {
        if index > 0 {
            text.push('\'');
        }
        let mut parts = piece.split('#');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let column = part[..digits].parse::<usize>().ok().and_then(|column| schema.fields().get(column));
            match column.filter(|_| index % 2 == 0) {
                Some(field) => text.extend([field.name(), &part[digits..]]),
                None => text.extend(["#", part]),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
