//! Event time of the rows of a source: their watermark, and which rows are late in their partition.

use anabranch_dataflow::{Lateness, WatermarkSpec};
use anabranch_model::{EventTime, Result};
use anabranch_operators::{CompiledExpr, Functions, event_times, latest_time};
use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::Schema;

/// A table's declared watermark.
pub(crate) struct SourceTime {
    expr: CompiledExpr,
    delay_ms: i64,
    lateness: Lateness,
}

/// The event time of the rows of a batch.
pub(crate) struct Observed {
    /// Watermark of the partition after the batch; `None` if no row has an event time.
    pub(crate) watermark: Option<EventTime>,
    /// The rows to keep; `None` stands for all.
    pub(crate) on_time: Option<BooleanArray>,
}

impl SourceTime {
    pub(crate) fn new(spec: &WatermarkSpec, decoded: &Schema, functions: &Functions) -> Result<SourceTime> {
        let expr = CompiledExpr::new(&spec.time, decoded, functions)?;
        Ok(SourceTime { expr, delay_ms: spec.delay_ms, lateness: spec.lateness })
    }

    /// Handles rows of a partition whose watermark was `before`.
    pub(crate) fn observe(&mut self, batch: &RecordBatch, before: EventTime) -> Result<Observed> {
        let column = self.expr.evaluate(batch)?;
        let times = event_times(&column)?;
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        let latest = match nulls {
            None => latest_time(&times),
            Some(nulls) => nulls.valid_indices().map(|row| times[row]).max(),
        };
        let on_time = match (self.lateness, latest) {
            (Lateness::Partition, Some(latest)) => on_time(&times, nulls, latest, self.delay_ms, before),
            _ => None,
        };
        // A row exactly at the bound is not late, and the watermark promises that no row at or below it
        // follows.
        let watermark = |latest: i64| EventTime(latest.saturating_sub(self.delay_ms).saturating_sub(1));
        Ok(Observed { watermark: latest.map(watermark), on_time })
    }
}

/// The rows that are at most `delay_ms` behind the latest row before them, in this batch or an earlier one.
/// Rows without a time are included. `None` if these are all rows. The result does not depend on how rows are
/// divided into batches.
fn on_time(
    times: &[i64],
    nulls: Option<&NullBuffer>,
    latest: i64,
    delay_ms: i64,
    before: EventTime,
) -> Option<BooleanArray> {
    let mut least = match before {
        EventTime::MIN => i64::MIN,
        EventTime(watermark) => watermark.saturating_add(1),
    };
    // Usually all rows are within the bound of the latest one.
    let earliest = match nulls {
        None => times.iter().copied().min(),
        Some(nulls) => nulls.valid_indices().map(|row| times[row]).min(),
    };
    if earliest.is_none_or(|earliest| earliest >= least.max(latest.saturating_sub(delay_ms))) {
        return None;
    }
    let keep = BooleanBuffer::collect_bool(times.len(), |row| {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return true;
        }
        let is_on_time = times[row] >= least;
        least = least.max(times[row].saturating_sub(delay_ms));
        is_on_time
    });
    (keep.count_set_bits() < times.len()).then(|| BooleanArray::from(keep))
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;

    use super::*;

    /// Rows of one partition, cut into batches at random, against the definition.
    #[test]
    fn whether_a_row_is_late_in_its_partition_depends_on_the_rows_before_it_alone() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let delay_ms = rng.below(20) as i64;
            let times: Vec<Option<i64>> = (0..100)
                .map(|n| match rng.below(12) {
                    0 => None,
                    1 => Some([i64::MIN, i64::MIN + 1, -5][rng.below(3) as usize]),
                    _ => Some(n + rng.below(30) as i64),
                })
                .collect();
            let late = |row: usize| {
                let latest = times[..row].iter().flatten().max();
                times[row].is_some_and(|time| latest.is_some_and(|latest| time < latest.saturating_sub(delay_ms)))
            };
            let expected: Vec<bool> = (0..times.len()).map(|row| !late(row)).collect();
            let (mut kept, mut watermark, mut rest) = (Vec::new(), EventTime::MIN, times.as_slice());
            while !rest.is_empty() {
                let (batch, others) = rest.split_at(1 + rng.below(rest.len() as u64) as usize);
                let values: Vec<i64> = batch.iter().map(|time| time.unwrap_or(i64::MIN)).collect();
                let nulls = NullBuffer::from_iter(batch.iter().map(Option::is_some));
                let nulls = Some(&nulls).filter(|nulls| nulls.null_count() > 0);
                if let Some(latest) = batch.iter().flatten().max() {
                    match on_time(&values, nulls, *latest, delay_ms, watermark) {
                        None => kept.extend(vec![true; batch.len()]),
                        Some(mask) => kept.extend(mask.values().iter()),
                    }
                    let said = latest.saturating_sub(delay_ms).saturating_sub(1);
                    watermark = watermark.max(EventTime(said));
                } else {
                    kept.extend(vec![true; batch.len()]);
                }
                rest = others;
            }
            assert_eq!(kept, expected, "seed {seed}");
        }
    }
}
