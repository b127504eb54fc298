//! What a source task has beside its source: the columns that leave it, event time, and the fate of malformed records.

use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{OnMalformed, SourceSpec};
use anabranch_model::{Error, PartitionId, Result, TaskCounters};
use anabranch_operators::{Functions, Malformed, Projection, Source};
use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;

use crate::chain::SinkTail;
use crate::job_state::RestoredSource;
use crate::processing_time::ProcessingTime;
use crate::source_time::{Observed, SourceTime};
use crate::watermarks::Watermarks;

/// The longest time that a source waits for records before its task checks for work that nothing announces: epochs that are done.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// The same for a source whose wait ends when the task has something else to do, unless the task waits for an epoch to be done.
const LOOK_AT_HOST: Duration = Duration::from_secs(4);

/// The further parts of a source task.
pub(crate) struct SourceParts {
    pub(crate) source: Box<dyn Source>,
    /// Rows that leave the source; `None`: as decoded.
    pub(super) columns: Option<Projection>,
    pub(super) time: Option<SourceTime>,
    pub(super) watermarks: Watermarks,
    pub(super) processing: Option<ProcessingTime>,
    pub(super) on_malformed: Fate,
    pub(super) table: String,
}

pub(super) enum Fate {
    Fail,
    Skip,
    DeadLetter(SinkTail, SchemaRef),
    Leave,
}

impl Fate {
    /// Whether records are prepared that are not visible yet.
    fn is_prepared(&self) -> bool {
        matches!(self, Fate::DeadLetter(tail, _) if tail.is_prepared())
    }
}

impl SourceParts {
    /// The longest time that the source waits for records. `waits` tells whether the task waits for an epoch to be done.
    pub(super) fn look(&self, waits: bool) -> Duration {
        match self.source.waits_at_host() && !waits && !self.on_malformed.is_prepared() {
            true => LOOK_AT_HOST,
            false => LOOK,
        }
    }

    /// Compiles a source's specification. `dead_letter` is the opened sink of [`OnMalformed::DeadLetter`]; `restored`
    /// is what the source resumes from.
    pub(crate) fn new(
        spec: &SourceSpec,
        source: Box<dyn Source>,
        dead_letter: Option<SinkTail>,
        restored: Option<&RestoredSource>,
        functions: &Functions,
    ) -> Result<Self> {
        let (columns, time, idle) = derived(spec, functions)?;
        let wait_max = if source.waits_at_host() { LOOK_AT_HOST } else { LOOK };
        let on_malformed = match (&spec.on_malformed, dead_letter) {
            (OnMalformed::Fail, _) => Fate::Fail,
            (OnMalformed::Skip, _) => Fate::Skip,
            (OnMalformed::Leave, _) => Fate::Leave,
            (OnMalformed::DeadLetter(sink), Some(writer)) => Fate::DeadLetter(writer, Arc::clone(&sink.schema)),
            (OnMalformed::DeadLetter(_), None) => return Err(Error::internal("the dead-letter table is not open")),
        };
        let restored = restored.map(|state| state.watermarks.clone()).unwrap_or_default();
        Ok(SourceParts {
            source,
            columns,
            time,
            processing: ProcessingTime::of(spec, restored.values().max().copied()),
            watermarks: Watermarks::new(idle, wait_max, restored),
            on_malformed,
            table: spec.table.clone(),
        })
    }

    /// The source goes on with another plan version, by which perhaps other columns leave it.
    pub(crate) fn go_on(mut self, spec: &SourceSpec, functions: &Functions) -> Result<Self> {
        let idle;
        (self.columns, self.time, idle) = derived(spec, functions)?;
        self.processing = ProcessingTime::of(spec, self.watermarks.partitions().values().max().copied());
        self.watermarks.go_on(idle);
        Ok(self)
    }

    /// Nobody reads on: closes the table of malformed records.
    pub(crate) fn close(self) -> Result<()> {
        match self.on_malformed {
            Fate::DeadLetter(mut tail, _) => tail.finish(None),
            _ => Ok(()),
        }
    }

    /// Schema of the rows that leave the source.
    pub(crate) fn schema(spec: &SourceSpec, functions: &Functions) -> Result<SchemaRef> {
        let decoded = spec.decoded()?;
        match spec.columns.is_empty() {
            true => Ok(Arc::new(decoded)),
            false => Ok(Arc::clone(Projection::new(&spec.columns, &decoded, functions)?.schema())),
        }
    }

    pub(super) fn malformed(&mut self, records: &[Malformed], counters: &TaskCounters) -> Result<()> {
        let Some(first) = records.first() else { return Ok(()) };
        if !matches!(self.on_malformed, Fate::Leave) {
            TaskCounters::add(&counters.malformed_rows, records.len() as u64);
        }
        match &mut self.on_malformed {
            Fate::Skip | Fate::Leave => Ok(()),
            Fate::DeadLetter(tail, schema) => tail.sink.write(&dead_letters(&self.table, records, schema)?),
            Fate::Fail => {
                let shown = String::from_utf8_lossy(&first.record[..first.record.len().min(200)]);
                Err(Error::user(format!("malformed record: {}: {}", first.error, shown.trim_end()))
                    .at(first.place.clone())
                    .at(format!("table {}", self.table))
                    .remedy("correct the record, or declare its fate: 'on-malformed' = 'skip' or 'dead-letter'"))
            }
        }
    }

    /// Derives event time from rows of a partition.
    pub(super) fn observe(&mut self, partition: PartitionId, batch: &RecordBatch) -> Result<Observed> {
        match &mut self.time {
            Some(time) => time.observe(batch, self.watermarks.of(partition)),
            None => Ok(Observed { watermark: None, on_time: None }),
        }
    }
}

/// The columns that leave a source, unless they are those that it decodes; its event time; and after what time a partition is idle.
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
