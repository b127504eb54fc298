//! Specifications of sources: what is read, event time, and the fate of records and rows that cannot be used.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::list::List;
use crate::spec::named;
use crate::{ConnectorSpec, Expr, NamedExpr, SinkSpec};

/// A table to read. Records become rows in three steps: the connector decodes `decoded` (only the columns
/// that the query needs), `columns` computes the rows that leave the source, `watermark` derives event-time
/// progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// Name of the table.
    pub table: String,
    /// The location of its records.
    pub connector: ConnectorSpec,
    /// Physical columns, as declared.
    pub declared: SchemaRef,
    /// Indexes into `declared` of the columns to decode, ascending.
    pub projection: Vec<usize>,
    /// The columns of `declared` that are no part of a record's content, with the connector's key of what
    /// they hold.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<usize, String>,
    /// The columns of the key, if records are versions of rows: indexes into `declared`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<usize>,
    /// Rows that leave the source, over the decoded columns. Empty: the decoded columns as they are.
    pub columns: Vec<NamedExpr>,
    /// Event-time progress; `None` if the table declares no watermark.
    pub watermark: Option<WatermarkSpec>,
    /// Fate of a record that cannot be decoded.
    pub on_malformed: OnMalformed,
    /// Fate of a row that is late in its partition: see [`Lateness::Partition`].
    #[serde(default, skip_serializing_if = "OnLate::is_drop")]
    pub on_late: OnLate,
    /// After the decoded columns, rows have the time at which they were read: [`PROCESSING_TIME`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_clock: bool,
    /// After these, rows have the event time that the source had reached before them: [`CURRENT_WATERMARK`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_watermark: bool,
}

/// Column with the time at which a row was read, TIMESTAMP_LTZ(3) NOT NULL.
pub const PROCESSING_TIME: &str = "$processing_time";

impl SourceSpec {
    /// A table of which all columns are read, without event time. A record that cannot be decoded is an
    /// error.
    #[must_use]
    pub fn new(table: impl Into<String>, connector: ConnectorSpec, declared: SchemaRef) -> SourceSpec {
        SourceSpec {
            table: table.into(),
            connector,
            projection: (0..declared.fields().len()).collect(),
            declared,
            metadata: BTreeMap::new(),
            key: Vec::new(),
            columns: Vec::new(),
            watermark: None,
            on_malformed: OnMalformed::Fail,
            on_late: OnLate::Drop,
            reads_clock: false,
            reads_watermark: false,
        }
    }

    /// The columns that rows have after the decoded ones.
    pub fn stamps(&self) -> impl Iterator<Item = Field> {
        let clock = self.reads_clock.then(processing_time_field);
        clock.into_iter().chain(self.reads_watermark.then(current_watermark_field))
    }

    /// The tables that it writes: for records that cannot be decoded, and for late rows.
    pub fn sinks(&self) -> impl Iterator<Item = &SinkSpec> {
        let malformed = match &self.on_malformed {
            OnMalformed::DeadLetter(sink) => Some(sink),
            _ => None,
        };
        let late = match &self.on_late {
            OnLate::Write(sink) => Some(sink),
            _ => None,
        };
        malformed.into_iter().chain(late).map(Box::as_ref)
    }

    /// Columns over which the others are computed.
    pub fn decoded(&self) -> Result<Schema, ArrowError> {
        let decoded = self.declared.project(&self.projection)?;
        let stamps = self.stamps().map(Arc::new);
        Ok(Schema::new(decoded.fields().iter().cloned().chain(stamps).collect::<Vec<_>>()))
    }
}

/// The column [`PROCESSING_TIME`].
#[must_use]
pub fn processing_time_field() -> Field {
    Field::new(PROCESSING_TIME, DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false)
}

/// Column with the watermark of the task that has read a row, before it was read: TIMESTAMP_LTZ(3), NULL
/// before the first.
pub const CURRENT_WATERMARK: &str = "$current_watermark";

/// The column [`CURRENT_WATERMARK`].
#[must_use]
pub fn current_watermark_field() -> Field {
    Field::new(CURRENT_WATERMARK, DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true)
}

