//! External tables: partitioned logs that are read from positions, and tables in which a sink's rows become
//! visible by commits that may be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits, Updates};
use anabranch_model::{Clock, Epoch, Error, PartitionId, Result};
use anabranch_operators::{
    Committable, Connector, Connectors, Delivery, Malformed, Polled, Positions, Rows, Sink, Source, TaskContext,
};
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::outside::{Happened, ProcessId, Shared};
use super::query::Contents;
use crate::Mutation;

/// The position of a partition that was read to its end and reported that.
pub(crate) const CLOSED: &str = "closed";
/// The same, if all partitions of its reader were, and the reader was not polled since.
pub(crate) const LAST: &str = "last";
/// The same, after its reader has reported its own end.
pub(crate) const END: &str = "end";

/// The name of a partition of a table.
pub(crate) fn partition_name(table: &str, id: usize) -> String {
    format!("{table}/{id}")
}

/// A partition that stays open for long after its last row.
#[derive(Clone, Debug)]
pub(crate) struct Quiet {
    pub(crate) name: String,
    pub(crate) until_turn: u64,
}

/// The behaviour of readers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    /// They read up to these positions, and then have no rows. `None`: to the ends.
    pub(crate) upto: Option<Arc<Positions>>,
    /// Tables end at these positions.
    pub(crate) ends: bool,
    /// The partition that stays open. Then readers are fair: no other partition becomes idle while it has
    /// rows.
    pub(crate) quiet: Option<String>,
    /// They can leave out partitions that are ahead of others.
    pub(crate) hold: bool,
    /// The planted bug, if it is in a source or sink.
    pub(crate) mutation: Option<Mutation>,
}

/// The tables, as one process accesses them.
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
        connectors.register(HERE, Arc::new(Here(self.clone())));
        connectors.register("log", Arc::new(self));
        connectors
    }
}

/// The kind of tables that exist only in the coordinator's process.
pub(crate) const HERE: &str = "here";

/// The same tables, which only the coordinator's process can write.
struct Here(Tables);

impl Connector for Here {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.0.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        self.0.source(spec, context, from)
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        self.0.sink(spec, context)
    }

    fn is_of_process(&self) -> bool {
        true
    }
}

impl Connector for Tables {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: true,
            updates: Updates::Written,
            ..TableTraits::default()
        })
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
            last_read: 0,
            held: BTreeSet::new(),
            ended: false,
            clock: Arc::clone(&context.clock),
            newest_ms: i64::MIN,
        };
        for id in (context.index as usize..count).step_by(context.parallelism as usize) {
            let name = partition_name(&spec.table, id);
            let position = from.and_then(|from| from.get(&name)).map(String::as_str);
            let next = match position {
                None | Some(CLOSED | LAST | END) => 0,
                Some(text) => text.parse().map_err(|_| Error::internal(format!("the position '{text}' of {name}")))?,
            };
            let upto = self.readers.upto.as_ref().map(|upto| upto.get(&name).map_or("0", String::as_str).to_owned());
            let ended = matches!(position, Some(CLOSED | LAST | END));
            reader.partitions.push(Reading { id, name, next, before: next, ended, upto });
        }
        // A partition that has ended is not opened again.
        reader.partitions.sort_by_key(|partition| partition.ended);
        Ok(Box::new(reader))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let scope = match &context.delivery {
            Delivery::ExactlyOnce { scope, .. } => Some(scope.clone()),
            Delivery::AtLeastOnce => None,
        };
        let (tables, table, task) = (self.clone(), spec.table.clone(), context.index);
        let columns = spec.schema.fields().len();
        let (lines, kept_back, has_written) = (Vec::new(), None, false);
        Ok(Box::new(Writer { tables, table, columns, task, scope, lines, kept_back, has_written }))
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
    /// The partition that was read last.
    last_read: usize,
    /// Partitions that are ahead of others.
    held: BTreeSet<PartitionId>,
    ended: bool,
    clock: Arc<dyn Clock>,
    /// The latest time of day at which it has read rows.
    newest_ms: i64,
}

