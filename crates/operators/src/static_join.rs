//! Join with a static table: build once from the side input, then probe a batch at a time.

mod index;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{JoinKind, StaticJoinSpec};
use anabranch_model::{Error, Result, batch_bytes};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, StringViewArray, StringViewBuilder,
    UInt32Array, UInt32Builder,
};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{Schema, SchemaRef};

use self::index::Index;
use crate::key_table::{INLINE, KeyTable, MISSING};
use crate::operator::RESULT_ROWS;
use crate::{CompiledExpr, Functions, Operator, Output, Sided, hash_keys};

/// This number of rows of the static side shows whether its texts recur.
const SAMPLE_ROWS: usize = 4096;

/// Hash join of a stream (probe) with a table that was read to its end (build).
pub(crate) struct StaticJoin {
    kind: JoinKind,
    probe_keys: Vec<CompiledExpr>,
    build_keys: Vec<CompiledExpr>,
    filter: Option<CompiledExpr>,
    build_schema: SchemaRef,
    /// Columns of probe and build side together, over which the filter is compiled.
    joined_schema: SchemaRef,
    output: Vec<usize>,
    output_schema: SchemaRef,
    pending: Vec<RecordBatch>,
    pending_bytes: usize,
    state_bytes_max: usize,
    table: Option<Arc<BuildTable>>,
    /// The rest of the last batch, if its rows have many matches.
    open: Option<Open>,
    hashes: Vec<u64>,
    ids: Vec<u32>,
}

/// A batch whose rows before `next` were joined.
struct Open {
    batch: RecordBatch,
    /// The key's id of each row.
    ids: Vec<u32>,
    next: usize,
}

/// A static side that was read to its end, with its index. Joins with the same side share it.
#[derive(Clone)]
pub struct StaticSide(Arc<BuildTable>);

/// The static table with an index from keys to rows.
struct BuildTable {
    rows: RecordBatch,
    keys: Index,
    /// Rows of key `id` are `of_key[starts[id]..starts[id + 1]]`.
    starts: Vec<u32>,
    of_key: Vec<u32>,
    /// Every key has one row, so a key's id finds it without a list.
    unique: bool,
}

impl StaticJoin {
    pub(crate) fn new(spec: &StaticJoinSpec, functions: &Functions, state_bytes_max: usize) -> Result<Self> {
        let (probe, build) = (&spec.probe_schema, &spec.build_schema);
        let outer = spec.kind == JoinKind::Left;
        let build_fields =
            build.fields().iter().map(|f| f.as_ref().clone().with_nullable(outer || f.is_nullable())).map(Arc::new);
        let fields: Vec<_> = probe.fields().iter().cloned().chain(build_fields).collect();
        let output: Vec<_> = spec.output.iter().map(|i| Arc::clone(&fields[*i])).collect();
        let joined_schema = Arc::new(Schema::new(fields));
        let compile = |exprs: &[anabranch_dataflow::Expr], schema: &Schema| {
            exprs.iter().map(|e| CompiledExpr::new(e, schema, functions)).collect::<Result<Vec<_>>>()
        };
        Ok(StaticJoin {
            kind: spec.kind,
            probe_keys: compile(&spec.probe_keys, probe)?,
            build_keys: compile(&spec.build_keys, build)?,
            filter: spec.filter.as_ref().map(|f| CompiledExpr::new(f, &joined_schema, functions)).transpose()?,
            build_schema: Arc::clone(build),
            joined_schema,
            output: spec.output.clone(),
            output_schema: Arc::new(Schema::new(output)),
            pending: Vec::new(),
            pending_bytes: 0,
            state_bytes_max,
            table: None,
            open: None,
            hashes: Vec::new(),
            ids: Vec::new(),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.output_schema
    }

    /// Replaces the static side by these rows, which only a few batches will probe.
    pub(crate) fn replace_side(&mut self, rows: RecordBatch) -> Result<()> {
        self.table = Some(Arc::new(BuildTable::new(rows, &mut self.build_keys)?));
        Ok(())
    }

    /// Keeps the pairs that satisfy the filter.
    fn filtered(&mut self, batch: &RecordBatch, build: &RecordBatch, pairs: Pairs) -> Result<Pairs> {
        let Some(filter) = &mut self.filter else { return Ok(pairs) };
        let all: Vec<usize> = (0..self.joined_schema.fields().len()).collect();
        let (probe_rows, build_rows) = Pairs { probe: pairs.probe.clone(), build: pairs.build.clone() }.into_arrays();
        let joined = gather(&self.joined_schema, &all, batch, Some(&probe_rows), build, &build_rows)?;
        let keep = filter.evaluate_predicate(&joined)?;
        Ok(pairs.retain(&keep))
    }

    /// Joins the next rows of the open batch. Returns false if there is none.
    fn emit_more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(Open { batch, ids, next }) = self.open.take() else { return Ok(false) };
        let table = self.table.clone().ok_or_else(|| Error::internal("rows before the end of the static side"))?;
        let rows = table.rows_with_matches(&ids[next..], RESULT_ROWS.max(ids.len()));
        let joined = self.join_rows(&batch.slice(next, rows), &ids[next..next + rows], &table)?;
        if let Some(joined) = joined {
            out.batch(joined);
        }
        let next = next + rows;
        match next < ids.len() {
            true => self.open = Some(Open { batch, ids, next }),
            false => self.ids = ids,
        }
        Ok(true)
    }

    /// Joins rows whose keys have these ids.
    fn join_rows(&mut self, batch: &RecordBatch, ids: &[u32], table: &BuildTable) -> Result<Option<RecordBatch>> {
        // Often every row has exactly one match, and the probe columns pass unchanged.
        if self.kind.gives_pairs()
            && self.filter.is_none()
            && let Some(build_rows) = table.one_match_each(ids)
        {
            return gather(&self.output_schema, &self.output, batch, None, &table.rows, &build_rows).map(Some);
        }
        let pairs = table.pairs(ids);
        let pairs = self.filtered(batch, &table.rows, pairs)?;
        let (probe_rows, build_rows) = match self.kind {
            JoinKind::Inner => pairs.into_arrays(),
            JoinKind::Left => pairs.with_unmatched(batch.num_rows()),
            JoinKind::LeftSemi | JoinKind::LeftAnti => {
                let mut keep = vec![self.kind == JoinKind::LeftAnti; batch.num_rows()];
                pairs.probe.iter().for_each(|row| keep[*row as usize] = self.kind == JoinKind::LeftSemi);
                let kept = batch.project(&self.output)?;
                return Ok(Some(arrow::compute::filter_record_batch(&kept, &BooleanArray::from(keep))?));
            }
        };
        if probe_rows.is_empty() {
            return Ok(None);
        }
        let identity = probe_rows.len() == batch.num_rows()
            && probe_rows.values().iter().enumerate().all(|(row, probe)| row as u32 == *probe);
        let probe_rows = (!identity).then_some(&probe_rows);
        gather(&self.output_schema, &self.output, batch, probe_rows, &table.rows, &build_rows).map(Some)
    }
}

impl Operator for StaticJoin {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let table = self.table.as_ref().ok_or_else(|| Error::internal("rows before the end of the static side"))?;
        let keys: Vec<ArrayRef> = self.probe_keys.iter_mut().map(|k| k.evaluate(&batch)).collect::<Result<_>>()?;
        let mut ids = std::mem::take(&mut self.ids);
        table.keys.lookup(&keys, batch.num_rows(), &mut self.hashes, &mut ids)?;
        self.open = Some(Open { batch, ids, next: 0 });
        self.emit_more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.emit_more(out)
    }

