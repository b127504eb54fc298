//! Timely dataflow, the fastest published stream processor that is a Rust library. Each worker reads its
//! share of the input in batches of [`BLOCK_ROWS`] and has a few of them in flight.

mod grep;
mod keyed_count;
mod main_job;

use anabranch_model::{Error, Result};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

pub(crate) use grep::grep;
pub(crate) use keyed_count::keyed_count;
pub(crate) use main_job::main_job;

use crate::answer::Answer;
use crate::contestant::RunResult;
use crate::workload::{BLOCK_ROWS, Lines};

/// Number of batches that a worker sends before the first is processed.
const BATCHES_AHEAD: u64 = 4;

/// Range of a line in the text.
type Span = (usize, usize);
type Input<D> = InputHandle<u64, CapacityContainerBuilder<Vec<D>>>;

/// Runs `body` on each worker and adds up what the workers return.
fn run(
    workers: usize,
    body: impl Fn(&mut Worker) -> Result<(u64, Answer)> + Send + Sync + 'static,
) -> Result<RunResult> {
    let failed = |error: String| Error::internal(format!("timely: {error}"));
    let guards = timely::execute(timely::Config::process(workers), body).map_err(failed)?;
    let (mut events, mut answer) = (0, Answer::default());
    for part in guards.join() {
        let (rows, rows_answer) = part.map_err(failed)??;
        events += rows;
        answer.merge(rows_answer);
    }
    Ok(RunResult { events, result_hash: Some(answer.hash()) })
}

/// Sends batches until `fill` leaves one empty; returns the rows sent.
fn feed<D: Clone + 'static>(
    worker: &mut Worker,
    mut input: Input<D>,
    probe: &ProbeHandle<u64>,
    mut fill: impl FnMut(&mut Vec<D>),
) -> u64 {
    let mut rows = 0;
    let mut batch = Vec::with_capacity(BLOCK_ROWS);
    for time in 1.. {
        fill(&mut batch);
        if batch.is_empty() {
            break;
        }
        rows += batch.len() as u64;
        input.send_batch(&mut batch);
        batch.clear();
        input.advance_to(time);
        worker.step();
        while probe.less_than(&time.saturating_sub(BATCHES_AHEAD)) {
            worker.step_or_park(None);
        }
    }
    input.close();
    while !probe.done() {
        worker.step_or_park(None);
    }
    rows
}

/// Sends the ranges of the worker's share of lines; returns the number of lines.
fn feed_lines(worker: &mut Worker, input: Input<Span>, probe: &ProbeHandle<u64>, lines: &Lines) -> u64 {
    let share = lines.split(worker.peers())[worker.index()].clone();
    let mut start = share.start;
    let mut ends = memchr::memchr_iter(b'\n', &lines.bytes()[share.clone()]);
    feed(worker, input, probe, |batch| {
        batch.extend(ends.by_ref().take(BLOCK_ROWS).map(|end| {
            let end = share.start + end;
            (std::mem::replace(&mut start, end + 1), end)
        }));
    })
}

/// Passes the first error of an operator to the worker's body: an operator cannot fail.
type FirstError = std::rc::Rc<std::cell::Cell<Option<Error>>>;

fn check(error: &FirstError) -> Result<()> {
    error.take().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::limit;
    use crate::workload::{AdEvents, Keys, LogLines};

    #[test]
    fn any_number_of_workers_gives_the_answers_of_the_limit_programs() {
        let events = Arc::new(AdEvents::generate(30_000, 1).unwrap());
        let log = Arc::new(LogLines::generate(30_000, 1));
        let keys = Arc::new(Keys::generate(100_000, 5_000, 1));
        for workers in [1, 2, 3] {
            let expected = limit::main_job::main_job(&events, limit::json::serde_json).unwrap();
            assert_eq!(main_job(&events, workers).unwrap(), expected);
            assert_eq!(grep(&log, workers).unwrap(), limit::grep::by_line(&log).unwrap());
            assert_eq!(keyed_count(&keys, workers).unwrap(), limit::keyed_count::keyed_count(&keys).unwrap());
        }
    }
}
