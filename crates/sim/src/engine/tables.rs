//! Tables outside: partitioned logs that are read from positions, and tables in which a sink's rows become visible by
//! commits that may be repeated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Epoch, Error, PartitionId, Result};
use anabranch_operators::{
    Committable, Connector, Connectors, Delivery, Malformed, Polled, Positions, Rows, Sink, Source, TaskContext,
};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::outside::{Happened, ProcessId, Shared};
use super::query::Contents;

/// The position of a partition that was read to its end, and said so.
pub(crate) const CLOSED: &str = "closed";
/// The same, when its reader has said that it has come to its end as a whole.
pub(crate) const END: &str = "end";

/// How readers behave, beside reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    /// They read up to these positions, and then have nothing to give. `None`: to the ends.
    pub(crate) upto: Option<Arc<Positions>>,
    /// The planted bug: positions are those before the last batch.
    pub(crate) late: bool,
    /// The planted bug: a sink forgets what it has to make visible before it writes.
    pub(crate) forgetful: bool,
}

/// The tables, as one process reaches them.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) shared: Shared,
    pub(crate) process: ProcessId,
    pub(crate) contents: Arc<Contents>,
    pub(crate) readers: Readers,
}

impl Tables {
    pub(crate) fn connectors(self) -> Connectors {
        let mut connectors = Connectors::default();
        connectors.register("log", Arc::new(self));
        connectors
    }
}

impl Connector for Tables {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits { bounded: true, readable: true, writable: true, max_readers: None, schema: None })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let count = self.contents.get(spec.table.as_str()).map_or(0, Vec::len);
        let mut reader = Reader {
            tables: self.clone(),
            table: spec.table.clone(),
            task: context.index,
            schema: Arc::new(spec.declared.project(&spec.projection)?),
            rows_max: context.batch_rows.max(1),
            opened: 0,
            partitions: Vec::new(),
            ended: false,
        };
        for id in (context.index as usize..count).step_by(context.parallelism as usize) {
            let name = format!("{}/{id}", spec.table);
            let position = from.and_then(|from| from.get(&name)).map(String::as_str);
            let next = match position {
                None | Some(CLOSED | END) => 0,
                Some(text) => text.parse().map_err(|_| Error::internal(format!("the position '{text}' of {name}")))?,
            };
            let upto = self.readers.upto.as_ref().map(|upto| upto.get(&name).map_or("0", String::as_str).to_owned());
            let ended = matches!(position, Some(CLOSED | END));
            reader.partitions.push(Reading { id, name, next, before: next, ended, upto });
        }
        // What has ended is not opened again.
        reader.partitions.sort_by_key(|partition| partition.ended);
        Ok(Box::new(reader))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let scope = match &context.delivery {
            Delivery::ExactlyOnce { scope } => Some(scope.clone()),
            Delivery::AtLeastOnce => None,
        };
        let (tables, table, task) = (self.clone(), spec.table.clone(), context.index);
        Ok(Box::new(Writer { tables, table, task, scope, lines: Vec::new(), has_written: false }))
    }
}

struct Reader {
    tables: Tables,
    table: String,
    task: u32,
    schema: SchemaRef,
    rows_max: usize,
    /// Partitions that were announced.
    opened: usize,
    partitions: Vec<Reading>,
    ended: bool,
}

struct Reading {
    id: usize,
    name: String,
    next: usize,
    /// Where it stood before the last batch.
    before: usize,
    ended: bool,
    /// Where it stops, as a position.
    upto: Option<String>,
}

impl Reading {
    /// How far it may be read, and whether that is its end.
    fn end(&self, rows: usize) -> (usize, bool) {
        match self.upto.as_deref() {
            None | Some(CLOSED | END) => (rows, true),
            Some(position) => (position.parse().unwrap_or(0), false),
        }
    }
}

