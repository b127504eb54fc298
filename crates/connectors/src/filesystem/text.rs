//! One text file as rows.

use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use anabranch_operators::Malformed;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::frame::Framing;
use super::lines::{Block, LineReader};
use super::position::Position;
use crate::format::csv::{split_fields, unquote};
use crate::format::{Decode, Format};

/// A file being read.
pub(super) struct TextFile {
    path: PathBuf,
    reader: LineReader,
    /// The header that the file must still show.
    header: Option<Header>,
    /// Records read, and the next of them to decode.
    block: Option<(Block, usize)>,
}

struct Header {
    delimiter: u8,
    declared: SchemaRef,
}

/// How the format's records are set apart in a file.
pub(super) fn framing(format: &Format) -> Framing {
    match format {
        Format::Json(_) => Framing::Lines,
        Format::Raw => Framing::EveryLine,
        Format::Csv(csv) => Framing::Csv { delimiter: csv.delimiter },
    }
}

impl TextFile {
    /// Reads on before the record that begins at a byte, on a line.
    pub(super) fn new(
        path: &Path,
        format: &Format,
        declared: &SchemaRef,
        follow: bool,
        (byte, line): (u64, u64),
    ) -> Self {
        let header = match format {
            Format::Csv(csv) if csv.header && byte == 0 => {
                Some(Header { delimiter: csv.delimiter, declared: declared.clone() })
            }
            _ => None,
        };
        let reader = LineReader::new(path, framing(format), follow, byte, line);
        TextFile { path: path.to_owned(), reader, header, block: None }
    }

    /// Where the next rows are.
    pub(super) fn position(&self) -> Position {
        match &self.block {
            Some((block, next)) => block.position(*next),
            None => self.reader.position(),
        }
    }

    /// Whether nothing more will come, even if the table is followed.
    pub(super) fn has_ended(&self) -> bool {
        self.block.is_none() && self.reader.has_ended()
    }

    /// The next rows, at most `batch_rows`; `None` if nothing more is there.
    pub(super) fn next(
        &mut self,
        decoder: &mut dyn Decode,
        batch_rows: usize,
    ) -> Result<Option<(RecordBatch, Vec<Malformed>)>> {
        if self.block.is_none() {
            let Some(block) = self.reader.next()? else { return Ok(None) };
            let first = match self.header.take() {
                Some(header) => self.check_header(&header, block.records.value(0)).map(|()| 1)?,
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
        let mut report = |(index, error)| Malformed {
            place: format!("{} line {}", self.path.display(), block.line(first + index)),
            error,
            record: records.value(index).trim_ascii_end().to_vec(),
        };
        let malformed = decoded.malformed.into_iter().map(&mut report).collect();
        if *next == block.records.len() {
            self.block = None;
        }
        Ok(Some((decoded.batch, malformed)))
    }

    /// Columns are read by position, so the header must name them in the declared order.
    fn check_header(&self, header: &Header, record: &[u8]) -> Result<()> {
        let mut fields = Vec::new();
        let place = || format!("{} line 1", self.path.display());
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
        Err(Error::user(format!(
            "the header names the columns {}, declared are {}",
            names.join(", "),
            declared.join(", ")
        ))
        .at(place())
        .remedy("declare the columns in the order of the file, or set 'csv.header' = 'false' if line 1 is data"))
    }
}
