//! The list of a coordinator's jobs, as it is stored: the versions of one object for each job in the folder
//! `submitted`.
//!
//! A coordinator that resumes a job writes its record first. So a version that a former coordinator writes
//! later, because it was suspended or slow, is refused. A coordinator whose write had no answer may find its
//! own version there: it writes the next one after that. Objects contain the jobs' statements with everything
//! in them, passwords included: in a directory only the coordinator's user reads them.

use anabranch_model::{Error, PlanVersion, Result};
use anabranch_runtime::random_seed;
use anabranch_state::Store;
use serde::{Deserialize, Serialize};

use super::leader::Leaders;
use super::messages::Leader;
use super::versions::{self, Version, Versions};
use crate::http::JobOrder;

/// Version of the records.
const FORMAT: u32 = 1;
const FOLDER: &str = "submitted";

/// Where a job is in its life, as far as its next start depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// A coordinator that starts resumes it.
    Running,
    /// It was stopped. It resumes when it is submitted again.
    Stopped,
    /// Its sources have ended.
    Ended,
    /// It has failed. It resumes when it is submitted again.
    Failed,
    /// A user has ended it at once. It resumes when it is submitted again.
    Cancelled,
    /// It was removed and is not listed. The record stays so that a former leader cannot write an older
    /// version of the job.
    Removed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// Its number among all jobs of the workers.
    pub(super) number: u64,
    pub(super) order: JobOrder,
    /// Default number of tasks of a stage. It is kept, because it must not change with the workers.
    pub(super) default_parallelism: u32,
    pub(super) submitted_ms: i64,
    pub(super) state: State,
    /// Why it has failed.
    pub(super) failure: Option<String>,
    /// A user wants it to stop.
    pub(super) stop_requested: bool,
    /// A change that has begun, and is not known to be settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<Next>,
    /// The coordinator that wrote it.
    writer: Leader,
    /// Number of the version that was read or written.
    #[serde(skip)]
    version: u64,
}

/// What a job becomes if a change of it is settled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Next {
    pub(super) order: JobOrder,
    /// The version of its plan then.
    pub(super) version: PlanVersion,
}

impl Record {
    pub(super) fn new(order: JobOrder, default_parallelism: u32, submitted_ms: i64) -> Record {
        Record {
            format: FORMAT,
            number: random_seed(),
            order,
            default_parallelism,
            submitted_ms,
            state: State::Running,
            failure: None,
            stop_requested: false,
            next: None,
            writer: Leader(0),
            version: 0,
        }
    }

    fn read(version: &Version) -> Result<Record> {
        let record: Record = version.content_of(FORMAT, "record of a job", "restore the file from a copy")?;
        Ok(Record { version: version.number, ..record })
    }

    /// The job is not listed any more. Its statements are removed.
    pub(super) fn remove(&mut self) {
        let name = std::mem::take(&mut self.order.name);
        self.order = JobOrder { name, ..JobOrder::default() };
        (self.state, self.failure, self.next) = (State::Removed, None, None);
    }

    /// Its next version follows `last`, which may belong to another submission.
    pub(super) fn follow(&mut self, last: Option<&Record>) {
        self.version = last.map_or(0, |last| last.version);
    }

    /// Whether the same coordinator wrote both, of the same submission.
    fn is_of(&self, other: &Record) -> bool {
        (self.writer, self.number) == (other.writer, other.number)
    }

    /// The coordinator that wrote it.
    pub(super) fn writer(&self) -> Leader {
        self.writer
    }
}

/// The records at a place. The coordinator that leads writes them.
#[derive(Clone)]
pub(super) struct Records {
    store: Store,
}

impl Records {
    pub(super) fn new(store: Store) -> Records {
        Records { store }
    }

    /// The list of coordinators at the same place.
    pub(super) fn leaders(&self) -> Leaders {
        Leaders::new(self.store.clone())
    }

    /// All jobs that are listed.
    pub(super) fn read(&self) -> Result<Vec<Record>> {
        let all: Vec<Record> = versions::all(&self.store, FOLDER)?.iter().map(Record::read).collect::<Result<_>>()?;
        Ok(all.into_iter().filter(|record| record.state != State::Removed).collect())
    }

    /// One job.
    pub(super) fn of(&self, name: &str) -> Result<Option<Record>> {
        self.versions(name).last()?.as_ref().map(Record::read).transpose()
    }

    fn versions(&self, name: &str) -> Versions {
        Versions::new(self.store.clone(), FOLDER, name).private()
    }

    /// Other users of this machine cannot read what former releases have written.
    pub(super) fn make_private(&self) -> Result<()> {
        self.store.make_private(FOLDER)
    }

    /// The place of a job's checkpoints unless the job says otherwise.
    pub(super) fn checkpoints(&self, name: &str) -> String {
        format!("{}/jobs/{name}", self.store.place().trim_end_matches('/'))
    }

