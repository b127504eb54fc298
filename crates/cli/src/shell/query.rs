//! A running statement: shows its rows as a table while they arrive, until it ends, has enough rows, or is stopped.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anabranch_model::{Clock, Result, SystemClock};
use anabranch_server::{Job, Query};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::table::{Layout, Table};
use crate::arguments::Format;
use crate::console::Console;
use crate::failure::Failure;
use crate::records::Records;
use crate::run::HAD_ENDED;
use crate::signals::Signals;
use crate::terminal;
use crate::view::text::grouped;
use crate::watch::{Notices, Watch};

/// Interval at which Ctrl-C is polled.
const LOOK: Duration = Duration::from_millis(20);

/// Which rows of a query to show.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Rows to skip at the beginning.
    skip: usize,
    /// Largest number of rows to show.
    limit: Option<usize>,
}

impl Wanted {
    /// The rows to show of the next batch.
    fn take(&mut self, batch: &RecordBatch) -> RecordBatch {
        let skipped = self.skip.min(batch.num_rows());
        let rows = (batch.num_rows() - skipped).min(self.limit.unwrap_or(usize::MAX));
        self.skip -= skipped;
        self.limit = self.limit.map(|limit| limit - rows);
        batch.slice(skipped, rows)
    }

    fn is_enough(&self) -> bool {
        self.limit == Some(0)
    }
}

/// Waits for an INSERT until it ends or is stopped.
pub(super) fn insert(job: Job, signals: &Signals, output: &mut Console) -> Result<(), Failure> {
    if job.had_ended() {
        output.line(HAD_ENDED)?;
        return Ok(());
    }
    let clock = SystemClock::new();
    let watch =
        Watch { job: &job, clock: &clock, started: clock.now(), limit: None, signals, output, only_watches: false };
    watch.quietly(&mut Console::error())?;
    let (view, elapsed) = (watch.view(), watch.elapsed());
    job.wait()?;
    output.line(&format!("{} written in {:.1} s", rows_text(view.results), elapsed.as_secs_f64()))?;
    Ok(())
}

/// How rows are shown.
pub(crate) struct Shown<'a> {
    pub(crate) format: Format,
    pub(crate) layout: Layout,
    /// How long the query may run.
    pub(crate) limit: Option<Duration>,
    pub(crate) signals: &'a Signals,
}

/// A query after its end.
pub(crate) struct Ended {
    /// How many rows came, and in which time.
    pub(crate) text: String,
    /// Rows were longer than the terminal is wide.
    pub(crate) was_cut: bool,
}

/// Shows the rows of a SELECT.
pub(crate) fn select(query: Query, shown: &Shown<'_>, output: &mut Console) -> Result<Ended, Failure> {
    let clock = SystemClock::new();
    let started = clock.now();
    let Query { job, schema, rows, skip, limit, zone, .. } = query;
    let mut writer = Writer::new(&schema, shown, zone.as_deref());
    let elapsed = || clock.now().after(started);
    let outcome = show(&job, &rows, &mut writer, Wanted { skip, limit }, shown, &elapsed, output);
    let ended = job.wait();
    outcome?;
    ended?;
    if let Writer::Records { records, .. } = &mut writer {
        records.finish(output)?;
    }
    let text = format!("{} in {:.1} s", rows_text(writer.rows()), elapsed().as_secs_f64());
    let was_cut = matches!(&writer, Writer::Table(table) if table.was_cut());
    Ok(Ended { text, was_cut })
}

/// Writes rows one after the other.
enum Writer {
    Table(Table),
    Records { records: Records, rows: u64 },
}

impl Writer {
    fn new(schema: &SchemaRef, shown: &Shown<'_>, zone: Option<&str>) -> Self {
        match shown.format {
            Format::Table => Writer::Table(Table::new(schema, shown.layout, terminal::width()).in_zone(zone)),
            format => Writer::Records { records: Records::new(schema, format), rows: 0 },
        }
    }

    fn write(&mut self, batch: &RecordBatch, output: &mut Console) -> Result<()> {
        match self {
            Writer::Table(table) => table.write(batch, output),
            Writer::Records { records, rows } => {
                *rows += batch.num_rows() as u64;
                records.write(batch, output)
            }
        }
    }

    fn rows(&self) -> u64 {
        match self {
            Writer::Table(table) => table.rows(),
            Writer::Records { rows, .. } => *rows,
        }
    }
}

fn rows_text(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{} rows", grouped(rows)) }
}

/// Shows batches until the job has ended. After the job was asked to stop, its remaining batches are received and dropped, so that it
/// is not blocked. A terminal that fails stops the job too.
fn show(
    job: &Job,
    batches: &Receiver<RecordBatch>,
    writer: &mut Writer,
    mut wanted: Wanted,
    how: &Shown<'_>,
    elapsed: &dyn Fn() -> Duration,
    output: &mut Console,
) -> Result<()> {
    let mut stopped = wanted.is_enough();
    let (mut shown, mut notices) = (Ok(()), Notices::default());
    if stopped {
        job.stop();
    }
    loop {
        notices.write(job, &mut Console::error())?;
        match batches.recv_timeout(LOOK) {
            Ok(batch) if !stopped => {
                let rows = wanted.take(&batch);
                if rows.num_rows() > 0 {
                    shown = writer.write(&rows, output);
                }
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let is_over = how.limit.is_some_and(|limit| elapsed() >= limit);
        let unwanted = is_over || how.signals.stop_asked() || output.reader_left();
        if !stopped && (wanted.is_enough() || unwanted || shown.is_err()) {
            stopped = true;
            job.stop();
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn wanted_rows_are_counted_over_batches() {
        let batch = |rows: std::ops::Range<i64>| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
            RecordBatch::try_from_iter([("n", column)]).expect("batch")
        };
        let mut wanted = Wanted { skip: 3, limit: Some(4) };
        let mut seen: Vec<i64> = Vec::new();
        for batch in [batch(0..2), batch(2..5), batch(5..9), batch(9..10)] {
            let rows = wanted.take(&batch);
            seen.extend(rows.column(0).as_primitive::<Int64Type>().values());
        }
        assert_eq!(seen, [3, 4, 5, 6]);
        assert!(wanted.is_enough());
        assert_eq!(Wanted { skip: 0, limit: None }.take(&batch(0..2)).num_rows(), 2);
    }
}
