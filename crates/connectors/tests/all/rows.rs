//! Rows that the tests write and read.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// Columns of the usual types.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8View, true),
        Field::new("price", DataType::Float64, true),
        Field::new("open", DataType::Boolean, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

/// Rows `first..first + count`: numbers, texts short and long with quotes and letters, NULLs here and there.
pub(crate) fn batch(first: i64, count: i64) -> RecordBatch {
    let ids = first..first + count;
    let name = |id: i64| match id % 5 {
        0 => None,
        1 => Some(String::new()),
        2 => Some(format!("name {id}")),
        3 => Some(format!("a longer name with a comma, a \"quote\" and an ü: {id}")),
        _ => Some("NULL".to_owned()),
    };
    let some = |id: i64, every: i64| id % every != 0;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(ids.clone().map(name).collect::<StringViewArray>()),
        Arc::new(ids.clone().map(|id| some(id, 7).then_some(id as f64 / 8.0)).collect::<Float64Array>()),
        Arc::new(ids.clone().map(|id| some(id, 4).then_some(id % 3 == 0)).collect::<BooleanArray>()),
        Arc::new(
            ids.map(|id| some(id, 9).then_some(1_700_000_000_000 + 977 * id)).collect::<TimestampMillisecondArray>(),
        ),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Several batches of different sizes.
pub(crate) fn batches() -> Vec<RecordBatch> {
    vec![batch(0, 10), batch(10, 1), batch(11, 300), batch(311, 64), batch(375, 2)]
}
