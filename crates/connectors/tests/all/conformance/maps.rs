//! Maps in files.

use std::fs;
use std::sync::Arc;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_operators::Connector;
use arrow::array::{ArrayRef, Int32Builder, Int64Array, Int64Builder, MapBuilder, RecordBatch, StringBuilder};
use arrow::array::{MapFieldNames, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use crate::suite::{context, drain, row_texts, sink_spec, write};

fn map(key: DataType, value: DataType) -> DataType {
    let entry = vec![Field::new("key", key, false), Field::new("value", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
}

fn columns(types: &[DataType]) -> SchemaRef {
    let id = Field::new("id", DataType::Int64, false);
    let maps =
        types.iter().enumerate().map(|(index, data_type)| Field::new(format!("m{index}"), data_type.clone(), true));
    Arc::new(Schema::new(std::iter::once(id).chain(maps).collect::<Vec<_>>()))
}

/// Maps of texts to numbers and of numbers to texts, with Arrow's names of the parts; NULL and an empty map
/// among them.
fn maps() -> [ArrayRef; 2] {
    let names = || None::<MapFieldNames>;
    let mut counts = MapBuilder::new(names(), StringBuilder::new(), Int64Builder::new());
    let mut texts = MapBuilder::new(names(), Int32Builder::new(), StringViewBuilder::new());
    for row in 0..10 {
        for entry in 0..row % 4 {
            counts.keys().append_value(format!("a key of some length {entry}"));
            counts.values().append_option((entry != 1).then_some(row * 10 + entry));
            texts.keys().append_value(entry as i32);
            texts.values().append_option((entry != 1).then(|| format!("value {row}")));
        }
        counts.append(row != 4).unwrap();
        texts.append(row != 5).unwrap();
    }
    [Arc::new(counts.finish()), Arc::new(texts.finish())]
}

fn rows(types: &[DataType]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    let maps = maps().into_iter().zip(types).map(|(column, data_type)| cast(&column, data_type).unwrap());
    RecordBatch::try_new(columns(types), std::iter::once(ids).chain(maps).collect()).unwrap()
}

fn table(folder: &TempDir, format: &str) -> ConnectorSpec {
    ConnectorSpec::new("filesystem", &[("path", folder.path().to_str().unwrap()), ("format", format)])
}

fn check_read(folder: &TempDir, format: &str, batch: &RecordBatch) {
    let all: Vec<_> = (0..batch.num_columns()).collect();
    let drained = drain(&FilesystemConnector, &table(folder, format), &batch.schema(), &all, 2);
    assert_eq!(drained.malformed, []);
    let mut expected = row_texts(batch);
    expected.sort();
    assert_eq!(drained.sorted(), expected, "{format}");
}

#[test]
fn maps_that_are_written_can_be_read() {
    let types = [map(DataType::Utf8View, DataType::Int64), map(DataType::Int32, DataType::Utf8View)];
    for (format, types) in [("parquet", &types[..]), ("json", &types[..1])] {
        let folder = TempDir::new().unwrap();
        let batch = rows(types);
        write(&FilesystemConnector, &table(&folder, format), std::slice::from_ref(&batch), 1);
        check_read(&folder, format, &batch);
    }
}

/// Other programs name the parts otherwise.
#[test]
fn maps_of_other_programs_are_read() {
    let folder = TempDir::new().unwrap();
    let [counts, texts] = maps();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    let batch = RecordBatch::try_from_iter([("id", ids), ("m0", counts), ("m1", texts)]).unwrap();
    let file = fs::File::create(folder.path().join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let types = [map(DataType::Utf8View, DataType::Int64), map(DataType::Int32, DataType::Utf8View)];
    check_read(&folder, "parquet", &rows(&types));
}

#[test]
fn formats_without_maps_name_the_column() {
    let folder = TempDir::new().unwrap();
    let check = |format: &str, data_type: DataType, expected: &str| {
        let sink = sink_spec(&table(&folder, format), &columns(&[data_type]));
        let error = FilesystemConnector.sink(&sink, &context(0, 1)).err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains("m0"), "{error}");
    };
    check("csv", map(DataType::Utf8View, DataType::Int64), "format 'csv' cannot hold MAP<STRING, BIGINT>");
    check("json", map(DataType::Int64, DataType::Int64), "the JSON format has no MAP<BIGINT, BIGINT>");
}
