//! A run: rows of one pane in order of their buckets, written once, in a file that the operating system removes with
//! the last handle on it, so that nothing is left of a process that was killed. Its content is a state file as checkpoints
//! have it; where each bucket begins is kept in memory.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;

/// Size beyond which a run goes on in another file: whoever copies one holds it in memory.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Rows of one pane and a range of buckets.
#[derive(Debug)]
pub struct Run {
    /// Differs from that of all other runs of its backend.
    pub id: u64,
    /// Start of the pane in milliseconds.
    pub pane: i64,
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    file: File,
    first_bucket: usize,
    /// Where the first bucket begins, then where each ends. Before it is the schema.
    ends: Vec<u64>,
}

impl Run {
    /// The whole file: rows as [`crate::decode_rows`] reads them.
    pub fn content(&self) -> Result<Vec<u8>> {
        self.range(0..self.bytes)
    }

    pub(super) fn buckets(&self) -> Range<usize> {
        self.first_bucket..self.first_bucket + self.ends.len() - 1
    }

    /// The rows of a bucket that it has.
    pub(super) fn read(&self, bucket: usize) -> Result<Vec<RecordBatch>> {
        let at = bucket - self.first_bucket;
        if self.ends[at] == self.ends[at + 1] {
            return Ok(Vec::new());
        }
        let schema = self.range(0..self.ends[0])?;
        let rows = self.range(self.ends[at]..self.ends[at + 1])?;
        let decoded = |error| Error::outside(format!("state on the local disk cannot be decoded: {error}"));
        let reader = StreamReader::try_new(schema.as_slice().chain(rows.as_slice()), None).map_err(decoded)?;
        reader.collect::<std::result::Result<_, _>>().map_err(decoded)
    }

    fn range(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut content = vec![0; (range.end - range.start) as usize];
        let read = self.file.read_exact_at(&mut content, range.start);
        read.map_err(|error| Error::outside(format!("state on the local disk cannot be read: {error}")))?;
        Ok(content)
    }
}

/// Writes rows in order of their buckets, in as many files as their size asks for.
pub(super) struct RunWriter {
    schema: SchemaRef,
    pane: i64,
    open: Option<OpenRun>,
    done: Vec<Arc<Run>>,
}

struct OpenRun {
    writer: StreamWriter<Counted>,
    first_bucket: usize,
    rows: u64,
    ends: Vec<u64>,
}

impl RunWriter {
    pub(super) fn new(schema: SchemaRef, pane: i64) -> RunWriter {
        RunWriter { schema, pane, open: None, done: Vec::new() }
    }

    /// Adds the rows of a bucket, which follows on the last one. `next_id` gives numbers for new files in `directory`.
    pub(super) fn add(&mut self, bucket: usize, rows: &RecordBatch, directory: &Path, next_id: &mut u64) -> Result<()> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let file = tempfile::tempfile_in(directory).map_err(|error| failed(directory, &error))?;
                let counted = Counted { file: BufWriter::with_capacity(1 << 18, file), bytes: 0 };
                let writer = StreamWriter::try_new(counted, &self.schema).map_err(encoded)?;
                let ends = vec![writer.get_ref().bytes];
                self.open.insert(OpenRun { writer, first_bucket: bucket, rows: 0, ends })
            }
        };
        if rows.num_rows() > 0 {
            open.writer.write(rows).map_err(encoded)?;
            open.rows += rows.num_rows() as u64;
        }
        open.ends.push(open.writer.get_ref().bytes);
        if open.writer.get_ref().bytes > FILE_BYTES_MAX {
            self.close(next_id)?;
        }
        Ok(())
    }

    /// What was written, in order of the buckets.
    pub(super) fn finish(mut self, next_id: &mut u64) -> Result<Vec<Arc<Run>>> {
        self.close(next_id)?;
        Ok(self.done)
    }

    fn close(&mut self, next_id: &mut u64) -> Result<()> {
        let Some(OpenRun { writer, first_bucket, rows, ends }) = self.open.take() else { return Ok(()) };
        let Counted { file, bytes } = writer.into_inner().map_err(encoded)?;
        let file = file
            .into_inner()
            .map_err(|error| Error::outside(format!("state cannot be written to the local disk: {}", error.error())))?;
        *next_id += 1;
        self.done.push(Arc::new(Run { id: *next_id, pane: self.pane, rows, bytes, file, first_bucket, ends }));
        Ok(())
    }
}

struct Counted {
    file: BufWriter<File>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, content: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(content)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

fn encoded(error: impl std::fmt::Display) -> Error {
    Error::outside(format!("state cannot be written to the local disk: {error}"))
        .remedy("make room on the disk, or SET 'state-directory' to a place with more")
}

pub(super) fn failed(directory: &Path, error: &std::io::Error) -> Error {
    Error::outside(format!("a file of state cannot be made: {error}"))
        .at(directory.display().to_string())
        .remedy("SET 'state-directory' to a directory that can be written; raise the limit of open files (ulimit -n)")
}
