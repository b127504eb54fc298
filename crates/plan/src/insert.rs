//! Plans `INSERT INTO`: converts a query's columns to the columns of a table.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{SinkSpec, Updates, sql_name};
use anabranch_functions::map_parts;
use anabranch_model::{Error, Result, nearest};
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, cast};
use datafusion_sql::sqlparser::ast::{Ident, Query, Value};

use crate::catalog::Catalog;
use crate::hints::{TimesToLive, times_to_live};
use crate::lower::{Output, side_tables};
use crate::origin::place_of;
use crate::place::{at, counted, planning_error};
use crate::query::Planner;
use crate::rel::{self, Rel, computed, kept, named};
use crate::sql_function::called_functions;
use crate::statement::Insert;
use crate::table::Table;

/// The unoptimized plan of an INSERT's query, and the times to live of its hints.
pub(crate) struct InsertedRows {
    pub(crate) plan: Rel,
    times_to_live: TimesToLive,
}

impl InsertedRows {
    /// `into`: the written table.
    pub(crate) fn bind(query: Box<Query>, into: &Ident, catalog: &Catalog) -> Result<InsertedRows> {
        let times_to_live = times_to_live(&query).map_err(|error| error.at(at(into.span.start)))?;
        Ok(InsertedRows { plan: Planner::new(catalog).query(query)?, times_to_live })
    }
}

pub(crate) fn plan_insert(insert: Insert, catalog: &Catalog) -> Result<Output> {
    let Insert { table, partition, mut columns, query, deduplicates, .. } = insert;
    let place = at(table.span.start);
    let here = |error: Error| error.at(place.clone());
    catalog.table(&table.value).and_then(|table| table.check_writable()).map_err(here)?;
    let mut rows = InsertedRows::bind(query, &table, catalog)?;
    if !partition.is_empty() {
        (columns, rows.plan) = with_partition(partition, columns, rows.plan, catalog.table(&table.value)?)?;
    }
    Ok(Output { deduplicates, ..plan_rows(&table, &columns, rows, catalog)? })
}

/// Plans the INSERT of rows into these columns of a table. No columns: all.
pub(crate) fn plan_rows(name: &Ident, columns: &[Ident], rows: InsertedRows, catalog: &Catalog) -> Result<Output> {
    let place = at(name.span.start);
    let here = |error: Error| error.at(place.clone());
    let table = catalog.table(&name.value).map_err(here)?;
    table.check_writable().map_err(here)?;
    let targets = targets(columns, table)?;
    let InsertedRows { plan: query, times_to_live } = rows;
    let fields = query.columns().fields();
    if fields.len() != targets.len() {
        let given: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
        let wanted: Vec<&str> = targets.iter().map(|i| table.written.field(*i).name().as_str()).collect();
        return Err(here(Error::user(format!(
            "the query gives {} ({}), but '{}' takes {} ({})",
            counted(given.len(), "column"),
            given.join(", "),
            table.name,
            wanted.len(),
            wanted.join(", ")
        )))
        .remedy(
            "select one column for each column of the table, in its order; or name columns: INSERT INTO t (a, b)",
        ));
    }
    let plan = shape(query, table, &targets).map_err(here)?;
    Ok(Output {
        updates: table.traits.updates,
        deduplicates: true,
        parallelism: table.options.sink_parallelism,
        place: place_of(name.span.start),
        ..plan_output(plan, |_| table.sink(), times_to_live, catalog)?
    })
}

/// Optimizes a query. `sink`: the destination of the optimized plan. The other settings are those of a query
/// whose rows are collected.
pub(crate) fn plan_output(
    bound: Rel,
    sink: impl FnOnce(&Rel) -> SinkSpec,
    times_to_live: TimesToLive,
    catalog: &Catalog,
) -> Result<Output> {
    let functions = called_functions(&bound).map_err(planning_error)?;
    let plan = Planner::new(catalog).optimize(bound.clone())?;
    Ok(Output {
        bound,
        sink: sink(&plan),
        updates: Updates::Written,
        deduplicates: false,
        parallelism: None,
        side_tables: side_tables(&plan, catalog)?,
        functions,
        times_to_live,
        table: catalog.settings.table.clone(),
        place: None,
        plan,
    })
}

