//! Rows from the embedding program. The task that reads a block divides it into batches, and text into
//! records.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{Error, PartitionId, Result};
use anabranch_operators::{Connector, Malformed, Polled, Positions, Rows, Source, TaskContext};
use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::SchemaRef;

use crate::Options;
use crate::columns::{conform, match_columns};
use crate::format::{Decode, Format, batch, source_schema};
use crate::ownership::{Announcements, owned_partitions};
use crate::positions::{END, check_numbered, numbered, numbers, unreadable};

/// A bounded table of batches, or of records to decode. Blocks are assigned to the partitions round-robin.
#[derive(Clone, Debug)]
pub struct MemorySource {
    blocks: Vec<BlockContent>,
    /// The format of records and of text.
    format: Option<Format>,
    repeat: u64,
    partitions: u32,
}

impl MemorySource {
    /// A table of these rows. All batches have the schema of the first.
    #[must_use]
    pub fn batches(batches: Vec<RecordBatch>) -> Self {
        Self::new(batches.into_iter().map(BlockContent::Rows).collect(), None)
    }

    /// A table of the decoded rows of these records. A table's own option `'format'` takes precedence.
    #[must_use]
    pub fn records(blocks: Vec<BinaryArray>, format: Format) -> Self {
        Self::new(blocks.into_iter().map(BlockContent::Records).collect(), Some(format))
    }

    /// A table of the decoded rows of these pieces of text, one record per line. No line extends over two
    /// pieces. A table's own option `'format'` takes precedence.
    #[must_use]
    pub fn text(pieces: Vec<Buffer>, format: Format) -> Self {
        Self::new(pieces.into_iter().map(BlockContent::Text).collect(), Some(format))
    }

    fn new(blocks: Vec<BlockContent>, format: Option<Format>) -> Self {
        MemorySource { blocks, format, repeat: 1, partitions: 1 }
    }

    /// Returns everything `times` times.
    #[must_use]
    pub fn repeat(mut self, times: u64) -> Self {
        self.repeat = times;
        self
    }

    /// Assigns the blocks to this number of partitions: block `i` to partition `i % partitions`.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions.max(1);
        self
    }

    fn own_schema(&self) -> Option<SchemaRef> {
        match self.blocks.first()? {
            BlockContent::Rows(rows) => Some(rows.schema()),
            BlockContent::Records(_) | BlockContent::Text(_) => None,
        }
    }

    fn format(&self, spec: &ConnectorSpec) -> Result<Option<Format>> {
        let mut options = Options::new(spec);
        let format = match &self.format {
            None => None,
            Some(own) => Some(Format::optional(&mut options, "format")?.unwrap_or_else(|| own.clone())),
        };
        options.finish()?;
        Ok(format)
    }

    /// The blocks of a partition in one pass.
    fn blocks(&self, partition: usize, spec: &SourceSpec) -> Result<Vec<Block>> {
        let own = self.blocks.iter().enumerate().skip(partition).step_by(self.partitions as usize);
        let block = |(number, content): (usize, &BlockContent)| {
            let content = match content {
                BlockContent::Rows(rows) => BlockContent::Rows(select(rows, spec)?),
                content => content.clone(),
            };
            Ok(Block { number, content })
        };
        own.map(block).collect()
    }
}

impl Connector for MemorySource {
    fn is_of_process(&self) -> bool {
        true
    }

    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let schema = self.own_schema();
        if let Some(format) = self.format(spec)? {
            let all: Vec<_> = (0..columns.fields().len()).collect();
            format.decoder(columns, &all)?;
        }
        if let Some(schema) = &schema {
            match_columns(schema, columns, &spec.connector)?;
        }
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: false,
            max_readers: Some(self.partitions),
            schema,
            ..TableTraits::default()
        })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let format = self.format(&spec.connector)?;
        let decoder = format.map(|format| format.decoder(&spec.declared, &spec.projection)).transpose()?;
        check_numbered(from, &spec.table, self.partitions)?;
        let mut reader = Reader {
            table: spec.table.clone(),
            announcements: Announcements::default(),
            partitions: Vec::new(),
            ended: Positions::new(),
            turn: 0,
            held: BTreeSet::new(),
            rows_max: context.batch_rows.max(1),
            decoder,
        };
        for id in owned_partitions(self.partitions, context) {
            let name = numbered(id, self.partitions);
            let blocks = self.blocks(id as usize, spec)?;
            let mut partition = Partition { id, name, blocks, pass: 1, next: 0, at: 0, passes: self.repeat };
            if let Some(position) = from.and_then(|from| from.get(&partition.name)) {
                partition.resume(position, &spec.table)?;
                if partition.has_ended() {
                    reader.ended.insert(partition.name, END.into());
                    continue;
                }
            }
            reader.announcements.open(id, partition.name.clone());
            reader.partitions.push(partition);
        }
        Ok(Box::new(reader))
    }
}

