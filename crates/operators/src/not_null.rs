//! NOT NULL of a sink: a row with NULL in such a column stops the job, or is dropped.

use anabranch_dataflow::NotNullSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::filter_record_batch;

use crate::{Dropped, Operator, Output};

pub(crate) struct NotNull {
    spec: NotNullSpec,
    dropped: Dropped,
}

impl NotNull {
    pub(crate) fn new(spec: NotNullSpec) -> Self {
        NotNull { spec, dropped: Dropped::default() }
    }

    fn refusal(&self, batch: &RecordBatch, column: usize) -> Error {
        let name = batch.schema_ref().field(column).name();
        Error::user(format!("column '{name}' of table '{}' is NOT NULL, and a row has NULL for it", self.spec.table))
            .remedy(format!(
                "filter such rows (WHERE {name} IS NOT NULL), replace NULL with COALESCE, or drop them all: SET \
                 'table.exec.sink.not-null-enforcer' = 'DROP'"
            ))
    }
}

impl Operator for NotNull {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let mut valid: Option<NullBuffer> = None;
        for column in &self.spec.columns {
            let array = batch.column(*column);
            if array.null_count() > 0 {
                if !self.spec.drop_rows {
                    return Err(self.refusal(&batch, *column));
                }
                valid = NullBuffer::union(valid.as_ref(), array.nulls());
            }
        }
        match valid {
            None => out.batch(batch),
            Some(valid) => {
                self.dropped.rows_with_null += valid.null_count() as u64;
                out.batch(filter_record_batch(&batch, &BooleanArray::new(valid.into_inner(), None))?);
            }
        }
        Ok(())
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }
}
