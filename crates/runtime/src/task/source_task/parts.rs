//! The parts of a source task that it leaves for the next plan version: its source, output columns, event
//! time, and the fate of malformed records and late rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{AlignmentSpec, OnLate, OnMalformed, SourceSpec, current_watermark_field};
use anabranch_model::{Error, EventTime, PartitionId, Result, TaskCounters};
use anabranch_operators::{Functions, Malformed, Projection, Source};
use arrow::array::{ArrayRef, BinaryArray, BooleanArray, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::compute::{cast, filter_record_batch, not};
use arrow::datatypes::{Schema, SchemaRef};

use crate::task::chain::SinkTail;
use crate::task::event_time;
use crate::task::job_state::RestoredSource;
use crate::task::merged_time::TimeProgress;
use crate::task::processing_time::ProcessingTime;
use crate::task::source_time::{Observed, SourceTime};
use crate::task::watermarks::Watermarks;

/// The longest time that a source waits for records before its task checks for work that nothing announces:
/// epochs that are done.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// The same for a source whose wait ends when the task has something else to do, unless the task waits for an
/// epoch to be done.
const LOOK_AT_HOST: Duration = Duration::from_secs(4);

/// An open source, and how its rows are processed before they enter the chain.
pub(crate) struct SourceParts {
    pub(crate) source: Box<dyn Source>,
    /// Output columns; `None`: as decoded.
    pub(super) columns: Option<Projection>,
    pub(super) time: Option<SourceTime>,
    pub(super) watermarks: Watermarks,
    /// [Identity](event_time::identity) of the event time of the watermarks.
    pub(super) event_time: Option<String>,
    pub(super) processing: Option<ProcessingTime>,
    reads_watermark: bool,
    pub(super) alignment: Option<AlignmentSpec>,
    /// See [`WatermarkSpec::at_end`](anabranch_dataflow::WatermarkSpec::at_end).
    at_end: bool,
    on_malformed: OnMalformed,
    on_late: OnLate,
    pub(super) tails: SideTails,
    pub(super) table: String,
}

/// The open tables for malformed records and late rows.
#[derive(Default)]
pub(crate) struct SideTails {
    /// The table of [`OnMalformed::DeadLetter`].
    pub(crate) malformed: Option<SinkTail>,
    /// The table of [`OnLate::Write`].
    pub(crate) late: Option<SinkTail>,
}

impl SideTails {
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut SinkTail> {
        self.malformed.iter_mut().chain(&mut self.late)
    }

    /// Whether prepared results are not visible yet.
    fn is_prepared(&self) -> bool {
        self.malformed.iter().chain(&self.late).any(SinkTail::is_prepared)
    }
}

fn write(tail: &mut Option<SinkTail>, rows: &RecordBatch) -> Result<()> {
    let tail = tail.as_mut().ok_or_else(|| Error::internal("a table beside the rows of a source is not open"))?;
    tail.sink.write(rows)
}

impl SourceParts {
    /// The longest time that the source waits for records. `waits`: whether the task waits for an epoch to be
    /// done.
    pub(super) fn wait_max(&self, waits: bool) -> Duration {
        match self.source.waits_at_host() && !waits && !self.tails.is_prepared() {
            true => LOOK_AT_HOST,
            false => LOOK,
        }
    }

    /// Compiles a source's specification. `restored` is the state that the source resumes from.
    pub(crate) fn new(
        spec: &SourceSpec,
        source: Box<dyn Source>,
        tails: SideTails,
        restored: Option<&RestoredSource>,
        functions: &Functions,
    ) -> Result<Self> {
        let (columns, time, idle) = derived(spec, functions)?;
        let wait_max = if source.waits_at_host() { LOOK_AT_HOST } else { LOOK };
        let event_time = event_time::identity(spec)?;
        let same = |state: &&RestoredSource| event_time::goes_on(state.event_time.as_deref(), event_time.as_deref());
        let restored = restored.filter(same).map(|state| state.watermarks.clone()).unwrap_or_default();
        Ok(SourceParts {
            source,
            columns,
            time,
            reads_watermark: spec.reads_watermark,
            alignment: alignment(spec),
            at_end: at_end(spec),
            processing: ProcessingTime::for_source(spec, restored.values().max().copied()),
            watermarks: Watermarks::new(idle, wait_max, restored),
            event_time,
            on_malformed: spec.on_malformed.clone(),
            on_late: spec.on_late.clone(),
            tails,
            table: spec.table.clone(),
        })
    }

    /// The source continues with another plan version, which may need other output columns.
    pub(crate) fn go_on(mut self, spec: &SourceSpec, functions: &Functions) -> Result<Self> {
        let idle;
        (self.columns, self.time, idle) = derived(spec, functions)?;
        let now = event_time::identity(spec)?;
        let before = std::mem::replace(&mut self.event_time, now);
        if !event_time::goes_on(before.as_deref(), self.event_time.as_deref()) {
            self.watermarks.begin_anew();
        }
        self.processing = ProcessingTime::for_source(spec, self.watermarks.partitions().values().max().copied());
        self.watermarks.go_on(idle);
        self.source.hold(&BTreeSet::new())?;
        (self.alignment, self.at_end) = (alignment(spec), at_end(spec));
        Ok(self)
    }

    /// The source is not read any more: closes the tables for malformed records and late rows.
    pub(crate) fn close(mut self) -> Result<()> {
        self.tails.each().try_for_each(|tail| tail.finish(None))
    }

    /// Schema of the output.
    pub(crate) fn schema(spec: &SourceSpec, functions: &Functions) -> Result<SchemaRef> {
        let decoded = spec.decoded()?;
        match spec.columns.is_empty() {
            true => Ok(Arc::new(decoded)),
            false => Ok(Arc::clone(Projection::new(&spec.columns, &decoded, functions)?.schema())),
        }
    }

    pub(super) fn malformed(&mut self, records: &[Malformed], counters: &TaskCounters) -> Result<()> {
        let Some(first) = records.first() else { return Ok(()) };
        if self.on_malformed != OnMalformed::Leave {
            TaskCounters::add(&counters.malformed_rows, records.len() as u64);
        }
        match &self.on_malformed {
            OnMalformed::Skip | OnMalformed::Leave => Ok(()),
            OnMalformed::DeadLetter(sink) => {
                write(&mut self.tails.malformed, &dead_letters(&self.table, records, &sink.schema)?)
            }
            OnMalformed::Fail => {
                let shown = String::from_utf8_lossy(&first.record[..first.record.len().min(200)]);
                Err(Error::user(format!("malformed record: {}: {}", first.error, shown.trim_end()))
                    .at(first.place.clone())
                    .at(format!("table {}", self.table))
                    .remedy("correct the record, or declare its fate: 'on-malformed' = 'skip' or 'dead-letter'"))
            }
        }
    }

    /// Takes the late rows out of a batch, whose decoded columns come first. `on_time` has the rows to keep;
    /// `None`: no row is late.
    pub(super) fn on_time(
        &mut self,
        batch: RecordBatch,
        on_time: Option<BooleanArray>,
        counters: &TaskCounters,
    ) -> Result<RecordBatch> {
        let Some(on_time) = on_time else { return Ok(batch) };
        let kept = filter_record_batch(&batch, &on_time)?;
        if self.on_late != OnLate::Leave {
            TaskCounters::add(&counters.late_rows, (batch.num_rows() - kept.num_rows()) as u64);
        }
        if let OnLate::Write(sink) = &self.on_late {
            let late = filter_record_batch(&batch, &not(&on_time)?)?;
            let columns = late.columns()[..sink.schema.fields().len()].to_vec();
            write(&mut self.tails.late, &RecordBatch::try_new(Arc::clone(&sink.schema), columns)?)?;
        }
        Ok(kept)
    }

    /// Appends the watermark before the rows as their last column, if the query reads it.
    pub(super) fn with_watermark(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if !self.reads_watermark {
            return Ok(batch);
        }
        let reached = Some(self.watermarks.reached()).filter(|reached| *reached != EventTime::MIN && !self.at_end);
        let reached = reached.map(|reached| reached.0);
        let times = TimestampMillisecondArray::from(vec![reached; batch.num_rows()]).with_timezone("UTC");
        let columns = batch.columns().iter().cloned().chain([Arc::new(times) as ArrayRef]).collect();
        let fields =
            batch.schema().fields().iter().cloned().chain([Arc::new(current_watermark_field())]).collect::<Vec<_>>();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The progress of the partitions' event time, if there is any.
    pub(super) fn progress(&mut self) -> Option<TimeProgress> {
        if self.at_end { None } else { self.watermarks.progress() }
    }

    /// Derives event time from rows of a partition.
    pub(super) fn observe(&mut self, partition: PartitionId, batch: &RecordBatch) -> Result<Observed> {
        match &mut self.time {
            Some(time) => time.observe(batch, self.watermarks.of_partition(partition)),
            None => Ok(Observed { watermark: None, on_time: None }),
        }
    }
}

/// How far a source may be ahead of others.
fn alignment(spec: &SourceSpec) -> Option<AlignmentSpec> {
    spec.watermark.as_ref().and_then(|watermark| watermark.alignment.clone())
}

/// Whether the event time of a source advances only when the source ends.
fn at_end(spec: &SourceSpec) -> bool {
    spec.watermark.as_ref().is_some_and(|watermark| watermark.at_end)
}

/// The output columns of a source, unless they are the decoded ones; its event time; and the time after which
/// a partition is idle.
fn derived(
    spec: &SourceSpec,
    functions: &Functions,
) -> Result<(Option<Projection>, Option<SourceTime>, Option<Duration>)> {
    let decoded = spec.decoded()?;
    let columns = match spec.columns.is_empty() {
        true => None,
        false => Some(Projection::new(&spec.columns, &decoded, functions)?),
    };
    let time = spec.watermark.as_ref().map(|w| SourceTime::new(w, &decoded, functions)).transpose()?;
    let idle = spec.watermark.as_ref().and_then(|w| w.idle_timeout_ms).map(Duration::from_millis);
    Ok((columns, time, idle))
}

/// Malformed records as rows of a dead-letter table: table, place, error, record.
fn dead_letters(table: &str, records: &[Malformed], schema: &SchemaRef) -> Result<RecordBatch> {
    let columns: [ArrayRef; 4] = [
        Arc::new(StringArray::from_iter_values(records.iter().map(|_| table))),
        Arc::new(StringArray::from_iter_values(records.iter().map(|r| &r.place))),
        Arc::new(StringArray::from_iter_values(records.iter().map(|r| &r.error))),
        match schema.field(3).data_type() {
            t if t.is_string() => {
                Arc::new(StringArray::from_iter_values(records.iter().map(|r| String::from_utf8_lossy(&r.record))))
            }
            _ => Arc::new(BinaryArray::from_iter_values(records.iter().map(|r| &r.record))),
        },
    ];
    let columns = columns.iter().zip(schema.fields()).map(|(c, f)| Ok(cast(c, f.data_type())?));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_>>()?)?)
}
