//! Rows given by the embedder. Batches and records are cut to size when the table is opened; text is cut into records as
//! it is read, by the task that reads it.

use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Error, PartitionId, Result};
use anabranch_operators::{Connector, Malformed, Polled, Rows, Sink, Source, TaskContext};
use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::SchemaRef;

use crate::Options;
use crate::columns::{conform, match_columns};
use crate::format::{Decode, Format, batch, source_schema};
use crate::ownership::{Announcements, not_writable, owned_partitions};

/// A bounded table of batches, or of records to decode. Blocks are dealt to the partitions in turn.
#[derive(Clone, Debug)]
pub struct MemorySource {
    content: Content,
    repeat: u64,
    partitions: u32,
}

#[derive(Clone, Debug)]
enum Content {
    Batches(Vec<RecordBatch>),
    Records(Vec<BinaryArray>, Format),
    Text(Vec<Buffer>, Format),
}

impl MemorySource {
    /// A table of these rows. All batches have the schema of the first.
    #[must_use]
    pub fn batches(batches: Vec<RecordBatch>) -> Self {
        MemorySource { content: Content::Batches(batches), repeat: 1, partitions: 1 }
    }

    /// A table of the rows that these records decode to. A table's own option `'format'` takes precedence.
    #[must_use]
    pub fn records(blocks: Vec<BinaryArray>, format: Format) -> Self {
        MemorySource { content: Content::Records(blocks, format), repeat: 1, partitions: 1 }
    }

    /// A table of the rows that these pieces of text decode to, one record per line; a piece ends with a line. A table's own
    /// option `'format'` takes precedence.
    #[must_use]
    pub fn text(pieces: Vec<Buffer>, format: Format) -> Self {
        MemorySource { content: Content::Text(pieces, format), repeat: 1, partitions: 1 }
    }

    /// Gives everything `times` times.
    #[must_use]
    pub fn repeat(mut self, times: u64) -> Self {
        self.repeat = times;
        self
    }

    /// Deals the blocks to this many partitions: block `i` to partition `i % partitions`.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions.max(1);
        self
    }

    fn own_schema(&self) -> Option<SchemaRef> {
        match &self.content {
            Content::Batches(batches) => batches.first().map(RecordBatch::schema),
            Content::Records(_, _) | Content::Text(_, _) => None,
        }
    }

    fn format(&self, spec: &ConnectorSpec) -> Result<Option<Format>> {
        let mut options = Options::new(spec);
        let format = match &self.content {
            Content::Batches(_) => None,
            Content::Records(_, own) | Content::Text(_, own) => {
                Some(Format::optional(&mut options, "format")?.unwrap_or_else(|| own.clone()))
            }
        };
        options.finish()?;
        Ok(format)
    }
}

impl Connector for MemorySource {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let schema = self.own_schema();
        if let Some(format) = self.format(spec)? {
            let all: Vec<_> = (0..columns.fields().len()).collect();
            format.decoder(columns, &all)?;
        }
        if let Some(schema) = &schema {
            match_columns(schema, columns, &spec.connector)?;
        }
        Ok(TableTraits { bounded: true, readable: true, writable: false, max_readers: Some(self.partitions), schema })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext) -> Result<Box<dyn Source>> {
        let format = self.format(&spec.connector)?;
        let decoder = format.map(|format| format.decoder(&spec.declared, &spec.projection)).transpose()?;
        let mut announcements = Announcements::default();
        let mut partitions = Vec::new();
        for id in owned_partitions(self.partitions, context) {
            announcements.open(id);
            let blocks = self.blocks(id as usize, spec, context)?;
            partitions.push(Partition { id, blocks, next: 0, text_at: 0, passes: self.repeat });
        }
        let (table, rows_max) = (spec.table.clone(), context.batch_rows.max(1));
        Ok(Box::new(Reader { table, announcements, partitions, turn: 0, rows_max, decoder }))
    }

    fn sink(&self, spec: &SinkSpec, _context: &TaskContext) -> Result<Box<dyn Sink>> {
        not_writable(&spec.table, &spec.connector.connector)
    }
}

