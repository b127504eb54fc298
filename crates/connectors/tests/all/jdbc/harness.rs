//! Tables, rows and their declarations.

use std::sync::Arc;

use anabranch_connectors::JdbcConnector;
use anabranch_dataflow::{ConnectorSpec, SinkSpec, weight_field};
use anabranch_operators::{Connector, Delivery, Former, Sink, TaskContext};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::postgres::{PASSWORD, Postgres, USER};
use crate::suite::context;

/// The declaration of a table.
pub(crate) fn table(server: &Postgres, name: &str, extra: &[(&str, &str)]) -> ConnectorSpec {
    let url = server.url();
    let base = [("url", url.as_str()), ("table-name", name), ("username", USER), ("password", PASSWORD)];
    ConnectorSpec::new("jdbc", &[&base, extra].concat())
}

/// `id BIGINT NOT NULL, name STRING`.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8View, true)]))
}

/// Rows of that schema.
pub(crate) fn rows(ids: impl Iterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.collect();
    let names = StringViewArray::from_iter_values(ids.iter().map(|id| format!("n{id}")));
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(ids)), Arc::new(names)]).unwrap()
}

/// Rows with weights.
pub(crate) fn updates(rows: &[(i64, &str, i64)]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(id, ..)| *id))),
        Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(_, name, _)| *name))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(.., weight)| *weight))),
    ];
    let fields: Vec<_> = schema().fields().iter().cloned().chain([Arc::new(weight_field())]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The writer of a table with the primary key `id`, whose rows have weights.
pub(crate) fn keyed(connector: ConnectorSpec) -> SinkSpec {
    SinkSpec { key: vec![0], updating: true, ..SinkSpec::new("t", connector, schema()) }
}

pub(crate) fn open(spec: &SinkSpec) -> Box<dyn Sink> {
    JdbcConnector.sink(spec, &context(0, 1)).unwrap()
}

/// Why a table cannot be opened.
pub(crate) fn refusal(spec: &SinkSpec) -> String {
    match JdbcConnector.sink(spec, &context(0, 1)) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn exactly(scope: &str, former: Former) -> TaskContext {
    TaskContext { delivery: Delivery::ExactlyOnce { scope: scope.into(), former }, ..context(0, 1) }
}
