//! Marks the folder of a partition as complete, by an empty file in it, when all rows of the partition are
//! visible.
//!
//! By process time a task decides alone, as in Flink: when the delay has passed since it first wrote into the
//! folder. By event time all tasks must have passed the folder's time. Each task publishes its progress as
//! the name of an empty hidden file in the table's folder, `.watermark-TASK-of-TASKS-MILLISECONDS`, once the
//! rows before that time are visible. The last task to pass the folder's time marks the folder as complete.
//! An existing success file stays, so late rows change nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, EventTime, Result};
use anabranch_operators::TaskContext;

use super::disk::Disk;
use crate::filesystem::entries;
use crate::filesystem::partitions::{Partitions, Trigger};

const WATERMARK: &str = ".watermark-";

/// The state of the folders' completion in one task.
pub(super) struct Completion {
    disk: Disk,
    base: PathBuf,
    partitions: Partitions,
    task: u32,
    tasks: u32,
    /// Folders that may become complete, and when they were first seen, in milliseconds since 1970.
    pending: BTreeMap<PathBuf, i64>,
    /// The file that publishes the task's progress.
    published: Option<PathBuf>,
}

impl Completion {
    pub(super) fn open(disk: Disk, base: &Path, partitions: &Partitions, context: &TaskContext) -> Result<Completion> {
        let (task, tasks) = (context.index, context.parallelism.max(1));
        let mut completion = Completion {
            disk,
            base: base.to_owned(),
            partitions: partitions.clone(),
            task,
            tasks,
            pending: BTreeMap::new(),
            published: None,
        };
        for (name, progress) in completion.progress()? {
            // Progress that a former run has published, with any number of tasks.
            if progress.task == task || progress.tasks != tasks {
                completion.disk.remove(&base.join(name))?;
            }
        }
        if partitions.success.is_some() {
            let now_ms = context.clock.wall_ms();
            partitions.existing(base)?.into_iter().for_each(|folder| completion.wrote(&folder, now_ms));
        }
        Ok(completion)
    }

    /// Notes that rows are written into a folder. A folder without a time, because a value is NULL, is never
    /// marked by event time.
    pub(super) fn wrote(&mut self, folder: &Path, now_ms: i64) {
        let by_time = self.partitions.trigger == Trigger::PartitionTime;
        let has_time = || self.partitions.time_ms(folder).is_ok() || !self.partitions.has_default(folder);
        let may_be_complete = || !by_time || has_time();
        if self.partitions.success.is_some() && !self.pending.contains_key(folder) && may_be_complete() {
            self.pending.insert(folder.to_owned(), now_ms);
        }
    }

    /// The folders that this task considers complete.
    pub(super) fn due(&self, watermark: EventTime, now_ms: i64) -> Result<Vec<PathBuf>> {
        let is_due = |folder: &Path, since_ms: i64| {
            Ok::<bool, Error>(match self.partitions.trigger {
                Trigger::ProcessTime => now_ms >= since_ms.saturating_add(self.delay_ms()),
                Trigger::PartitionTime => {
                    watermark.0 > self.partitions.time_ms(folder)?.saturating_add(self.delay_ms())
                }
            })
        };
        let mut due = Vec::new();
        for (folder, since_ms) in &self.pending {
            if is_due(folder, *since_ms)? {
                due.push(folder.clone());
            }
        }
        Ok(due)
    }

    fn delay_ms(&self) -> i64 {
        i64::try_from(self.partitions.delay.as_millis()).unwrap_or(i64::MAX)
    }

    /// Marks the folders that are complete, now that all rows of this task before `watermark` are visible.
    /// `open`: whether a folder has later rows that are not visible yet.
    pub(super) fn visible(&mut self, watermark: EventTime, now_ms: i64, open: &dyn Fn(&Path) -> bool) -> Result<()> {
        let Some(success) = self.partitions.success.clone() else { return Ok(()) };
        let mut reached = watermark;
        if self.partitions.trigger == Trigger::PartitionTime {
            self.publish(watermark)?;
            reached = self.reached()?;
            if reached == EventTime::MAX {
                // The last task is also responsible for the folders of the others.
                for folder in self.partitions.existing(&self.base)? {
                    self.wrote(&folder, now_ms);
                }
            }
        }
        for folder in self.due(reached, now_ms)?.into_iter().filter(|folder| !open(folder)) {
            if self.disk.create(&folder.join(&success))?.is_some() {
                self.disk.sync_folder(&folder)?;
            }
            self.pending.remove(&folder);
        }
        Ok(())
    }

    /// Publishes the progress of this task.
    fn publish(&mut self, watermark: EventTime) -> Result<()> {
        let (task, tasks) = (self.task, self.tasks);
        let path = self.base.join(format!("{WATERMARK}{task}-of-{tasks}-{}", watermark.0));
        if self.published.as_ref() == Some(&path) || watermark == EventTime::MIN {
            return Ok(());
        }
        self.disk.create(&path)?;
        match self.published.replace(path) {
            Some(before) => self.disk.remove(&before),
            None => Ok(()),
        }
    }

    /// The watermark that all tasks have reached; the minimum until each task has published its progress.
    fn reached(&self) -> Result<EventTime> {
        let mut by_task: BTreeMap<u32, EventTime> = BTreeMap::new();
        let is_present = |found: &Progress| found.tasks == self.tasks && found.task < self.tasks;
        for (_, Progress { task, watermark, .. }) in self.progress()?.into_iter().filter(|(_, found)| is_present(found))
        {
            let reached = by_task.entry(task).or_insert(watermark);
            *reached = (*reached).max(watermark);
        }
        let all = by_task.len() == self.tasks as usize;
        Ok(by_task.into_values().min().filter(|_| all).unwrap_or(EventTime::MIN))
    }

    /// The published progress of each task, with the name of its file.
    fn progress(&self) -> Result<Vec<(String, Progress)>> {
        let names = entries(&self.base)?.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| Progress::parse(&name).map(|progress| (name, progress))).collect())
    }
}

/// The progress of a task.
struct Progress {
    task: u32,
    tasks: u32,
    watermark: EventTime,
}

impl Progress {
    fn parse(name: &str) -> Option<Progress> {
        let (task, rest) = name.strip_prefix(WATERMARK)?.split_once("-of-")?;
        let (tasks, watermark) = rest.split_once('-')?;
        let watermark = EventTime(watermark.parse().ok()?);
        Some(Progress { task: task.parse().ok()?, tasks: tasks.parse().ok()?, watermark })
    }
}
