//! A run's file: blocks of rows, written once, in a file without a name. The operating system removes such a
//! file with its last handle, so a killed process leaves nothing. The content is a state file as in
//! checkpoints; the offsets of the blocks are kept in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::root_as_message;
use arrow_ipc::writer::StreamWriter;
use crc32fast::Hasher;

/// Size beyond which a run continues in another file, unless the caller sets another size. Copying a file
/// takes this much memory.
const FILE_BYTES: u64 = 64 << 20;
/// Most files of runs that are gone that wait for the next ones. A file system takes long for each file where
/// many come and go.
const SPARES_MAX: usize = 8;
/// Bytes before the header of rows.
const PREFIX_BYTES: usize = 8;

/// Rows of one pane in a range of blocks.
#[derive(Debug)]
pub struct Run {
    /// Differs from that of all other files of its table.
    pub id: u64,
    /// Start of the pane in milliseconds; 0 without panes.
    pub pane: i64,
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    file: RunFile,
    directory: Arc<PathBuf>,
    first_block: usize,
    pieces: Pieces,
}

/// A file is divided into the schema, the rows of each block, and the end.
#[derive(Debug, Default)]
struct Pieces {
    /// Where each piece ends.
    ends: Vec<u64>,
    /// CRC-32 of each piece. Disks return wrong bytes without an error; rows of a damaged piece must not get
    /// into results or checkpoints.
    checksums: Vec<u32>,
}

/// Files of runs that are gone, empty.
type Spares = Arc<Mutex<Vec<File>>>;

/// The file of a run. The next run uses it when this one is gone.
#[derive(Debug)]
struct RunFile {
    /// There until it is dropped.
    file: Option<File>,
    spares: Spares,
}

impl RunFile {
    fn read_exact_at(&self, content: &mut [u8], at: u64) -> std::io::Result<()> {
        self.file.as_ref().ok_or(std::io::ErrorKind::NotFound)?.read_exact_at(content, at)
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        let Some(mut file) = self.file.take() else { return };
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that cannot be emptied is closed like any other.
        if spares.len() < SPARES_MAX && file.set_len(0).is_ok() && file.rewind().is_ok() {
            spares.push(file);
        }
    }
}

impl Run {
    /// The whole file: rows as [`crate::decode_rows`] reads them.
    pub fn content(&self) -> Result<Vec<u8>> {
        let content = self.range(0..self.bytes)?;
        let mut start = 0;
        for (piece, end) in self.pieces.ends.iter().enumerate() {
            self.check(piece, &content[start..*end as usize])?;
            start = *end as usize;
        }
        Ok(content)
    }

    pub(super) fn blocks(&self) -> Range<usize> {
        self.first_block..self.first_block + self.pieces.ends.len() - 2
    }

    /// Reads the rows of a block, without the schema that the file begins with.
    pub(super) fn rows_of(&self, block: usize, schema: &SchemaRef) -> Result<RecordBatch> {
        let content = Buffer::from(self.piece(block - self.first_block + 1)?);
        let decoded = |error: &dyn std::fmt::Display| failed(&self.directory, "decoded", error);
        // A mark, the length of the header, the header, the columns.
        let header = content.get(4..8).and_then(|length| length.try_into().ok()).map(u32::from_le_bytes);
        let columns_at = PREFIX_BYTES + header.unwrap_or(0) as usize;
        let header = content.get(PREFIX_BYTES..columns_at).ok_or_else(|| decoded(&"its header is incomplete"))?;
        let message = root_as_message(header).map_err(|error| decoded(&error))?;
        let rows = message.header_as_record_batch().ok_or_else(|| decoded(&"there are no rows"))?;
        let columns = content.slice(columns_at);
        read_record_batch(&columns, rows, SchemaRef::clone(schema), &HashMap::new(), None, &message.version())
            .map_err(|error| decoded(&error))
    }

    /// Changes bits of a byte on the disk. Returns what it was before.
    #[cfg(test)]
    pub(in crate::runs) fn damage(&self, at: u64, bits: u8) -> [u8; 1] {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, at).expect("read");
        self.file.file.as_ref().expect("open").write_all_at(&[byte[0] ^ bits], at).expect("written");
        byte
    }

    fn piece(&self, piece: usize) -> Result<Vec<u8>> {
        let start = piece.checked_sub(1).map_or(0, |before| self.pieces.ends[before]);
        let content = self.range(start..self.pieces.ends[piece])?;
        self.check(piece, &content)?;
        Ok(content)
    }

    /// After this error the job resumes from a checkpoint, and its runs are written again.
    fn check(&self, piece: usize, content: &[u8]) -> Result<()> {
        if crc32fast::hash(content) == self.pieces.checksums[piece] {
            return Ok(());
        }
        let (id, end) = (self.id, self.pieces.ends[piece]);
        Err(Error::outside(format!(
            "run {id} of the state on the local disk is damaged: the checksum of the {} bytes before byte {end} does not match",
            content.len()
        ))
        .at(self.directory.display().to_string())
        .remedy("check the disk; SET 'state-directory' to a directory on another one"))
    }

    fn range(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut content = vec![0; (range.end - range.start) as usize];
        let read = self.file.read_exact_at(&mut content, range.start);
        read.map_err(|error| failed(&self.directory, "read", &error))?;
        Ok(content)
    }
}

