//! A small table that a task keeps as a whole. A thread reads the table periodically. Rows are joined with
//! the content of the last read that succeeded. Before the first such read, rows wait.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anabranch_dataflow::{LookupCache, LookupJoinSpec, OnMalformed, SourceSpec};
use anabranch_model::{Error, Incarnation, Result, batch_bytes};
use anabranch_operators::{Delivery, Host, Lookup, LookupContext, PendingRows, Polled, Source, TaskContext};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use super::{LOOK, lock, pause};
use crate::outage::Outage;

/// Pause after a failed read, unless the interval is shorter.
const PAUSE: Duration = Duration::from_secs(2);

/// Opens the table to read it from its beginning.
type OpenSource = Box<dyn Fn(&SourceSpec, &TaskContext) -> Result<Box<dyn Source>> + Send + Sync>;

/// A table that is kept as a whole.
pub(crate) struct Whole(Arc<Shared>);

/// What the task and the reading thread share.
struct Shared {
    state: Mutex<State>,
    /// Notified when the task no longer needs the table.
    changed: Condvar,
    table: SourceSpec,
    /// Pause between two reads.
    interval: Duration,
    /// How often the first read is repeated.
    max_retries: u32,
    open: OpenSource,
    context: LookupContext,
    /// The context in which the table is opened to read it.
    read_context: TaskContext,
}

#[derive(Default)]
struct State {
    /// `None`: no read has succeeded yet.
    content: Option<Arc<RecordBatch>>,
    /// The error of the reading thread, if no request waited for rows then. The next request takes it.
    failed: Option<Error>,
    /// The requests that wait for the first read.
    waiting: Vec<Arc<PendingRows>>,
    /// Whether the task no longer needs the table.
    is_closed: bool,
}

/// A panic guard: if the reading thread panics, requests fail instead of waiting forever.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Error::internal("the thread that reads a table has failed"));
        }
    }
}

/// The host of a read. It shares no lists with other tasks, so each read lists the files anew. It ignores
/// requests for checkpoints.
struct ReadHost(Arc<dyn Host>);

