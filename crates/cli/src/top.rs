//! `anabranch top`: the live view of a job of a coordinator. Leaving the view leaves the job as it is.

use std::cell::{Cell, RefCell};

use anabranch_model::{Clock, Error, Nanos, Notice, Result, SystemClock, TaskMetrics};
use anabranch_server::http::{Client, NoAnswer};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::Job;
use crate::client::{client, path};
use crate::console::Console;
use crate::failure::Failure;
use crate::jobs::{incomplete, is_over, items, string};
use crate::results::Results;
use crate::signals::Signals;
use crate::terminal;
use crate::watch::{Watch, Watched};

/// Time between two requests of the same kind.
const POLL_NS: u64 = 250_000_000;

pub(crate) fn top(arguments: &Job) -> Result<(), Failure> {
    let client = client(&arguments.client)?;
    let path = path(&arguments.job);
    let job = client.get(&path)?;
    let clock = SinceEpoch(SystemClock::new());
    let started = of_wall(job["started_at_ms"].as_i64().unwrap_or(0));
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let output = Console::output();
    let polled = Polled {
        client,
        path,
        clock: &clock,
        left: Cell::new(false),
        tasks: RefCell::default(),
        ended: RefCell::default(),
        notices: RefCell::default(),
        why: RefCell::default(),
        failure: RefCell::default(),
    };
    let watch = Watch {
        job: &polled,
        clock: &clock,
        started,
        limit: None,
        signals: &signals,
        output: &output,
        only_watches: true,
    };
    match terminal::is_interactive() {
        true => watch.live(&arguments.job, &Results::default())?,
        false => watch.with_lines(&mut Console::error())?,
    }
    let failure = polled.failure.into_inner();
    failure.map_or(Ok(()), |error| Err(Failure::from(error)))
}

/// A clock that agrees with the coordinator's process: time since 1970.
struct SinceEpoch(SystemClock);

impl Clock for SinceEpoch {
    fn now(&self) -> Nanos {
        of_wall(self.wall_ms())
    }

    fn wall_ns(&self) -> i64 {
        self.0.wall_ns()
    }
}

/// The notices of a job, by the clock of its process since 1970.
pub(crate) fn notices(client: &Client, path: &str) -> Result<Vec<Notice>, NoAnswer> {
    let document = client.get(&format!("{path}/notices"))?;
    let notice = |notice: &serde_json::Value| Notice {
        number: notice["number"].as_u64().unwrap_or(0),
        at: of_wall(notice["at_ms"].as_i64().unwrap_or(0)),
        times: notice["times"].as_u64().unwrap_or(1),
        text: string(&notice["text"]),
    };
    Ok(items(&document["notices"]).map(notice).collect())
}

fn of_wall(ms: i64) -> Nanos {
    Nanos(ms.max(0).unsigned_abs().saturating_mul(1_000_000))
}

/// A value, and when it was read.
#[derive(Default)]
struct Read<T> {
    at: Option<Nanos>,
    value: T,
}

/// A job that is polled over HTTP.
struct Polled<'a> {
    client: Client,
    path: String,
    clock: &'a SinceEpoch,
    /// Whether the user has left the view.
    left: Cell<bool>,
    tasks: RefCell<Read<Vec<TaskMetrics>>>,
    ended: RefCell<Read<bool>>,
    notices: RefCell<Read<Vec<Notice>>>,
    why: RefCell<Read<Option<String>>>,
    /// Why the view ends.
    failure: RefCell<Option<Error>>,
}

impl Polled<'_> {
    /// Reads outdated documents again.
    fn refresh<T: Clone>(&self, read: &RefCell<Read<T>>, get: impl Fn() -> Result<T, NoAnswer>) -> T {
        let mut read = read.borrow_mut();
        let now = self.clock.now();
        if read.at.is_none_or(|at| now.since(at) >= POLL_NS) {
            match get() {
                Ok(value) => *read = Read { at: Some(now), value },
                Err(why) => *self.failure.borrow_mut() = Some(why.into()),
            }
        }
        read.value.clone()
    }

    fn read_tasks(&self) -> Result<Vec<TaskMetrics>, NoAnswer> {
        let mut document = self.client.get(&format!("{}/counters", self.path))?;
        let tasks = serde_json::from_value(document["tasks"].take());
        tasks.map_err(|_| NoAnswer::Unreachable(incomplete("counters that this release understands")))
    }

    fn read_notices(&self) -> Result<Vec<Notice>, NoAnswer> {
        notices(&self.client, &self.path)
    }

    fn read_why(&self) -> Result<Option<String>, NoAnswer> {
        let document = self.client.get(&format!("{}/why", self.path))?;
        Ok(Some(string(&document["text"])).filter(|text| !text.is_empty()))
    }

    fn read_ended(&self) -> Result<bool, NoAnswer> {
        let job = self.client.get(&self.path)?;
        Ok(is_over(&string(&job["state"])))
    }
}

impl Watched for Polled<'_> {
    fn metrics(&self) -> Vec<TaskMetrics> {
        self.refresh(&self.tasks, || self.read_tasks())
    }

    fn why(&self) -> Option<String> {
        self.refresh(&self.why, || self.read_why())
    }

    fn stop(&self) {
        self.left.set(true);
    }

    fn is_finished(&self) -> bool {
        self.left.get() || self.failure.borrow().is_some() || self.refresh(&self.ended, || self.read_ended())
    }

    fn notices(&self, number: u64) -> Vec<Notice> {
        let notices = self.refresh(&self.notices, || self.read_notices());
        notices.into_iter().filter(|notice| notice.number > number).collect()
    }
}