    fn sided(&mut self) -> Option<&mut dyn Sided> {
        Some(self)
    }
}

impl Sided for StaticJoin {
    fn side_batch(&mut self, batch: RecordBatch) -> Result<()> {
        self.pending_bytes += batch_bytes(&batch);
        if self.pending_bytes > self.state_bytes_max {
            let (bytes, max) = (self.pending_bytes, self.state_bytes_max);
            return Err(Error::user(format!("the static table of a join takes {bytes} bytes; the limit is {max}"))
                .remedy("SET 'state-bytes' higher, or select fewer rows and columns of the table"));
        }
        self.pending.push(batch);
        Ok(())
    }

    fn side_end(&mut self) -> Result<()> {
        let rows = concat_batches(&self.build_schema, &std::mem::take(&mut self.pending))?;
        let columns = rows.columns().iter().map(with_equal_texts_once).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(rows.schema(), columns, &options)?;
        let mut table = BuildTable::new(rows, &mut self.build_keys)?;
        table.keys = table.keys.by_heads();
        self.table = Some(Arc::new(table));
        Ok(())
    }

    fn static_side(&self) -> Option<StaticSide> {
        self.table.clone().map(StaticSide)
    }

    fn take_static_side(&mut self, StaticSide(table): StaticSide) -> Result<()> {
        if table.rows.schema_ref() != &self.build_schema {
            return Err(Error::internal("a join cannot take over the static side of another one"));
        }
        self.table = Some(table);
        Ok(())
    }
}

impl BuildTable {
    /// How many of the first rows with these key ids have at most `pairs_max` matches together; at least 1.
    fn rows_with_matches(&self, ids: &[u32], pairs_max: usize) -> usize {
        if self.unique {
            return ids.len();
        }
        let mut pairs = 0;
        let fits = |id: &&u32| {
            pairs += if **id == MISSING { 1 } else { self.matches(**id).len() };
            pairs <= pairs_max
        };
        ids.iter().take_while(fits).count().max(1)
    }

    /// The build rows of a key.
    fn matches(&self, id: u32) -> &[u32] {
        &self.of_key[self.starts[id as usize] as usize..self.starts[id as usize + 1] as usize]
    }

    /// The build row of each row with these key ids, if all of them have exactly one.
    fn one_match_each(&self, ids: &[u32]) -> Option<UInt32Array> {
        let is_one = self.unique && !ids.contains(&MISSING);
        is_one.then(|| ids.iter().map(|id| self.of_key[*id as usize]).collect::<Vec<_>>().into())
    }

