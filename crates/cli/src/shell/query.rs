//! A running statement: shows its rows as a table while they arrive, until it ends, has enough rows, or is
//! stopped.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result, SystemClock};
use anabranch_server::{Job, Query};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use super::changing;
use crate::arguments::Format;
use crate::console::Console;
use crate::failure::Failure;
use crate::records::Records;
use crate::run::HAD_ENDED;
use crate::signals::Signals;
use crate::table::{Cells, Layout, Table};
use crate::terminal;
use crate::view::text::grouped;
use crate::watch::{Explanations, Notices, Watch};

/// How rows are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) layout: Layout,
    pub(crate) format: Format,
    /// Whether changing results are shown as a log, even on a terminal.
    pub(crate) is_log: bool,
    /// Whether a user types the statements, and reads the answers.
    pub(crate) is_conversation: bool,
    /// Time limit of the query.
    pub(crate) limit: Option<Duration>,
}

impl Shown {
    pub(super) fn log_text(&self) -> &'static str {
        match self.is_log {
            true => "results that change are a log of their changes",
            false => "results that change are a table that changes",
        }
    }

    /// Whether a user looks at a terminal that can show a changing table.
    fn changes_in_place(&self) -> bool {
        !self.is_log && self.format == Format::Table && self.is_conversation && terminal::is_interactive()
    }
}

/// Whether a value of Flink's option `sql-client.execution.result-mode` means a log.
pub(super) fn is_log(mode: &str) -> Result<bool> {
    match mode.to_ascii_lowercase().as_str() {
        "table" => Ok(false),
        "changelog" | "tableau" => Ok(true),
        _ => Err(Error::user(format!("'{mode}' is no way to show results"))
            .at("option 'sql-client.execution.result-mode'")
            .remedy("use 'table' or 'changelog'")),
    }
}

/// Interval at which Ctrl-C is polled.
const LOOK: Duration = Duration::from_millis(20);

/// Which rows of a query to show.
#[derive(Clone, Copy, Debug)]
struct RowWindow {
    /// Rows to skip at the beginning.
    skip: usize,
    /// Largest number of rows to show.
    limit: Option<usize>,
}

