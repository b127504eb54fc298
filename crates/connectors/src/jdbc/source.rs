//! Reads a table once, with the columns that the query needs.
//!
//! One statement reads all rows, in one snapshot of the database, as JSON objects: the database converts values to the types of the declaration, and the
//! decoder of JSON makes columns of them. Rows arrive as they are polled: a slow query holds the database back.
//!
//! The rows of a table have no order, so a reader cannot go on where another one stopped. The static side of a join is read again at
//! every start. A job that has read a part of a table as a stream cannot be resumed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{SourceSpec, sql_name};
use anabranch_model::{Error, Nanos, PartitionId, Result};
use anabranch_operators::{Malformed, Polled, Positions, Rows, Source, TaskContext};
use arrow::array::{Array, ArrayBuilder, AsArray, BinaryArray, BinaryBuilder, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use tokio_postgres::RowStream;

use super::attempts::Attempts;
use super::failure::Failure;
use super::options::JdbcTable;
use super::session::{Bounds, Purpose, Session};
use super::target::{Layout, Target};
use crate::format::json::{JsonDecoder, JsonOptions};
use crate::format::{Decode, Decoded, batch, projected};
use crate::guarantee::START_OVER;
use crate::positions::{END, foreign, number, unreadable};

/// The name of the only partition.
const PARTITION: &str = "table";
/// The connection makes progress only while a poll waits.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// How long the database may take for its next rows. It may have to sort or to wait for locks.
const PATIENCE: Duration = Duration::from_secs(3600);
/// What to do about values that the database cannot convert.
const VALUES: &str = "declare the column as STRING, or change the value in the database";
/// Batches have fewer rows than usual if these take more than this.
const BATCH_BYTES: usize = 8 << 20;

/// Reads a table, if it is the first task.
pub(super) struct JdbcSource {
    reading: Option<Reading>,
    columns: SchemaRef,
    decoder: JsonDecoder,
    /// Whether a query wants no column: only rows are counted then.
    counts_only: bool,
    batch_rows: usize,
    /// Rows that were returned.
    rows: u64,
    /// Since when polls have found no row.
    silent_since: Option<Nanos>,
    is_announced: bool,
    is_closed: bool,
    /// Whether it is the first task.
    is_reader: bool,
    place: String,
    attempts: Attempts,
}

/// Rows on their way.
struct Reading {
    // Before the session: its connection must be there to end it.
    stream: Pin<Box<RowStream>>,
    session: Session,
}

/// Fails if a column has a type that is not read.
pub(super) fn check_column(field: &Field) -> Result<()> {
    select("", field.data_type()).map(drop).ok_or_else(|| {
        let found = sql_name(field.data_type());
        Error::user(format!("a table of connector 'jdbc' cannot be read as {found} in column '{}'", field.name()))
            .remedy("leave the column out, or declare it as STRING")
    })
}

/// A column in the form that the decoder takes for the type.
pub(super) fn select(column: &str, data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Float32 => format!("{column}::real"),
        DataType::Binary => format!("translate(encode({column}::bytea, 'base64'), E'\\n', '')"),
        DataType::Time32(_) | DataType::Time64(_) => format!("{column}::time"),
        DataType::List(item) => format!("{column}::{}[]", type_name(item.data_type())?),
        other => format!("{column}::{}", type_name(other)?),
    })
}

/// The database's type for one of the declaration.
pub(super) fn type_name(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Utf8View => "text",
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => "bigint",
        DataType::Float32 | DataType::Float64 => "float8",
        DataType::Decimal128(..) => "numeric",
        DataType::Date32 => "date",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        _ => return None,
    })
}