impl Source for Reader {
    fn poll(&mut self, _: Duration) -> Result<Polled> {
        if let Some(partition) = self.partitions.get(self.opened).filter(|partition| !partition.ended) {
            self.opened += 1;
            let name = partition.name.clone();
            return Ok(Polled::Opened { partition: PartitionId(partition.id as u32), name });
        }
        let contents = Arc::clone(&self.tables.contents);
        let content = |partition: &Reading| &contents[self.table.as_str()][partition.id];
        let open = |partition: &Reading| {
            let (end, closes) = partition.end(content(partition).rows.num_rows());
            !partition.ended && (partition.next < end || closes)
        };
        let candidates: Vec<usize> =
            (0..self.partitions.len()).filter(|index| open(&self.partitions[*index])).collect();
        if candidates.is_empty() {
            self.tables.shared.lock().dry.insert((self.table.clone(), self.task));
            let may_end = |partition: &Reading| partition.upto.as_deref().is_none_or(|upto| upto == END);
            self.ended = self.partitions.iter().all(|partition| partition.ended && may_end(partition));
            return Ok(if self.ended { Polled::End } else { Polled::Pending });
        }
        let (which, rows_max) = self.tables.shared.call(self.tables.process, |outside| {
            (candidates[outside.below(candidates.len())], outside.poll_rows.min(self.rows_max).max(1))
        })?;
        let partition = &self.partitions[which];
        let (content, (end, _)) = (content(partition), partition.end(content(partition).rows.num_rows()));
        let (first, count) = (partition.next, rows_max.min(end - partition.next));
        let partition = &mut self.partitions[which];
        partition.before = first;
        let id = PartitionId(partition.id as u32);
        if count == 0 {
            partition.ended = true;
            return Ok(Polled::Closed(id));
        }
        partition.next += count;
        let name = &partition.name;
        let malformed = content.malformed.range(first..first + count).map(|row| Malformed {
            place: format!("{name} record {row}"),
            error: "it is broken".into(),
            record: format!("record {row}").into_bytes(),
        });
        let good: BooleanArray = (first..first + count).map(|row| Some(!content.malformed.contains(&row))).collect();
        let batch = filter_record_batch(&select(&content.rows.slice(first, count), &self.schema)?, &good)?;
        Ok(Polled::Rows(Rows { partition: id, batch, malformed: malformed.collect() }))
    }

    fn positions(&self) -> Result<Positions> {
        let late = self.tables.readers.late;
        let position = |p: &Reading| match (p.ended, late) {
            (true, _) if self.ended => END.to_owned(),
            (true, _) => CLOSED.to_owned(),
            (false, true) => p.before.to_string(),
            (false, false) => p.next.to_string(),
        };
        Ok(self.partitions.iter().map(|p| (p.name.clone(), position(p))).collect())
    }

    fn epoch_done(&mut self, epoch: Epoch) -> Result<()> {
        self.tables.shared.lock().happened.push(Happened::MayGiveUp(epoch));
        Ok(())
    }
}

/// The columns of `schema`, by name.
fn select(rows: &RecordBatch, schema: &Arc<Schema>) -> Result<RecordBatch> {
    let column = |field: &Arc<arrow::datatypes::Field>| -> Result<ArrayRef> {
        let column = rows.column_by_name(field.name()).ok_or_else(|| Error::internal(format!("no column {field}")))?;
        Ok(cast(column, field.data_type())?)
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

struct Writer {
    tables: Tables,
    table: String,
    task: u32,
    /// `None`: rows become visible as they come.
    scope: Option<String>,
    lines: Vec<String>,
    has_written: bool,
}

impl Sink for Writer {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.has_written = true;
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options));
        let columns: Vec<_> = columns.collect::<std::result::Result<_, _>>()?;
        let line = |row: usize| {
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            format!("{}: {}", self.table, values.join(" | "))
        };
        let lines = (0..batch.num_rows()).map(line);
        match &self.scope {
            None => self.tables.shared.lock().written.extend(lines),
            Some(_) => self.lines.extend(lines),
        }
        Ok(())
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        match &self.scope {
            None => Ok(()),
            Some(_) => Err(Error::internal("an epoch's end hands over what only a checkpoint may")),
        }
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        self.has_written = true;
        self.tables.shared.call(self.tables.process, |_| ())?;
        let content = std::mem::take(&mut self.lines).join("\n").into_bytes();
        Ok((!content.is_empty()).then_some(Committable { epoch, task: self.task, content: content.into() }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        if self.tables.readers.forgetful && !self.has_written {
            return Ok(());
        }
        let scope = self.scope.clone().ok_or_else(|| Error::internal("a commit without checkpoints"))?;
        let (name, content) = ((scope, committable.task, committable.epoch), committable.content.to_vec());
        self.tables.shared.call(self.tables.process, |outside| {
            outside.happened.push(Happened::Committed { name: name.clone(), content: content.clone() });
            if outside.visible.contains_key(&name) {
                outside.repeated_commits += 1;
            }
            outside.visible.entry(name).or_insert(content);
        })
    }
}

/// Rows by how often they occur.
pub(crate) fn count<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}