impl MemorySource {
    /// What one partition gives out, poll by poll.
    fn blocks(&self, partition: usize, spec: &SourceSpec, context: &TaskContext) -> Result<Vec<Block>> {
        let step = self.partitions as usize;
        let pieces = |rows: usize| {
            let most = context.batch_rows.max(1);
            (0..rows).step_by(most).map(move |first| (first, most.min(rows - first)))
        };
        let mut out = Vec::new();
        match &self.content {
            Content::Records(blocks, _) => {
                for (block, records) in blocks.iter().enumerate().skip(partition).step_by(step) {
                    out.extend(pieces(records.len()).map(|(first, length)| Block::Records {
                        records: records.slice(first, length),
                        block,
                        first,
                    }));
                }
            }
            Content::Text(pieces, _) => {
                let own = pieces.iter().enumerate().skip(partition).step_by(step);
                out.extend(own.map(|(block, text)| Block::Text { text: text.clone(), block }));
            }
            Content::Batches(batches) => {
                for batch in batches.iter().skip(partition).step_by(step) {
                    let batch = select(batch, spec)?;
                    out.extend(pieces(batch.num_rows()).map(|(first, length)| Block::Rows(batch.slice(first, length))));
                }
            }
        }
        Ok(out)
    }
}

/// The columns of the query, in the types of the declaration.
fn select(rows: &RecordBatch, spec: &SourceSpec) -> Result<RecordBatch> {
    let schema = source_schema(spec)?;
    let indexes = match_columns(rows.schema_ref(), &schema, &spec.connector.connector)?;
    let columns = indexes.iter().zip(schema.fields());
    let columns = columns.map(|(index, field)| conform(rows.column(*index).clone(), field));
    batch(&schema, columns.collect::<Result<_>>()?, rows.num_rows())
}

/// What one poll gives out, or several of a piece of text.
enum Block {
    Rows(RecordBatch),
    /// Records of the embedder's block number `block`, from its record number `first` on.
    Records {
        records: BinaryArray,
        block: usize,
        first: usize,
    },
    /// The embedder's piece of text number `block`.
    Text {
        text: Buffer,
        block: usize,
    },
}

struct Partition {
    id: u32,
    blocks: Vec<Block>,
    /// Next block of this pass.
    next: usize,
    /// Bytes already read of the next block, if it is text.
    text_at: usize,
    /// Passes still to make, this one included.
    passes: u64,
}

/// What a poll found.
enum Piece {
    Rows(RecordBatch),
    /// Records, and where they lie.
    Records(BinaryArray, Place),
}

/// Where records lie: in a block, from the record or the byte at `first` on.
struct Place {
    block: usize,
    unit: &'static str,
    first: usize,
}

impl Partition {
    fn next(&mut self, rows_max: usize) -> Result<Option<Piece>> {
        if self.next == self.blocks.len() {
            self.next = 0;
            self.passes = self.passes.saturating_sub(1);
        }
        if self.passes == 0 {
            return Ok(None);
        }
        let Some(block) = self.blocks.get(self.next) else { return Ok(None) };
        Ok(Some(match block {
            Block::Rows(batch) => {
                self.next += 1;
                Piece::Rows(batch.clone())
            }
            Block::Records { records, block, first } => {
                self.next += 1;
                Piece::Records(records.clone(), Place { block: *block, unit: "record", first: *first })
            }
            Block::Text { text, block } => {
                let first = self.text_at;
                let records = cut_lines(text, first, rows_max)?;
                self.text_at += records.value_offsets().last().map_or(0, |end| *end as usize);
                if self.text_at >= text.len() {
                    (self.next, self.text_at) = (self.next + 1, 0);
                }
                Piece::Records(records, Place { block: *block, unit: "byte", first })
            }
        }))
    }
}

/// At most `rows_max` lines of `text` from `from` on, as records that keep their line ends and share the text's memory.
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
    /// Index of the partition whose turn it is.
    turn: usize,
    rows_max: usize,
    decoder: Option<Box<dyn Decode>>,
}

impl Source for Reader {
    fn poll(&mut self, _wait: Duration) -> Result<Polled> {
        if let Some(owed) = self.announcements.next() {
            return Ok(owed);
        }
        if self.turn >= self.partitions.len() {
            self.turn = 0;
        }
        let Some(partition) = self.partitions.get_mut(self.turn) else { return Ok(Polled::End) };
        let id = PartitionId(partition.id);
        let (batch, malformed) = match (partition.next(self.rows_max)?, &mut self.decoder) {
            (None, _) => {
                self.partitions.remove(self.turn);
                return Ok(Polled::Closed(id));
            }
            (Some(Piece::Rows(batch)), _) => (batch, Vec::new()),
            (Some(Piece::Records(records, Place { block, unit, first })), Some(decoder)) => {
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
            (Some(Piece::Records(..)), None) => return Err(Error::internal("records without a decoder")),
        };
        self.turn += 1;
        Ok(Polled::Rows(Rows { partition: id, batch, malformed }))
    }
}
