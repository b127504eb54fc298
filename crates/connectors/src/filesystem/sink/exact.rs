//! Writes the files of one task, exactly once: a file becomes visible when the checkpoint that covers its
//! rows is complete.
//!
//! At the end of an epoch that a checkpoint covers, the sink completes the files of its rows and syncs them
//! to disk, still hidden. The checkpoint contains their hidden and their future names. When it is complete
//! the sink renames them. So files are as large as the rows of a checkpoint interval, and may be smaller
//! (`'sink.rolling-size'`).
//!
//! After a crash the next incarnation renames the remaining files. Before the first rename of a commit the
//! sink creates a commit marker in the folder. If a hidden file is missing and its commit has a marker, the
//! file was renamed and may have been moved away since. If it is missing without a marker, its rows are lost:
//! the job fails and does not restart.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Clock, Epoch, Error, Result};
use anabranch_operators::{Committable, Host, Sink, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde_json::{Value, json};

use super::disk::{Disk, exists};
use super::file::PartFile;
use super::staged::{Leftover, StagedFolder};
use super::{Current, damaged, parsed};
use crate::filesystem::options::FileOptions;
use crate::guarantee::{START_OVER, has_later_results};

/// What messages call the content of a committable, and the content's version.
const WHAT: &str = "the list of files";
const VERSION: u64 = 1;

/// The writer of one task, exactly once.
pub(super) struct ExactFileSink {
    options: FileOptions,
    schema: SchemaRef,
    clock: Arc<dyn Clock>,
    host: Arc<dyn Host>,
    folder: StagedFolder,
    task: u32,
    current: Option<Current>,
    /// Complete hidden files of the epochs since the last checkpoint.
    complete: Vec<String>,
    /// Files of committables that are not committed yet.
    prepared: BTreeSet<String>,
    /// The marker of the last commit.
    marker: Option<PathBuf>,
    /// Whether the first row has been written.
    has_written: bool,
    /// Whether a committable of this writer has been committed.
    has_committed: bool,
}

impl ExactFileSink {
    pub(super) fn open(
        disk: Disk,
        spec: &SinkSpec,
        options: FileOptions,
        context: &TaskContext,
        scope: &str,
    ) -> Result<Self> {
        Ok(ExactFileSink {
            folder: StagedFolder::open(disk, &options.path, context, scope, options.format.extension())?,
            options,
            schema: spec.schema.clone(),
            clock: context.clock.clone(),
            host: context.host.clone(),
            task: context.index,
            current: None,
            complete: Vec::new(),
            prepared: BTreeSet::new(),
            marker: None,
            has_written: false,
            has_committed: false,
        })
    }

    /// Fails if the folder has results of later epochs than the checkpoint that the job resumes from. Called
    /// when the tasks are opened: later, their own results are there too.
    pub(super) fn check_not_ahead(folder: &Path, scope: &str, host: &dyn Host) -> Result<()> {
        let Some(after) = host.resumed_after().filter(|_| folder.is_dir()) else { return Ok(()) };
        match StagedFolder::last_committed(folder, scope)?.filter(|last| *last > after.0) {
            None => Ok(()),
            Some(last) => Err(has_later_results(&format!("the folder {}", folder.display()), last, after)),
        }
    }

    /// Whether all rows that it was given are visible.
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.complete.is_empty() && self.prepared.is_empty()
    }

    /// The folder to which a committable belongs.
    pub(super) fn folder_of(content: &[u8]) -> Result<PathBuf> {
        Ok(PreparedFiles::read(content)?.folder)
    }

    /// Completes the file in progress.
    fn complete(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let locked = current.file.complete()?;
        self.complete.push(self.folder.complete(locked.path())?);
        Ok(())
    }

    /// Makes the files of a committable visible.
    fn publish(&mut self, PreparedFiles { folder, files }: &PreparedFiles, epoch: Epoch) -> Result<()> {
        let Some((_, first)) = files.first() else { return Ok(()) };
        for (hidden, visible) in files {
            // The hidden name is checked first. A file that another process renames between both checks is
            // found under its visible name.
            let is_there = exists(&folder.join(hidden))? || exists(&folder.join(visible))?;
            if !is_there && !StagedFolder::is_marked_committed(folder, first, epoch)? {
                let hidden = folder.join(hidden);
                return Err(Error::damaged(format!(
                    "{} has disappeared before its rows became visible as {visible}",
                    hidden.display()
                ))
                .remedy(format!("put the hidden file back and start the job again; or {START_OVER}")));
            }
        }
        let marker = self.folder.mark_committed(folder, first, epoch)?;
        for (hidden, visible) in files {
            self.folder.publish(folder, hidden, visible)?;
        }
        self.folder.disk.sync_folder(folder)?;
        // The marker of another task's commit, which this sink took over, stays: it is the only evidence that
        // the files of that commit were visible.
        let before = self.marker.replace(marker.clone());
        match before.filter(|before| *before != marker && StagedFolder::is_of_one_writer(before, &marker)) {
            Some(before) => self.folder.disk.remove(&before),
            None => Ok(()),
        }
    }
}

