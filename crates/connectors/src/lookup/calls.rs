//! Concurrent calls: a few threads, each with its own connection. A free thread takes all keys that wait, up
//! to a limit, and makes one call for them. So a slow service gets few large calls, and a fast one many small
//! ones.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anabranch_dataflow::LookupJoinSpec;
use anabranch_model::{Error, Result, batch_bytes};
use anabranch_operators::{LookupContext, PendingRows, Waiting};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use super::cache::{Cache, different, only};
use super::{Caller, Calling, Failed, lock, pause};
use crate::outage::Outage;

/// Pause before the first retry; each further one is longer by this.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A request for keys of a batch of rows, at most as many as one call may have.
struct Ask {
    keys: RecordBatch,
    to: Arc<Gathering>,
}

/// The answer for a batch of rows, until it is complete.
struct Gathering {
    answer: Arc<PendingRows>,
    parts: Mutex<Parts>,
}

struct Parts {
    /// Number of requests that have no rows yet; 0 if one of them has failed.
    missing: usize,
    /// Cached rows, and the rows of completed requests.
    rows: Vec<RecordBatch>,
}

impl Gathering {
    /// Adds the rows for these keys, out of an answer for more keys.
    fn add(&self, (keys, called): (&RecordBatch, usize), rows: &Arc<RecordBatch>, shared: &Shared) -> Result<()> {
        let mut parts = lock(&self.parts);
        match parts.missing {
            0 => return Ok(()),
            // Rows that several batches share are indexed once, and counted once.
            1 if parts.rows.is_empty() => {
                let bytes = batch_bytes(rows) / called.max(1);
                self.answer.complete_counted(Arc::clone(rows), Waiting::new(&shared.waiting, bytes));
            }
            missing => {
                parts.rows.push(only(rows, keys, &shared.key_columns)?);
                if missing == 1 {
                    let all = concat_batches(&rows.schema(), &parts.rows)?;
                    let waiting = Waiting::new(&shared.waiting, batch_bytes(&all));
                    self.answer.complete_counted(Arc::new(all), waiting);
                }
            }
        }
        parts.missing -= 1;
        Ok(())
    }

    fn fail(&self, error: Error) {
        let mut parts = lock(&self.parts);
        if parts.missing > 0 {
            parts.missing = 0;
            self.answer.complete(Err(error));
        }
    }
}

/// The calls of a task.
pub(super) struct Calls(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    table: String,
    max_retries: u32,
    /// The columns of the table's rows that are the keys.
    key_columns: Vec<usize>,
    calling: Calling,
    cache: Option<Arc<Mutex<Cache>>>,
    context: LookupContext,
    /// Bytes of answers that were not taken yet.
    waiting: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Queue {
    asks: VecDeque<Ask>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Calls {
    pub(super) fn new(
        spec: &LookupJoinSpec,
        context: LookupContext,
        calling: Calling,
        cache: Option<Arc<Mutex<Cache>>>,
    ) -> Calls {
        Calls(Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            table: spec.table.table.clone(),
            max_retries: spec.max_retries,
            key_columns: spec.keys.iter().map(|key| key.column).collect(),
            calling,
            cache,
            context,
            waiting: Arc::default(),
        }))
    }

    /// Requests the rows with these keys. `known` are the rows of the batch's other keys.
    pub(super) fn request(&self, keys: &RecordBatch, known: Option<RecordBatch>) -> Result<Arc<PendingRows>> {
        let most = self.0.calling.keys_max.max(1);
        let known = known.filter(|rows| rows.num_rows() > 0);
        let parts = Parts { missing: keys.num_rows().div_ceil(most), rows: known.into_iter().collect() };
        let answer = Arc::<PendingRows>::default();
        let to = Arc::new(Gathering { answer: Arc::clone(&answer), parts: Mutex::new(parts) });
        for first in (0..keys.num_rows()).step_by(most) {
            let keys = keys.slice(first, most.min(keys.num_rows() - first));
            self.push(Ask { keys, to: Arc::clone(&to) })?;
        }
        Ok(answer)
    }

    /// Bytes of answers that were not taken yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.0.waiting.load(Relaxed)
    }

    fn push(&self, ask: Ask) -> Result<()> {
        let mut queue = lock(&self.0.queue);
        queue.asks.push_back(ask);
        if queue.idle > 0 {
            // One of them may be pausing before a retry.
            self.0.changed.notify_all();
        }
        if queue.asks.len() > queue.idle && queue.threads < self.0.calling.threads {
            queue.threads += 1;
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("lookup".into()).spawn(move || shared.run());
            thread.map_err(|error| Error::outside(format!("no thread for the calls of a table: {error}")))?;
        }
        Ok(())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        lock(&self.0.queue).is_closed = true;
        self.0.changed.notify_all();
    }
}

/// The requests that one call answers. If it is dropped without an answer, because the thread has panicked,
/// the requests fail.
struct PendingBatch<'a> {
    asks: Vec<Ask>,
    wake: &'a (dyn Fn() + Send + Sync),
}