    /// Pairs of probe row and build row, in order of probe rows, for probe rows whose keys have these ids.
    fn pairs(&self, ids: &[u32]) -> Pairs {
        let mut pairs = Pairs::with_capacity(ids.len());
        for (row, id) in ids.iter().enumerate() {
            match (*id, self.unique) {
                (MISSING, _) => {}
                (id, true) => pairs.push(row as u32, self.of_key[id as usize]),
                (id, false) => self.matches(id).iter().for_each(|build| pairs.push(row as u32, *build)),
            }
        }
        pairs
    }

    fn new(rows: RecordBatch, key_exprs: &mut [CompiledExpr]) -> Result<Self> {
        let columns: Vec<ArrayRef> = key_exprs.iter_mut().map(|k| k.evaluate(&rows)).collect::<Result<_>>()?;
        let mut keys = KeyTable::new(columns.iter().map(|c| c.data_type().clone()).collect())?;
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(&columns, rows.num_rows(), &mut hashes)?;
        keys.intern(&columns, &hashes, &mut ids)?;
        // A counting sort of row numbers by key id.
        let mut starts = vec![0_u32; keys.len() + 1];
        ids.iter().for_each(|id| starts[id + 1] += 1);
        let unique = starts.iter().all(|count| *count <= 1);
        for id in 0..keys.len() {
            starts[id + 1] += starts[id];
        }
        let mut next = starts.clone();
        let mut of_key = vec![0_u32; rows.num_rows()];
        for (row, id) in ids.iter().enumerate() {
            of_key[next[*id] as usize] = row as u32;
            next[*id] += 1;
        }
        Ok(BuildTable { rows, keys: Index::Table(keys), starts, of_key, unique })
    }
}

/// A column in which equal texts are stored once, if many are equal: it takes less memory, and a later group
/// table recognizes the texts by their views.
fn with_equal_texts_once(column: &ArrayRef) -> ArrayRef {
    let Some(texts) = column.as_string_view_opt() else { return Arc::clone(column) };
    let sample = texts.slice(0, texts.len().min(SAMPLE_ROWS));
    let bytes: usize = sample.iter().flatten().map(str::len).filter(|len| *len > INLINE).sum();
    let once: usize = equal_once(&sample).data_buffers().iter().map(|buffer| buffer.len()).sum();
    if once * 2 >= bytes { Arc::clone(column) } else { Arc::new(equal_once(texts)) }
}

fn equal_once(texts: &StringViewArray) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(texts.len()).with_deduplicate_strings();
    texts.iter().for_each(|text| builder.append_option(text));
    builder.finish()
}

/// Matching rows: `probe[i]` with `build[i]`, in order of probe rows.
struct Pairs {
    probe: Vec<u32>,
    build: Vec<u32>,
}

impl Pairs {
    fn with_capacity(rows: usize) -> Self {
        Pairs { probe: Vec::with_capacity(rows), build: Vec::with_capacity(rows) }
    }

    #[inline]
    fn push(&mut self, probe: u32, build: u32) {
        self.probe.push(probe);
        self.build.push(build);
    }

    fn retain(self, keep: &BooleanArray) -> Pairs {
        let mut kept = Pairs::with_capacity(keep.true_count());
        for i in keep.values().set_indices() {
            kept.push(self.probe[i], self.build[i]);
        }
        kept
    }

    fn into_arrays(self) -> (UInt32Array, UInt32Array) {
        (UInt32Array::from(self.probe), UInt32Array::from(self.build))
    }

    /// The pairs in order, plus each of the `rows` probe rows without a pair, with a null build row.
    fn with_unmatched(&self, rows: usize) -> (UInt32Array, UInt32Array) {
        let (mut probe, mut build) = (Vec::with_capacity(rows), UInt32Builder::with_capacity(rows));
        let mut pair = 0;
        for row in 0..rows as u32 {
            let first = pair;
            while self.probe.get(pair) == Some(&row) {
                probe.push(row);
                build.append_value(self.build[pair]);
                pair += 1;
            }
            if pair == first {
                probe.push(row);
                build.append_null();
            }
        }
        (UInt32Array::from(probe), build.finish())
    }
}

/// Columns `output` of the joined rows. With `probe_rows` of `None` the probe side passes unchanged.
fn gather(
    schema: &SchemaRef,
    output: &[usize],
    probe: &RecordBatch,
    probe_rows: Option<&UInt32Array>,
    build: &RecordBatch,
    build_rows: &UInt32Array,
) -> Result<RecordBatch> {
    let column = |index: &usize| match (index.checked_sub(probe.num_columns()), probe_rows) {
        (Some(index), _) => Ok(take(build.column(index), build_rows, None)?),
        (None, None) => Ok(Arc::clone(probe.column(*index))),
        (None, Some(rows)) => Ok(take(probe.column(*index), rows, None)?),
    };
    let columns = output.iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(build_rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
