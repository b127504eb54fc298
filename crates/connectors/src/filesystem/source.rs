//! Reads the files of one task: in turn, so that the watermark, which follows the slowest, moves with all of them.
//!
//! A file is known by its name. A reader that goes on counts files that were read to their end among the table's, also when
//! they are gone, so that the files of a table that is read once keep their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::SourceSpec;
use anabranch_model::{Clock, Error, HASH_SEED, Nanos, PartitionId, Result, hash_bytes};
use anabranch_operators::{Polled, Positions, Rows, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use super::listing::files;
use super::options::{FileFormat, FileOptions};
use super::parquet::ParquetFile;
use super::position::{Names, Position};
use super::text::TextFile;
use crate::format::{Decode, source_schema};
use crate::ownership::Announcements;
use crate::positions::END;
use crate::wait::wait;

/// With more files than this a task reads one after the other, so that not all of them are open at a time.
const OPEN_FILES_MAX: usize = 128;

/// The files that one task reads.
pub(super) struct FileSource {
    options: FileOptions,
    declared: SchemaRef,
    schema: SchemaRef,
    batch_rows: usize,
    decoder: Option<Box<dyn Decode>>,
    announcements: Announcements,
    names: Names,
    files: Vec<ReadFile>,
    /// Files that have been read to their end.
    ended: Vec<PathBuf>,
    /// Index of the file whose turn it is.
    turn: usize,
    /// Set if the table is followed.
    monitor: Option<Monitor>,
}

struct ReadFile {
    partition: u32,
    path: PathBuf,
    /// Where reading begins.
    start: Position,
    /// `None` until its first turn.
    content: Option<Content>,
    /// Nothing more was there at the last look.
    exhausted: bool,
}

enum Content {
    Text(Box<TextFile>),
    Parquet(Box<ParquetFile>),
}

/// What is needed to notice new files. Tasks see new files at different times, so a file's task follows from its name
/// alone, and its number is the next of those that belong to the task.
struct Monitor {
    clock: Arc<dyn Clock>,
    interval: Duration,
    next_look: Nanos,
    known: BTreeSet<PathBuf>,
    task: u32,
    parallelism: u32,
    opened: u32,
}

impl ReadFile {
    fn position(&self) -> Position {
        match &self.content {
            None => self.start,
            Some(Content::Text(text)) => text.position(),
            Some(Content::Parquet(parquet)) => parquet.position(),
        }
    }
}

impl FileSource {
    pub(super) fn open(
        spec: &SourceSpec,
        options: FileOptions,
        context: &TaskContext,
        from: Option<&Positions>,
    ) -> Result<Self> {
        let schema = source_schema(spec)?;
        let decoder = match &options.format {
            FileFormat::Text(format) => Some(format.line_decoder(&spec.declared, &spec.projection)?),
            FileFormat::Parquet => None,
        };
        let monitor = options.monitor_interval.map(|interval| Monitor {
            clock: context.clock.clone(),
            interval,
            next_look: context.clock.now().plus(interval),
            known: BTreeSet::new(),
            task: context.index,
            parallelism: context.parallelism.max(1),
            opened: 0,
        });
        let mut source = FileSource {
            declared: spec.declared.clone(),
            schema,
            batch_rows: context.batch_rows.max(1),
            decoder,
            announcements: Announcements::default(),
            names: Names::of(&options.path),
            files: Vec::new(),
            ended: Vec::new(),
            turn: 0,
            monitor,
            options,
        };
        let mut all = files(&source.options.path)?;
        let starts = match from {
            Some(from) => source.names.positions(from, &all, &source.options.format, &spec.table)?,
            None => BTreeMap::new(),
        };
        all.extend(starts.keys().cloned());
        all.sort();
        all.dedup();
        if source.monitor.is_some() {
            source.add_new(all, &starts)?;
        } else {
            let own = (0..).zip(all).skip(context.index as usize).step_by(context.parallelism.max(1) as usize);
            for (partition, path) in own {
                source.add(partition, path, &starts)?;
            }
        }
        Ok(source)
    }

    fn add(&mut self, partition: u32, path: PathBuf, starts: &BTreeMap<PathBuf, Position>) -> Result<()> {
        let start = starts.get(&path).copied().unwrap_or(Position::beginning(&self.options.format));
        if start == Position::End {
            self.ended.push(path);
            return Ok(());
        }
        self.announcements.open(partition, self.names.name(&path)?);
        self.files.push(ReadFile { partition, path, start, content: None, exhausted: false });
        Ok(())
    }

    /// Adds the files of a followed table that are new and belong to this task.
    fn add_new(&mut self, all: Vec<PathBuf>, starts: &BTreeMap<PathBuf, Position>) -> Result<()> {
        for path in all {
            let Some(monitor) = &mut self.monitor else { break };
            let name = path.strip_prefix(&self.options.path).unwrap_or(&path).as_os_str().as_encoded_bytes();
            let owner = hash_bytes(HASH_SEED, name) % u64::from(monitor.parallelism);
            if owner == u64::from(monitor.task) && monitor.known.insert(path.clone()) {
                let partition = monitor.opened * monitor.parallelism + monitor.task;
                monitor.opened += 1;
                self.add(partition, path, starts)?;
            }
        }
        Ok(())
    }

    /// Rows of the files in turn; `None` if no file has more at the moment.
    fn read(&mut self) -> Result<Option<Polled>> {
        for _ in 0..self.files.len() {
            if self.turn >= self.files.len() {
                self.turn = 0;
            }
            let take_turns = self.files.len() <= OPEN_FILES_MAX;
            if self.files[self.turn].exhausted {
                self.turn += 1;
                continue;
            }
            match self.read_file(self.turn)? {
                Some(rows) => {
                    self.turn += usize::from(take_turns);
                    return Ok(Some(Polled::Rows(rows)));
                }
                None if self.is_final(self.turn) => {
                    let file = self.files.remove(self.turn);
                    self.ended.push(file.path);
                    return Ok(Some(Polled::Closed(PartitionId(file.partition))));
                }
                None => {
                    self.files[self.turn].exhausted = true;
                    self.turn += 1;
                }
            }
        }
        Ok(None)
    }

    /// Whether a file that has been read to its end will not grow: Parquet files are complete when they appear, and a
    /// text file may have been deleted.
    fn is_final(&self, index: usize) -> bool {
        let will_not_grow = match &self.files[index].content {
            None => false,
            Some(Content::Text(text)) => text.has_ended(),
            Some(Content::Parquet(_)) => true,
        };
        self.monitor.is_none() || will_not_grow
    }

    fn read_file(&mut self, index: usize) -> Result<Option<Rows>> {
        let follow = self.monitor.is_some();
        let file = &mut self.files[index];
        let content = match &mut file.content {
            Some(content) => content,
            None => file.content.insert(match (&self.options.format, file.start) {
                (FileFormat::Text(format), Position::Text { byte, line }) => {
                    let text = TextFile::new(&file.path, format, &self.declared, follow, (byte, line));
                    Content::Text(Box::new(text))
                }
                (FileFormat::Parquet, Position::Parquet { row_group, row }) => {
                    let from = (row_group, row);
                    Content::Parquet(Box::new(ParquetFile::open(&file.path, &self.schema, self.batch_rows, from)?))
                }
                (_, other) => return Err(Error::internal(format!("a file of another format at {other}"))),
            }),
        };
        let next = match (content, &mut self.decoder) {
            (Content::Text(text), Some(decoder)) => text.next(decoder.as_mut(), self.batch_rows)?,
            (Content::Parquet(parquet), _) => parquet.next()?.map(|batch| (batch, Vec::new())),
            (Content::Text(_), None) => return Err(Error::internal("a text file without a decoder")),
        };
        let partition = PartitionId(file.partition);
        Ok(next.map(|(batch, malformed)| Rows { partition, batch, malformed }))
    }

    /// Waits until the next look at the folder, or as long as allowed; true if it has looked.
    fn look(&mut self, wait_at_most: Duration) -> Result<bool> {
        let Some(monitor) = &mut self.monitor else { return Ok(false) };
        let now = monitor.clock.now();
        wait(monitor.next_look.after(now).min(wait_at_most));
        let now = monitor.clock.now();
        if now < monitor.next_look {
            return Ok(false);
        }
        monitor.next_look = now.plus(monitor.interval);
        self.files.iter_mut().for_each(|file| file.exhausted = false);
        let path: &Path = &self.options.path;
        let all = files(path)?;
        self.add_new(all, &BTreeMap::new())?;
        Ok(true)
    }
}

impl Source for FileSource {
    fn poll(&mut self, wait_at_most: Duration) -> Result<Polled> {
        if let Some(owed) = self.announcements.next() {
            return Ok(owed);
        }
        if let Some(polled) = self.read()? {
            return Ok(polled);
        }
        if self.monitor.is_none() {
            return Ok(Polled::End);
        }
        if !self.look(wait_at_most)? {
            return Ok(Polled::Pending);
        }
        match self.announcements.next() {
            Some(owed) => Ok(owed),
            None => Ok(self.read()?.unwrap_or(Polled::Pending)),
        }
    }

    fn positions(&self) -> Result<Positions> {
        let ended = self.ended.iter().map(|path| Ok((self.names.name(path)?, END.to_owned())));
        let going_on = self.files.iter().map(|file| Ok((self.names.name(&file.path)?, file.position().to_string())));
        ended.chain(going_on).collect()
    }
}
