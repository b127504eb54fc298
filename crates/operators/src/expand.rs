//! Expand: each row once for each grouping of `GROUPING SETS`.

use std::sync::Arc;

use anabranch_dataflow::ExpandSpec;
use anabranch_model::Result;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};

use crate::{Functions, Operator, Output, Projection};

pub(crate) struct Expand {
    keys: Projection,
    groupings: Vec<Grouping>,
    number_type: DataType,
    schema: SchemaRef,
}

struct Grouping {
    /// For each key: whether it belongs to this grouping.
    has: Vec<bool>,
    /// The number that identifies this grouping in the output.
    number: u64,
}

impl Expand {
    pub(crate) fn new(spec: &ExpandSpec, input: &SchemaRef, functions: &Functions) -> Result<Self> {
        let grouping = |set: &anabranch_dataflow::Grouping| Grouping {
            has: (0..spec.keys.len()).map(|key| set.keys.contains(&key)).collect(),
            number: set.number,
        };
        Ok(Expand {
            keys: Projection::new(&spec.keys, input, functions)?,
            groupings: spec.groupings.iter().map(grouping).collect(),
            number_type: spec.number.data_type().clone(),
            schema: Arc::new(spec.output_schema(input)),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Operator for Expand {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let keys = self.keys.apply(&batch)?;
        let nulls: Vec<ArrayRef> =
            keys.columns().iter().map(|key| new_null_array(key.data_type(), batch.num_rows())).collect();
        for grouping in &self.groupings {
            let number = UInt64Array::from_value(grouping.number, batch.num_rows());
            let mut columns = batch.columns().to_vec();
            let keys = keys.columns().iter().zip(&nulls).zip(&grouping.has);
            columns.extend(keys.map(|((key, null), has)| Arc::clone(if *has { key } else { null })));
            columns.push(cast(&number, &self.number_type)?);
            out.batch(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        }
        Ok(())
    }
}