impl Host for ReadHost {
    fn incarnation(&self) -> Incarnation {
        self.0.incarnation()
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn request_checkpoint(&self) {}

    fn notify(&self, text: String) {
        self.0.notify(text);
    }
}

impl Whole {
    pub(crate) fn open(spec: &LookupJoinSpec, context: &LookupContext, open: OpenSource) -> Result<Whole> {
        let LookupCache::Full { interval_ms } = spec.cache else {
            return Err(Error::internal("a table that is not kept as a whole"));
        };
        let host = Arc::new(ReadHost(Arc::clone(&context.task.host)));
        let read_context =
            TaskContext { index: 0, parallelism: 1, delivery: Delivery::AtLeastOnce, host, ..context.task.clone() };
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            table: spec.table.clone(),
            interval: Duration::from_millis(interval_ms),
            max_retries: spec.max_retries,
            open,
            context: context.clone(),
            read_context,
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lookup".into()).spawn(move || PanicGuard(&of_thread).0.run());
        thread.map_err(|error| Error::outside(format!("no thread for reading a table: {error}")))?;
        Ok(Whole(shared))
    }
}

impl Lookup for Whole {
    fn request(&mut self, keys: &RecordBatch) -> Result<Arc<PendingRows>> {
        let (counters, keys) = (&self.0.context.counters, keys.num_rows() as u64);
        counters.keys.fetch_add(keys, Relaxed);
        let mut state = lock(&self.0.state);
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if let Some(content) = &state.content {
            counters.hits.fetch_add(keys, Relaxed);
            return Ok(Arc::new(PendingRows::arrived(Arc::clone(content))));
        }
        let answer = Arc::<PendingRows>::default();
        state.waiting.push(Arc::clone(&answer));
        Ok(answer)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Reads the table periodically. Ends when the task no longer needs the table, or when the first read and
    /// its repetitions have failed.
    fn run(&self) {
        let task = &self.context.task;
        let system = format!("the lookup table {}", self.table.table);
        let outage = Outage::new(task, system.clone(), format!("{system} answers again"));
        let mut failures = 0;
        loop {
            let begun = task.clock.now();
            let read = self.read();
            self.context.counters.called(1, task.clock.now().since(begun), read.is_err());
            let time = match read {
                Ok(rows) => {
                    outage.ends();
                    failures = 0;
                    self.replace(rows);
                    self.interval
                }
                Err(_) if self.is_over() => break,
                Err(error) => {
                    failures += 1;
                    let was_read = lock(&self.state).content.is_some();
                    if !was_read && failures > self.max_retries {
                        self.fail(error);
                        break;
                    }
                    let reason = error.to_string();
                    let rows = match was_read {
                        true => "rows are joined with its former content until a read succeeds".to_owned(),
                        false => {
                            let retries = self.max_retries;
                            format!("rows wait; the job fails after {retries} more tries ('lookup.max-retries')")
                        }
                    };
                    outage.begins(task.clock.now(), || format!("{system} could not be read: {reason}; {rows}"));
                    self.interval.min(PAUSE)
                }
            };
            if !pause(task, (&self.state, &self.changed), time, |state| state.is_closed) {
                break;
            }
        }
    }

    /// Whether the task no longer needs the table.
    fn is_over(&self) -> bool {
        lock(&self.state).is_closed || self.context.task.host.is_cancelled()
    }

    /// Reads the whole table.
    fn read(&self) -> Result<RecordBatch> {
        let place = |error: Error| error.at(format!("table {}", self.table.table));
        let schema = Arc::new(self.table.decoded()?);
        let mut source = (self.open)(&self.table, &self.read_context).map_err(place)?;
        let (mut batches, mut bytes) = (Vec::new(), 0);
        loop {
            if self.is_over() {
                return Err(Error::cancelled());
            }
            let rows = match source.poll(LOOK).map_err(place)? {
                Polled::Rows(rows) => rows,
                Polled::End => return Ok(concat_batches(&schema, &batches)?),
                Polled::Opened { .. } | Polled::Closed(_) | Polled::Pending => continue,
            };
            if let (Some(bad), OnMalformed::Fail) = (rows.malformed.first(), &self.table.on_malformed) {
                return Err(Error::user(bad.error.clone()).at(bad.place.clone()));
            }
            bytes += batch_bytes(&rows.batch);
            if bytes > self.context.bytes_max {
                let max = self.context.bytes_max;
                return Err(place(
                    Error::user(format!("the table has more than {max} bytes"))
                        .remedy("SET 'state-bytes' higher, select fewer columns, or use 'lookup.cache' = 'PARTIAL'"),
                ));
            }
            batches.push(rows.batch);
        }
    }

    /// Replaces the content, and answers the requests that wait for it.
    fn replace(&self, rows: RecordBatch) {
        let rows = Arc::new(rows);
        let waiting = {
            let mut state = lock(&self.state);
            state.content = Some(Arc::clone(&rows));
            std::mem::take(&mut state.waiting)
        };
        if !waiting.is_empty() {
            waiting.iter().for_each(|answer| answer.complete(Ok(Arc::clone(&rows))));
            (self.context.wake)();
        }
    }

    /// Fails the requests that wait, or the next one if none waits.
    fn fail(&self, error: Error) {
        let mut state = lock(&self.state);
        let mut waiting = std::mem::take(&mut state.waiting).into_iter();
        match waiting.next() {
            Some(first) => {
                let text = error.to_string();
                first.complete(Err(error));
                waiting.for_each(|answer| answer.complete(Err(Error::outside(text.clone()))));
            }
            None => state.failed = Some(error),
        }
        drop(state);
        (self.context.wake)();
    }
}