struct Reading {
    id: usize,
    name: String,
    next: usize,
    /// Its position before the last batch.
    before: usize,
    ended: bool,
    /// The position where it stops.
    upto: Option<String>,
}

impl Reading {
    /// How far it may be read, and whether that is its end.
    fn end(&self, rows: usize, ends: bool) -> (usize, bool) {
        match self.upto.as_deref() {
            None | Some(CLOSED | LAST | END) => (rows, true),
            Some(position) => (position.parse().unwrap_or(0), ends),
        }
    }
}

impl Reader {
    /// Partitions that have rows, or an end to report, and are not held.
    fn candidates(&self) -> Vec<usize> {
        let contents = &self.tables.contents[self.table.as_str()];
        let quiet = self.tables.readers.quiet.as_ref().filter(|_| !self.tables.shared.lock().quiet_is_over);
        let open = |partition: &Reading| {
            let (end, closes) = partition.end(contents[partition.id].rows.num_rows(), self.tables.readers.ends);
            let is_free = !partition.ended && !self.held.contains(&PartitionId(partition.id as u32));
            is_free && (partition.next < end || (closes && quiet != Some(&partition.name)))
        };
        (0..self.partitions.len()).filter(|index| open(&self.partitions[*index])).collect()
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
        let candidates = self.candidates();
        if candidates.is_empty() {
            self.tables.shared.lock().dry.insert((self.table.clone(), self.task));
            let ends = self.tables.readers.ends;
            let may_end = |partition: &Reading| partition.upto.as_deref().is_none_or(|upto| ends || upto == END);
            self.ended = self.partitions.iter().all(|partition| partition.ended && may_end(partition));
            return Ok(if self.ended { Polled::End } else { Polled::Pending });
        }
        let fair = self.tables.readers.quiet.is_some();
        let next = candidates.iter().copied().find(|index| *index > self.last_read).unwrap_or(candidates[0]);
        let (which, rows_max) = self.tables.shared.call(self.tables.process, |outside| {
            let drawn = candidates[outside.below(candidates.len())];
            (if fair { next } else { drawn }, outside.poll_rows.min(self.rows_max).max(1))
        })?;
        self.last_read = which;
        let partition = &self.partitions[which];
        let content = content(partition);
        let (end, _) = partition.end(content.rows.num_rows(), self.tables.readers.ends);
        let (first, count) = (partition.next, rows_max.min(end - partition.next));
        let partition = &mut self.partitions[which];
        partition.before = first;
        let id = PartitionId(partition.id as u32);
        if count == 0 {
            partition.ended = true;
            return Ok(Polled::Closed(id));
        }
        partition.next += count;
        let (now_ms, before_ms) = (self.clock.wall_ms(), self.newest_ms);
        self.newest_ms = now_ms.max(before_ms);
        if self.tables.readers.mutation == Some(Mutation::NewerByWallClock) && now_ms < before_ms {
            return Ok(Polled::Pending);
        }
        let name = &partition.name;
        let malformed = content.malformed.range(first..first + count).map(|row| Malformed {
            place: format!("{name} record {row}"),
            error: "it is broken".into(),
            record: format!("record {row}").into_bytes(),
        });
        let malformed: Vec<Malformed> = malformed.collect();
        let mut batch = select(&content.rows.slice(first, count), &self.schema)?;
        if !malformed.is_empty() {
            let good = (first..first + count).map(|row| Some(!content.malformed.contains(&row)));
            batch = filter_record_batch(&batch, &good.collect::<BooleanArray>())?;
        }
        Ok(Polled::Rows(Rows { partition: id, batch, malformed }))
    }

