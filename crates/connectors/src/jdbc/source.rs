//! Reads a table once, with the columns that the query needs.
//!
//! One statement reads all rows, in one snapshot of the database, as JSON objects: the database converts
//! values to the declared types, and the JSON decoder produces the columns. Rows arrive as they are polled: a
//! slow query slows the database down.
//!
//! With `scan.partition.*`, a statement reads a range of values of a column, and tasks share the ranges.
//! Their snapshots differ. As in Flink, rows outside of all ranges are not read.
//!
//! The rows of a table have no order, so a reader cannot resume where another one stopped. The static side of
//! a join is read again at every start. A job that has read a part of a table as a stream cannot be resumed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{SourceSpec, sql_name};
use anabranch_model::{Error, Nanos, PartitionId, Result};
use anabranch_operators::{Malformed, Polled, Positions, Rows, Source, TaskContext};
use arrow::array::{Array, ArrayBuilder, BinaryArray, BinaryBuilder};
use arrow::datatypes::{DataType, Field, SchemaRef};
use futures::TryStreamExt;
use tokio_postgres::RowStream;

use super::attempts::Attempts;
use super::failure::Failure;
use super::options::{JdbcTable, Ranges};
use super::session::{Bounds, Purpose, Session, in_silence};
use super::target::{Target, TargetTable};
use crate::format::json::{JsonDecoder, JsonOptions};
use crate::format::{Decode, Decoded, batch, projected};
use crate::guarantee::START_OVER;
use crate::ownership::Announcements;
use crate::positions::{END, foreign, number, numbered, unreadable};

/// The name of the only partition if the table is read without ranges.
const PARTITION: &str = "table";
/// The shortest wait of a poll: the connection makes progress only while a poll waits.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// Time limit for the database's next rows. It may have to sort or to wait for locks.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The remedy for values that the database cannot convert.
const VALUES: &str = "declare the column as STRING, or change the value in the database";
/// Batches have fewer rows than usual if these take more than this.
const BATCH_BYTES: usize = 8 << 20;

/// Reads a task's share of a table: parts, one after the other.
pub(super) struct JdbcSource {
    table: JdbcTable,
    parts: Vec<Portion>,
    /// The part of this index is being read.
    current: usize,
    reading: Option<OpenQuery>,
    announcements: Announcements,
    columns: SchemaRef,
    decoder: JsonDecoder,
    /// Whether a query needs no column, only the number of rows.
    counts_only: bool,
    batch_rows: usize,
    /// Since when polls have found no row.
    silent_since: Option<Nanos>,
    place: String,
    attempts: Attempts,
}

/// The scope of one statement: the table, or a range of values.
struct Portion {
    partition: u32,
    name: String,
    range: Option<(i64, i64)>,
    /// Number of rows that were returned.
    rows: u64,
    is_over: bool,
}

/// Rows in transit.
struct OpenQuery {
    // Precedes the session, so it is dropped first: the connection must exist to end it.
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

/// The expression that selects a column in the form that the decoder expects for the type.
fn select(column: &str, data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Float32 => format!("{column}::real"),
        DataType::Binary => format!("translate(encode({column}::bytea, 'base64'), E'\\n', '')"),
        DataType::Time32(_) | DataType::Time64(_) => format!("{column}::time"),
        DataType::List(item) => format!("{column}::{}[]", type_name(item.data_type())?),
        other => format!("{column}::{}", type_name(other)?),
    })
}

/// The database's type for a declared type.
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

/// Connects, and looks up the table with these columns.
pub(super) fn open_to_read(
    table: &JdbcTable,
    columns: &SchemaRef,
    bounds: &Bounds<'_>,
) -> Result<(Session, Target), Failure> {
    let session = Session::open(table, Purpose::Read, None, bounds)?;
    let names = columns.fields().iter().map(|field| field.name().clone()).collect();
    let layout = TargetTable { table: table.table.clone(), columns: names, key: Vec::new() };
    let target = Target::open(&session, &layout, bounds)?;
    Ok((session, target))
}

/// The statement that reads these columns of the rows that satisfy a condition.
pub(super) fn select_rows(target: &Target, columns: &SchemaRef, condition: &str) -> String {
    target.select(condition, |index, column| {
        select(column, columns.field(index).data_type()).unwrap_or_else(|| column.to_owned())
    })
}

impl JdbcSource {
    pub(super) fn open(
        table: &JdbcTable,
        spec: &SourceSpec,
        context: &TaskContext,
        from: Option<&Positions>,
    ) -> Result<JdbcSource> {
        let columns = projected(&spec.declared, &spec.projection)?;
        columns.fields().iter().try_for_each(|field| check_column(field))?;
        let ranges = table.ranges.as_ref().map_or(&[][..], |ranges| &ranges.bounds);
        let count = ranges.len() as u32;
        let names: Vec<String> = match count {
            0 => vec![PARTITION.to_owned()],
            _ => (0..count).map(|partition| numbered(partition, count)).collect(),
        };
        if let Some(name) = from.into_iter().flatten().map(|(name, _)| name).find(|name| !names.contains(name)) {
            let how =
                if count == 0 { "it is read as a whole".to_owned() } else { format!("it is read in {count} parts") };
            return Err(foreign(&spec.table, name, &how));
        }
        let mut parts = Vec::new();
        let mut announcements = Announcements::default();
        for (partition, name) in (0..).zip(names) {
            let is_over = has_ended(from, &name, &spec.table)?;
            if partition % context.parallelism.max(1) != context.index {
                continue;
            }
            if !is_over {
                announcements.open(partition, name.clone());
            }
            parts.push(Portion { partition, name, range: ranges.get(partition as usize).copied(), rows: 0, is_over });
        }
        let mut source = JdbcSource {
            table: table.clone(),
            parts,
            current: 0,
            reading: None,
            announcements,
            decoder: JsonDecoder::new(Arc::clone(&columns), &JsonOptions::default())?,
            counts_only: columns.fields().is_empty(),
            columns,
            batch_rows: context.batch_rows.max(1),
            silent_since: None,
            place: format!("table {} of {}", table.table, table.url),
            attempts: Attempts::new(table, context),
        };
        source.begin_next()?;
        Ok(source)
    }

