//! What travels on a channel, in order: batches, watermarks and markers in one envelope type.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;

use crate::{Epoch, EventTime, Nanos, PlanVersion};

/// A value with the moment at which its oldest cause was read by a source; latency is measured from it.
#[derive(Clone, Copy, Debug)]
pub struct Stamped<T> {
    /// The value.
    pub value: T,
    /// When the oldest record behind the value entered the job.
    pub born: Nanos,
}

/// One element of a channel. Order on a channel is the order of sending; nothing overtakes anything.
#[derive(Clone, Debug)]
pub enum Envelope {
    /// Rows.
    Batch(Stamped<RecordBatch>),
    /// Event-time progress of the sender.
    Watermark(Stamped<EventTime>),
    /// The sender has no active partition: leave it out of the minimum until its next batch or watermark.
    Idle,
    /// End of an epoch.
    Marker(Marker),
}

/// In-band end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The epoch that ends here.
    pub epoch: Epoch,
    /// The plan version that the sender ran in this epoch.
    pub version: PlanVersion,
    /// Every task that it passes takes a snapshot of its state.
    pub snapshot: bool,
    /// The fate of the channel.
    pub kind: MarkerKind,
}

/// What happens where a marker passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerKind {
    /// The epoch ends and the next one begins.
    Cut,
    /// The job was asked to stop: the epoch ends and the channel closes. Open windows stay open.
    Stop,
    /// The stream has ended, after a watermark of [`EventTime::MAX`]: the epoch ends and the channel closes.
    End,
}

impl MarkerKind {
    /// Whether nothing follows on the channel.
    #[must_use]
    pub fn closes(self) -> bool {
        !matches!(self, MarkerKind::Cut)
    }
}

/// Bytes that the rows of a batch take. Slices count only their own rows, not their whole buffers.
#[must_use]
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column.as_ref())).sum()
}

fn array_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    match array.data_type() {
        DataType::Boolean => rows.div_ceil(8),
        DataType::Utf8 => offsets_span(array.as_string::<i32>().value_offsets()) + 4 * rows,
        DataType::Binary => offsets_span(array.as_binary::<i32>().value_offsets()) + 4 * rows,
        DataType::Utf8View => views_bytes(array.as_string_view().views()),
        DataType::BinaryView => views_bytes(array.as_binary_view().views()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| array_bytes(column)).sum(),
        DataType::List(_) => {
            4 * rows + part_bytes(array.as_list::<i32>().values(), array.as_list::<i32>().value_offsets())
        }
        DataType::Map(..) => 4 * rows + part_bytes(array.as_map().entries(), array.as_map().value_offsets()),
        other => match other.primitive_width() {
            Some(width) => width * rows,
            None => array.get_array_memory_size(),
        },
    }
}

/// Of the elements from the first to the last offset.
fn part_bytes(elements: &dyn Array, offsets: &[i32]) -> usize {
    let first = offsets.first().and_then(|first| usize::try_from(*first).ok()).unwrap_or(0);
    array_bytes(&elements.slice(first, offsets_span(offsets)))
}

fn offsets_span(offsets: &[i32]) -> usize {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => usize::try_from(last - first).unwrap_or(0),
        _ => 0,
    }
}

/// A view has its length in the low 32 bits; up to 12 bytes are stored in the view itself.
fn views_bytes(views: &[u128]) -> usize {
    let outside: usize = views.iter().map(|view| (view & 0xffff_ffff) as usize).filter(|len| *len > 12).sum();
    outside + 16 * views.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Int64Array, Int64Builder, ListArray, MapBuilder, StringArray, StringBuilder, StringViewArray,
        StructArray,
    };
    use arrow::datatypes::{Field, Int64Type};

    use super::*;

    #[test]
    fn bytes_of_a_slice_count_only_the_slice() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from_iter_values(0..1000))),
            ("s", Arc::new(StringArray::from_iter_values((0..1000).map(|i| format!("{i:04}"))))),
            ("v", Arc::new(StringViewArray::from_iter_values((0..1000).map(|i| format!("{i:020}"))))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("batch");
        assert_eq!(batch_bytes(&batch), 1000 * (8 + 8 + 36));
        assert_eq!(batch_bytes(&batch.slice(10, 10)), 10 * (8 + 8 + 36));
    }

    #[test]
    fn of_lists_rows_and_maps_the_elements_count() {
        let numbers = |row: i64| Some((0..3).map(|n| Some(row + n)).collect::<Vec<_>>());
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..100).map(numbers)));
        let mut maps = MapBuilder::with_capacity(None, StringBuilder::new(), Int64Builder::new(), 5000);
        for _ in 0..100 {
            maps.keys().append_value("four");
            maps.values().append_value(7);
            maps.append(true).expect("a map");
        }
        let field = |column: &ArrayRef| Arc::new(Field::new("f", column.data_type().clone(), true));
        let rows: ArrayRef = Arc::new(StructArray::from(vec![(field(&lists), Arc::clone(&lists))]));
        let maps: ArrayRef = Arc::new(maps.finish());
        let batch = RecordBatch::try_from_iter([("l", lists), ("r", rows), ("m", maps)]).expect("batch");
        assert_eq!(batch_bytes(&batch), 100 * (28 + 28 + 4 + 8 + 8));
        assert_eq!(batch_bytes(&batch.slice(50, 10)), 10 * (28 + 28 + 4 + 8 + 8));
    }
}