    /// Writes a job's record as this coordinator. False if another one has written it since it was read.
    pub(super) fn write(&self, record: &mut Record, writer: Leader) -> Result<bool> {
        record.writer = writer;
        let text = serde_json::to_vec_pretty(&record);
        let text = text.map_err(|error| Error::internal(format!("a record cannot be written: {error}")))?;
        let versions = self.versions(&record.order.name);
        while !versions.write(record.version, &text)? {
            // An earlier write may have succeeded without an answer: this one follows it.
            let last = self.of(&record.order.name)?.filter(|last| last.is_of(record));
            match last.filter(|last| last.version > record.version) {
                Some(last) => record.version = last.version,
                None => return Ok(false),
            }
        }
        record.version += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod doubt;

#[cfg(test)]
mod tests {
    use anabranch_state::Access;

    use super::*;

    fn open(folder: &std::path::Path) -> Records {
        Records::new(Store::open(folder.to_str().expect("text"), &Access::default()).expect("a store"))
    }

    #[test]
    fn records_are_read_again() {
        let folder = tempfile::tempdir().expect("folder");
        let records = open(folder.path());
        assert!(records.read().expect("empty").is_empty());
        let order = JobOrder { name: "ads".into(), sql: "SELECT 'ä'".into(), ..JobOrder::default() };
        let mut record = Record::new(order, 3, 7);
        assert!(records.write(&mut record, Leader(1)).expect("written"));
        let read = open(folder.path()).read().expect("read").pop().expect("a record");
        assert_eq!((read.order.sql.as_str(), read.default_parallelism, read.state), ("SELECT 'ä'", 3, State::Running));
        assert_eq!(read.number, record.number);
    }

    #[test]
    fn a_coordinator_that_led_before_does_not_overwrite_what_a_later_one_has_written() {
        let folder = tempfile::tempdir().expect("folder");
        let (former, later) = (open(folder.path()), open(folder.path()));
        let order = JobOrder { name: "ads".into(), ..JobOrder::default() };
        let mut of_former = Record::new(order, 1, 0);
        assert!(former.write(&mut of_former, Leader(1)).expect("written"));
        let mut of_later = later.of("ads").expect("read").expect("a record");
        assert!(later.write(&mut of_later, Leader(2)).expect("written"));
        of_former.state = State::Failed;
        assert!(!former.write(&mut of_former, Leader(1)).expect("refused"));
        let found = former.of("ads").expect("read").expect("a record");
        assert_eq!((found.state, found.writer()), (State::Running, Leader(2)));
        of_later.state = State::Stopped;
        assert!(later.write(&mut of_later, Leader(2)).expect("written"));
        assert!(!former.write(&mut of_former, Leader(1)).expect("refused"), "the version before was removed");
        assert_eq!(former.of("ads").expect("read").expect("a record").state, State::Stopped);
    }

    /// The text of a format is written once, by its first version, and never again.
    const FORMAT_1: &str = r#"{"format": 1, "number": 7, "order": {"name": "ads", "sql": "SELECT 1", "settings": {}, "options": []},
        "default_parallelism": 3, "submitted_ms": 5, "state": "cancelled", "failure": "the job was cancelled by a request",
        "stop_requested": false, "writer": 2}"#;

    #[test]
    fn records_of_each_format_are_read_forever() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join(FOLDER)).expect("folder");
        let write = |text: &str| {
            std::fs::write(folder.path().join(FOLDER).join("ads.0000000004.json"), text).expect("written");
            open(folder.path()).of("ads")
        };
        let record = write(FORMAT_1).expect("read").expect("a record");
        assert_eq!((record.state, record.number, record.writer()), (State::Cancelled, 7, Leader(2)));
        for other in [0, 2] {
            let text = FORMAT_1.replace("\"format\": 1", &format!("\"format\": {other}"));
            let error = write(&text).expect_err("another format").to_string();
            let said = format!("the record of a job has format {other}, and this release reads 1");
            assert!(error.contains(&said) && error.contains("run the release that wrote it"), "{error}");
        }
    }

    #[test]
    fn nothing_is_left_of_the_statements_of_a_job_that_was_removed() {
        let folder = tempfile::tempdir().expect("folder");
        let records = open(folder.path());
        let order = JobOrder { name: "ads".into(), sql: "hush".into(), ..JobOrder::default() };
        let mut record = Record::new(order, 1, 0);
        assert!(records.write(&mut record, Leader(1)).expect("written"));
        record.remove();
        assert!(records.write(&mut record, Leader(1)).expect("written"));
        assert!(records.read().expect("read").is_empty(), "it is not listed");
        let files = std::fs::read_dir(folder.path().join(FOLDER)).expect("a folder");
        let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("read"));
        assert!(texts.collect::<String>().matches("hush").next().is_none());
    }

    #[test]
    fn only_the_coordinators_user_may_read_statements() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("folder");
        let records = open(folder.path());
        let mode = |name: &str| {
            let path = folder.path().join(FOLDER).join(name);
            std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
        };
        let order = JobOrder { name: "ads".into(), ..JobOrder::default() };
        assert!(records.write(&mut Record::new(order, 1, 0), Leader(1)).expect("written"));
        assert_eq!(mode("ads.0000000001.json"), 0o600);
        // As former releases wrote it.
        std::fs::write(folder.path().join(FOLDER).join("old.json"), "{}").expect("written");
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(folder.path().join(FOLDER).join("old.json"), readable).expect("set");
        records.make_private().expect("narrowed");
        assert_eq!(mode("old.json"), 0o600);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join(FOLDER)).expect("folder");
        for (text, why) in [("{", "EOF"), ("{\"format\": 1}", "missing field")] {
            std::fs::write(folder.path().join(FOLDER).join("ads.json"), text).expect("written");
            let error = open(folder.path()).read().expect_err("damaged").to_string();
            assert!(error.contains("submitted/ads.json") && error.contains(why), "{error}");
        }
    }
}
