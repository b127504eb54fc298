//! Divides the rows of one task among the folders of their partitions. Each folder has a writer of its own,
//! independent of the others. The files that they prepare for one checkpoint form one committable.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Epoch, Error, EventTime, Result};
use anabranch_operators::{Committable, Delivery, Sink, TaskContext};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{partition, take_record_batch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::json;

use super::disk::Disk;
use super::exact::ExactFileSink;
use super::success::Completion;
use super::{FileSink, damaged, parsed};
use crate::filesystem::options::FileOptions;
use crate::filesystem::partitions::Partitions;

/// What messages call the content of a committable, and the content's version.
const WHAT: &str = "the list of partitions";
const VERSION: u64 = 1;

/// The writers of one task.
pub(super) struct PartitionedSink {
    disk: Disk,
    /// The specification of one folder's writer: its schema lacks the partition columns.
    spec: SinkSpec,
    options: FileOptions,
    context: TaskContext,
    partitions: Partitions,
    /// Indexes of the partition columns, and of the other columns.
    keys: Vec<usize>,
    others: Vec<usize>,
    open: BTreeMap<PathBuf, Writer>,
    completion: Completion,
    watermark: EventTime,
    /// The ends of checkpoints' epochs at which some rows were not visible yet.
    reached: VecDeque<Reached>,
}

/// The event time at the end of a checkpoint's epoch.
struct Reached {
    epoch: Epoch,
    watermark: EventTime,
    has_committable: bool,
}

/// The writer of one folder.
enum Writer {
    AtLeastOnce(Box<FileSink>),
    Exactly(Box<ExactFileSink>),
}

impl Writer {
    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Writer::AtLeastOnce(sink) => sink.as_mut(),
            Writer::Exactly(sink) => sink.as_mut(),
        }
    }

    /// Whether all rows that it was given are visible.
    fn is_idle(&self) -> bool {
        match self {
            Writer::AtLeastOnce(sink) => sink.current.is_none(),
            Writer::Exactly(sink) => sink.is_idle(),
        }
    }
}

impl PartitionedSink {
    pub(super) fn open(
        disk: Disk,
        spec: &SinkSpec,
        mut options: FileOptions,
        partitions: Partitions,
        context: &TaskContext,
    ) -> Result<PartitionedSink> {
        options.partitions = None;
        let index_of = |key: &String| {
            spec.schema.index_of(key).map_err(|_| Error::internal(format!("no column '{key}' divides the table")))
        };
        let keys = partitions.keys.iter().map(index_of).collect::<Result<Vec<usize>>>()?;
        let others: Vec<usize> = (0..spec.schema.fields().len()).filter(|index| !keys.contains(index)).collect();
        let schema = spec.schema.project(&others).map_err(|e| Error::internal(format!("columns of files: {e}")))?;
        disk.make_folder(&options.path)?;
        let completion = Completion::open(disk.clone(), &options.path, &partitions, context)?;
        let spec = SinkSpec { schema: Arc::new(schema), ..spec.clone() };
        let sink = PartitionedSink {
            disk,
            spec,
            options,
            context: context.clone(),
            partitions,
            keys,
            others,
            open: BTreeMap::new(),
            completion,
            watermark: EventTime::MIN,
            reached: VecDeque::new(),
        };
        let existing = sink.partitions.existing(&sink.options.path)?;
        match &context.delivery {
            // Opening a folder completes what a killed task has left there.
            Delivery::AtLeastOnce => existing.iter().try_for_each(|folder| sink.writer(folder).map(drop))?,
            Delivery::ExactlyOnce { scope, .. } => {
                let host = context.host.as_ref();
                existing.iter().try_for_each(|folder| ExactFileSink::check_not_ahead(folder, scope, host))?;
            }
        }
        Ok(sink)
    }

    fn writer(&self, folder: &Path) -> Result<Writer> {
        let options = FileOptions { path: folder.to_owned(), ..self.options.clone() };
        let disk = self.disk.clone();
        Ok(match &self.context.delivery {
            Delivery::AtLeastOnce => {
                Writer::AtLeastOnce(Box::new(FileSink::open(disk, &self.spec, options, &self.context)?))
            }
            Delivery::ExactlyOnce { scope, .. } => {
                Writer::Exactly(Box::new(ExactFileSink::open(disk, &self.spec, options, &self.context, scope)?))
            }
        })
    }

    fn opened(&mut self, folder: &Path) -> Result<&mut Writer> {
        if !self.open.contains_key(folder) {
            let writer = self.writer(folder)?;
            self.open.insert(folder.to_owned(), writer);
        }
        self.open.get_mut(folder).ok_or_else(|| Error::internal("a writer that was not opened"))
    }