/// The columns of the query, in their declared types.
fn select(rows: &RecordBatch, spec: &SourceSpec) -> Result<RecordBatch> {
    let schema = source_schema(spec)?;
    let indexes = match_columns(rows.schema_ref(), &schema, &spec.connector.connector)?;
    let columns = indexes.iter().zip(schema.fields());
    let columns = columns.map(|(index, field)| conform(rows.column(*index).clone(), field));
    batch(&schema, columns.collect::<Result<_>>()?, rows.num_rows())
}

/// One of the embedding program's blocks, by its index among all of them.
struct Block {
    number: usize,
    content: BlockContent,
}

#[derive(Clone, Debug)]
enum BlockContent {
    Rows(RecordBatch),
    Records(BinaryArray),
    Text(Buffer),
}

impl BlockContent {
    /// Rows, records or bytes.
    fn len(&self) -> usize {
        match self {
            BlockContent::Rows(rows) => rows.num_rows(),
            BlockContent::Records(records) => records.len(),
            BlockContent::Text(text) => text.len(),
        }
    }

    /// The unit of `len`.
    fn unit(&self) -> &'static str {
        match self {
            BlockContent::Rows(_) => "row",
            BlockContent::Records(_) => "record",
            BlockContent::Text(_) => "byte",
        }
    }
}

struct Partition {
    id: u32,
    name: String,
    blocks: Vec<Block>,
    /// The current pass, from 1.
    pass: u64,
    /// Total number of passes.
    passes: u64,
    /// Next block of this pass.
    next: usize,
    /// Rows, records or bytes of it that were already returned.
    at: usize,
}

/// The result of a poll.
enum BlockPart {
    Rows(RecordBatch),
    /// Records, and their place.
    Records(BinaryArray, RecordsAt),
}

/// The place of records: in a block, from the record or the byte at `first` on.
struct RecordsAt {
    block: usize,
    unit: &'static str,
    first: usize,
}