impl JdbcSource {
    pub(super) fn open(
        table: &JdbcTable,
        spec: &SourceSpec,
        context: &TaskContext,
        from: Option<&Positions>,
    ) -> Result<JdbcSource> {
        let rows = read_position(from, &spec.table)?;
        let columns = projected(&spec.declared, &spec.projection)?;
        columns.fields().iter().try_for_each(|field| check_column(field))?;
        let is_reader = context.index == 0;
        let mut attempts = Attempts::new(table, context);
        let is_over = rows.is_none();
        let reading = match is_reader && !is_over {
            true => {
                let what = "cannot be read";
                let open = |bounds: &Bounds<'_>| Reading::open(table, &columns, bounds);
                Some(attempts.repeat(table.connecting, what, "connection.max-retry-timeout", open)?)
            }
            false => None,
        };
        Ok(JdbcSource {
            reading,
            decoder: JsonDecoder::new(as_json(&columns), &JsonOptions::default())?,
            counts_only: columns.fields().is_empty(),
            columns,
            batch_rows: context.batch_rows.max(1),
            rows: 0,
            silent_since: None,
            is_announced: !is_reader || is_over,
            is_closed: !is_reader || is_over,
            is_reader,
            place: format!("table {} of {}", table.table, table.url),
            attempts,
        })
    }

    /// Decodes rows.
    fn decode(&mut self, records: &BinaryArray) -> Result<Rows> {
        let partition = PartitionId(0);
        let first = self.rows;
        self.rows += records.len() as u64;
        if self.counts_only {
            let batch = batch(&self.columns, Vec::new(), records.len())?;
            return Ok(Rows { partition, batch, malformed: Vec::new() });
        }
        let Decoded { batch: decoded, malformed } = self.decoder.decode(records)?;
        let (batch, malformed) = typed(&self.columns, &decoded, malformed)?;
        let malformed = malformed.into_iter().map(|(index, error)| Malformed {
            place: format!("{} row {}", self.place, first + index as u64),
            error,
            record: records.value(index).to_vec(),
        });
        Ok(Rows { partition, malformed: malformed.collect(), batch })
    }
}

/// The columns as the decoder takes them: JSON has no times of day.
pub(super) fn as_json(columns: &SchemaRef) -> SchemaRef {
    let of = |field: &Arc<Field>| match field.data_type() {
        DataType::Time32(_) | DataType::Time64(_) => {
            Arc::new(Field::new(field.name(), DataType::Utf8View, field.is_nullable()))
        }
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new(columns.fields().iter().map(of).collect::<Vec<_>>()))
}

/// Rows with times of day, without those whose time is none: PostgreSQL has 24:00:00. `malformed` are the records that were not decoded; returns these
/// and those.
pub(super) fn typed(
    columns: &SchemaRef,
    decoded: &RecordBatch,
    malformed: Vec<(usize, String)>,
) -> Result<(RecordBatch, Vec<(usize, String)>)> {
    let mut bad = BTreeMap::new();
    let mut arrays = Vec::with_capacity(columns.fields().len());
    for (column, field) in decoded.columns().iter().zip(columns.fields()) {
        if column.data_type() == field.data_type() {
            arrays.push(Arc::clone(column));
            continue;
        }
        let array = cast(column, field.data_type())?;
        if array.null_count() > column.null_count() {
            let texts = column.as_string_view();
            for row in (0..texts.len()).filter(|row| array.is_null(*row) && texts.is_valid(*row)) {
                let (name, found) = (field.name(), sql_name(field.data_type()));
                bad.entry(row).or_insert_with(|| format!("column '{name}': \"{}\" is no {found}", texts.value(row)));
            }
        }
        arrays.push(array);
    }
    if bad.is_empty() {
        return Ok((batch(columns, arrays, decoded.num_rows())?, malformed));
    }
    let kept: BooleanArray = (0..decoded.num_rows()).map(|row| Some(!bad.contains_key(&row))).collect();
    let arrays = arrays.iter().map(|array| Ok(filter(array, &kept)?)).collect::<Result<Vec<_>>>()?;
    let batch = batch(columns, arrays, kept.true_count())?;
    // Which record each decoded row is.
    let mut all: BTreeMap<usize, String> = malformed.into_iter().collect();
    let records = (0..decoded.num_rows() + all.len()).filter(|record| !all.contains_key(record));
    let more: Vec<_> = records.enumerate().filter_map(|(row, record)| Some((record, bad.remove(&row)?))).collect();
    all.extend(more);
    Ok((batch, all.into_iter().collect()))
}

