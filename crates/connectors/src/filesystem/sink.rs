//! Writes the files of one task.
//!
//! Rows go to a hidden file first, which gets its visible name when it is complete: a reader never sees half a file.
//! A file is completed at the end of an epoch, so it holds whole epochs. If the program was killed, the next job that
//! writes the table finds the hidden files and completes those of text, up to their last whole record: what an ended
//! epoch wrote is never lost. A Parquet file in progress cannot be completed by another process; with
//! `'sink.rolling-interval' = '0'` a file is completed with every epoch, and none is at risk for longer.

mod file;
mod folder;

use std::sync::Arc;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Clock, Epoch, Error, Nanos, Result};
use anabranch_operators::{Sink, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::options::{FileFormat, FileOptions};
use super::text::framing;
use file::PartFile;
use folder::PartFolder;

/// The writer of one task.
pub(super) struct FileSink {
    options: FileOptions,
    schema: SchemaRef,
    clock: Arc<dyn Clock>,
    folder: PartFolder,
    current: Option<Current>,
}

struct Current {
    file: PartFile,
    opened: Nanos,
}

impl FileSink {
    pub(super) fn open(spec: &SinkSpec, options: FileOptions, context: &TaskContext) -> Result<Self> {
        if options.path.is_file() {
            return Err(Error::user(format!(
                "'{}' is a file, and a table is written as a folder",
                options.path.display()
            ))
            .remedy("give the name of a folder, which is created if it is not there"));
        }
        // An unsuitable schema is refused before the first row.
        if let FileFormat::Text(format) = &options.format {
            format.encoder(&spec.schema)?;
        }
        let folder = PartFolder::open(&options.path, context, options.format.extension())?;
        if let FileFormat::Text(format) = &options.format {
            folder.recover(framing(format))?;
        }
        Ok(FileSink { options, schema: spec.schema.clone(), clock: context.clock.clone(), folder, current: None })
    }

    /// Gives the file in progress its visible name.
    fn complete(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let path = current.file.complete()?;
        self.folder.publish(&path)
    }
}

impl Sink for FileSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let (file, path) = self.folder.create()?;
                let file = PartFile::new(file, path, &self.options.format, &self.schema)?;
                self.current.insert(Current { file, opened: self.clock.now() })
            }
        };
        current.file.write(batch)
    }

    fn flush(&mut self) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |current| current.file.flush())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.file.flush()?;
        let age = self.clock.now().since(current.opened);
        let is_old = u128::from(age) >= self.options.rolling_interval.as_nanos();
        if is_old || current.file.bytes() >= self.options.rolling_bytes { self.complete() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.complete()
    }
}