impl PendingBatch<'_> {
    fn answer(mut self, shared: &Shared, rows: Result<RecordBatch>) {
        let mut asks = std::mem::take(&mut self.asks).into_iter();
        let called = asks.len();
        match rows.map(Arc::new) {
            Ok(rows) => asks.for_each(|Ask { keys, to }| {
                if let Err(error) = to.add((&keys, called), &rows, shared) {
                    to.fail(error);
                }
            }),
            Err(error) => {
                let error = error.at(format!("table {}", shared.table));
                let text = error.to_string();
                let first = asks.next();
                asks.for_each(|ask| ask.to.fail(Error::outside(text.clone())));
                if let Some(first) = first {
                    first.to.fail(error);
                }
            }
        }
        (self.wake)();
    }
}

impl Drop for PendingBatch<'_> {
    fn drop(&mut self) {
        if !self.asks.is_empty() {
            let gone = || Error::internal("a thread that calls a table has failed");
            self.asks.drain(..).for_each(|ask| ask.to.fail(gone()));
            (self.wake)();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut caller = None;
        let system = self.calling.system.clone();
        let answers = format!("{system} answers again");
        let outage = Outage::new(&self.context.task, system, answers);
        while let Some(asks) = self.next_calls() {
            let pending = PendingBatch { asks, wake: self.context.wake.as_ref() };
            let rows = self.answered(&pending, &mut caller, &outage);
            pending.answer(self, rows);
        }
    }

    /// Waits for requests. `None`: the task has ended.
    fn next_calls(&self) -> Option<Vec<Ask>> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.is_closed {
                return None;
            }
            let mut keys = 0;
            let mut taken = Vec::new();
            while let Some(next) = queue.asks.front()
                && (taken.is_empty() || keys + next.keys.num_rows() <= self.calling.keys_max)
            {
                keys += next.keys.num_rows();
                taken.extend(queue.asks.pop_front());
            }
            if !taken.is_empty() {
                return Some(taken);
            }
            queue.idle += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// The rows of the keys, which are also cached.
    fn answered(
        &self,
        pending: &PendingBatch<'_>,
        caller: &mut Option<Box<dyn Caller>>,
        outage: &Outage,
    ) -> Result<RecordBatch> {
        let Some(first) = pending.asks.first() else { return Err(Error::internal("a call that asks for nothing")) };
        let keys = match pending.asks.as_slice() {
            [only] => only.keys.clone(),
            all => different(&concat_batches(&first.keys.schema(), all.iter().map(|ask| &ask.keys))?)?,
        };
        let Some(cache) = &self.cache else { return self.rows(&keys, caller, outage) };
        // Other batches may have requested some of them since.
        let known = lock(cache).get(&keys, self.context.task.clock.now())?;
        self.context.counters.hits.fetch_add(known.hits, Relaxed);
        let Some(keys) = known.missing else { return Ok(known.rows) };
        let rows = self.rows(&keys, caller, outage)?;
        lock(cache).put(&keys, &rows, self.context.task.clock.now())?;
        let own = only(&rows, &keys, &self.key_columns)?;
        Ok(concat_batches(&rows.schema(), [&own, &known.rows])?)
    }

    /// Repeats the call until there is an answer, or the calls have failed too often.
    fn rows(&self, keys: &RecordBatch, caller: &mut Option<Box<dyn Caller>>, outage: &Outage) -> Result<RecordBatch> {
        let task = &self.context.task;
        for failures in 0.. {
            let begun = task.clock.now();
            let called = self.call(keys, caller);
            let nanos = task.clock.now().since(begun);
            let requests = caller.as_ref().map_or(1, |caller| caller.requests());
            self.context.counters.called(requests, nanos, called.is_err());
            let reason = match called {
                Ok(rows) => {
                    outage.ends();
                    return Ok(rows);
                }
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Passing(reason)) => reason,
            };
            let retries = self.max_retries;
            if failures >= retries {
                let remedy = "see whether it runs; 'lookup.max-retries' says how often a call is repeated";
                let error = format!("{} has not answered {} calls: {reason}", self.calling.system, retries + 1);
                return Err(Error::outside(error).remedy(remedy));
            }
            outage.begins(task.clock.now(), || {
                let system = &self.calling.system;
                format!(
                    "{system} does not answer ({reason}); a call is repeated {retries} times ('lookup.max-retries')"
                )
            });
            let time = (PAUSE * (failures + 1)).min(PAUSE_MAX);
            if !pause(task, (&self.queue, &self.changed), time, |queue| queue.is_closed) {
                break;
            }
        }
        Err(Error::cancelled())
    }

    fn call(&self, keys: &RecordBatch, caller: &mut Option<Box<dyn Caller>>) -> Result<RecordBatch, Failed> {
        if caller.is_none() {
            *caller = Some((self.calling.open)()?);
        }
        match caller {
            Some(caller) => caller.call(keys),
            None => Err(Error::internal("no caller").into()),
        }
    }
}
