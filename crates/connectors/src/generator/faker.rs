//! `faker`: rows of names, addresses, prices and the like, with the options and the expressions of the
//! well-known connector of this name for Flink.
//!
//! The names of providers and of options are those of the original; its words are not. A value is a function
//! of the seed, the column's name and the row's number, as for `datagen`, which generates the collections and
//! the NULLs. Times are relative to that of the row: the clock when it is due.

mod call;
mod expression;
mod pattern;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits, sql_name};
use anabranch_model::{Error, Result, hash_bytes};
use anabranch_operators::{Connector, Positions, Source, TaskContext};
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, SchemaRef};

use super::between;
use super::datagen::{Cells, Generated, GeneratedColumn, open, random};
use super::load::Load;
use call::Call;
pub(super) use expression::Expression;

/// Limit of the length of a collection.
const LENGTH_MAX: u32 = 10_000;

/// Generates rows by expressions.
#[derive(Clone, Copy, Debug, Default)]
pub struct FakerConnector;

/// The options of a table with these columns.
fn read(spec: &ConnectorSpec, declared: &SchemaRef) -> Result<(Load, Vec<GeneratedColumn>)> {
    let (load, of_fields) = Load::of_fields(spec)?;
    let mut left: UnreadOptions<'_> = of_fields.into_iter().collect();
    let columns = declared.fields().iter().map(|field| column(field, load.seed, &mut left)).collect::<Result<_>>()?;
    let Some(unknown) = left.keys().next() else { return Ok((load, columns)) };
    let names: Vec<&str> = declared.fields().iter().map(|field| field.name().as_str()).collect();
    let what = format!("option 'fields.{unknown}' names no column, or does not fit the column's type");
    Err(Error::user(what).remedy(format!(
        "the columns are: {}; each has an 'expression' and may have a 'null-rate', collections a 'length'; maps have 'key.expression' and \
         'value.expression', rows an expression for each field",
        names.join(", ")
    )))
}

/// The options that no column has taken yet, without the prefix `fields.`.
type UnreadOptions<'a> = BTreeMap<&'a str, &'a str>;

fn column(field: &Field, seed: u64, left: &mut UnreadOptions<'_>) -> Result<GeneratedColumn> {
    let name = field.name();
    let rate = left.remove(format!("{name}.null-rate").as_str());
    let rate = rate.map_or(Some(0.0), |text| text.trim().parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate)));
    let null_rate = rate.ok_or_else(|| wrong(name, "null-rate", "give a number from 0 to 1"))?;
    if null_rate > 0.0 && !field.is_nullable() {
        return Err(wrong(name, "null-rate", "the column is NOT NULL: leave the option out, or declare it without"));
    }
    Ok(GeneratedColumn { null_rate, ..generated_column(name, field, seed, left)? })
}

fn wrong(path: &str, option: &str, remedy: &str) -> Error {
    Error::user(format!("option 'fields.{path}.{option}' does not fit")).remedy(remedy)
}

/// A column, or a nested part of one. The elements of a list have the column's expression.
fn generated_column(path: &str, field: &Field, seed: u64, left: &mut UnreadOptions<'_>) -> Result<GeneratedColumn> {
    let data_type = field.data_type().clone();
    let content = match &data_type {
        DataType::List(item) => {
            let length = length(path, left)?;
            Generated::List { length, item: Box::new(generated_column(path, item, seed, left)?) }
        }
        DataType::Map(entries, _) => {
            let length = length(path, left)?;
            let DataType::Struct(parts) = entries.data_type() else {
                return Err(Error::internal("a map without parts"));
            };
            let mut inner =
                |name: &str, field| generated_column(&format!("{path}.{name}"), field, seed, left).map(Box::new);
            Generated::Map { length, key: inner("key", &parts[0])?, value: inner("value", &parts[1])? }
        }
        DataType::Struct(fields) => {
            let inner =
                fields.iter().map(|field| generated_column(&format!("{path}.{}", field.name()), field, seed, left));
            Generated::Row(inner.collect::<Result<_>>()?)
        }
        DataType::Binary => {
            return Err(Error::user(format!(
                "connector 'faker' cannot generate {} for '{path}'",
                sql_name(&data_type)
            ))
            .remedy("leave the column out, or use the connector 'datagen'"));
        }
        _ => {
            let option = format!("{path}.expression");
            let text = left.remove(option.as_str()).ok_or_else(|| {
                Error::user(format!("column '{path}' has no expression"))
                    .remedy(format!("add 'fields.{option}' = '#{{...}}', for example '#{{Name.fullName}}'"))
            })?;
            let expression = Expression::parse(text).map_err(|error| error.at(format!("option 'fields.{option}'")))?;
            Generated::Expression { expression, path: path.to_owned() }
        }
    };
    let key = hash_bytes(seed, path.as_bytes());
    Ok(GeneratedColumn { key, data_type, null_rate: 0.0, content, values_max: None })
}