impl Sink for ExactFileSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if !self.has_written {
            self.folder.remove(Leftover::InProgress)?;
            self.has_written = true;
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

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        let now = self.clock.now();
        let is_full = self.current.as_ref().is_some_and(|current| current.is_full(&self.options, now));
        if is_full { self.complete() } else { Ok(()) }
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        self.complete()?;
        if self.complete.is_empty() {
            return Ok(None);
        }
        self.folder.disk.sync_folder(self.folder.path())?;
        let hidden = std::mem::take(&mut self.complete);
        let names =
            hidden.iter().enumerate().map(|(index, hidden)| (hidden.clone(), self.folder.visible(epoch, index)));
        let content = PreparedFiles { folder: self.folder.path().to_owned(), files: names.collect() };
        self.prepared.extend(hidden);
        Ok(Some(Committable { epoch, task: self.task, content: content.write()?.into() }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        // A later incarnation commits what checkpoints cover.
        if self.host.is_cancelled() {
            return Ok(());
        }
        let place = |error: Error| error.at(format!("epoch {} of sink task {}", committable.epoch.0, committable.task));
        let content = PreparedFiles::read(&committable.content).map_err(place)?;
        self.publish(&content, committable.epoch).map_err(place)?;
        let own = content.files.iter().filter(|(hidden, _)| self.prepared.remove(hidden)).count();
        if own > 0 && !self.has_committed {
            // The checkpoint of this epoch is complete. So every sink of this incarnation has committed the
            // results that an earlier one had prepared.
            self.folder.remove(Leftover::Complete)?;
            self.folder.remove_markers()?;
            self.has_committed = true;
        }
        Ok(())
    }

    /// Rows that no checkpoint covers are not results: the next incarnation writes them again.
    fn finish(&mut self) -> Result<()> {
        if let Some(current) = self.current.take() {
            self.folder.disk.remove(current.file.path())?;
        }
        let complete = std::mem::take(&mut self.complete);
        complete.iter().try_for_each(|hidden| self.folder.disk.remove(&self.folder.path().join(hidden)))
    }
}

/// The content of a committable: hidden names with their future visible names, in a folder.
struct PreparedFiles {
    folder: PathBuf,
    files: Vec<(String, String)>,
}

impl PreparedFiles {
    fn write(&self) -> Result<Vec<u8>> {
        let folder = self.folder.to_str().ok_or_else(|| {
            Error::user(format!("the name of {} is not UTF-8", self.folder.display())).remedy("rename the folder")
        })?;
        Ok(json!({ "version": VERSION, "folder": folder, "files": self.files }).to_string().into_bytes())
    }

    fn read(content: &[u8]) -> Result<PreparedFiles> {
        let content = parsed(content, VERSION, WHAT)?;
        let file = |pair: &Value| {
            let name = |index: usize| pair[index].as_str().filter(|name| !name.contains('/')).map(str::to_owned);
            Some((name(0)?, name(1)?))
        };
        let files = content["files"].as_array().and_then(|files| files.iter().map(file).collect::<Option<Vec<_>>>());
        let folder = content["folder"].as_str().map(PathBuf::from);
        let (Some(folder), Some(files)) = (folder, files) else { return Err(damaged(WHAT)) };
        Ok(PreparedFiles { folder, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_frozen() {
        let folder = PathBuf::from("/data/results");
        let files = vec![(".part-a-0-i4-17-0.json.complete".to_owned(), "part-a-0-3-0.json".to_owned())];
        let content = PreparedFiles { folder: folder.clone(), files: files.clone() };
        let text = br#"{"files":[[".part-a-0-i4-17-0.json.complete","part-a-0-3-0.json"]],"folder":"/data/results","version":1}"#;
        assert_eq!(String::from_utf8(content.write().unwrap()).unwrap().as_bytes(), text);
        let read = PreparedFiles::read(text).unwrap();
        assert_eq!((read.folder, read.files), (folder, files));
    }

    #[test]
    fn damage_is_noticed() {
        for content in [
            "",
            "{}",
            r#"{"version":1}"#,
            r#"{"version":1,"folder":"a","files":[["a"]]}"#,
            r#"{"version":1,"folder":"a","files":[["../a","b"]]}"#,
        ] {
            let error = PreparedFiles::read(content.as_bytes()).err().unwrap().to_string();
            assert!(error.contains("the list of files in the checkpoint is damaged"), "{error}");
        }
        let later = PreparedFiles::read(br#"{"version":2}"#).err().unwrap().to_string();
        assert!(later.contains("version 2, known is 1") && later.contains("start the job with"), "{later}");
    }
}
