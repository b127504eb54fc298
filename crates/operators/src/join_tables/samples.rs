//! For the tests of joins: rows, and what operators emit for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{StreamSideSpec, WEIGHT, weight_field};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::operator::Operator;
use crate::{Element, Output};

/// A row: key, text, number.
pub(crate) type Row = (Option<i64>, Option<&'static str>, Option<i64>);

/// Texts of rows.
pub(crate) const TEXTS: [&str; 3] = ["a", "b", "a text that is longer than twelve bytes"];

/// The columns of a row.
pub(crate) fn fields() -> Vec<Field> {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    vec![field("k", DataType::Int64), field("t", DataType::Utf8View), field("n", DataType::Int64)]
}

/// An input of such rows.
pub(crate) fn side(updating: bool) -> StreamSideSpec {
    StreamSideSpec { schema: Arc::new(Schema::new(fields())), updating, expiry: None, time_to_live_ms: None }
}

/// Rows with their weights, which are a column if the input is updating.
pub(crate) fn batch(rows: &[(Row, i64)], updating: bool) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|((key, ..), _)| *key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|((_, text, _), _)| *text).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|((.., number), _)| *number).collect::<Int64Array>()),
    ];
    let mut fields = fields();
    if updating {
        columns.push(Arc::new(rows.iter().map(|(_, weight)| *weight).collect::<Int64Array>()));
        fields.push(weight_field());
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch")
}

/// The output of an operator for a batch of an input, in all of its pieces.
pub(crate) fn pieces(join: &mut dyn Operator, input: usize, rows: RecordBatch) -> Vec<RecordBatch> {
    let mut out = Output::default();
    match input {
        0 => join.batch(rows, &mut out).expect("a batch"),
        _ => join.input_batch(input, rows, &mut out).expect("a batch"),
    }
    let mut all = Vec::new();
    loop {
        all.extend(out.drain().filter_map(|element| match element {
            Element::Batch(batch) => Some(batch),
            Element::Watermark(_) => None,
        }));
        if !join.more(&mut out).expect("more") {
            return all;
        }
    }
}

/// The rows of a batch as text, with their weights.
pub(crate) fn texts(batch: &RecordBatch) -> Vec<(String, i64)> {
    let weights = batch.column_by_name(WEIGHT).map(|weights| weights.as_primitive::<Int64Type>());
    let options = FormatOptions::default().with_null("NULL");
    let shown = batch.columns().iter().take(batch.num_columns() - usize::from(weights.is_some()));
    let shown: Vec<_> = shown.map(|column| ArrayFormatter::try_new(column, &options).expect("format")).collect();
    let text = |row: usize| shown.iter().map(|cell| cell.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(|row| (text(row), weights.map_or(1, |weights| weights.value(row)))).collect()
}

/// Adds up the output of an operator for a batch.
pub(crate) fn add(integral: &mut BTreeMap<String, i64>, join: &mut dyn Operator, input: usize, rows: RecordBatch) {
    for (text, weight) in pieces(join, input, rows).iter().flat_map(texts) {
        *integral.entry(text).or_default() += weight;
    }
    integral.retain(|_, weight| *weight != 0);
}
