//! Writes the files of one task, at least once; [`exact`] is for exactly once.
//!
//! Rows go to a hidden file first, which gets its visible name when it is complete: a reader never sees half
//! a file. A file is completed at the end of an epoch, so it holds whole epochs.
//!
//! An epoch that has ended must not be lost, because its source does not read those rows again. The sink
//! syncs text to disk at the end of each epoch. If the program is killed, the next job that writes the table
//! completes the hidden files up to their last whole record. A Parquet file has the index of its rows at its
//! end, which only its writer can write. So the sink completes it with every epoch that has rows, however
//! small it is. With checkpoints and exactly once, one file has the rows of many epochs.

mod disk;
mod exact;
mod file;
mod folder;
mod partitioned;
mod staged;
mod success;

use std::sync::Arc;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Clock, Epoch, Error, Nanos, Result};
use anabranch_operators::{Delivery, Sink, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde_json::Value;

use super::input::Compression;
use super::options::{FileFormat, FileOptions};
use super::text::framing;
use crate::guarantee::START_OVER;
use disk::Disk;
use exact::ExactFileSink;
use file::PartFile;
use folder::PartFolder;
use partitioned::PartitionedSink;

/// The writer of one task, at least once.
struct FileSink {
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

/// Opens the writer of one task.
pub(super) fn open(spec: &SinkSpec, options: FileOptions, context: &TaskContext) -> Result<Box<dyn Sink>> {
    if options.path.is_file() {
        return Err(Error::user(format!("'{}' is a file, and a table is written as a folder", options.path.display()))
            .remedy("give the name of a folder, which is created if it is not there"));
    }
    if options.compression.is_some_and(|compression| compression != Compression::None) {
        return Err(Error::user("option 'compression' applies to reading only: text is written uncompressed")
            .remedy("leave the option out, or write Parquet, which is compressed"));
    }
    if let Some(partitions) = options.partitions.clone() {
        return Ok(Box::new(PartitionedSink::open(Disk::default(), spec, options, partitions, context)?));
    }
    // An unsuitable schema is refused before the first row.
    if let FileFormat::Text(format) = &options.format {
        format.encoder(&spec.schema)?;
    }
    open_on(Disk::default(), spec, options, context)
}

fn open_on(disk: Disk, spec: &SinkSpec, options: FileOptions, context: &TaskContext) -> Result<Box<dyn Sink>> {
    Ok(match &context.delivery {
        Delivery::AtLeastOnce => Box::new(FileSink::open(disk, spec, options, context)?),
        Delivery::ExactlyOnce { scope, .. } => {
            ExactFileSink::check_not_ahead(&options.path, scope, context.host.as_ref())?;
            Box::new(ExactFileSink::open(disk, spec, options, context, scope)?)
        }
    })
}

/// Parses the content of a committable of this version; `what` names it in messages.
fn parsed(content: &[u8], version: u64, what: &str) -> Result<Value> {
    let content: Value = serde_json::from_slice(content).map_err(|_| damaged(what))?;
    match content["version"].as_u64() {
        Some(found) if found == version => Ok(content),
        Some(other) => Err(Error::user(format!("{what} is of version {other}, known is {version}"))
            .remedy("start the job with the version of the program that made the checkpoint")),
        None => Err(damaged(what)),
    }
}

fn damaged(what: &str) -> Error {
    Error::damaged(format!("{what} in the checkpoint is damaged"))
        .remedy(format!("restore the checkpoint directory from its newest copy, or {START_OVER}"))
}

impl Current {
    /// Whether the file is large or old enough to be completed.
    fn is_full(&self, options: &FileOptions, now: Nanos) -> bool {
        let is_old = u128::from(now.since(self.opened)) >= options.rolling_interval.as_nanos();
        is_old || self.file.bytes() >= options.rolling_bytes
    }
}

impl FileSink {
    fn open(disk: Disk, spec: &SinkSpec, options: FileOptions, context: &TaskContext) -> Result<Self> {
        let folder = PartFolder::open(disk, &options.path, context, options.format.extension())?;
        if let FileFormat::Text(format) = &options.format {
            folder.recover(framing(format))?;
        }
        Ok(FileSink { options, schema: spec.schema.clone(), clock: context.clock.clone(), folder, current: None })
    }

    /// Gives the file in progress its visible name.
    fn complete(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let locked = current.file.complete()?;
        self.folder.publish(locked.path())?;
        self.folder.sync()
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
                let file = PartFile::new(self.folder.create()?, &self.options.format, &self.schema)?;
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
        if current.file.needs_its_end() || current.is_full(&self.options, self.clock.now()) {
            return self.complete();
        }
        if current.file.sync()? { self.folder.sync() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.complete()
    }
}

#[cfg(test)]
mod tests;