fn length(path: &str, left: &mut UnreadOptions<'_>) -> Result<u32> {
    let text = left.remove(format!("{path}.length").as_str()).unwrap_or("1");
    let length = text.trim().parse().ok().filter(|length| (1..=LENGTH_MAX).contains(length));
    length.ok_or_else(|| wrong(path, "length", &format!("give a whole number from 1 to {LENGTH_MAX}")))
}

impl Connector for FakerConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let (load, _) = read(spec, columns)?;
        Ok(TableTraits { schema: None, ..load.traits(columns.clone()) })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let (load, columns) = read(&spec.connector, &spec.declared)?;
        open(&columns, load, spec, context, from)
    }
}

/// The values of an expression in these cells.
pub(super) fn generate(
    expression: &Expression,
    path: &str,
    column: &GeneratedColumn,
    cells: &Cells,
) -> Result<ArrayRef> {
    let key = column.key;
    match (expression.only_call(), &column.data_type) {
        (Some(Call::Integer { min, max }), data_type) if data_type.is_integer() => {
            let values = cells.numbers.iter().map(|number| between(random(key, *number).next_u64(), *min, *max));
            converted(Arc::new(Int64Array::from_iter_values(values)), path, &column.data_type)
        }
        (Some(Call::Time(moment)), DataType::Timestamp(_, zone)) => {
            let cells = cells.numbers.iter().zip(&cells.times_ms);
            let values = cells.map(|(number, time_ms)| moment.at(&mut random(key, *number), *time_ms));
            let values = TimestampMillisecondArray::from_iter_values(values).with_timezone_opt(zone.clone());
            converted(Arc::new(values), path, &column.data_type)
        }
        _ => {
            let texts: ArrayRef = Arc::new(texts(expression, key, cells)?);
            match &column.data_type {
                // As in Java: anything but `true` is false.
                DataType::Boolean => {
                    let texts: &StringArray = arrow::array::AsArray::as_string(&texts);
                    let is_true = texts.iter().map(|text| text.map(|text| text.eq_ignore_ascii_case("true")));
                    Ok(Arc::new(is_true.collect::<BooleanArray>()))
                }
                // A time of day follows a date.
                DataType::Date32 | DataType::Time32(_) | DataType::Time64(_)
                    if matches!(expression.only_call(), Some(Call::Time(_))) =>
                {
                    let times =
                        converted(texts, path, &DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None))?;
                    converted(times, path, &column.data_type)
                }
                data_type => converted(texts, path, data_type),
            }
        }
    }
}

fn texts(expression: &Expression, key: u64, cells: &Cells) -> Result<StringArray> {
    let mut text = String::new();
    let mut ends = Vec::with_capacity(cells.numbers.len() + 1);
    ends.push(0_i32);
    for (number, time_ms) in cells.numbers.iter().zip(&cells.times_ms) {
        expression.write(&mut random(key, *number), *time_ms, &mut text);
        let end = i32::try_from(text.len());
        ends.push(end.map_err(|_| Error::user("a batch takes more than 2 GiB").remedy("lower 'batch-rows'"))?);
    }
    Ok(StringArray::try_new(OffsetBuffer::new(ends.into()), text.into_bytes().into(), None)?)
}

/// The values as the column's type.
fn converted(values: ArrayRef, path: &str, data_type: &DataType) -> Result<ArrayRef> {
    if values.data_type() == data_type {
        return Ok(values);
    }
    let array = cast(&values, data_type)?;
    if array.null_count() == 0 {
        return Ok(array);
    }
    let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
    let value = arrow::util::display::array_value_to_string(&values, row)?;
    Err(Error::user(format!("the expression of column '{path}' gives '{value}', which is no {}", sql_name(data_type)))
        .at(format!("option 'fields.{path}.expression'"))
        .remedy("declare the column as STRING, or change the expression"))
}

#[cfg(test)]
mod tests;