    fn hold(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<bool> {
        if self.tables.readers.hold {
            self.held.clone_from(partitions);
        }
        Ok(self.tables.readers.hold)
    }

    fn positions(&self) -> Result<Positions> {
        let late = self.tables.readers.mutation == Some(Mutation::PositionOneBatchLate);
        let all_closed = self.partitions.iter().all(|p| p.ended);
        let position = |p: &Reading| match (p.ended, late) {
            (true, _) if self.ended => END.to_owned(),
            (true, _) if all_closed => LAST.to_owned(),
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
        let column = rows.column_by_name(field.name());
        column.cloned().ok_or_else(|| Error::internal(format!("no column {field}")))
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

struct Writer {
    tables: Tables,
    table: String,
    /// Columns without a weight, which follows if rows may be taken back.
    columns: usize,
    task: u32,
    /// `None`: rows become visible as they are written.
    scope: Option<String>,
    lines: Vec<String>,
    /// The rows that a planted bug writes one epoch late.
    kept_back: Option<(Epoch, Vec<String>)>,
    has_written: bool,
}

impl Sink for Writer {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.has_written = true;
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch.columns().iter().take(self.columns).map(|c| ArrayFormatter::try_new(c, &options));
        let columns: Vec<_> = columns.collect::<std::result::Result<_, _>>()?;
        let weights = batch.columns().get(self.columns).map(|weights| weights.as_primitive::<Int64Type>());
        let forgets = self.tables.readers.mutation == Some(Mutation::TakenBackForgotten);
        let line = |row: usize| {
            let weight = weights.map_or(1, |weights| weights.value(row));
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            (weight > 0 || !forgets).then(|| format!("{weight} {}: {}", self.table, values.join(" | ")))
        };
        self.lines.extend((0..batch.num_rows()).filter_map(line));
        Ok(())
    }

    fn epoch_end(&mut self, epoch: Epoch) -> Result<()> {
        if self.scope.is_some() {
            return Err(Error::internal("an epoch's end writes what only a checkpoint may make visible"));
        }
        let mut handed_over = (epoch, std::mem::take(&mut self.lines));
        if self.tables.readers.mutation == Some(Mutation::HandedOverTooSoon) {
            let Some(before) = self.kept_back.replace(handed_over) else { return Ok(()) };
            handed_over = before;
        }
        let (epoch, lines) = handed_over;
        let sink = (self.table.clone(), self.task);
        let handed_over = self.tables.shared.call(self.tables.process, |outside| outside.written.extend(lines));
        let done = handed_over.is_ok();
        self.tables.shared.lock().happened.push(Happened::HandedOver { sink, epoch, done });
        handed_over
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        self.has_written = true;
        self.tables.shared.call(self.tables.process, |_| ())?;
        let Some(scope) = self.scope.as_ref().filter(|_| !self.lines.is_empty()) else { return Ok(None) };
        let content = format!("{scope}\n{}", std::mem::take(&mut self.lines).join("\n")).into_bytes();
        Ok(Some(Committable { epoch, task: self.task, content: content.into() }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        if self.tables.readers.mutation == Some(Mutation::PreparedForgotten) && !self.has_written {
            return Ok(());
        }
        let twice = self.tables.readers.mutation == Some(Mutation::CommittedTwice);
        // Rows keep the name under which they were prepared, whichever process makes them visible.
        let (scope, content) = prepared(&committable.content);
        let name = (scope, committable.task, committable.epoch);
        self.tables.shared.call(self.tables.process, |outside| {
            outside.happened.push(Happened::Committed { name: name.clone(), content: content.clone() });
            if let Some(visible) = outside.visible.get_mut(&name) {
                if twice {
                    visible.extend(&content);
                }
                outside.seen.add("repeated commits", 1);
            }
            outside.visible.entry(name).or_insert(content);
        })
    }
}

/// The content of a committable: the scope in which it was prepared, and the rows.
pub(crate) fn prepared(content: &[u8]) -> (String, Vec<u8>) {
    let end = content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len());
    (String::from_utf8_lossy(&content[..end]).into_owned(), content.get(end + 1..).unwrap_or_default().to_vec())
}

/// Adds rows to the counts of their occurrences. Each begins with how often it is added, negative if it is
/// taken back.
pub(crate) fn count<'a>(lines: impl IntoIterator<Item = &'a str>, counts: &mut BTreeMap<String, i64>) {
    for line in lines {
        let (weight, row) = line.split_once(' ').unwrap_or(("", line));
        *counts.entry(row.to_owned()).or_default() += weight.parse::<i64>().unwrap_or(1);
    }
    counts.retain(|_, count| *count != 0);
}
