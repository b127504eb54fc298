//! The values of each column, as its options define them: `fields.NAME.min`, and for nested values
//! `fields.NAME.FIELD.min`, `fields.NAME.element.min`, `fields.NAME.key.min`, `fields.NAME.value.min`.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result, hash_bytes, parse_duration};
use arrow::datatypes::{DataType, Field, SchemaRef};

use crate::generator::faker::Expression;

/// Flink's defaults of 'length'.
const TEXT_LENGTH: u32 = 100;
const COLLECTION_LENGTH: u32 = 3;
/// Limit of the length of a text or a collection.
const LENGTH_MAX: u32 = 1 << 20;
/// Limit of the memory of a row: nested lengths multiply.
const ROW_BYTES_MAX: u64 = 64 << 20;
/// Least memory of a value, even of an empty text or collection.
const VALUE_BYTES: u64 = 8;
/// Approximate memory of a value of an expression.
const EXPRESSION_BYTES: u64 = 64;

/// A column, or a part of one.
#[derive(Clone, Debug)]
pub(in crate::generator) struct GeneratedColumn {
    /// The seed of its random numbers.
    pub(in crate::generator) key: u64,
    pub(in crate::generator) data_type: DataType,
    pub(in crate::generator) null_rate: f64,
    pub(in crate::generator) content: Generated,
    /// Number of values, if it is a sequence.
    pub(in crate::generator) values_max: Option<u64>,
}

/// The values of a column.
#[derive(Clone, Debug)]
pub(in crate::generator) enum Generated {
    Boolean,
    /// Both bounds are values.
    Integer {
        min: i64,
        max: i64,
    },
    Float {
        min: f64,
        max: f64,
    },
    /// Unscaled values. Both bounds are values.
    Decimal {
        min: i128,
        max: i128,
    },
    /// Hexadecimal digits.
    Text(Length),
    Bytes(Length),
    /// A random time between the time of the row and this much earlier.
    Time {
        past_ms: u64,
    },
    Sequence {
        start: i64,
    },
    List {
        length: u32,
        item: Box<GeneratedColumn>,
    },
    Map {
        length: u32,
        key: Box<GeneratedColumn>,
        value: Box<GeneratedColumn>,
    },
    Row(Vec<GeneratedColumn>),
    /// An expression of `faker`, and its column, for messages.
    Expression {
        expression: Expression,
        path: String,
    },
}

/// The length of texts: always `most`, or from 1 to `most` if it varies.
#[derive(Clone, Copy, Debug)]
pub(in crate::generator) struct Length {
    pub(super) most: u32,
    pub(super) varies: bool,
}

impl GeneratedColumn {
    /// Approximate memory of a value.
    pub(super) fn bytes(&self) -> u64 {
        match &self.content {
            Generated::Text(length) | Generated::Bytes(length) => u64::from(length.most).max(VALUE_BYTES),
            Generated::List { length, item } => {
                u64::from(*length).saturating_mul(item.bytes()).saturating_add(VALUE_BYTES)
            }
            Generated::Map { length, key, value } => {
                let entry = key.bytes().saturating_add(value.bytes());
                u64::from(*length).saturating_mul(entry).saturating_add(VALUE_BYTES)
            }
            Generated::Row(fields) => fields.iter().map(GeneratedColumn::bytes).fold(1, u64::saturating_add),
            Generated::Expression { .. } => EXPRESSION_BYTES,
            _ => VALUE_BYTES,
        }
    }
}

/// The options that no column has taken yet, without the prefix `fields.`.
type UnreadOptions<'a> = BTreeMap<&'a str, &'a str>;

/// The columns of a table.
pub(super) fn columns(declared: &SchemaRef, options: Vec<(&str, &str)>, seed: u64) -> Result<Vec<GeneratedColumn>> {
    let mut left: UnreadOptions<'_> = options.into_iter().collect();
    let column = |field: &std::sync::Arc<Field>| FieldPath { path: field.name(), field, seed }.read(&mut left);
    let columns = declared.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    check_bytes(declared, &columns)?;
    let Some(unknown) = left.keys().next() else { return Ok(columns) };
    let error = Error::user(format!("option 'fields.{unknown}' names no column, or does not fit the column's type"));
    let names: Vec<&str> = declared.fields().iter().map(|field| field.name().as_str()).collect();
    Err(error.remedy(format!(
        "the columns are: {}; numbers have 'min' and 'max', times 'max-past', texts and bytes 'length' and 'var-len', collections \
         'length', all of them 'null-rate'; with 'kind' = 'sequence' there are 'start' and 'end'",
        names.join(", ")
    )))
}

/// Fails if a row would take too much memory.
fn check_bytes(declared: &SchemaRef, columns: &[GeneratedColumn]) -> Result<()> {
    let bytes = columns.iter().map(GeneratedColumn::bytes).fold(0, u64::saturating_add);
    let widest = columns.iter().zip(declared.fields()).max_by_key(|(column, _)| column.bytes());
    let Some((_, field)) = widest.filter(|_| bytes > ROW_BYTES_MAX) else { return Ok(()) };
    let (mb, mb_max) = (bytes.div_ceil(1 << 20), ROW_BYTES_MAX >> 20);
    Err(Error::user(format!(
        "a row would take about {mb} MB, most of it in column '{}'; the most is {mb_max}",
        field.name()
    ))
    .remedy("make a 'length' smaller: those of collections within collections multiply"))
}

