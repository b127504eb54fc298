//! The logical node of rows that count several times: each row of the input as often as its last column says, without that column.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion_common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

/// The node; see the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Copies {
    pub(crate) input: Arc<LogicalPlan>,
    schema: DFSchemaRef,
}

impl Copies {
    pub(crate) fn new(input: LogicalPlan) -> Result<Self> {
        let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let mut fields: Vec<_> = fields.collect();
        fields.pop();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(Copies { input: Arc::new(input), schema })
    }

    /// The place of the last column of the input.
    pub(crate) fn number(&self) -> usize {
        self.schema.fields().len()
    }
}

impl PartialOrd for Copies {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Copies {
    fn name(&self) -> &str {
        "Copies"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Copies")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match <[LogicalPlan; 1]>::try_from(inputs) {
            Ok([input]) => Copies::new(input),
            Err(_) => internal_err!("Copies has one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.iter().copied().chain([self.number()]).collect()])
    }
}
