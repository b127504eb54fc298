//! One file in progress.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::filesystem::frame::Framing;
use crate::filesystem::io_error;
use crate::filesystem::options::FileFormat;
use crate::format::csv::CsvEncoder;
use crate::format::{Encode, Format};

/// Text gathered before it is given to the operating system.
const BUFFER_BYTES: usize = 256 << 10;
/// Rows of a Parquet file that are held in memory until they make a row group.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A file being written.
pub(super) struct PartFile {
    path: PathBuf,
    content: Content,
}

enum Content {
    Text { file: File, encoder: Box<dyn Encode>, buffer: Vec<u8>, written_bytes: u64, synced_bytes: u64 },
    Parquet(Box<ArrowWriter<File>>),
}

impl PartFile {
    pub(super) fn new(file: File, path: PathBuf, format: &FileFormat, schema: &SchemaRef) -> Result<Self> {
        let content = match format {
            FileFormat::Text(format) => {
                let mut buffer = Vec::new();
                if let Format::Csv(csv) = format
                    && csv.header
                {
                    buffer = CsvEncoder::new(schema, csv)?.header(schema);
                    buffer.push(b'\n');
                }
                Content::Text { file, encoder: format.encoder(schema)?, buffer, written_bytes: 0, synced_bytes: 0 }
            }
            FileFormat::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties));
                Content::Parquet(Box::new(writer.map_err(|e| parquet_error(&path, &e))?))
            }
        };
        Ok(PartFile { path, content })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.content {
            Content::Text { encoder, buffer, .. } => {
                for record in encoder.encode(batch)?.iter().flatten() {
                    buffer.extend_from_slice(record);
                    buffer.push(b'\n');
                }
                if buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
            }
            Content::Parquet(writer) => {
                writer.write(batch).map_err(|e| parquet_error(&self.path, &e))?;
                if writer.in_progress_size() >= ROW_GROUP_BYTES {
                    writer.flush().map_err(|e| parquet_error(&self.path, &e))?;
                }
                Ok(())
            }
        }
    }

    /// Gives what was written to the operating system, as far as the format allows.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Content::Text { file, buffer, written_bytes, .. } = &mut self.content {
            file.write_all(buffer).map_err(|e| io_error(&self.path, "write", &e))?;
            *written_bytes += buffer.len() as u64;
            buffer.clear();
        }
        Ok(())
    }

    /// Forces what was written to disk, as far as the format allows; nothing is done if nothing was written since the last
    /// time. True if the file is on disk for the first time, and its name may not be.
    pub(super) fn sync(&mut self) -> Result<bool> {
        self.flush()?;
        let Content::Text { file, written_bytes, synced_bytes, .. } = &mut self.content else { return Ok(false) };
        if written_bytes == synced_bytes {
            return Ok(false);
        }
        file.sync_data().map_err(|e| io_error(&self.path, "force to disk", &e))?;
        Ok(std::mem::replace(synced_bytes, *written_bytes) == 0)
    }

    /// Whether what was written can only be read once the file is complete.
    pub(super) fn needs_its_end(&self) -> bool {
        matches!(self.content, Content::Parquet(_))
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Size so far.
    pub(super) fn bytes(&self) -> u64 {
        match &self.content {
            Content::Text { buffer, written_bytes, .. } => written_bytes + buffer.len() as u64,
            Content::Parquet(writer) => (writer.bytes_written() + writer.in_progress_size()) as u64,
        }
    }

    /// Writes the end of the file and returns where it is, still locked.
    pub(super) fn complete(mut self) -> Result<(File, PathBuf)> {
        self.flush()?;
        let file = match self.content {
            Content::Text { file, .. } => file,
            Content::Parquet(writer) => writer.into_inner().map_err(|e| parquet_error(&self.path, &e))?,
        };
        file.sync_all().map_err(|e| io_error(&self.path, "write", &e))?;
        Ok((file, self.path))
    }
}

/// Cuts a text file that its writer left behind after its last whole record. False if it holds none.
pub(super) fn cut_to_records(file: &mut File, path: &Path, framing: Framing) -> Result<bool> {
    let mut bytes = Vec::new();
    let failed = |doing: &str, error: &std::io::Error| io_error(path, doing, error);
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).map_err(|e| failed("read", &e))?;
    let mut end = 0;
    while let Some(next) = framing.record_end(&bytes, end) {
        end = next;
    }
    file.set_len(end as u64).and_then(|()| file.sync_all()).map_err(|e| failed("cut", &e))?;
    Ok(end > 0)
}

fn parquet_error(path: &Path, error: &parquet::errors::ParquetError) -> Error {
    Error::outside(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::format::json::JsonOptions;

    fn synced(file: &PartFile) -> u64 {
        let Content::Text { synced_bytes, .. } = &file.content else { panic!("no text") };
        *synced_bytes
    }

    #[test]
    fn text_is_forced_to_disk_when_asked_and_not_with_every_batch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let format = FileFormat::Text(Format::Json(JsonOptions::default()));
        let mut file = PartFile::new(File::create(&path).unwrap(), path.clone(), &format, &schema).unwrap();
        assert!(!file.sync().unwrap(), "nothing has been written");
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        for _ in 0..100 {
            file.write(&batch).unwrap();
            file.flush().unwrap();
        }
        assert!(file.bytes() > 1_000_000 && synced(&file) == 0, "{} of {}", synced(&file), file.bytes());
        assert!(file.sync().unwrap(), "for the first time");
        assert_eq!((synced(&file), path.metadata().unwrap().len()), (file.bytes(), file.bytes()));
        file.write(&batch).unwrap();
        assert!(!file.sync().unwrap(), "for the second time");
        assert_eq!(synced(&file), file.bytes());
    }
}