/// Adds the constant columns of PARTITION to the columns and the rows.
fn with_partition(
    partition: Vec<(Ident, Value)>,
    mut columns: Vec<Ident>,
    plan: Rel,
    table: &Table,
) -> Result<(Vec<Ident>, Rel)> {
    let keys = table.partition_keys();
    if columns.is_empty() {
        let names = table.written.fields().iter().map(|field| field.name());
        let others = names.filter(|name| partition.iter().all(|(key, _)| key.value != **name));
        columns = others.map(|name| Ident::with_quote('`', name.clone())).collect();
    }
    let mut outputs: Vec<rel::Output> = plan.ids().into_iter().map(kept).collect();
    for (key, value) in partition {
        let here = |error: Error| error.at(at(key.span.start));
        if !keys.contains(&key.value.as_str()) {
            let what = format!("'{}' does not divide table '{}' into partitions", key.value, table.name);
            let remedy = match keys.is_empty() {
                true => "declare the table with PARTITIONED BY, or select the value as a column".to_owned(),
                false => format!("name columns of its PARTITIONED BY: {}", keys.join(", ")),
            };
            return Err(here(Error::user(what).remedy(remedy)));
        }
        let literal = match value {
            Value::SingleQuotedString(text) => ScalarValue::Utf8View(Some(text)),
            Value::Number(text, _) => ScalarValue::Utf8View(Some(text)),
            Value::Boolean(value) => ScalarValue::Boolean(Some(value)),
            other => {
                return Err(here(
                    Error::user(format!("{other} is not a value of a partition"))
                        .remedy("give a text, a number, TRUE or FALSE"),
                ));
            }
        };
        let wanted = table.written.field_with_name(&key.value).map_err(|e| Error::internal(e.to_string()))?.data_type();
        let literal = literal.cast_to(wanted).map_err(|_| {
            here(
                Error::user(format!("{literal} is not of type {}", sql_name(wanted)))
                    .remedy("give a value of the column's type"),
            )
        })?;
        outputs.push(computed(&format!("PARTITION ({})", key.value), Expr::Literal(literal, None)));
        columns.push(key);
    }
    let plan = plan.project(outputs);
    Ok((columns, plan.map_err(planning_error)?))
}

/// For each column of the query, the index of the table's column.
fn targets(columns: &[Ident], table: &Table) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok((0..table.written.fields().len()).collect());
    }
    let fields = table.written.fields().iter().enumerate();
    let places: BTreeMap<&str, usize> = fields.map(|(index, field)| (field.name().as_str(), index)).collect();
    let mut targets = Vec::new();
    let mut named = BTreeSet::new();
    for column in columns {
        let place = at(column.span.start);
        let Some(index) = places.get(column.value.as_str()).copied() else {
            let names: Vec<&str> = table.written.fields().iter().map(|f| f.name().as_str()).collect();
            let near = nearest(&column.value, names.iter().copied());
            let help = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
            return Err(Error::user(format!("table '{}' has no column '{}'", table.name, column.value))
                .at(place)
                .remedy(format!("{help}The columns are: {}", names.join(", "))));
        };
        if !named.insert(index) {
            return Err(Error::user(format!("column '{}' is named twice", column.value)).at(place));
        }
        targets.push(index);
    }
    Ok(targets)
}