impl Partition {
    /// Skips blocks that were returned, and empty ones.
    fn skip_empty(&mut self) {
        while self.pass <= self.passes {
            match self.blocks.get(self.next) {
                Some(block) if self.at < block.content.len() => return,
                Some(_) => (self.next, self.at) = (self.next + 1, 0),
                None if self.blocks.iter().all(|block| block.content.len() == 0) => self.pass = self.passes + 1,
                None => (self.pass, self.next, self.at) = (self.pass + 1, 0, 0),
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.pass > self.passes
    }

    fn next(&mut self, rows_max: usize) -> Result<Option<BlockPart>> {
        self.skip_empty();
        if self.has_ended() {
            return Ok(None);
        }
        let Block { number, content } = &self.blocks[self.next];
        let first = self.at;
        let count = rows_max.min(content.len() - first);
        let place = RecordsAt { block: *number, unit: content.unit(), first };
        let (piece, given) = match content {
            BlockContent::Rows(rows) => (BlockPart::Rows(rows.slice(first, count)), count),
            BlockContent::Records(records) => (BlockPart::Records(records.slice(first, count), place), count),
            BlockContent::Text(text) => {
                let records = cut_lines(text, first, rows_max)?;
                let given = records.value_offsets().last().map_or(0, |end| *end as usize);
                (BlockPart::Records(records, place), given)
            }
        };
        self.at += given;
        self.skip_empty();
        Ok(Some(piece))
    }

    /// The position of the next rows, independent of the number of tasks and the size of batches.
    fn position(&self) -> String {
        match self.blocks.get(self.next) {
            Some(Block { number, content }) if !self.has_ended() => {
                format!("pass {} block {number} {} {}", self.pass, content.unit(), self.at)
            }
            _ => END.into(),
        }
    }

    /// Moves to a position.
    fn resume(&mut self, position: &str, table: &str) -> Result<()> {
        if position == END {
            self.pass = self.passes + 1;
            return Ok(());
        }
        let unit = self.blocks.first().map_or("row", |block| block.content.unit());
        let found = numbers(position, ["pass", "block", unit]).and_then(|[pass, number, at]| {
            let next = self.blocks.iter().position(|block| block.number as u64 == number)?;
            let at = usize::try_from(at).ok().filter(|at| *at <= self.blocks[next].content.len())?;
            (pass > 0).then_some((pass, next, at))
        });
        let Some((pass, next, at)) = found else {
            let expected = format!("'pass NUMBER block NUMBER {unit} NUMBER' within the table's content, or '{END}'");
            return Err(unreadable(table, &self.name, position, &expected));
        };
        (self.pass, self.next, self.at) = (pass, next, at);
        self.skip_empty();
        Ok(())
    }
}

/// At most `rows_max` lines of `text` from `from` on, as records that keep their line ends and share the
/// text's memory.
fn cut_lines(text: &Buffer, from: usize, rows_max: usize) -> Result<BinaryArray> {
    let rest = &text.as_slice()[from..];
    let mut offsets: Vec<i32> = Vec::with_capacity(rows_max + 1);
    offsets.push(0);
    let mut lines = memchr::memchr_iter(b'\n', rest);
    while offsets.len() <= rows_max && offsets.last().is_some_and(|end| (*end as usize) < rest.len()) {
        let end = lines.next().map_or(rest.len(), |newline| newline + 1);
        offsets.push(i32::try_from(end).map_err(|_| Error::user("the lines of one batch exceed 2 GiB"))?);
    }
    let end = offsets.last().map_or(0, |end| *end as usize);
    Ok(BinaryArray::try_new(OffsetBuffer::new(offsets.into()), text.slice_with_length(from, end), None)?)
}

struct Reader {
    table: String,
    announcements: Announcements,
    partitions: Vec<Partition>,
    /// Partitions that have ended.
    ended: Positions,
    /// Index of the partition whose turn it is.
    turn: usize,
    /// Partitions that are not read for now.
    held: BTreeSet<PartitionId>,
    rows_max: usize,
    decoder: Option<Box<dyn Decode>>,
}

impl Source for Reader {
    fn poll(&mut self, _wait: Duration) -> Result<Polled> {
        if let Some(owed) = self.announcements.next() {
            return Ok(owed);
        }
        if self.partitions.is_empty() {
            return Ok(Polled::End);
        }
        let turns = (0..self.partitions.len()).map(|next| (self.turn + next) % self.partitions.len());
        let mut read = turns.filter(|turn| !self.held.contains(&PartitionId(self.partitions[*turn].id)));
        let Some(turn) = read.next() else { return Ok(Polled::Pending) };
        self.turn = turn;
        let partition = &mut self.partitions[turn];
        let id = PartitionId(partition.id);
        let (batch, malformed) = match (partition.next(self.rows_max)?, &mut self.decoder) {
            (None, _) => {
                let partition = self.partitions.remove(self.turn);
                self.ended.insert(partition.name, END.into());
                return Ok(Polled::Closed(id));
            }
            (Some(BlockPart::Rows(batch)), _) => (batch, Vec::new()),
            (Some(BlockPart::Records(records, RecordsAt { block, unit, first })), Some(decoder)) => {
                let decoded = decoder.decode(&records)?;
                let report = |(index, error)| {
                    let at = if unit == "byte" { records.value_offsets()[index] as usize } else { index };
                    Malformed {
                        place: format!("{} block {block} {unit} {}", self.table, first + at),
                        error,
                        record: records.value(index).to_vec(),
                    }
                };
                (decoded.batch, decoded.malformed.into_iter().map(report).collect())
            }
            (Some(BlockPart::Records(..)), None) => return Err(Error::internal("records without a decoder")),
        };
        self.turn += 1;
        Ok(Polled::Rows(Rows { partition: id, batch, malformed }))
    }

    fn hold(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<bool> {
        self.held.clone_from(partitions);
        Ok(true)
    }

    fn positions(&self) -> Result<Positions> {
        let unfinished = self.partitions.iter().map(|p| (p.name.clone(), p.position()));
        Ok(self.ended.clone().into_iter().chain(unfinished).collect())
    }
}
