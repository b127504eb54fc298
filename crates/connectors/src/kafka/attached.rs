//! Metadata that is written with a record: its time and its headers, from columns with METADATA.

use anabranch_dataflow::SinkSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, MapArray, RecordBatch, TimestampMillisecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType};

/// The keys of writable metadata.
pub(super) const WRITTEN: &[&str] = &[TIMESTAMP, HEADERS];
const TIMESTAMP: &str = "timestamp";
const HEADERS: &str = "headers";

/// A record to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outgoing<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) attached: Attached<'a>,
}

impl Outgoing<'_> {
    /// Bytes of its key and its value.
    pub(super) fn bytes(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len)
    }
}

/// Metadata of a record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attached<'a> {
    /// The time of the record, in milliseconds since 1970; without it, the time of writing.
    pub(super) time_ms: Option<i64>,
    pub(super) headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

impl Attached<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.time_ms.is_none() && self.headers.is_empty()
    }
}

/// The columns with metadata of records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachments {
    time: Option<usize>,
    headers: Option<usize>,
}

/// Metadata of the records of a batch.
#[derive(Default)]
pub(super) struct AttachedRows {
    times: Option<TimestampMillisecondArray>,
    headers: Option<MapArray>,
}

impl Attachments {
    /// The metadata columns of a table.
    pub(super) fn new(spec: &SinkSpec) -> Attachments {
        let column = |key: &str| spec.metadata.iter().find(|(_, name)| *name == key).map(|(column, _)| *column);
        Attachments { time: column(TIMESTAMP), headers: column(HEADERS) }
    }

    /// Whether no record has metadata.
    pub(super) fn are_none(&self) -> bool {
        self.time.is_none() && self.headers.is_none()
    }

    /// The metadata of rows.
    pub(super) fn of(&self, rows: &RecordBatch) -> Result<AttachedRows> {
        let times = self.time.map(|column| times(rows.column(column))).transpose()?;
        let headers = self.headers.map(|column| rows.column(column).as_map().clone());
        Ok(AttachedRows { times, headers })
    }
}

fn times(column: &ArrayRef) -> Result<TimestampMillisecondArray> {
    let zone = if let DataType::Timestamp(_, zone) = column.data_type() { zone.clone() } else { None };
    let times = cast(column, &DataType::Timestamp(TimeUnit::Millisecond, zone))?;
    let times = times.as_primitive::<TimestampMillisecondType>().clone();
    if let Some(early) = times.iter().flatten().find(|ms| *ms < 0) {
        return Err(Error::user(format!("the time of a record is before 1970: {early} ms"))
            .at("metadata 'timestamp'")
            .remedy("write a later time, or NULL for the time of writing"));
    }
    Ok(times)
}

impl AttachedRows {
    /// Memory of the metadata.
    pub(super) fn bytes(&self) -> usize {
        let times = self.times.as_ref().map_or(0, Array::get_array_memory_size);
        times + self.headers.as_ref().map_or(0, Array::get_array_memory_size)
    }

    /// The metadata of a row's record.
    pub(super) fn of(&self, row: usize) -> Attached<'_> {
        let time_ms = self.times.as_ref().filter(|times| times.is_valid(row)).map(|times| times.value(row));
        let headers = self.headers.as_ref().filter(|headers| headers.is_valid(row));
        Attached { time_ms, headers: headers.map_or_else(Vec::new, |headers| entries(headers, row)) }
    }
}

fn entries(headers: &MapArray, row: usize) -> Vec<(&str, Option<&[u8]>)> {
    let (names, values) = (headers.keys().as_string_view(), headers.values().as_binary::<i32>());
    let ends = &headers.value_offsets()[row..row + 2];
    let entry = |index: usize| (names.value(index), values.is_valid(index).then(|| values.value(index)));
    (ends[0] as usize..ends[1] as usize).map(entry).collect()
}