/// Projects the query to the table's columns and types.
fn shape(query: Rel, table: &Table, targets: &[usize]) -> Result<Rel> {
    let positions: BTreeMap<usize, usize> =
        targets.iter().enumerate().map(|(position, target)| (*target, position)).collect();
    let mut outputs: Vec<rel::Output> = Vec::new();
    for (index, field) in table.written.fields().iter().enumerate() {
        let Some(position) = positions.get(&index).copied() else {
            if !field.is_nullable() {
                return Err(Error::user(format!("column '{}' of '{}' is NOT NULL", field.name(), table.name))
                    .remedy("give it a value"));
            }
            let null = ScalarValue::try_from(field.data_type()).map_err(planning_error)?;
            outputs.push(computed(field.name(), Expr::Literal(null, None)));
            continue;
        };
        let column = Expr::Column(query.columns().id(position));
        let from = query.columns().field(position).data_type().clone();
        if !is_assignable(&from, field.data_type()) {
            return Err(Error::user(format!(
                "column {} of the query, '{}', is {}, but column '{}' of '{}' is {}",
                position + 1,
                query.columns().field(position).name(),
                sql_name(&from),
                field.name(),
                table.name,
                sql_name(field.data_type())
            ))
            .remedy(format!(
                "order the columns as the table declares them, or convert: CAST({} AS {})",
                query.columns().field(position).name(),
                sql_name(field.data_type())
            )));
        }
        let value = if from == *field.data_type() { column } else { cast(column, field.data_type().clone()) };
        outputs.push(named(field.name(), value));
    }
    query.project(outputs).map_err(planning_error)
}

/// Whether a value converts without CAST: among numbers, times, strings or bytes. CAST is needed from a type
/// with a fraction to whole numbers, from DOUBLE to FLOAT, and from a timestamp to a date. A whole number
/// that does not fit stops the job.
pub(crate) fn is_assignable(from: &DataType, to: &DataType) -> bool {
    let is_bytes = |t: &DataType| matches!(t, DataType::Binary | DataType::BinaryView | DataType::LargeBinary);
    let is_clock = |t: &DataType| matches!(t, DataType::Time32(_) | DataType::Time64(_));
    let nested = |t: &DataType| matches!(t, DataType::List(_) | DataType::Map(..) | DataType::Struct(_));
    from == to
        || from.is_null()
        || is_assignable_number(from, to)
        || (from.is_string() && to.is_string())
        || matches!((from, to), (DataType::Timestamp(..) | DataType::Date32, DataType::Timestamp(..)))
        || (is_bytes(from) && is_bytes(to))
        || (is_clock(from) && is_clock(to))
        || (nested(from) && nested(to) && same_shape(from, to))
}

fn is_assignable_number(from: &DataType, to: &DataType) -> bool {
    let is_decimal = |t: &DataType| matches!(t, DataType::Decimal128(..));
    match to {
        _ if !from.is_numeric() => false,
        DataType::Float64 => true,
        DataType::Float32 => *from != DataType::Float64,
        _ if to.is_integer() => from.is_integer(),
        _ => is_decimal(to),
    }
}

/// Whether nested rows have assignable fields of the same names, because casts convert by position. The
/// fields of `ROW(a, b)` have no names of their own: DataFusion calls them `c0` and `c1`.
fn same_shape(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Struct(from), DataType::Struct(to)) => {
            let is_numbered = |(place, field): (usize, &FieldRef)| *field.name() == format!("c{place}");
            let has_no_names = from.iter().enumerate().all(is_numbered);
            let fits = |(a, b): (&FieldRef, &FieldRef)| {
                (has_no_names || a.name() == b.name()) && is_assignable(a.data_type(), b.data_type())
            };
            from.len() == to.len() && from.iter().zip(to).all(fits)
        }
        (DataType::List(from), DataType::List(to)) => is_assignable(from.data_type(), to.data_type()),
        (DataType::Map(..), DataType::Map(..)) => match map_parts(from).zip(map_parts(to)) {
            Some(((key, value), (to_key, to_value))) => is_assignable(key, to_key) && is_assignable(value, to_value),
            None => false,
        },
        _ => false,
    }
}