/// Watermark of a partition: 1 ms before the largest `time` so far minus `delay_ms`, since a row exactly at
/// that bound may come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatermarkSpec {
    /// Event time over the decoded columns, of a timestamp type.
    pub time: Expr,
    /// How far records may be out of order, in milliseconds.
    pub delay_ms: i64,
    /// After this many milliseconds without a record a partition no longer holds the watermark back. `None`:
    /// it always does.
    pub idle_timeout_ms: Option<u64>,
    /// What decides whether a row is late.
    #[serde(default)]
    pub lateness: Lateness,
    /// `time` is the time at which rows are read: it also goes on without rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_clock: bool,
    /// The table's event time goes on when the table ends: no row is late for an operator.
    /// [`Lateness::Partition`] is as ever.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_end: bool,
    /// How far its partitions may be ahead of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<AlignmentSpec>,
}

/// A partition pauses while its watermark is more than `max_drift_ms` ahead of the least one of its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlignmentSpec {
    /// The group: all partitions of the job's tables that name it.
    pub group: String,
    /// In milliseconds of event time.
    pub max_drift_ms: i64,
    /// How often processes learn of each other's progress, in milliseconds.
    pub update_interval_ms: u64,
}

/// What decides whether a row is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lateness {
    /// The job's event time at the row's window: a row is late if all of its windows have fired.
    #[default]
    Job,
    /// The earlier records of its partition: a row is late if it is more than `delay_ms` behind the latest of
    /// them. The source drops it.
    Partition,
}

/// Fate of a record that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OnMalformed {
    /// The job stops with an error that shows the record's place.
    Fail,
    /// The record is dropped and counted.
    Skip,
    /// The record is written to a table of columns (table, place, error, record) and counted.
    DeadLetter(Box<SinkSpec>),
    /// The record is dropped. Another reader of the same table, which decodes at least these columns, writes
    /// and counts it.
    Leave,
}

/// Fate of a row that is late in its partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum OnLate {
    /// The row is dropped and counted.
    #[default]
    Drop,
    /// The row is written to a table of the columns of [`SourceSpec::declared`], all of which are decoded,
    /// and counted.
    Write(Box<SinkSpec>),
    /// The row is dropped. Another reader of the same table writes and counts it.
    Leave,
}

impl OnLate {
    fn is_drop(&self) -> bool {
        *self == OnLate::Drop
    }
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = List(self.projection.iter().map(|index| self.declared.field(*index).name()));
        write!(f, "{} ({}) columns [{columns}]", self.table, self.connector)?;
        if !self.columns.is_empty() {
            f.write_str(" as ")?;
            named(f, &self.columns)?;
        }
        if self.reads_clock {
            write!(f, " with {PROCESSING_TIME}")?;
        }
        if self.reads_watermark {
            write!(f, " with {CURRENT_WATERMARK}")?;
        }
        if let Some(watermark) = &self.watermark {
            match watermark.by_clock {
                true => f.write_str(" watermark by the clock")?,
                false => write!(f, " watermark max({}) - {} ms", watermark.time, watermark.delay_ms)?,
            }
            if watermark.at_end {
                f.write_str(" at the end")?;
            }
            if watermark.lateness == Lateness::Partition {
                f.write_str(", lateness by partition")?;
            }
            if let Some(alignment) = &watermark.alignment {
                write!(f, ", at most {} ms ahead in group {}", alignment.max_drift_ms, alignment.group)?;
            }
        }
        match &self.on_late {
            OnLate::Drop => {}
            OnLate::Write(sink) => write!(f, ", late rows to {}", sink.table)?,
            OnLate::Leave => f.write_str(", late rows left to another reader")?,
        }
        match &self.on_malformed {
            OnMalformed::Fail => Ok(()),
            OnMalformed::Skip => f.write_str(", malformed records skipped"),
            OnMalformed::DeadLetter(sink) => write!(f, ", malformed records to {}", sink.table),
            OnMalformed::Leave => f.write_str(", malformed records left to another reader"),
        }
    }
}
