//! The decoder: an array of records at a time. Each record is read by a known layout, or else by the scanner,
//! or else by the general parser.

use anabranch_model::Result;
use arrow::array::{Array, BinaryArray};
use arrow::datatypes::SchemaRef;

use super::JsonOptions;
use super::column::Columns;
use super::datetime::TimestampFormat;
use super::fast::read;
use super::layout::{Layout, Layouts};
use super::parser::Parser;
use super::scan::{Scan, Scanner};
use super::token::{PADDING, Padded};
use super::trace::Trace;
use crate::format::lanes::{Baseline, prefetch};
use crate::format::{Decode, Decoded, batch};

/// Decodes JSON objects, one per record.
///
/// A missing key is null, of two equal keys the last one wins, and keys that no column needs are skipped. A
/// number may be in quotes. A record is malformed if it is not JSON, or if a value does not fit its column.
pub struct JsonDecoder {
    schema: SchemaRef,
    columns: Columns,
    layouts: Layouts,
    format: TimestampFormat,
    ignores_errors: bool,
    instructions: Instructions,
    /// A copy, with padding, of a record that ends too close to its buffer's end.
    scratch: Vec<u8>,
}

/// The instructions that the fast path uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Baseline,
    /// For tests: code for other processors.
    #[cfg(test)]
    Portable,
    /// For tests: no fast path.
    #[cfg(test)]
    None,
}

impl Instructions {
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if crate::format::lanes::has_avx2() {
            return Instructions::Avx2;
        }
        Instructions::Baseline
    }
}

const CACHE_LINE: usize = 64;
/// How far ahead memory is prefetched: far enough to arrive in time, near enough to stay in the cache.
const AHEAD: usize = 2_048;

/// The progress in decoding an array.
#[derive(Default)]
struct DecodeProgress {
    rows: usize,
    malformed: Vec<(usize, String)>,
}

impl JsonDecoder {
    /// A decoder for the columns of `schema`, in its order. A type without a JSON form is an error.
    pub fn new(schema: SchemaRef, options: &JsonOptions) -> Result<Self> {
        Ok(JsonDecoder {
            columns: Columns::new(schema.fields())?,
            schema,
            layouts: Layouts::default(),
            format: options.timestamp_format,
            ignores_errors: options.ignores_errors,
            instructions: Instructions::detect(),
            scratch: Vec::new(),
        })
    }

    #[cfg(test)]
    pub(super) fn with_instructions(mut self, instructions: Instructions) -> Self {
        self.instructions = instructions;
        self
    }

    /// Reads the next few thousand records without layouts.
    #[cfg(test)]
    pub(super) fn without_layouts(mut self) -> Self {
        self.layouts = Layouts::resting();
        self
    }

