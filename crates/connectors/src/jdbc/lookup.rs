//! Looks up the rows of many keys by one statement, whose parameters are arrays of keys as text. Rows have
//! the same form as when the table is read.

use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{LookupJoinSpec, OnMalformed, SourceSpec, sql_name};
use anabranch_model::{Error, Result};
use anabranch_operators::{LookupContext, TaskContext};
use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use tokio_postgres::Statement;
use tokio_postgres::types::{ToSql, Type};

use super::failure::Failure;
use super::options::JdbcTable;
use super::session::{Bounds, Session, in_silence};
use super::source::{check_column, open_to_read, select_rows, type_name};
use crate::format::json::{JsonDecoder, JsonOptions};
use crate::format::{Decode, Decoded, batch, printable, source_schema};
use crate::lookup::{Caller, Calling, Failed};

/// Number of connections of a task.
const CALLS: usize = 4;
/// Limit of the keys of a statement.
const KEYS: usize = 10_000;
/// Time limit for an answer of the database.
const PATIENCE: Duration = Duration::from_secs(30);
/// The remedy for values that the database refuses.
const VALUES: &str = "compare a column of the same type in ON, or filter such rows out before";

/// How a table is looked up.
pub(super) fn calling(table: JdbcTable, spec: &LookupJoinSpec, context: &LookupContext) -> Result<Calling> {
    let columns = source_schema(&spec.table)?;
    columns.fields().iter().try_for_each(|field| check_column(field))?;
    let keys: Vec<usize> = spec.keys.iter().map(|key| key.column).collect();
    for field in keys.iter().map(|key| columns.field(*key)) {
        if type_name(field.data_type()).is_none() {
            let found = sql_name(field.data_type());
            return Err(Error::user(format!(
                "the database cannot be asked by column '{}', which is {found}",
                field.name()
            ))
            .remedy("compare another column in ON, or use 'lookup.cache' = 'FULL'"));
        }
    }
    let (system, spec, task) = (format!("the database at {}", table.url), spec.table.clone(), context.task.clone());
    let open = move || {
        let decoder = JsonDecoder::new(Arc::clone(&columns), &JsonOptions::default())?;
        let (table, spec, task, keys) = (table.clone(), spec.clone(), task.clone(), keys.clone());
        let columns = Arc::clone(&columns);
        Ok(Box::new(JdbcCaller { table, spec, task, columns, keys, decoder, connected: None }) as Box<dyn Caller>)
    };
    Ok(Calling { system, threads: CALLS, keys_max: KEYS, open: Box::new(open) })
}

/// Makes the calls of one thread.
struct JdbcCaller {
    table: JdbcTable,
    spec: SourceSpec,
    task: TaskContext,
    columns: SchemaRef,
    /// The columns of the lookup key.
    keys: Vec<usize>,
    decoder: JsonDecoder,
    connected: Option<(Session, Statement)>,
}

impl Caller for JdbcCaller {
    fn call(&mut self, keys: &RecordBatch) -> Result<RecordBatch, Failed> {
        let failed = |failure: Failure, url| match failure.of_values(VALUES) {
            Failure::Final(error) => Failed::Final(error.at(format!("the database at {url}"))),
            Failure::Passing(reason) | Failure::Value(reason) => Failed::Passing(reason),
        };
        let texts = texts(keys)?;
        let records = self.records(&texts).map_err(|failure| {
            // The state of the connection is unknown.
            self.connected = None;
            failed(failure, &self.table.url)
        })?;
        Ok(self.decode(&records)?)
    }
}

impl JdbcCaller {
    /// The rows with these keys as JSON objects.
    fn records(&mut self, keys: &[Vec<Option<String>>]) -> Result<BinaryArray, Failure> {
        let (clock, host) = (self.task.clock.as_ref(), self.task.host.as_ref());
        let bounds = Bounds { deadline: clock.now().plus(PATIENCE), clock, host, waits: &in_silence };
        let (session, statement) = match &mut self.connected {
            Some(connected) => connected,
            none => none.insert(connect(&self.table, &self.columns, &self.keys, &bounds)?),
        };
        let parameters: Vec<&(dyn ToSql + Sync)> = keys.iter().map(|key| key as &(dyn ToSql + Sync)).collect();
        session.run(&bounds, async {
            let rows = session.client.query(statement, &parameters).await?;
            let texts = rows.iter().map(|row| row.try_get::<_, &str>(0)).collect::<Result<Vec<_>, _>>()?;
            Ok(texts.iter().map(|text| Some(text.as_bytes())).collect())
        })
    }

    fn decode(&mut self, records: &BinaryArray) -> Result<RecordBatch> {
        if self.columns.fields().is_empty() {
            return batch(&self.columns, Vec::new(), records.len());
        }
        let Decoded { batch, malformed } = self.decoder.decode(records)?;
        match malformed.into_iter().next() {
            Some((index, error)) if self.spec.on_malformed == OnMalformed::Fail => {
                let record = printable(&String::from_utf8_lossy(records.value(index)));
                let place = format!("a row of table {} of {}: {record}", self.table.table, self.table.url);
                Err(Error::user(error).at(place))
            }
            _ => Ok(batch),
        }
    }
}

/// The keys as the parameters of a statement. Omits keys that equal nothing in the database: NULL, and texts
/// with a zero byte.
fn texts(keys: &RecordBatch) -> Result<Vec<Vec<Option<String>>>> {
    let columns = keys.columns().iter().map(|column| Ok(cast(column, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
    let columns: Vec<&StringArray> = columns.iter().map(|column| column.as_string::<i32>()).collect();
    let is_text =
        |row: &usize| columns.iter().all(|column| column.is_valid(*row) && !column.value(*row).contains('\0'));
    let rows: Vec<usize> = (0..keys.num_rows()).filter(is_text).collect();
    Ok(columns.iter().map(|column| rows.iter().map(|row| Some(column.value(*row).to_owned())).collect()).collect())
}

/// A connection, and the statement of the lookup.
fn connect(
    table: &JdbcTable,
    columns: &SchemaRef,
    keys: &[usize],
    bounds: &Bounds<'_>,
) -> Result<(Session, Statement), Failure> {
    let (session, target) = open_to_read(table, columns, bounds)?;
    let mut arrays = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let declared = match columns.field(*key).data_type() {
            DataType::Float32 => "real".to_owned(),
            other => type_name(other).unwrap_or("text").to_owned(),
        };
        // If the database's column is not text, a text key is converted to the column's type, so that an
        // index can be used.
        let data_type = match target.type_of(*key, &session, bounds)? {
            (known, false) if declared == "text" => known,
            _ => declared,
        };
        arrays.push(format!("${}::text[]::{data_type}[]", number + 1));
    }
    let columns_of_keys: Vec<String> = keys.iter().map(|key| target.column(*key)).collect();
    let condition = match arrays.as_slice() {
        [array] => format!("WHERE {} = ANY({array})", columns_of_keys.join("")),
        arrays => {
            format!("WHERE ({}) IN (SELECT * FROM unnest({}))", columns_of_keys.join(", "), arrays.join(", "))
        }
    };
    let select = select_rows(&target, columns, &condition);
    let types = vec![Type::TEXT_ARRAY; keys.len()];
    let statement = session.run(bounds, async { Ok(session.client.prepare_typed(&select, &types).await?) })?;
    Ok((session, statement))
}
