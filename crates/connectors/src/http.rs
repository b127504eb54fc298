//! Lookup of rows by key in services that answer HTTP requests with JSON. Flink has no such connector.
//!
//! With `{column}` in the `url`, each key is a `GET` request of its own, several at a time. The answer is an
//! object or an array of objects; 404 means that there is no row. Without `{column}`, a `POST` request sends
//! many keys as a JSON array of objects. The answer is an array of rows, which contain the keys.

mod caller;
mod elements;
mod options;
mod template;

use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, LookupCache, LookupJoinSpec, Lookups, TableTraits, sql_name};
use anabranch_model::{Error, Result};
use anabranch_operators::{Connector, Lookup, LookupContext};
use arrow::datatypes::{DataType, SchemaRef};

use self::caller::HttpCaller;
use self::options::HttpTable;
use crate::format::json::{JsonDecoder, JsonOptions};
use crate::format::source_schema;
use crate::lookup::{ByKey, Caller, Calling};

/// Looks up rows in services over HTTP.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpConnector;

impl Connector for HttpConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let table = HttpTable::read(spec)?;
        JsonDecoder::new(Arc::clone(columns), &JsonOptions::default())?;
        for name in table.url.columns() {
            let Ok(field) = columns.field_with_name(name) else {
                let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(Error::user(format!("option 'url' names '{name}', which is no column"))
                    .remedy(format!("the columns are: {}", names.join(", "))));
            };
            check_key(field.name(), field.data_type())?;
        }
        Ok(TableTraits { bounded: true, lookups: Lookups::ByKey, ..TableTraits::default() })
    }

    fn lookup(&self, spec: &LookupJoinSpec, context: &LookupContext) -> Result<Box<dyn Lookup>> {
        let table = HttpTable::read(&spec.table.connector)?;
        let columns = source_schema(&spec.table)?;
        let key_fields = || spec.keys.iter().map(|key| columns.field(key.column));
        key_fields().try_for_each(|field| check_key(field.name(), field.data_type()))?;
        let missing = table.url.columns().find(|name| key_fields().all(|field| field.name() != name));
        if let Some(missing) = missing {
            return Err(Error::user(format!(
                "the condition of the join does not compare '{missing}', which the url needs"
            ))
            .remedy(format!("add an equality with '{missing}' to ON")));
        }
        if matches!(spec.cache, LookupCache::Full { .. }) {
            return Err(Error::user("a service is asked by key and cannot be read as a whole")
                .remedy("use 'lookup.cache' = 'PARTIAL' or 'NONE'"));
        }
        let calling = calling(table, spec, context, &columns);
        Ok(Box::new(ByKey::open(spec, context, calling)?))
    }
}

fn calling(table: HttpTable, spec: &LookupJoinSpec, context: &LookupContext, columns: &SchemaRef) -> Calling {
    let (threads, keys_max) = match table.url.columns().next().is_some() {
        // Each thread sends many requests concurrently. A second thread starts while the first waits for its
        // last answer.
        true => (table.concurrency.min(2), table.concurrency * 8),
        false => (table.concurrency, table.keys_max),
    };
    let system = format!("the service at {}", table.url);
    let (columns, task, on_malformed) = (Arc::clone(columns), context.task.clone(), spec.table.on_malformed.clone());
    let keys: Vec<usize> = spec.keys.iter().map(|key| key.column).collect();
    let open = move || {
        let (table, task, on_malformed) = (table.clone(), task.clone(), on_malformed.clone());
        let caller = HttpCaller::new(table, task, on_malformed, &columns, keys.clone(), threads)?;
        Ok(Box::new(caller) as Box<dyn Caller>)
    };
    Calling { system, threads, keys_max, open: Box::new(open) }
}

fn check_key(name: &str, data_type: &DataType) -> Result<()> {
    let is_plain = data_type.is_integer()
        || data_type.is_string()
        || matches!(data_type, DataType::Boolean | DataType::Date32 | DataType::Decimal128(..));
    match is_plain {
        true => Ok(()),
        false => {
            Err(Error::user(format!("column '{name}' is {}, which cannot be a key of a request", sql_name(data_type)))
                .remedy("ask by a column of text, a number, a DATE or a BOOLEAN"))
        }
    }
}