    /// The rows of each folder. Adjacent rows often have equal values: their folder is looked up once.
    fn divided(&self, batch: &RecordBatch) -> Result<BTreeMap<PathBuf, Vec<u32>>> {
        let failed = |e| Error::internal(format!("the name of a partition: {e}"));
        let format = FormatOptions::default();
        let columns: Vec<ArrayRef> = self.keys.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        let formatters = columns.iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &format));
        let formatters = formatters.collect::<std::result::Result<Vec<_>, _>>().map_err(failed)?;
        let mut divided: BTreeMap<PathBuf, Vec<u32>> = BTreeMap::new();
        for rows in partition(&columns).map_err(failed)?.ranges() {
            let value = |(column, formatter): (&ArrayRef, &ArrayFormatter<'_>)| match column.is_null(rows.start) {
                true => Ok(String::new()),
                false => formatter.value(rows.start).try_to_string().map_err(failed),
            };
            let values = columns.iter().zip(&formatters).map(value).collect::<Result<Vec<String>>>()?;
            let folder = self.options.path.join(self.partitions.folder(values.iter().map(String::as_str)));
            divided.entry(folder).or_default().extend(rows.start as u32..rows.end as u32);
        }
        Ok(divided)
    }

    /// Marks folders as complete, now that all rows before `watermark` are visible, and drops idle writers.
    fn visible(&mut self, watermark: EventTime) -> Result<()> {
        let open = &self.open;
        let is_open = |folder: &Path| open.get(folder).is_some_and(|writer| !writer.is_idle());
        self.completion.visible(watermark, self.context.clock.wall_ms(), &is_open)?;
        self.open.retain(|_, writer| !writer.is_idle());
        Ok(())
    }
}

impl Sink for PartitionedSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let failed = |e| Error::internal(format!("rows of a partition: {e}"));
        for (folder, rows) in self.divided(batch)? {
            let own = take_record_batch(batch, &UInt32Array::from(rows)).map_err(failed)?;
            let own = own.project(&self.others).map_err(failed)?;
            self.completion.wrote(&folder, self.context.clock.wall_ms());
            self.opened(&folder)?.sink().write(&own)?;
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: EventTime) {
        self.watermark = self.watermark.max(watermark);
    }

    fn flush(&mut self) -> Result<()> {
        self.open.values_mut().try_for_each(|writer| writer.sink().flush())
    }

    fn epoch_end(&mut self, epoch: Epoch) -> Result<()> {
        self.open.values_mut().try_for_each(|writer| writer.sink().epoch_end(epoch))?;
        for folder in self.completion.due(self.watermark, self.context.clock.wall_ms())? {
            if let Some(Writer::AtLeastOnce(sink)) = self.open.get_mut(&folder) {
                sink.complete()?;
            }
        }
        self.visible(self.watermark)
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        let mut contents = Vec::new();
        for writer in self.open.values_mut() {
            contents.extend(writer.sink().prepare_commit(epoch)?.map(|prepared| prepared.content));
        }
        if contents.is_empty() && self.reached.is_empty() {
            self.visible(self.watermark)?;
            return Ok(None);
        }
        let (watermark, has_committable) = (self.watermark, !contents.is_empty());
        self.reached.push_back(Reached { epoch, watermark, has_committable });
        if contents.is_empty() {
            return Ok(None);
        }
        let texts = contents.iter().map(|content| String::from_utf8_lossy(content).into_owned());
        let content = json!({ "version": VERSION, "partitions": texts.collect::<Vec<_>>() }).to_string().into_bytes();
        Ok(Some(Committable { epoch, task: self.context.index, content: content.into() }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        // The new owner of the job makes the rows visible, and publishes its progress.
        if self.context.host.is_cancelled() {
            return Ok(());
        }
        let place = |error: Error| error.at(format!("epoch {} of sink task {}", committable.epoch.0, committable.task));
        for content in read(&committable.content).map_err(place)? {
            let folder = ExactFileSink::folder_of(content.as_bytes()).map_err(place)?;
            let own = Committable { content: content.into_bytes().into(), ..committable.clone() };
            self.opened(&folder)?.sink().commit(&own)?;
        }
        let mut visible = None;
        let is_committed = |end: &mut Reached| end.epoch <= committable.epoch || !end.has_committable;
        while let Some(end) = self.reached.pop_front_if(is_committed) {
            visible = Some(end.watermark);
        }
        match visible {
            Some(watermark) => self.visible(watermark),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.open.values_mut().try_for_each(|writer| writer.sink().finish())?;
        match self.context.delivery {
            Delivery::AtLeastOnce => self.visible(self.watermark),
            // Rows that no checkpoint covers are gone.
            Delivery::ExactlyOnce { .. } => Ok(()),
        }
    }
}

/// The contents of the folders' committables.
fn read(content: &[u8]) -> Result<Vec<String>> {
    let content = parsed(content, VERSION, WHAT)?;
    let contents = content["partitions"].as_array().ok_or_else(|| damaged(WHAT))?;
    contents.iter().map(|content| content.as_str().map(str::to_owned).ok_or_else(|| damaged(WHAT))).collect()
}

#[cfg(test)]
mod tests;
