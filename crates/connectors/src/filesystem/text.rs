//! One text file as rows.

use std::path::Path;

use anabranch_model::{Error, Result};
use anabranch_operators::Malformed;
use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::frame::Framing;
use super::identity::Head;
use super::input::{Compression, Input, Tracked};
use super::lines::{Block, LineReader, Piece};
use super::position::Position;
use crate::format::csv::{split_fields, unquote};
use crate::format::{Decode, Format};

/// A file being read.
pub(super) struct TextFile {
    reader: LineReader,
    /// The header that the file must have and that was not checked yet.
    header: Option<Header>,
    /// Records that were read, and the next one to decode.
    block: Option<(Block, usize)>,
}

struct Header {
    delimiter: u8,
    declared: SchemaRef,
}

/// How the format separates records in a file.
pub(super) fn framing(format: &Format) -> Framing {
    match format {
        Format::Json(_) => Framing::Lines,
        Format::Raw(_) => Framing::EveryLine,
        Format::Csv(csv) => Framing::Csv { delimiter: csv.delimiter },
    }
}

impl TextFile {
    /// Reads from a byte on, which is the start of a record, with the number of its line. With `tracked` the
    /// file is followed.
    pub(super) fn new(
        (path, compression): (&Path, Compression),
        format: &Format,
        declared: &SchemaRef,
        tracked: Option<Tracked>,
        (byte, line): (u64, u64),
    ) -> Self {
        let header = match format {
            Format::Csv(csv) if csv.header && byte == 0 => {
                Some(Header { delimiter: csv.delimiter, declared: declared.clone() })
            }
            _ => None,
        };
        let input = Input::new(path, compression, tracked, byte);
        let reader = LineReader::new(input, framing(format), tracked.is_some(), line);
        TextFile { reader, header, block: None }
    }

    pub(super) fn input(&mut self) -> &mut Input {
        &mut self.reader.input
    }

    /// Whether the file is open, or records of it are in memory.
    pub(super) fn is_open(&self) -> bool {
        self.block.is_some() || self.reader.input.is_open()
    }

    /// The first bytes of the file.
    pub(super) fn head(&self) -> Head {
        self.reader.input.head()
    }

    /// Whether the content was replaced, so that the file has to be read from its beginning.
    pub(super) fn is_replaced(&self) -> bool {
        self.block.is_none() && self.reader.is_replaced()
    }

    /// Whether the file had no more bytes behind the position, at the last read.
    pub(super) fn is_at_end(&self) -> bool {
        self.block.is_none() && self.reader.is_at_end()
    }

    /// Whether reading began at this position and found nothing yet.
    pub(super) fn has_read_nothing_since(&self, start: Position) -> bool {
        self.block.is_none() && self.reader.has_read_nothing_since(start)
    }

    /// The position of the next rows.
    pub(super) fn position(&self) -> Position {
        match &self.block {
            Some((block, next)) => block.position(*next),
            None => self.reader.position(),
        }
    }

    /// The next rows, at most `batch_rows`; `None` if there are no more.
    pub(super) fn next(
        &mut self,
        decoder: &mut dyn Decode,
        batch_rows: usize,
    ) -> Result<Option<(RecordBatch, Vec<Malformed>)>> {
        if self.block.is_none() {
            let block = match self.reader.next()? {
                None => return Ok(None),
                Some(Piece::Records(block)) => block,
                Some(Piece::Past) => return no_rows(decoder, Vec::new()).map(Some),
                Some(Piece::TooLong(record)) => {
                    let place = format!("{} line {}", self.reader.input.path().display(), record.line);
                    if self.header.is_some() {
                        return Err(Error::user("the header is too long").at(place));
                    }
                    let malformed = Malformed { place, error: record.error, record: record.begins };
                    return no_rows(decoder, vec![malformed]).map(Some);
                }
            };
            let first = match self.header.take() {
                Some(header) => check_header(self.reader.input.path(), &header, block.records.value(0)).map(|()| 1)?,
                None => 0,
            };
            self.block = Some((block, first));
        }
        let Some((block, next)) = &mut self.block else { return Ok(None) };
        let first = *next;
        let count = batch_rows.min(block.records.len() - first);
        *next += count;
        let records = block.records.slice(first, count);
        let decoded = decoder.decode(&records)?;
        let path = self.reader.input.path();
        let mut report = |(index, error)| Malformed {
            place: format!("{} line {}", path.display(), block.line(first + index)),
            error,
            record: records.value(index).trim_ascii_end().to_vec(),
        };
        let malformed = decoded.malformed.into_iter().map(&mut report).collect();
        if *next == block.records.len() {
            self.block = None;
        }
        Ok(Some((decoded.batch, malformed)))
    }
}

/// A batch without rows.
fn no_rows(decoder: &mut dyn Decode, malformed: Vec<Malformed>) -> Result<(RecordBatch, Vec<Malformed>)> {
    let none = BinaryArray::from_iter_values(std::iter::empty::<&[u8]>());
    Ok((decoder.decode(&none)?.batch, malformed))
}

/// Columns are read by position, so the header must name them in the declared order.
fn check_header(path: &Path, header: &Header, record: &[u8]) -> Result<()> {
    let mut fields = Vec::new();
    let place = || format!("{} line 1", path.display());
    split_fields(record, header.delimiter, &mut fields).map_err(|e| Error::user(e).at(place()))?;
    let mut name = Vec::new();
    let names: Vec<String> = fields
        .iter()
        .map(|field| {
            unquote(&record[field.start..field.end], &mut name);
            String::from_utf8_lossy(&name).trim().to_owned()
        })
        .collect();
    let declared: Vec<&str> = header.declared.fields().iter().map(|f| f.name().as_str()).collect();
    if names == declared {
        return Ok(());
    }
    Err(Error::user(format!("the header names the columns {}, declared are {}", names.join(", "), declared.join(", ")))
        .at(place())
        .remedy("declare the columns in the order of the file, or set 'csv.header' = 'false' if line 1 is data"))
}