/// The number of rows that were read; `None` if all were.
fn read_position(from: Option<&Positions>, table: &str) -> Result<Option<u64>> {
    let Some(from) = from else { return Ok(Some(0)) };
    if let Some(name) = from.keys().find(|name| *name != PARTITION) {
        return Err(foreign(table, name, "it is read as a whole"));
    }
    let Some(text) = from.get(PARTITION) else { return Ok(Some(0)) };
    if text == END {
        return Ok(None);
    }
    match text.strip_prefix("row ").and_then(number::<u64>) {
        None => Err(unreadable(table, PARTITION, text, "'row NUMBER' or 'end'")),
        Some(0) => Ok(Some(0)),
        Some(rows) => Err(Error::user(format!("{rows} rows of the table were read, and its rows have no order"))
            .at(format!("table {table}"))
            .remedy(format!("{START_OVER}; a table that is the static side of a join is read again at every start"))),
    }
}

impl Reading {
    fn open(table: &JdbcTable, columns: &SchemaRef, bounds: &Bounds<'_>) -> Result<Reading, Failure> {
        let session = Session::open(table, Purpose::Read, bounds)?;
        let names: Vec<String> = columns.fields().iter().map(|field| field.name().clone()).collect();
        let layout = Layout { table: table.table.clone(), columns: names, key: Vec::new() };
        let target = Target::open(&session, &layout, bounds)?;
        let select = target.select("", |index, column| {
            let field = columns.field(index);
            select(column, field.data_type()).unwrap_or_else(|| column.to_owned())
        });
        // The answer begins with the first rows.
        let patient = Bounds { deadline: bounds.clock.now().plus(PATIENCE), ..*bounds };
        let stream = session.run(&patient, async {
            let none: [&str; 0] = [];
            Ok(session.client.query_raw(&select, none).await?)
        })?;
        Ok(Reading { stream: Box::pin(stream), session })
    }

    /// Gathers rows for at most this time. Returns whether there may be more.
    fn gather(
        &mut self,
        records: &mut BinaryBuilder,
        rows_max: usize,
        wait: Duration,
        bounds: &Bounds<'_>,
    ) -> Result<bool, Failure> {
        let stream = &mut self.stream;
        self.session.run(bounds, async {
            let gathering = async {
                while records.len() < rows_max && records.values_slice().len() < BATCH_BYTES {
                    match stream.try_next().await? {
                        Some(row) => records.append_value(row.try_get::<_, &str>(0)?),
                        None => return Ok(false),
                    }
                }
                Ok(true)
            };
            tokio::time::timeout(wait.max(LEAST_WAIT), gathering).await.unwrap_or(Ok(true))
        })
    }
}

impl Source for JdbcSource {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if !std::mem::replace(&mut self.is_announced, true) {
            return Ok(Polled::Opened { partition: PartitionId(0), name: PARTITION.to_owned() });
        }
        let Some(reading) = &mut self.reading else {
            return Ok(if std::mem::replace(&mut self.is_closed, true) {
                Polled::End
            } else {
                Polled::Closed(PartitionId(0))
            });
        };
        let mut records = BinaryBuilder::new();
        let clock = self.attempts.clock.as_ref();
        let since = self.silent_since.unwrap_or_else(|| clock.now());
        let bounds = Bounds { deadline: since.plus(PATIENCE), clock, host: self.attempts.host.as_ref() };
        let gathered = reading.gather(&mut records, self.batch_rows, wait, &bounds);
        let is_over = records.is_empty() && matches!(gathered, Ok(true)) && clock.now() >= bounds.deadline;
        let gathered = if is_over { Err(Failure::Passing("it does not answer".to_owned())) } else { gathered };
        let has_more = gathered.map_err(|failure| match failure.of_values(VALUES) {
            Failure::Final(error) => error.at(self.place.clone()),
            Failure::Passing(reason) | Failure::Value(reason) => {
                Error::outside(format!("cannot be read on: {reason}")).at(self.place.clone())
            }
        })?;
        self.silent_since = Some(since).filter(|_| records.is_empty());
        if !has_more {
            self.reading = None;
        }
        let records = records.finish();
        if records.is_empty() { Ok(Polled::Pending) } else { Ok(Polled::Rows(self.decode(&records)?)) }
    }

    fn positions(&self) -> Result<Positions> {
        let position = if self.reading.is_some() { format!("row {}", self.rows) } else { END.to_owned() };
        Ok(if self.is_reader { Positions::from([(PARTITION.to_owned(), position)]) } else { Positions::new() })
    }
}