/// A column, or a nested part of one, whose options are being read.
struct FieldPath<'a> {
    path: &'a str,
    field: &'a Field,
    seed: u64,
}

impl FieldPath<'_> {
    fn read(&self, left: &mut UnreadOptions<'_>) -> Result<GeneratedColumn> {
        let data_type = self.field.data_type().clone();
        let kinds = [("random", false), ("sequence", true)];
        let kind = self.option(left, "kind", "'random' or 'sequence'", |text| {
            kinds.iter().find(|(word, _)| *word == text).map(|(_, kind)| *kind)
        })?;
        let null_rate = self.option(left, "null-rate", "a number from 0 to 1", |text| {
            text.parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate))
        })?;
        let null_rate = null_rate.unwrap_or(0.0);
        if null_rate > 0.0 && !self.field.is_nullable() {
            return Err(Error::user(format!("'fields.{}.null-rate' is {null_rate}, but it is NOT NULL", self.path))
                .remedy("leave the option out, or declare it without NOT NULL"));
        }
        let (content, values_max) = match kind {
            Some(true) => self.sequence(left).map(|(start, values)| (Generated::Sequence { start }, Some(values)))?,
            _ => (self.random(left)?, None),
        };
        let key = hash_bytes(self.seed, self.path.as_bytes());
        Ok(GeneratedColumn { key, data_type, null_rate, content, values_max })
    }

    fn random(&self, left: &mut UnreadOptions<'_>) -> Result<Generated> {
        Ok(match self.field.data_type() {
            DataType::Boolean => Generated::Boolean,
            DataType::Int8 => self.integer(left, (i8::MIN.into(), i8::MAX.into()))?,
            DataType::Int16 => self.integer(left, (i16::MIN.into(), i16::MAX.into()))?,
            DataType::Int32 => self.integer(left, (i32::MIN.into(), i32::MAX.into()))?,
            DataType::Int64 => self.integer(left, (i64::MIN, i64::MAX))?,
            DataType::Float32 => self.float(left, f64::from(f32::MAX))?,
            DataType::Float64 => self.float(left, f64::MAX)?,
            DataType::Decimal128(precision, scale) => self.decimal(left, *precision, *scale)?,
            DataType::Utf8View | DataType::Utf8 => Generated::Text(self.varying(left)?),
            DataType::Binary => Generated::Bytes(self.varying(left)?),
            DataType::Date32 | DataType::Time32(_) | DataType::Time64(_) => Generated::Time { past_ms: 0 },
            DataType::Timestamp(..) => {
                let parse = |text: &str| parse_duration(text, Some(Duration::from_millis(1)));
                let past = self.option(left, "max-past", "a duration such as '5 s'", parse)?;
                Generated::Time { past_ms: past.map_or(0, |past| u64::try_from(past.as_millis()).unwrap_or(u64::MAX)) }
            }
            DataType::List(item) => {
                let length = self.length(left, COLLECTION_LENGTH)?;
                Generated::List { length, item: Box::new(self.generated_column(left, "element", item)?) }
            }
            DataType::Map(entries, _) => {
                let length = self.length(left, COLLECTION_LENGTH)?;
                let DataType::Struct(parts) = entries.data_type() else { return Err(self.unsupported()) };
                let (key, value) =
                    (self.generated_column(left, "key", &parts[0])?, self.generated_column(left, "value", &parts[1])?);
                Generated::Map { length, key: Box::new(key), value: Box::new(value) }
            }
            DataType::Struct(fields) => {
                let fields = fields.iter().map(|field| self.generated_column(left, field.name(), field));
                Generated::Row(fields.collect::<Result<_>>()?)
            }
            _ => return Err(self.unsupported()),
        })
    }

    fn generated_column(&self, left: &mut UnreadOptions<'_>, name: &str, field: &Field) -> Result<GeneratedColumn> {
        let path = format!("{}.{name}", self.path);
        let part = FieldPath { path: &path, field, seed: self.seed }.read(left)?;
        if part.values_max.is_some() {
            return Err(Error::user(format!("'fields.{path}.kind' is 'sequence', but it is inside of a column"))
                .remedy("use 'random', or give the sequence a column of its own"));
        }
        Ok(part)
    }

    /// The first value, and the number of values.
    fn sequence(&self, left: &mut UnreadOptions<'_>) -> Result<(i64, u64)> {
        let data_type = self.field.data_type();
        let is_text = matches!(data_type, DataType::Utf8View | DataType::Utf8);
        if !data_type.is_numeric() && !is_text {
            let found = sql_name(data_type);
            return Err(Error::user(format!("'fields.{}.kind' is 'sequence', but it is {found}", self.path))
                .remedy("sequences are numbers or texts of numbers"));
        }
        let mut bound = |name: &'static str| {
            let given = self.option(left, name, "a whole number", |text| text.parse::<i64>().ok())?;
            given.ok_or_else(|| {
                Error::user(format!("a sequence needs the option 'fields.{}.{name}'", self.path))
                    .remedy("give 'start' and 'end'; the table ends with the sequence")
            })
        };
        let (start, end) = (bound("start")?, bound("end")?);
        if start > end {
            return Err(Error::user(format!("'fields.{}.start' is {start}, above 'end', {end}", self.path))
                .remedy("sequences ascend: give the smaller number as 'start'"));
        }
        let whole = match data_type {
            DataType::Int8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
            DataType::Int16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
            DataType::Int32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
            _ => i64::MIN..=i64::MAX,
        };
        for (name, bound) in [("start", start), ("end", end)] {
            if !whole.contains(&bound) {
                return Err(self.does_not_fit(name, &bound.to_string()));
            }
        }
        Ok((start, end.abs_diff(start).saturating_add(1)))
    }

    fn integer(&self, left: &mut UnreadOptions<'_>, (least, most): (i64, i64)) -> Result<Generated> {
        let fits = |text: &str| text.parse::<i64>().ok().filter(|value| (least..=most).contains(value));
        let expected = format!("a whole number from {least} to {most}");
        let min = self.option(left, "min", &expected, fits)?.unwrap_or(least);
        let max = self.option(left, "max", &expected, fits)?.unwrap_or(most);
        self.check_order(min <= max)?;
        Ok(Generated::Integer { min, max })
    }

    /// Reads the bounds of a floating-point number. The default minimum is 0. Flink's is the smallest
    /// positive number.
    fn float(&self, left: &mut UnreadOptions<'_>, most: f64) -> Result<Generated> {
        let fits = |text: &str| text.parse::<f64>().ok().filter(|value| value.abs() <= most);
        let min = self.option(left, "min", "a number of its type", fits)?.unwrap_or(0.0);
        let max = self.option(left, "max", "a number of its type", fits)?.unwrap_or(most);
        self.check_order(min <= max)?;
        Ok(Generated::Float { min, max })
    }

    fn decimal(&self, left: &mut UnreadOptions<'_>, precision: u8, scale: i8) -> Result<Generated> {
        let most = 10_i128.pow(u32::from(precision.min(38))) - 1;
        let unscaled = |text: &str| unscaled(text, scale).filter(|value| value.abs() <= most);
        let expected = format!("a number that fits {}", sql_name(self.field.data_type()));
        let min = self.option(left, "min", &expected, unscaled)?.unwrap_or(0);
        let max = self.option(left, "max", &expected, unscaled)?.unwrap_or(most);
        self.check_order(min <= max)?;
        Ok(Generated::Decimal { min, max })
    }

    fn check_order(&self, is_ordered: bool) -> Result<()> {
        if is_ordered {
            return Ok(());
        }
        Err(Error::user(format!("'fields.{0}.min' is above 'fields.{0}.max'", self.path)).remedy("exchange them"))
    }

    fn varying(&self, left: &mut UnreadOptions<'_>) -> Result<Length> {
        let most = self.length(left, TEXT_LENGTH)?;
        let varies = self.option(left, "var-len", "'true' or 'false'", |text| text.parse().ok())?;
        Ok(Length { most, varies: varies.unwrap_or(false) })
    }

    fn length(&self, left: &mut UnreadOptions<'_>, default: u32) -> Result<u32> {
        let expected = format!("a whole number up to {LENGTH_MAX}");
        let fits = |text: &str| text.parse().ok().filter(|length| *length <= LENGTH_MAX);
        Ok(self.option(left, "length", &expected, fits)?.unwrap_or(default))
    }

    fn option<T>(
        &self,
        left: &mut UnreadOptions<'_>,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let name = format!("{}.{name}", self.path);
        let Some(text) = left.remove(name.as_str()) else { return Ok(None) };
        parse(text.trim()).map(Some).ok_or_else(|| {
            Error::user(format!("option 'fields.{name}' is '{text}'")).remedy(format!("give {expected}"))
        })
    }

    fn does_not_fit(&self, name: &str, value: &str) -> Error {
        let data_type = sql_name(self.field.data_type());
        Error::user(format!("'fields.{}.{name}' is {value}, which does not fit {data_type}", self.path))
            .remedy("declare a larger type")
    }

    fn unsupported(&self) -> Error {
        let data_type = sql_name(self.field.data_type());
        Error::user(format!("connector 'datagen' cannot generate {data_type} for '{}'", self.path))
            .remedy("leave the column out")
    }
}

/// `-12.5` at scale 2 is -1250. Digits beyond the scale are refused.
fn unscaled(text: &str, scale: i8) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let missing = usize::try_from(scale).ok()?.checked_sub(fraction.len())?;
    let all = format!("{whole}{fraction}{}", "0".repeat(missing));
    if all.is_empty() || !all.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(sign * all.parse::<i128>().ok()?)
}
