//! Reads the files of one task in turn, so that the watermark, which follows the slowest file, advances.
//!
//! A file of a bounded table is identified by its name. A resumed reader still counts files that were read to
//! their end, even deleted ones, so that partitions keep their numbers. A file of a followed table is
//! identified by its inode, creation time and first bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_dataflow::SourceSpec;
use anabranch_model::{Error, PartitionId, Result};
use anabranch_operators::{Polled, Positions, Rows, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use super::followed::{Follow, Resumed, Table, agreed, resume};
use super::identity::{FileId, Head, Identity, owner};
use super::input::{Compression, Tracked};
use super::io_error;
use super::options::{FileFormat, FileOptions};
use super::parquet::ParquetFile;
use super::position::{self, FileNames, Position, label};
use super::text::TextFile;
use crate::format::{Decode, source_schema};
use crate::ownership::Announcements;

/// The largest number of files that a task keeps open. With more files it reads one after the other. A file
/// that is closed before its end is opened again later, at the same position.
const OPEN_FILES_MAX: usize = 128;

/// The files that one task reads.
pub(super) struct FileSource {
    options: FileOptions,
    declared: SchemaRef,
    schema: SchemaRef,
    batch_rows: usize,
    decoder: Option<Box<dyn Decode>>,
    announcements: Announcements,
    names: FileNames,
    files: Vec<ReadFile>,
    /// Files that have been read to their end.
    ended: Vec<Ended>,
    /// Index of the file whose turn it is.
    turn: usize,
    /// Partitions that are not read for now.
    held: BTreeSet<PartitionId>,
    /// Set if the table is followed.
    follow: Option<Follow>,
}

struct ReadFile {
    partition: u32,
    /// Its key in positions.
    label: String,
    path: PathBuf,
    /// Where reading begins.
    start: Position,
    /// Whether the file had no more bytes after `start`.
    starts_at_end: bool,
    /// Its identity, if the table is followed.
    tracked: Option<Tracked>,
    /// `None` until its first turn.
    content: Option<OpenFile>,
    /// Whether a read since the last scan found no more records.
    exhausted: bool,
    /// Whether the file was deleted or moved out of a followed table.
    is_gone: bool,
}

impl ReadFile {
    /// A file that is not followed.
    fn new(partition: u32, label: String, path: PathBuf, start: Position) -> ReadFile {
        let (tracked, content) = (None, None);
        let (starts_at_end, exhausted, is_gone) = (false, false, false);
        ReadFile { partition, label, path, start, starts_at_end, tracked, content, exhausted, is_gone }
    }
}

struct Ended {
    label: String,
    identity: Option<Tracked>,
}

enum OpenFile {
    Text(Box<TextFile>),
    Parquet(Box<ParquetFile>),
}

impl ReadFile {
    /// The file's position, with its identity if it is followed.
    fn position(&self) -> String {
        let (position, is_at_end) = self.output_position();
        position_text(position, self.identity(), is_at_end)
    }

    /// The position of the next rows, and whether the file had no more bytes there.
    fn output_position(&self) -> (Position, bool) {
        match &self.content {
            None => (self.start, self.starts_at_end),
            Some(OpenFile::Text(text)) => {
                let is_where_it_began = self.starts_at_end && text.has_read_nothing_since(self.start);
                (text.position(), text.is_at_end() || is_where_it_began)
            }
            Some(OpenFile::Parquet(parquet)) => (parquet.position(), self.starts_at_end),
        }
    }

    /// Whether it is open, or a part of it is in memory.
    fn is_open(&self) -> bool {
        match &self.content {
            None => false,
            Some(OpenFile::Text(text)) => text.is_open(),
            Some(OpenFile::Parquet(_)) => true,
        }
    }

    /// Closes the file. Its next turn opens it again at the same position.
    fn close(&mut self) {
        self.tracked = self.identity();
        (self.start, self.starts_at_end) = self.output_position();
        self.content = None;
    }

    fn identity(&self) -> Option<Tracked> {
        let tracked = self.tracked?;
        match &self.content {
            Some(OpenFile::Text(text)) => Some(Tracked { head: text.head(), ..tracked }),
            _ => Some(tracked),
        }
    }
}

fn position_text(position: Position, identity: Option<Tracked>, is_at_end: bool) -> String {
    match identity {
        None => position.to_string(),
        Some(Tracked { id, head }) => {
            let identity = Identity { inode: id.inode, born_ms: id.born_ms, head };
            position::followed(position, identity, is_at_end)
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
        let follow = options.monitor_interval.map(|interval| Follow::new(&options.path, interval, context));
        let mut source = FileSource {
            declared: spec.declared.clone(),
            schema,
            batch_rows: context.batch_rows.max(1),
            decoder,
            announcements: Announcements::default(),
            names: FileNames::new(&options.path),
            files: Vec::new(),
            ended: Vec::new(),
            turn: 0,
            held: BTreeSet::new(),
            follow,
            options,
        };
        match &source.follow {
            Some(follow) => {
                super::listing::check(&source.options.path)?;
                let present = follow.present()?;
                let table = Table { names: &source.names, format: &source.options.format, name: &spec.table };
                let resumed = from.map_or(Ok(BTreeMap::new()), |from| resume(from, &present, table, context))?;
                source.add_new(present, resumed)?;
            }
            None => source.add_all(spec, context, from)?,
        }
        Ok(source)
    }

    /// Adds this task's share of the files of a bounded table. The first start lists them. Every task's
    /// positions name all of its files, so the positions of a resumed job are that list.
    fn add_all(&mut self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<()> {
        let (mut all, starts) = match from {
            Some(from) => {
                let starts = self.names.positions(from, &self.options.format, &spec.table)?;
                (starts.keys().cloned().collect(), starts)
            }
            None => (agreed(&self.options.path, &self.names, context)?, BTreeMap::new()),
        };
        all.sort_by_cached_key(|name| self.names.path(name));
        let own = (0..).zip(all).skip(context.index as usize).step_by(context.parallelism.max(1) as usize);
        for (partition, name) in own {
            let start = starts.get(&name).copied().unwrap_or(Position::beginning(&self.options.format));
            if start == Position::End {
                self.ended.push(Ended { label: name, identity: None });
            } else {
                let path = self.names.path(&name);
                self.add(ReadFile::new(partition, name, path, start));
            }
        }
        Ok(())
    }

    /// Adds the files of a followed table that are new and belong to this task.
    fn add_new(&mut self, present: Vec<(PathBuf, FileId)>, mut resumed: BTreeMap<FileId, Resumed>) -> Result<()> {
        let ended = self.ended.iter().filter_map(|ended| Some(ended.identity?.id));
        let read = self.files.iter().filter_map(|file| Some(file.tracked?.id));
        let known: BTreeSet<_> = ended.chain(read).collect();
        for (path, id) in present {
            let Some(follow) = &mut self.follow else { break };
            if known.contains(&id) || owner(id.inode, follow.parallelism) != follow.task {
                continue;
            }
            let (label, start, is_at_end, tracked) = match resumed.remove(&id) {
                Some(Resumed { label, position, is_at_end, tracked }) => (label, position, is_at_end, tracked),
                None => {
                    let label = label(&self.names.name(&path)?, id);
                    let tracked = Tracked { id, head: Head::default() };
                    (label, Position::beginning(&self.options.format), false, tracked)
                }
            };
            if start == Position::End {
                self.ended.push(Ended { label, identity: Some(tracked) });
                continue;
            }
            let partition = follow.next_partition();
            let file = ReadFile::new(partition, label, path, start);
            self.add(ReadFile { starts_at_end: is_at_end, tracked: Some(tracked), ..file });
        }
        Ok(())
    }

    fn add(&mut self, file: ReadFile) {
        self.announcements.open(file.partition, file.label.clone());
        self.files.push(file);
    }

    /// Rows of the files in turn; `None` if no file has more at the moment.
    fn read(&mut self) -> Result<Option<Polled>> {
        for _ in 0..self.files.len() {
            if self.turn >= self.files.len() {
                self.turn = 0;
            }
            let take_turns = self.files.len() <= OPEN_FILES_MAX;
            let file = &self.files[self.turn];
            if file.exhausted || self.held.contains(&PartitionId(file.partition)) {
                self.turn += 1;
                continue;
            }
            match self.read_file(self.turn, take_turns)? {
                Some(rows) => {
                    self.turn += usize::from(take_turns);
                    return Ok(Some(Polled::Rows(rows)));
                }
                None if self.is_final(self.turn) => return Ok(Some(self.close(self.turn))),
                None => {
                    self.files[self.turn].exhausted = true;
                    self.turn += 1;
                }
            }
        }
        Ok(None)
    }

    /// Whether the partition of a file that was read to its end is closed. In a followed table this is the
    /// case for Parquet files, which are complete when they appear, and for text files that were deleted or
    /// replaced.
    fn is_final(&self, index: usize) -> bool {
        let file = &self.files[index];
        let will_not_grow = match &file.content {
            None => false,
            Some(OpenFile::Text(text)) => text.is_replaced(),
            Some(OpenFile::Parquet(_)) => true,
        };
        self.follow.is_none() || will_not_grow || file.is_gone
    }

    /// Closes the partition of a file. If the content was replaced, opens a new partition that reads it from
    /// its beginning.
    fn close(&mut self, index: usize) -> Polled {
        let file = self.files.remove(index);
        let identity = file.identity();
        let is_replaced = matches!(&file.content, Some(OpenFile::Text(text)) if text.is_replaced());
        match (&mut self.follow, file.tracked) {
            (Some(follow), Some(Tracked { id, .. })) if is_replaced && !file.is_gone => {
                let partition = follow.next_partition();
                let start = Position::beginning(&self.options.format);
                let tracked = Tracked { id, head: Head::default() };
                let file = ReadFile::new(partition, file.label, file.path, start);
                self.add(ReadFile { tracked: Some(tracked), ..file });
            }
            // A deleted file needs no position.
            (Some(_), _) if file.is_gone => {}
            _ => self.ended.push(Ended { label: file.label, identity }),
        }
        Polled::Closed(PartitionId(file.partition))
    }

    fn read_file(&mut self, index: usize, take_turns: bool) -> Result<Option<Rows>> {
        if self.files[index].content.is_none() {
            self.leave_room(index);
            self.files[index].content = self.open_file(index)?;
        }
        let file = &mut self.files[index];
        let next = match (&mut file.content, &mut self.decoder) {
            (None, _) => None,
            (Some(OpenFile::Text(text)), Some(decoder)) => {
                text.input().set_stays_open(take_turns);
                text.next(decoder.as_mut(), self.batch_rows)?
            }
            (Some(OpenFile::Parquet(parquet)), _) => parquet.next()?.map(|batch| (batch, Vec::new())),
            (Some(OpenFile::Text(_)), None) => return Err(Error::internal("a text file without a decoder")),
        };
        let partition = PartitionId(file.partition);
        Ok(next.map(|(batch, malformed)| Rows { partition, batch, malformed }))
    }

    /// Closes a file if the maximal number is open: a held file if there is one, else the file that was read
    /// most recently: its next turn is the furthest away.
    fn leave_room(&mut self, opening: usize) {
        let count = self.files.len();
        if count <= OPEN_FILES_MAX {
            return;
        }
        let last_first = (1..count).map(|back| (opening + count - back) % count);
        let mut open = last_first.filter(|index| self.files[*index].is_open()).peekable();
        let Some(last) = open.peek().copied() else { return };
        let (mut held, mut opened) = (None, 0);
        for index in open {
            opened += 1;
            let is_held = self.held.contains(&PartitionId(self.files[index].partition));
            held = held.or_else(|| is_held.then_some(index));
        }
        if opened >= OPEN_FILES_MAX {
            self.files[held.unwrap_or(last)].close();
        }
    }

    /// Opens a file at its turn; `None` if a followed file no longer has this name.
    fn open_file(&mut self, index: usize) -> Result<Option<OpenFile>> {
        let file = &mut self.files[index];
        Ok(Some(match (&self.options.format, file.start) {
            (FileFormat::Text(format), Position::Text { byte, line }) => {
                let compression = self.options.compression.unwrap_or(Compression::from_extension(&file.path));
                let input = (file.path.as_path(), compression);
                OpenFile::Text(Box::new(TextFile::new(input, format, &self.declared, file.tracked, (byte, line))))
            }
            (FileFormat::Parquet, Position::Parquet { row_group, row }) => {
                let failed = |e: std::io::Error| io_error(&file.path, "open", &e);
                let open = match File::open(&file.path) {
                    Err(error) if file.tracked.is_some() && error.kind() == ErrorKind::NotFound => return Ok(None),
                    opened => opened.map_err(failed)?,
                };
                if let Some(tracked) = &mut file.tracked {
                    if FileId::from_metadata(&open.metadata().map_err(failed)?) != tracked.id {
                        return Ok(None);
                    }
                    tracked.head = Head::read(&open).map_err(failed)?;
                }
                let rows = (&self.schema, self.batch_rows);
                OpenFile::Parquet(Box::new(ParquetFile::open(&file.path, open, rows, (row_group, row))?))
            }
            (_, other) => return Err(Error::internal(format!("a file of another format at {other}"))),
        }))
    }

    /// Scans the folder if a scan is due, and finds new, renamed and deleted files. Returns whether it
    /// scanned.
    fn scan_when_due(&mut self, wait_at_most: Duration) -> Result<bool> {
        let Some(follow) = &mut self.follow else { return Ok(false) };
        if !follow.wait(wait_at_most) {
            return Ok(false);
        }
        let present = follow.present()?;
        let by_id: BTreeMap<FileId, &Path> = present.iter().map(|(path, id)| (*id, path.as_path())).collect();
        for file in &mut self.files {
            file.exhausted = false;
            let Some(tracked) = file.tracked else { continue };
            let path = by_id.get(&tracked.id);
            file.is_gone = path.is_none();
            if let Some(path) = path.filter(|path| **path != file.path) {
                file.path = (*path).to_owned();
                if let Some(OpenFile::Text(text)) = &mut file.content {
                    text.input().rename(path);
                }
            }
        }
        self.ended.retain(|ended| ended.identity.is_none_or(|tracked| by_id.contains_key(&tracked.id)));
        self.add_new(present, BTreeMap::new())?;
        Ok(true)
    }
}

impl Source for FileSource {
    /// A bounded table is divided by the files' indexes in a list. New readers may list other files, so they
    /// would divide the table differently.
    fn may_go_on(&self) -> bool {
        self.follow.is_some()
    }

    fn waits_at_host(&self) -> bool {
        true
    }

    fn poll(&mut self, wait_at_most: Duration) -> Result<Polled> {
        if let Some(owed) = self.announcements.next() {
            return Ok(owed);
        }
        if let Some(polled) = self.read()? {
            return Ok(polled);
        }
        if self.follow.is_none() {
            return Ok(if self.files.is_empty() { Polled::End } else { Polled::Pending });
        }
        if !self.scan_when_due(wait_at_most)? {
            return Ok(Polled::Pending);
        }
        match self.announcements.next() {
            Some(owed) => Ok(owed),
            None => Ok(self.read()?.unwrap_or(Polled::Pending)),
        }
    }

    fn hold(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<bool> {
        self.held.clone_from(partitions);
        Ok(true)
    }

    fn positions(&self) -> Result<Positions> {
        let ended =
            self.ended.iter().map(|ended| (ended.label.clone(), position_text(Position::End, ended.identity, true)));
        let unfinished = self.files.iter().map(|file| (file.label.clone(), file.position()));
        Ok(ended.chain(unfinished).collect())
    }
}
