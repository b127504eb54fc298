//! The list of a coordinator's jobs, as it is stored: one object for each job in the folder `submitted`.
//!
//! Objects contain the jobs' statements with everything in them, passwords included.

use anabranch_model::{Error, Result};
use anabranch_runtime::random_seed;
use anabranch_state::Store;
use serde::{Deserialize, Serialize};

use super::leader::Leaders;
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
    /// It has failed, or was cancelled. It resumes when it is submitted again.
    Failed,
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// Its number among all jobs of the workers.
    #[serde(default = "random_seed")]
    pub(super) number: u64,
    pub(super) order: JobOrder,
    /// Tasks of a stage unless the job says otherwise: what it was planned with must not change with the workers.
    pub(super) default_parallelism: u32,
    pub(super) submitted_ms: i64,
    pub(super) state: State,
    /// Why it has failed.
    pub(super) failure: Option<String>,
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
        }
    }
}

/// The records at a place. The coordinator that leads writes them.
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

    /// All jobs.
    pub(super) fn read(&self) -> Result<Vec<Record>> {
        let store = &self.store;
        let mut records = Vec::new();
        for name in store.list(FOLDER)? {
            let damaged = |why: &str| {
                let error = Error::damaged(format!("the record of a job cannot be read: {why}"));
                error.at(format!("{}/{name}", store.place())).remedy("restore the file from a copy, or remove it")
            };
            let Some(text) = store.get(&name)? else { continue };
            let record: Record = serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
            if record.format != FORMAT {
                return Err(damaged(&format!("its format is {}, this release reads {FORMAT}", record.format)));
            }
            records.push(record);
        }
        Ok(records)
    }

    /// The place of a job's checkpoints unless the job says otherwise.
    pub(super) fn checkpoints(&self, name: &str) -> String {
        format!("{}/jobs/{name}", self.store.place().trim_end_matches('/'))
    }

    /// Writes a job's record.
    pub(super) fn write(&self, record: &Record) -> Result<()> {
        let text = serde_json::to_vec_pretty(record);
        let text = text.map_err(|error| Error::internal(format!("a record cannot be written: {error}")))?;
        self.store.put(&format!("{FOLDER}/{}.json", record.order.name), text.into()).map(|_| ())
    }
}

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
        let record = Record::new(order, 3, 7);
        records.write(&record).expect("written");
        let read = open(folder.path()).read().expect("read").pop().expect("a record");
        assert_eq!((read.order.sql.as_str(), read.default_parallelism, read.state), ("SELECT 'ä'", 3, State::Running));
        assert_eq!(read.number, record.number);
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