    /// Begins to read the next part, if there is one.
    fn begin_next(&mut self) -> Result<()> {
        let Some(next) = self.parts.iter().position(|part| !part.is_over) else { return Ok(()) };
        self.current = next;
        let (table, columns, range) = (&self.table, &self.columns, self.parts[next].range);
        let open = |bounds: &Bounds<'_>| OpenQuery::open(table, columns, range, bounds);
        let reading = self.attempts.repeat(table.connecting, "cannot be read", "connection.max-retry-timeout", open)?;
        self.reading = Some(reading);
        Ok(())
    }

    fn decode(&mut self, records: &BinaryArray) -> Result<Rows> {
        let part = &mut self.parts[self.current];
        let (partition, first) = (PartitionId(part.partition), part.rows);
        part.rows += records.len() as u64;
        if self.counts_only {
            let batch = batch(&self.columns, Vec::new(), records.len())?;
            return Ok(Rows { partition, batch, malformed: Vec::new() });
        }
        let Decoded { batch, malformed } = self.decoder.decode(records)?;
        let malformed = malformed.into_iter().map(|(index, error)| Malformed {
            place: format!("{} row {}", self.place, first + index as u64),
            error,
            record: records.value(index).to_vec(),
        });
        Ok(Rows { partition, malformed: malformed.collect(), batch })
    }
}

/// Whether a part was read to its end. A partially read table cannot be resumed.
fn has_ended(from: Option<&Positions>, name: &str, table: &str) -> Result<bool> {
    let Some(text) = from.and_then(|from| from.get(name)) else { return Ok(false) };
    if text == END {
        return Ok(true);
    }
    match text.strip_prefix("row ").and_then(number::<u64>) {
        None => Err(unreadable(table, name, text, "'row NUMBER' or 'end'")),
        Some(0) => Ok(false),
        Some(rows) => Err(Error::user(format!("{rows} rows of the table were read, and its rows have no order"))
            .at(format!("table {table}"))
            .remedy(format!("{START_OVER}; a table that is the static side of a join is read again at every start"))),
    }
}

impl OpenQuery {
    fn open(
        table: &JdbcTable,
        columns: &SchemaRef,
        range: Option<(i64, i64)>,
        bounds: &Bounds<'_>,
    ) -> Result<OpenQuery, Failure> {
        let (session, target) = open_to_read(table, columns, bounds)?;
        let condition = match (&table.ranges, range) {
            (Some(Ranges { column, .. }), Some((least, most))) => {
                let layout = TargetTable { table: table.table.clone(), columns: vec![column.clone()], key: Vec::new() };
                let column = Target::open(&session, &layout, bounds)?.column(0);
                format!("WHERE {column} BETWEEN {least} AND {most}")
            }
            _ => String::new(),
        };
        let select = select_rows(&target, columns, &condition);
        // The answer begins with the first rows.
        let patient = Bounds { deadline: bounds.clock.now().plus(PATIENCE), waits: &in_silence, ..*bounds };
        let stream = session.run(&patient, async {
            let none: [&str; 0] = [];
            Ok(session.client.query_raw(&select, none).await?)
        })?;
        Ok(OpenQuery { stream: Box::pin(stream), session })
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
        if let Some(owed) = self.announcements.next() {
            return Ok(owed);
        }
        let Some(reading) = &mut self.reading else { return Ok(Polled::End) };
        let mut records = BinaryBuilder::new();
        let clock = self.attempts.clock.as_ref();
        let since = self.silent_since.unwrap_or_else(|| clock.now());
        let host = self.attempts.host.as_ref();
        let bounds = Bounds { deadline: since.plus(PATIENCE), clock, host, waits: &in_silence };
        let gathered = reading.gather(&mut records, self.batch_rows, wait, &bounds);
        let is_over = records.is_empty() && matches!(gathered, Ok(true)) && clock.now() >= bounds.deadline;
        let gathered = if is_over { Err(Failure::Passing("it does not answer".to_owned())) } else { gathered };
        let has_more = gathered.map_err(|failure| match failure.of_values(VALUES) {
            Failure::Final(error) => error.at(self.place.clone()),
            Failure::Passing(reason) | Failure::Value(reason) => {
                Error::outside(format!("cannot be read any further: {reason}")).at(self.place.clone())
            }
        })?;
        self.silent_since = Some(since).filter(|_| records.is_empty());
        let records = records.finish();
        let rows = if records.is_empty() { Polled::Pending } else { Polled::Rows(self.decode(&records)?) };
        if !has_more {
            let part = &mut self.parts[self.current];
            part.is_over = true;
            self.announcements.close(part.partition);
            (self.reading, self.silent_since) = (None, None);
            self.begin_next()?;
        }
        Ok(rows)
    }

    fn positions(&self) -> Result<Positions> {
        let position = |part: &Portion| if part.is_over { END.to_owned() } else { format!("row {}", part.rows) };
        Ok(self.parts.iter().map(|part| (part.name.clone(), position(part))).collect())
    }
}
