//! One file in progress.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::disk::DiskFile;
use crate::filesystem::frame::Framing;
use crate::filesystem::io_error;
use crate::filesystem::options::FileFormat;
use crate::format::csv::CsvEncoder;
use crate::format::{Encode, Format};

/// Text gathered before it is given to the operating system.
const BUFFER_BYTES: usize = 256 << 10;
/// Estimated size at which the buffered rows of a Parquet file become a row group.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A file being written.
pub(super) struct PartFile {
    path: PathBuf,
    content: PartWriter,
}

enum PartWriter {
    Text { file: DiskFile, encoder: Box<dyn Encode>, buffer: Vec<u8>, written_bytes: u64, synced_bytes: u64 },
    Parquet(Box<ArrowWriter<DiskFile>>),
}

impl PartFile {
    pub(super) fn new(file: DiskFile, format: &FileFormat, schema: &SchemaRef) -> Result<Self> {
        let path = file.path().to_owned();
        let content = match format {
            FileFormat::Text(format) => {
                let mut buffer = Vec::new();
                if let Format::Csv(csv) = format
                    && csv.header
                {
                    buffer = CsvEncoder::new(schema, csv)?.header(schema);
                    buffer.push(b'\n');
                }
                PartWriter::Text { file, encoder: format.encoder(schema)?, buffer, written_bytes: 0, synced_bytes: 0 }
            }
            FileFormat::Parquet => {
                let mut properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                // The metadata names Arrow types. Many readers cannot process view types.
                add_encoded_arrow_schema_to_metadata(&without_views(schema), &mut properties);
                let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
                let writer = ArrowWriter::try_new_with_options(file, schema.clone(), options);
                PartWriter::Parquet(Box::new(writer.map_err(|e| parquet_error(&path, &e))?))
            }
        };
        Ok(PartFile { path, content })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.content {
            PartWriter::Text { encoder, buffer, .. } => {
                for record in encoder.encode(batch)?.iter().flatten() {
                    buffer.extend_from_slice(record);
                    buffer.push(b'\n');
                }
                if buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
            }
            PartWriter::Parquet(writer) => {
                writer.write(batch).map_err(|e| parquet_error(&self.path, &e))?;
                if writer.in_progress_size() >= ROW_GROUP_BYTES {
                    writer.flush().map_err(|e| parquet_error(&self.path, &e))?;
                }
                Ok(())
            }
        }
    }

    /// Passes the written bytes to the operating system, as far as the format allows.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let PartWriter::Text { file, buffer, written_bytes, .. } = &mut self.content {
            file.write_all(buffer).map_err(|e| io_error(&self.path, "write", &e))?;
            *written_bytes += buffer.len() as u64;
            buffer.clear();
        }
        Ok(())
    }

    /// Syncs the written bytes to disk, as far as the format allows. Does nothing if nothing was written
    /// since the last sync. Returns true after the first sync: the file's name may not be on disk yet.
    pub(super) fn sync(&mut self) -> Result<bool> {
        self.flush()?;
        let PartWriter::Text { file, written_bytes, synced_bytes, .. } = &mut self.content else { return Ok(false) };
        if written_bytes == synced_bytes {
            return Ok(false);
        }
        file.sync()?;
        Ok(std::mem::replace(synced_bytes, *written_bytes) == 0)
    }

    /// Whether the file can only be read once it is complete.
    pub(super) fn needs_its_end(&self) -> bool {
        matches!(self.content, PartWriter::Parquet(_))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Size so far.
    pub(super) fn bytes(&self) -> u64 {
        match &self.content {
            PartWriter::Text { buffer, written_bytes, .. } => written_bytes + buffer.len() as u64,
            PartWriter::Parquet(writer) => (writer.bytes_written() + writer.in_progress_size()) as u64,
        }
    }

    /// Writes the end of the file, syncs it to disk, and returns it, still locked.
    pub(super) fn complete(mut self) -> Result<DiskFile> {
        self.flush()?;
        let file = match self.content {
            PartWriter::Text { file, .. } => file,
            PartWriter::Parquet(writer) => writer.into_inner().map_err(|e| parquet_error(&self.path, &e))?,
        };
        file.sync()?;
        Ok(file)
    }
}

/// Truncates an abandoned text file after its last whole record. Returns false if the file has none.
pub(super) fn cut_to_records(file: &mut DiskFile, framing: Framing) -> Result<bool> {
    let bytes = file.read()?;
    let mut end = 0;
    while let Some(next) = framing.record_end(&bytes, end) {
        end = next;
    }
    file.cut(end as u64)?;
    file.sync()?;
    Ok(end > 0)
}

/// The schema for the file's metadata: string and binary views become plain strings and bytes.
fn without_views(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|field| plain_field(field)).collect::<Vec<_>>())
}

fn plain_field(field: &Field) -> Field {
    field.clone().with_data_type(plain_type(field.data_type()))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| plain_field(field)).collect()),
        DataType::List(field) => DataType::List(Arc::new(plain_field(field))),
        DataType::Map(entries, sorted) => DataType::Map(Arc::new(plain_field(entries)), *sorted),
        other => other.clone(),
    }
}

fn parquet_error(path: &Path, error: &parquet::errors::ParquetError) -> Error {
    Error::outside(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::super::disk::Disk;
    use super::*;
    use crate::format::json::JsonOptions;

    fn synced(file: &PartFile) -> u64 {
        let PartWriter::Text { synced_bytes, .. } = &file.content else { panic!("no text") };
        *synced_bytes
    }

    #[test]
    fn text_is_forced_to_disk_when_asked_and_not_with_every_batch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let format = FileFormat::Text(Format::Json(JsonOptions::default()));
        let mut file = PartFile::new(Disk::default().create(&path).unwrap().unwrap(), &format, &schema).unwrap();
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
