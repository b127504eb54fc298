//! Writes the files of one task, exactly once: a file becomes visible when the checkpoint that covers its rows is complete.
//!
//! At the end of an epoch that a checkpoint covers, the files that hold its rows are completed and forced to disk, still hidden;
//! the checkpoint keeps their names and those they will have. When it is complete they are renamed. So files are as large as
//! what a checkpoint interval brings, and may be smaller (`'sink.rolling-size'`). Whoever goes on after a crash renames what
//! has not been; a file that was renamed before, even if it has been moved away since, is left alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Clock, Epoch, Error, Result};
use anabranch_operators::{Committable, Sink, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde_json::{Value, json};

use super::Current;
use super::file::PartFile;
use super::staged::{Leftover, StagedFolder};
use crate::filesystem::options::FileOptions;

/// Version of the committables' content.
const VERSION: u64 = 1;

/// The writer of one task, exactly once.
pub(super) struct ExactFileSink {
    options: FileOptions,
    schema: SchemaRef,
    clock: Arc<dyn Clock>,
    folder: StagedFolder,
    task: u32,
    current: Option<Current>,
    /// Complete hidden files of the epochs since the last checkpoint.
    complete: Vec<String>,
    /// Files of committables whose commit is still to come.
    prepared: BTreeSet<String>,
    /// The first row has been written.
    has_written: bool,
    /// A committable of this writer has been committed.
    has_committed: bool,
}

impl ExactFileSink {
    pub(super) fn open(spec: &SinkSpec, options: FileOptions, context: &TaskContext, scope: &str) -> Result<Self> {
        Ok(ExactFileSink {
            folder: StagedFolder::open(&options.path, context, scope, options.format.extension())?,
            options,
            schema: spec.schema.clone(),
            clock: context.clock.clone(),
            task: context.index,
            current: None,
            complete: Vec::new(),
            prepared: BTreeSet::new(),
            has_written: false,
            has_committed: false,
        })
    }

    /// Completes the file in progress.
    fn complete(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let (locked, path) = current.file.complete()?;
        self.complete.push(self.folder.complete(&path)?);
        drop(locked);
        Ok(())
    }

    /// Renames one file; false if that was done before.
    fn publish(&self, folder: &Path, hidden: &str, visible: &str) -> Result<bool> {
        let published = StagedFolder::publish(folder, hidden, visible)?;
        if !published && self.prepared.contains(hidden) && !folder.join(visible).exists() {
            return Err(Error::outside(format!(
                "{} has disappeared before its rows became visible",
                folder.join(hidden).display()
            ))
            .remedy("leave hidden files in the folder alone; restart the job from an earlier checkpoint"));
        }
        Ok(published)
    }
}

impl Sink for ExactFileSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if !self.has_written {
            self.folder.remove(Leftover::InProgress, &self.prepared)?;
            self.has_written = true;
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
        StagedFolder::sync(self.folder.path())?;
        let hidden = std::mem::take(&mut self.complete);
        let names =
            hidden.iter().enumerate().map(|(index, hidden)| (hidden.clone(), self.folder.visible(epoch, index)));
        let content = Content { folder: self.folder.path().to_owned(), files: names.collect() };
        self.prepared.extend(hidden);
        Ok(Some(Committable { epoch, task: self.task, content: content.write()? }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        let place = |error: Error| error.at(format!("epoch {} of sink task {}", committable.epoch.0, committable.task));
        let Content { folder, files } = Content::read(&committable.content).map_err(place)?;
        let mut renamed = false;
        for (hidden, visible) in &files {
            renamed |= self.publish(&folder, hidden, visible).map_err(place)?;
        }
        if renamed {
            StagedFolder::sync(&folder)?;
        }
        let own = files.iter().filter(|(hidden, _)| self.prepared.remove(hidden)).count();
        if own > 0 && !self.has_committed {
            // The checkpoint of this epoch is complete, so every sink has been given what an earlier run had left to commit.
            let kept = self.prepared.iter().chain(&self.complete).cloned().collect();
            self.folder.remove(Leftover::Complete, &kept)?;
            self.has_committed = true;
        }
        Ok(())
    }

    /// Rows that no checkpoint covers are not results: whoever goes on writes them again.
    fn finish(&mut self) -> Result<()> {
        if let Some(current) = self.current.take() {
            StagedFolder::discard(current.file.path())?;
        }
        let complete = std::mem::take(&mut self.complete);
        complete.iter().try_for_each(|hidden| StagedFolder::discard(&self.folder.path().join(hidden)))
    }
}

/// What a committable says: hidden names and the visible ones to come, in a folder.
struct Content {
    folder: PathBuf,
    files: Vec<(String, String)>,
}

impl Content {
    fn write(&self) -> Result<Vec<u8>> {
        let folder = self.folder.to_str().ok_or_else(|| {
            Error::user(format!("the name of {} is not UTF-8", self.folder.display())).remedy("rename the folder")
        })?;
        Ok(json!({ "version": VERSION, "folder": folder, "files": self.files }).to_string().into_bytes())
    }

    fn read(content: &[u8]) -> Result<Content> {
        let damaged = || {
            Error::outside("the list of files in the checkpoint is damaged")
                .remedy("start the job from another checkpoint")
        };
        let content: Value = serde_json::from_slice(content).map_err(|_| damaged())?;
        match content["version"].as_u64() {
            Some(VERSION) => {}
            Some(other) => {
                return Err(Error::user(format!("the list of files is of version {other}, known is {VERSION}"))
                    .remedy("start the job with the version of the program that made the checkpoint"));
            }
            None => return Err(damaged()),
        }
        let file = |pair: &Value| {
            let name = |index: usize| pair[index].as_str().filter(|name| !name.contains('/')).map(str::to_owned);
            Some((name(0)?, name(1)?))
        };
        let files = content["files"].as_array().and_then(|files| files.iter().map(file).collect::<Option<Vec<_>>>());
        let folder = content["folder"].as_str().map(PathBuf::from);
        let (Some(folder), Some(files)) = (folder, files) else { return Err(damaged()) };
        Ok(Content { folder, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_frozen() {
        let files = vec![(".part-a-0-17-0.json.complete".to_owned(), "part-a-0-3-0.json".to_owned())];
        let content = Content { folder: "/data/results".into(), files: files.clone() };
        let text =
            br#"{"files":[[".part-a-0-17-0.json.complete","part-a-0-3-0.json"]],"folder":"/data/results","version":1}"#;
        assert_eq!(String::from_utf8(content.write().unwrap()).unwrap().as_bytes(), text);
        let read = Content::read(text).unwrap();
        assert_eq!((read.folder, read.files), (PathBuf::from("/data/results"), files));
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
            let error = Content::read(content.as_bytes()).err().unwrap().to_string();
            assert!(error.contains("the list of files in the checkpoint is damaged"), "{error}");
        }
        let later = Content::read(br#"{"version":2}"#).err().unwrap().to_string();
        assert!(later.contains("version 2, known is 1"), "{later}");
    }
}
