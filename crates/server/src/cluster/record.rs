//! The list of a coordinator's jobs, as it is stored: one object for each job in the folder `submitted`.
//!
//! Objects contain the jobs' statements with everything in them, passwords included.

use anabranch_model::{Error, Result};
use anabranch_runtime::random_seed;
use anabranch_state::Store;
use serde::{Deserialize, Serialize};

use crate::http::JobOrder;

/// Version of the records.
const FORMAT: u32 = 1;
const FOLDER: &str = "submitted";
/// The object that says which coordinator has the place.
const OWNER: &str = "coordinator";

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
        Record { format: FORMAT, order, default_parallelism, submitted_ms, state: State::Running, failure: None }
    }
}

/// The records at a place. The coordinator that opened it last has it: an earlier one writes nothing more.
pub(super) struct Records {
    store: Store,
    own: String,
}

impl Records {
    /// Takes the place, and reads all jobs.
    pub(super) fn open(store: Store) -> Result<(Records, Vec<Record>)> {
        let own = format!("{:016x}", random_seed());
        store.put(OWNER, own.clone().into())?;
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
        Ok((Records { store, own }, records))
    }

    /// The place of a job's checkpoints unless the job says otherwise.
    pub(super) fn checkpoints(&self, name: &str) -> String {
        format!("{}/jobs/{name}", self.store.place().trim_end_matches('/'))
    }

    /// Writes a job's record. An error if another coordinator has the place.
    pub(super) fn write(&self, record: &Record) -> Result<()> {
        if self.store.get(OWNER)?.is_none_or(|owner| owner != self.own) {
            let error = Error::outside("another coordinator has been started with this place, and has the jobs now");
            return Err(error.at(self.store.place().to_owned()).remedy("stop one of them, or give it another --store"));
        }
        let text = serde_json::to_vec_pretty(record);
        let text = text.map_err(|error| Error::internal(format!("a record cannot be written: {error}")))?;
        self.store.put(&format!("{FOLDER}/{}.json", record.order.name), text.into()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use anabranch_state::Access;

    use super::*;

    fn open(folder: &std::path::Path) -> Result<(Records, Vec<Record>)> {
        Records::open(Store::open(folder.to_str().expect("text"), &Access::default()).expect("a store"))
    }

    #[test]
    fn records_are_read_again_and_only_the_last_coordinator_writes_them() {
        let folder = tempfile::tempdir().expect("folder");
        let (first, none) = open(folder.path()).expect("empty");
        assert!(none.is_empty());
        let order = JobOrder { name: "ads".into(), sql: "SELECT 'ä'".into(), ..JobOrder::default() };
        let mut record = Record::new(order, 3, 7);
        first.write(&record).expect("written");
        let (second, mut read) = open(folder.path()).expect("opened");
        let read = read.pop().expect("a record");
        assert_eq!((read.order.sql.as_str(), read.default_parallelism, read.state), ("SELECT 'ä'", 3, State::Running));
        record.state = State::Failed;
        let refused = first.write(&record).expect_err("another coordinator").to_string();
        assert!(refused.contains("another coordinator"), "{refused}");
        second.write(&record).expect("it has the place");
    }

    #[test]
    fn a_record_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join(FOLDER)).expect("folder");
        for (text, why) in [("{", "EOF"), ("{\"format\": 1}", "missing field")] {
            std::fs::write(folder.path().join(FOLDER).join("ads.json"), text).expect("written");
            let error = open(folder.path()).err().expect("damaged").to_string();
            assert!(error.contains("submitted/ads.json") && error.contains(why), "{error}");
        }
    }
}
