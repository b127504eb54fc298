//! Join with an outside table that is looked up for the keys of each batch. Its answer is joined like a
//! static table.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, LookupJoinSpec};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter, is_not_null, take};
use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::key_table::KeyTable;
use crate::operator::Element;
use crate::project::Project;
use crate::static_join::StaticJoin;
use crate::{
    CompiledExpr, Functions, Lookup, LookupRequests, Operator, Output, PendingRows, Projection, build_operator,
    hash_keys,
};

pub(crate) struct LookupJoin {
    join: StaticJoin,
    /// The keys of the lookup, over the main input.
    keys: Vec<CompiledExpr>,
    key_schema: SchemaRef,
    /// The operators that turn the rows of an answer into the build side of the join.
    table: Vec<Box<dyn Operator>>,
    build_schema: SchemaRef,
    lookup: Option<Box<dyn Lookup>>,
    /// The answer for each batch that follows. `None`: the batch needed no lookup.
    asked: VecDeque<Option<Arc<PendingRows>>>,
    /// The answer that is the static side of the join now.
    joined: Option<Arc<RecordBatch>>,
    hashes: Vec<u64>,
}

/// The operator, and the schema of its output.
pub(crate) fn build(
    spec: &LookupJoinSpec,
    functions: &Functions,
    options: &JobOptions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    let join = LookupJoin::new(spec, functions, options)?;
    let schema = Arc::clone(join.join.schema());
    Ok((Box::new(join), schema))
}

impl LookupJoin {
    fn new(spec: &LookupJoinSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let LookupJoinSpec { join, table, .. } = spec;
        let mut keys = Vec::with_capacity(spec.keys.len());
        let mut fields = Vec::with_capacity(spec.keys.len());
        let decoded = table.decoded()?;
        for key in &spec.keys {
            let compiled = CompiledExpr::new(&join.probe_keys[key.key], &join.probe_schema, functions)?;
            fields.push(Field::new(decoded.field(key.column).name(), compiled.data_type().clone(), false));
            keys.push(compiled);
        }
        let mut operators: Vec<Box<dyn Operator>> = Vec::new();
        let mut schema = Arc::new(decoded);
        if !table.columns.is_empty() {
            let projection = Projection::new(&table.columns, &schema, functions)?;
            schema = Arc::clone(projection.schema());
            operators.push(Box::new(Project { projection }));
        }
        for operator in &spec.operators {
            let (operator, output) = build_operator(operator, &schema, options, functions)?;
            operators.push(operator);
            schema = output;
        }
        Ok(LookupJoin {
            join: StaticJoin::new(join, functions, options.state_bytes)?,
            keys,
            key_schema: Arc::new(Schema::new(fields)),
            table: operators,
            build_schema: Arc::clone(&join.build_schema),
            lookup: None,
            asked: VecDeque::new(),
            joined: None,
            hashes: Vec::new(),
        })
    }

    /// The distinct keys of a batch, without those that have a NULL.
    fn keys_of(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = self.keys.iter_mut().map(|key| key.evaluate(batch)).collect::<Result<_>>()?;
        let mut all = RecordBatch::try_new(Arc::new(nullable(&self.key_schema)), columns)?;
        for column in 0..all.num_columns() {
            if all.column(column).null_count() > 0 {
                let valid = is_not_null(all.column(column))?;
                let columns =
                    all.columns().iter().map(|column| filter(column, &valid)).collect::<Result<Vec<_>, _>>()?;
                all = RecordBatch::try_new(all.schema(), columns)?;
            }
        }
        let mut table = KeyTable::new(all.columns().iter().map(|column| column.data_type().clone()).collect())?;
        let mut ids = Vec::new();
        hash_keys(all.columns(), all.num_rows(), &mut self.hashes)?;
        table.intern(all.columns(), &self.hashes, &mut ids)?;
        let mut first = Vec::with_capacity(table.len());
        for (row, id) in ids.iter().enumerate() {
            if *id == first.len() {
                first.push(row as u32);
            }
        }
        let first = UInt32Array::from(first);
        let columns = all.columns().iter().map(|column| take(column, &first, None)).collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.key_schema), columns)?)
    }

    /// Makes an answer the static side of the join, unless it already is.
    fn take_answer(&mut self, rows: Arc<RecordBatch>) -> Result<()> {
        if self.joined.as_ref().is_some_and(|joined| Arc::ptr_eq(joined, &rows)) {
            return Ok(());
        }
        let mut batches = vec![rows.as_ref().clone()];
        for operator in &mut self.table {
            let mut out = Output::default();
            for batch in batches.drain(..).filter(|batch| batch.num_rows() > 0) {
                operator.batch(batch, &mut out)?;
                while operator.more(&mut out)? {}
            }
            batches.extend(out.drain().filter_map(|element| match element {
                Element::Batch(batch) => Some(batch),
                Element::Watermark(_) => None,
            }));
        }
        self.joined = Some(rows);
        let batches = batches.iter().map(|batch| batch.columns().to_vec());
        let typed = batches.map(|columns| RecordBatch::try_new(Arc::clone(&self.build_schema), columns));
        let all = concat_batches(&self.build_schema, &typed.collect::<Result<Vec<_>, _>>()?)?;
        self.join.replace_side(all)
    }
}

fn nullable(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>())
}

impl Operator for LookupJoin {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let asked = self.asked.pop_front().ok_or_else(|| Error::internal("a batch without a requested lookup"))?;
        let rows = match asked {
            Some(answer) => answer.take().ok_or_else(|| Error::internal("a batch before its answer"))??,
            // Rows with NULL in a key match nothing in any answer.
            None => match &self.joined {
                Some(rows) => Arc::clone(rows),
                None => Arc::new(RecordBatch::new_empty(Arc::clone(&self.build_schema))),
            },
        };
        if self.joined.is_none() && rows.num_rows() == 0 {
            self.join.replace_side(RecordBatch::new_empty(Arc::clone(&self.build_schema)))?;
        } else {
            self.take_answer(rows)?;
        }
        self.join.batch(batch, out)
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.join.more(out)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.join.watermark(watermark, out)
    }

    fn lookup_requests(&mut self) -> Option<&mut dyn LookupRequests> {
        Some(self)
    }
}

impl LookupRequests for LookupJoin {
    fn take_lookup(&mut self, lookup: Box<dyn Lookup>) -> Result<()> {
        self.lookup = Some(lookup);
        Ok(())
    }

    fn request(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.keys_of(batch)?;
        let lookup = self.lookup.as_mut().ok_or_else(|| Error::internal("a lookup join without its table"))?;
        self.asked.push_back(if keys.num_rows() > 0 { Some(lookup.request(&keys)?) } else { None });
        Ok(())
    }

    fn is_answered(&self) -> bool {
        !matches!(self.asked.front(), Some(Some(answer)) if !answer.has_arrived())
    }

    fn answers_bytes(&self) -> usize {
        self.lookup.as_ref().map_or(0, |lookup| lookup.waiting_bytes())
    }
}