/// Where files of runs are written.
pub(super) struct Files {
    schema: SchemaRef,
    directory: Arc<PathBuf>,
    last_id: u64,
    spares: Spares,
    /// Size beyond which a run continues in another file.
    pub(super) file_bytes: u64,
}

impl Files {
    pub(super) fn new(schema: SchemaRef, directory: PathBuf) -> Result<Files> {
        std::fs::create_dir_all(&directory).map_err(|error| failed(&directory, "kept", &error))?;
        Ok(Files {
            schema,
            directory: Arc::new(directory),
            last_id: 0,
            spares: Spares::default(),
            file_bytes: FILE_BYTES,
        })
    }

    /// An empty file.
    fn file(&self) -> std::io::Result<File> {
        let spare = self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(|| tempfile::tempfile_in(self.directory.as_path()), Ok)
    }
}

/// Writes blocks of rows, in as many files as their size needs.
pub(super) struct RunWriter {
    pane: i64,
    open: Option<OpenRun>,
    done: Vec<Arc<Run>>,
}

struct OpenRun {
    writer: StreamWriter<Counted>,
    first_block: usize,
    rows: u64,
    pieces: Pieces,
}

impl OpenRun {
    /// Ends a piece: everything written since the last one.
    fn end_piece(&mut self) {
        let counted = self.writer.get_mut();
        self.pieces.ends.push(counted.bytes);
        self.pieces.checksums.push(std::mem::take(&mut counted.checksum).finalize());
    }
}

impl RunWriter {
    pub(super) fn new(pane: i64) -> RunWriter {
        RunWriter { pane, open: None, done: Vec::new() }
    }

    /// Adds a block of some rows, which comes after the last one.
    pub(super) fn add(&mut self, block: usize, rows: &RecordBatch, files: &mut Files) -> Result<()> {
        let written = |error| failed(&files.directory, "written", &error);
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let file = files.file().map_err(|error| failed(&files.directory, "kept", &error))?;
                let counted =
                    Counted { file: BufWriter::with_capacity(1 << 18, file), bytes: 0, checksum: Hasher::new() };
                let writer = StreamWriter::try_new(counted, &files.schema).map_err(written)?;
                let open = OpenRun { writer, first_block: block, rows: 0, pieces: Pieces::default() };
                let open = self.open.insert(open);
                open.end_piece();
                open
            }
        };
        open.writer.write(rows).map_err(written)?;
        open.rows += rows.num_rows() as u64;
        open.end_piece();
        if open.writer.get_ref().bytes > files.file_bytes {
            self.close(files)?;
        }
        Ok(())
    }

    /// The files that were written, in the order of the blocks.
    pub(super) fn finish(mut self, files: &mut Files) -> Result<Vec<Arc<Run>>> {
        self.close(files)?;
        Ok(self.done)
    }

    fn close(&mut self, files: &mut Files) -> Result<()> {
        let Some(OpenRun { writer, first_block, rows, mut pieces }) = self.open.take() else { return Ok(()) };
        let counted = writer.into_inner().map_err(|e| failed(&files.directory, "written", &e))?;
        let Counted { file, bytes, checksum } = counted;
        pieces.ends.push(bytes);
        pieces.checksums.push(checksum.finalize());
        let file = file.into_inner().map_err(|error| failed(&files.directory, "written", error.error()))?;
        let file = RunFile { file: Some(file), spares: Arc::clone(&files.spares) };
        files.last_id += 1;
        let (id, pane, directory) = (files.last_id, self.pane, Arc::clone(&files.directory));
        self.done.push(Arc::new(Run { id, pane, rows, bytes, file, directory, first_block, pieces }));
        Ok(())
    }
}

struct Counted {
    file: BufWriter<File>,
    bytes: u64,
    /// Checksum of everything written since the last piece ended.
    checksum: Hasher,
}

impl Write for Counted {
    fn write(&mut self, content: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(content)?;
        self.bytes += written as u64;
        self.checksum.update(&content[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

fn failed(directory: &std::path::Path, what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::outside(format!("state on the local disk cannot be {what}: {error}"))
        .at(directory.display().to_string())
        .remedy("SET 'state-directory' to a directory with room; raise the limit of open files (ulimit -n)")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn the_file_of_a_run_that_is_gone_is_used_again() {
        let folder = tempfile::tempdir().expect("folder");
        let files = Files::new(Arc::new(Schema::empty()), folder.path().to_owned()).expect("files");
        let mut file = files.file().expect("a file");
        file.write_all(b"rows").expect("written");
        let inode = file.metadata().expect("metadata").ino();
        drop(RunFile { file: Some(file), spares: Arc::clone(&files.spares) });
        let mut file = files.file().expect("a file");
        let metadata = file.metadata().expect("metadata");
        assert_eq!((metadata.ino(), metadata.len(), file.stream_position().expect("position")), (inode, 0, 0));
    }
}