impl RowWindow {
    /// The rows to show of the next batch.
    fn cut(&mut self, batch: &RecordBatch) -> RecordBatch {
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
pub(super) fn insert(job: Job, shown: &Shown, signals: &Signals, output: &mut Console) -> Result<(), Failure> {
    if job.had_ended() {
        output.line(HAD_ENDED)?;
        return Ok(());
    }
    let clock = SystemClock::new();
    let watch =
        Watch { job: &job, clock: &clock, started: clock.now(), limit: None, signals, output, only_watches: false };
    watch.with_explanations(&mut Console::error())?;
    let (view, elapsed) = (watch.view(), watch.elapsed());
    job.wait()?;
    let mut text = format!("{} written in {:.1} s", rows_text(view.results), elapsed.as_secs_f64());
    if let Some(why) = view.stall.filter(|_| view.results == 0) {
        text.push_str(&format!(": {why}"));
    }
    summary(&text, shown, output)
}

/// The last line about a query that has ended.
pub(crate) struct Ended {
    /// The number of rows and the time, or why there are none.
    pub(crate) text: String,
    /// Whether values were cut to fit.
    pub(crate) was_cut: bool,
}

impl Ended {
    /// Prints it in the shell.
    pub(super) fn print(&self, shown: &Shown, output: &mut Console) -> Result<(), Failure> {
        summary(&self.text, shown, output)?;
        if self.was_cut {
            output.line("values were cut at the width of the terminal; \\x shows each value on its own line")?;
        }
        Ok(())
    }
}

/// Shows the rows of a SELECT.
pub(crate) fn select(query: Query, shown: &Shown, signals: &Signals, output: &mut Console) -> Result<Ended, Failure> {
    let clock = SystemClock::new();
    let started = clock.now();
    let Query { job, schema, rows, skip, limit, zone, updating } = query;
    let cells = Cells::in_zone(zone.as_deref());
    let running = Running { job: &job, rows: &rows, clock: &clock, started, signals, limit: shown.limit };
    let (outcome, end) = if updating && shown.changes_in_place() {
        changing::watch(&running, &schema, cells, shown.layout, output)
    } else {
        let mut writer = Writer::new(&schema, shown, cells, updating);
        let mut end = End::default();
        let outcome = grow(&running, &mut writer, RowWindow { skip, limit }, output, &mut end);
        end.was_cut = matches!(&writer.form, RowWriter::Table(table) if table.was_cut());
        (outcome.and_then(|()| writer.finish(output)), end)
    };
    let ended = job.wait();
    outcome?;
    ended?;
    let seconds = Duration::from_nanos(clock.now().since(started)).as_secs_f64();
    let mut text = format!("{} in {seconds:.1} s", rows_text(end.rows));
    if let Some(why) = end.why.filter(|_| end.rows == 0) {
        text.push_str(&format!(": {why}"));
    }
    Ok(Ended { text, was_cut: end.was_cut })
}

/// The last line about a statement. Programs that read the rows would not expect it.
fn summary(text: &str, shown: &Shown, output: &mut Console) -> Result<(), Failure> {
    match (shown.format, shown.is_conversation) {
        (Format::Table, _) => output.line(text)?,
        (_, true) => Console::error().line(text)?,
        (_, false) => {}
    }
    Ok(())
}

fn rows_text(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{} rows", grouped(rows)) }
}

/// A query with its incoming rows.
pub(super) struct Running<'a> {
    pub(super) job: &'a Job,
    pub(super) rows: &'a Receiver<RecordBatch>,
    pub(super) clock: &'a dyn Clock,
    pub(super) started: Nanos,
    pub(super) signals: &'a Signals,
    pub(super) limit: Option<Duration>,
}

impl Running<'_> {
    fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.elapsed() >= limit)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.now().after(self.started)
    }

    /// Why no results come.
    pub(super) fn why(&self) -> Option<String> {
        Some(self.job.why().text).filter(|text| !text.is_empty())
    }
}

/// A query after its end.
#[derive(Default)]
pub(super) struct End {
    /// Rows that were shown.
    pub(super) rows: u64,
    /// Why there are none.
    pub(super) why: Option<String>,
    /// Whether values were cut to fit.
    pub(super) was_cut: bool,
}

/// Writes rows one after the other.
struct Writer {
    form: RowWriter,
    cells: Cells,
    /// Whether rows have a weight, which is shown as the operation of a log.
    updating: bool,
}

enum RowWriter {
    Table(Table),
    Records(Records),
}

impl Writer {
    fn new(schema: &SchemaRef, shown: &Shown, cells: Cells, updating: bool) -> Self {
        let schema = if updating { schema_of_log(schema) } else { Arc::clone(schema) };
        let form = match shown.format {
            Format::Table => {
                RowWriter::Table(Table::new(&schema, shown.layout, terminal::width()).with_cells(cells.clone()))
            }
            format => RowWriter::Records(Records::new(&schema, format)),
        };
        Writer { form, cells, updating }
    }

    fn write(&mut self, batch: &RecordBatch, output: &mut Console) -> Result<()> {
        let batch = if self.updating { log(batch)? } else { batch.clone() };
        match &mut self.form {
            RowWriter::Table(table) => table.write(&batch, output),
            RowWriter::Records(records) => records.write(&self.cells.shown(&batch)?, output),
        }
    }

    fn finish(&mut self, output: &mut Console) -> Result<()> {
        match &mut self.form {
            RowWriter::Table(_) => Ok(()),
            RowWriter::Records(records) => records.finish(output),
        }
    }
}

/// The columns of a log: the operation, and the row.
fn schema_of_log(schema: &Schema) -> SchemaRef {
    let columns = schema.fields().iter().take(schema.fields().len() - 1).cloned();
    let fields: Vec<_> = std::iter::once(Arc::new(Field::new("op", DataType::Utf8, false))).chain(columns).collect();
    Arc::new(Schema::new(fields))
}

