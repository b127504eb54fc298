//! The rows of a checkpoint interval: the content of a committable of the exactly-once writer.
//!
//! Frozen layout of version 1, integers little-endian:
//!
//! ```text
//! "ABJD"  version: u8 = 1
//! length of the header: u32; the header as JSON: {"table": "t", "columns": ["a", "b"], "key": [0], "has_gone": false}
//! rows as COPY takes them; with a key, each begins with its number and whether it is a deletion
//! checksum of all before: u64 (the hash of `anabranch_model`)
//! ```

use anabranch_model::{Error, HASH_SEED, Result, hash_bytes};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use serde_json::{Value, json};

use super::cells::append_rows;
use super::target::TargetTable;
use crate::guarantee::START_OVER;

const MAGIC: &[u8; 5] = b"ABJD\x01";

/// Rows being gathered.
pub(super) struct RowBuffer {
    layout: TargetTable,
    /// Number of columns before the weight, if rows have weights.
    weight: Option<usize>,
    text: Vec<u8>,
    rows: usize,
    has_gone: bool,
}

/// Rows to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeldRows {
    pub(super) layout: TargetTable,
    /// Whether some rows are deletions.
    pub(super) has_gone: bool,
    pub(super) rows: Bytes,
}

impl RowBuffer {
    /// An empty buffer. `weight`: the index of the column of weights, if rows have them.
    pub(super) fn new(layout: TargetTable, weight: Option<usize>) -> RowBuffer {
        RowBuffer { layout, weight, text: Vec::new(), rows: 0, has_gone: false }
    }

    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let RowBuffer { layout, weight, text, rows, has_gone } = self;
        let weights = weight.map(|column| batch.column(column).as_primitive::<Int64Type>().clone());
        let projected = weight.map(|columns| batch.project(&(0..columns).collect::<Vec<_>>())).transpose()?;
        let (first, is_keyed) = (*rows, !layout.key.is_empty());
        *rows += batch.num_rows();
        append_rows(text, projected.as_ref().unwrap_or(batch), |out, row| {
            if is_keyed {
                let is_gone = weights.as_ref().is_some_and(|weights| weights.value(row) < 0);
                *has_gone |= is_gone;
                out.extend_from_slice((first + row).to_string().as_bytes());
                out.extend_from_slice(if is_gone { b"\tt\t" } else { b"\tf\t" });
            }
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Memory of the rows.
    pub(super) fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Takes the rows, if there are some.
    pub(super) fn take(&mut self) -> Option<HeldRows> {
        if self.rows == 0 {
            return None;
        }
        self.rows = 0;
        let has_gone = std::mem::take(&mut self.has_gone);
        Some(HeldRows { layout: self.layout.clone(), has_gone, rows: std::mem::take(&mut self.text).into() })
    }
}

impl HeldRows {
    /// The content of a committable.
    pub(super) fn to_bytes(&self) -> Bytes {
        let TargetTable { table, columns, key } = &self.layout;
        let header = json!({"table": table, "columns": columns, "key": key, "has_gone": self.has_gone}).to_string();
        let mut bytes = Vec::with_capacity(MAGIC.len() + 4 + header.len() + self.rows.len() + 8);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&self.rows);
        let checksum = hash_bytes(HASH_SEED, &bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.into()
    }

    /// Reads a committable.
    pub(super) fn parse(bytes: &Bytes) -> Result<HeldRows> {
        let cut_off = || damaged("it is cut off");
        let (magic, rest) = bytes.split_first_chunk::<5>().ok_or_else(cut_off)?;
        if magic[..4] != MAGIC[..4] {
            return Err(damaged("it does not begin like one"));
        }
        if magic[4] != MAGIC[4] {
            return Err(Error::user(format!("the rows are of version {}, known is {}", magic[4], MAGIC[4]))
                .remedy("start the job with the version of the program that made the checkpoint"));
        }
        let (_, checksum) = rest.split_last_chunk::<8>().ok_or_else(cut_off)?;
        if hash_bytes(HASH_SEED, &bytes[..bytes.len() - 8]) != u64::from_le_bytes(*checksum) {
            return Err(damaged("its checksum is wrong"));
        }
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let length = u32::from_le_bytes(*length) as usize;
        let header = rest[..rest.len() - 8].get(..length).ok_or_else(cut_off)?;
        let header: Value = serde_json::from_slice(header).map_err(|_| damaged("its header cannot be read"))?;
        let layout = layout(&header).ok_or_else(|| damaged("its header is incomplete"))?;
        let has_gone = header["has_gone"].as_bool().unwrap_or(true);
        let first = MAGIC.len() + 4 + length;
        Ok(HeldRows { layout, has_gone, rows: bytes.slice(first..bytes.len() - 8) })
    }
}

fn layout(header: &Value) -> Option<TargetTable> {
    let columns: Option<Vec<String>> =
        header["columns"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    let columns = columns?;
    let key = header["key"].as_array()?.iter().map(|column| usize::try_from(column.as_u64()?).ok());
    let key: Vec<usize> = key.collect::<Option<_>>()?;
    let fits = key.iter().all(|column| *column < columns.len());
    fits.then_some(TargetTable { table: header["table"].as_str()?.to_owned(), columns, key })
}

fn damaged(reason: &str) -> Error {
    Error::damaged(format!("the rows of the checkpoint are damaged: {reason}"))
        .remedy(format!("restore the checkpoint directory from its newest copy, or {START_OVER}"))
}

#[cfg(test)]
mod tests;