    /// # Safety
    /// The processor must have AVX2, BMI1 and BMI2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn rows_avx2(&mut self, records: &BinaryArray) -> DecodeProgress {
        // SAFETY: same contract.
        unsafe { self.rows::<crate::format::lanes::Avx2>(records) }
    }

    /// # Safety
    /// The processor must have the instructions of `L`.
    #[inline(always)]
    unsafe fn rows<L: Scan>(&mut self, records: &BinaryArray) -> DecodeProgress {
        let memory = records.values().as_slice();
        let offsets = records.value_offsets();
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut progress = DecodeProgress::default();
        let mut fitted = 0;
        for index in 0..records.len() {
            let (start, end) = (offsets[index] as usize, offsets[index + 1] as usize);
            for line in (start..end).step_by(CACHE_LINE) {
                prefetch(memory.as_ptr().wrapping_add(line), AHEAD);
            }
            let record = match Padded::new(memory, start, end, start) {
                Some(record) => Some(record),
                None => pad(&memory[start..end], start, &mut scratch),
            };
            // No closures here: the compiler would build them as functions without the instructions of `L`.
            if let Some(record) = record {
                // SAFETY: same contract.
                if unsafe { self.by_layout::<L>(record, progress.rows) } {
                    fitted += 1;
                    progress.rows += 1;
                    continue;
                }
                self.layouts.fitted(std::mem::take(&mut fitted));
                let learns = self.layouts.learning();
                self.layouts.failed();
                if !learns && !records.is_null(index) {
                    let mut scanner = Scanner { record, columns: &mut self.columns, format: self.format };
                    // SAFETY: same contract.
                    if unsafe { L::record(&mut scanner, progress.rows) } {
                        progress.rows += 1;
                        continue;
                    }
                }
                self.row(records, index, &mut progress, learns);
            } else {
                self.row(records, index, &mut progress, false);
            }
        }
        self.layouts.fitted(fitted);
        self.scratch = scratch;
        progress
    }

    /// Reads a record of a known layout into `slot`; false if no layout fits.
    ///
    /// # Safety
    /// The processor must have the instructions of `L`.
    #[inline(always)]
    unsafe fn by_layout<L: Scan>(&mut self, record: Padded<'_>, slot: usize) -> bool {
        if !self.layouts.active() {
            return false;
        }
        let mut scanner = Scanner { record, columns: &mut self.columns, format: self.format };
        let mut attempt = 0;
        while let Some((index, layout)) = self.layouts.candidate(attempt) {
            // SAFETY: same contract.
            if unsafe { read::<L>(layout, &mut scanner, slot) } {
                if attempt > 0 {
                    self.layouts.switch(index);
                }
                return true;
            }
            attempt += 1;
        }
        false
    }

    /// Reads record `index` with the general parser, and learns its layout if `learns`.
    #[inline(never)]
    fn row(&mut self, records: &BinaryArray, index: usize, progress: &mut DecodeProgress, learns: bool) {
        if records.is_null(index) {
            progress.malformed.push((index, "the record is null: an object is missing".to_owned()));
            return;
        }
        let bytes = records.value(index);
        let mut trace = learns.then(Trace::new);
        let offset = records.value_offsets()[index] as usize;
        let mut parser = Parser::new(bytes, 0, offset, &mut self.columns, self.format);
        (parser.trace, parser.ignores_errors) = (trace.as_mut(), self.ignores_errors);
        let read = parser.record(progress.rows);
        let has_layout = !parser.ignored;
        match read {
            Ok(()) => {
                progress.rows += 1;
                if let Some(trace) = trace.filter(|trace| trace.repeatable && has_layout) {
                    self.layouts.learn(Layout::new(bytes, &trace, &self.columns));
                }
            }
            Err(fault) => progress.malformed.push((index, fault.message(&self.columns))),
        }
    }
}

/// A copy of `record` with padding.
#[cold]
fn pad<'a>(record: &[u8], offset: usize, scratch: &'a mut Vec<u8>) -> Option<Padded<'a>> {
    scratch.clear();
    scratch.extend_from_slice(record);
    scratch.resize(record.len() + PADDING, 0);
    Padded::new(scratch, 0, record.len(), offset)
}

impl Decode for JsonDecoder {
    fn decode(&mut self, records: &BinaryArray) -> Result<Decoded> {
        self.columns.begin(records.len());
        let DecodeProgress { rows, malformed } = match self.instructions {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor was checked for these instructions.
            Instructions::Avx2 => unsafe { self.rows_avx2(records) },
            // SAFETY: every processor has the baseline.
            Instructions::Baseline => unsafe { self.rows::<Baseline>(records) },
            #[cfg(test)]
            // SAFETY: portable code needs no instructions.
            Instructions::Portable => unsafe { self.rows::<crate::format::lanes::Portable>(records) },
            #[cfg(test)]
            Instructions::None => {
                let mut progress = DecodeProgress::default();
                (0..records.len()).for_each(|index| self.row(records, index, &mut progress, false));
                progress
            }
        };
        let columns = self.columns.finish(rows, records.values().clone())?;
        Ok(Decoded { batch: batch(&self.schema, columns, rows)?, malformed })
    }
}