/// Each row as often as its weight says: `+` before an inserted row, `-` before a retracted one.
fn log(batch: &RecordBatch) -> Result<RecordBatch> {
    let weights = batch.column(batch.num_columns() - 1).as_primitive::<Int64Type>().values();
    let times = weights.iter().enumerate().flat_map(|(row, weight)| {
        let times = usize::try_from(weight.unsigned_abs()).unwrap_or(usize::MAX);
        std::iter::repeat_n((row, *weight > 0), times)
    });
    let (rows, ops): (Vec<u64>, Vec<&str>) =
        times.map(|(row, comes)| (row as u64, if comes { "+" } else { "-" })).unzip();
    let taken = take_record_batch(batch, &UInt64Array::from(rows))?;
    let ops: ArrayRef = Arc::new(StringArray::from(ops));
    let columns = std::iter::once(ops).chain(taken.columns().iter().take(batch.num_columns() - 1).cloned());
    Ok(RecordBatch::try_new(schema_of_log(&batch.schema()), columns.collect())?)
}

/// Shows batches until the job has ended. After the job was asked to stop, its remaining batches are received
/// and dropped, so that it is not blocked. A terminal that fails stops the job too.
fn grow(
    running: &Running<'_>,
    writer: &mut Writer,
    mut wanted: RowWindow,
    output: &mut Console,
    end: &mut End,
) -> Result<()> {
    let job = running.job;
    let mut stopped = wanted.is_enough();
    let (mut shown, mut notices, mut explanations) = (Ok(()), Notices::default(), Explanations::default());
    if stopped {
        job.stop();
    }
    loop {
        notices.write(job, &mut Console::error())?;
        if end.rows == 0 && !stopped && explanations.is_due(running.elapsed()) {
            explanations.write(running.why().as_deref(), &mut Console::error())?;
        }
        match running.rows.recv_timeout(LOOK) {
            Ok(batch) if !stopped => {
                let rows = wanted.cut(&batch);
                if rows.num_rows() > 0 {
                    shown = writer.write(&rows, output);
                    end.rows += rows.num_rows() as u64;
                }
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let unwanted = running.is_over() || running.signals.stop_asked() || output.reader_left();
        if !stopped && (wanted.is_enough() || unwanted || shown.is_err()) {
            stopped = true;
            end.why = running.why();
            job.stop();
        }
    }
    if !stopped {
        end.why = running.why();
    }
    shown
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn a_log_says_what_comes_and_what_is_taken_back() {
        let columns: [(&str, ArrayRef); 2] =
            [("n", Arc::new(Int64Array::from(vec![7, 8, 9]))), ("$weight", Arc::new(Int64Array::from(vec![-1, 2, 0])))];
        let batch = log(&RecordBatch::try_from_iter(columns).expect("batch")).expect("a log");
        assert_eq!(batch.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["op", "n"]);
        assert_eq!(batch.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["-", "+", "+"]);
        assert_eq!(batch.column(1).as_primitive::<Int64Type>().values(), &[7, 8, 8]);
    }

    #[test]
    fn the_mode_of_results_is_flinks() {
        assert!(!is_log("table").expect("known") && is_log("CHANGELOG").expect("known"));
        assert!(is_log("fancy").expect_err("unknown").to_string().contains("'table' or 'changelog'"));
    }

    #[test]
    fn wanted_rows_are_counted_over_batches() {
        let batch = |rows: std::ops::Range<i64>| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
            RecordBatch::try_from_iter([("n", column)]).expect("batch")
        };
        let mut wanted = RowWindow { skip: 3, limit: Some(4) };
        let mut seen: Vec<i64> = Vec::new();
        for batch in [batch(0..2), batch(2..5), batch(5..9), batch(9..10)] {
            let rows = wanted.cut(&batch);
            seen.extend(rows.column(0).as_primitive::<Int64Type>().values());
        }
        assert_eq!(seen, [3, 4, 5, 6]);
        assert!(wanted.is_enough());
        assert_eq!(RowWindow { skip: 0, limit: None }.cut(&batch(0..2)).num_rows(), 2);
    }
}
