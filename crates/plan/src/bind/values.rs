//! Binds `VALUES`. The values of a column get one type, as in Flink. DataFusion would convert numbers to
//! text.

use anabranch_dataflow::{DECIMAL_DIGITS_MAX, as_decimal, fraction_digits, sql_name};
use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, cast};
use datafusion_sql::sqlparser::ast::{Spanned, Values};
use datafusion_sql::sqlparser::tokenizer::Location;

use super::{Binder, Env, Names};
use crate::place::{at, through};
use crate::rel::Rel;

impl Binder<'_> {
    pub(super) fn values(&self, values: Values, env: &Env<'_>) -> Result<Rel> {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        // VALUES of a subquery can read outer columns.
        let scope = env.scope(Vec::new());
        let names = Names::new(&scope);
        let mut places: Vec<Vec<Location>> = Vec::with_capacity(values.rows.len());
        let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(values.rows.len());
        for (number, row) in values.rows.into_iter().enumerate() {
            let cells = row.content;
            if cells.len() != width {
                let (number, given) = (number + 1, cells.len());
                let error =
                    Error::user(format!("row {number} of VALUES has {given} values, but the first has {width}"));
                let error = error.remedy("give each row a value for each column, or NULL");
                let place = cells.first().map(|cell| at(cell.span().start));
                return Err(through(place.into_iter().fold(error, Error::at)));
            }
            places.push(cells.iter().map(|cell| cell.span().start).collect());
            let cell = |cell| self.plain(cell, &names, env, "VALUES");
            rows.push(cells.into_iter().map(cell).collect::<Result<_>>()?);
        }
        for column in 0..width {
            unify(column, &mut rows, &places)?;
        }
        Rel::values(rows)
    }
}

/// Converts the values of a column to one type.
fn unify(column: usize, rows: &mut [Vec<Expr>], places: &[Vec<Location>]) -> Result<()> {
    let none = DFSchema::empty();
    // A later step reports a value without a type.
    let types = rows.iter().map(|row| row[column].get_type(&none)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(()) };
    let exact = types.iter().any(DataType::is_decimal);
    let mut common = DataType::Null;
    for ((row, data_type), place) in rows.iter().zip(&types).zip(places) {
        let data_type = if exact { digits_of(&row[column], data_type) } else { data_type.clone() };
        common = common_type(&common, &data_type).ok_or_else(|| {
            let (first, second) = (sql_name(&common), sql_name(&data_type));
            let what = format!("column {} of VALUES has values of the types {first} and {second}", column + 1);
            through(Error::user(what).at(at(place[column])).remedy("convert them to one type with CAST"))
        })?;
    }
    if !is_made(&common) {
        return Ok(());
    }
    for (row, data_type) in rows.iter_mut().zip(types) {
        if data_type != common && !data_type.is_null() {
            row[column] = cast(std::mem::take(&mut row[column]), common.clone());
        }
    }
    Ok(())
}

/// Beside DECIMAL, a small whole number has the digits of an INT.
fn digits_of(expr: &Expr, data_type: &DataType) -> DataType {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) if i32::try_from(*number).is_ok() => DataType::Int32,
        _ => data_type.clone(),
    }
}

/// The type that holds the values of both types.
fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        _ if a == b => Some(a.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        _ if a.is_string() && b.is_string() => Some(DataType::Utf8View),
        _ if a.is_integer() && b.is_integer() => Some(if width(a) < width(b) { b.clone() } else { a.clone() }),
        _ if !(a.is_numeric() && b.is_numeric()) => match (a, b) {
            (DataType::Timestamp(a, zone), DataType::Timestamp(b, other)) if zone == other => {
                Some(DataType::Timestamp(if fraction_digits(a) < fraction_digits(b) { *b } else { *a }, zone.clone()))
            }
            _ => None,
        },
        _ if a.is_floating() || b.is_floating() => Some(DataType::Float64),
        _ => {
            let (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) = (as_decimal(a)?, as_decimal(b)?) else {
                return None;
            };
            let scale = s.max(t);
            let whole = (i16::from(p) - i16::from(s)).max(i16::from(q) - i16::from(t));
            let precision = u8::try_from(whole + i16::from(scale)).unwrap_or(DECIMAL_DIGITS_MAX);
            Some(DataType::Decimal128(precision.min(DECIMAL_DIGITS_MAX), scale))
        }
    }
}

fn width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or_default()
}

/// Whether [`common_type`] can return this type for two different types. If not, all values have this type
/// already.
fn is_made(data_type: &DataType) -> bool {
    use DataType::{Decimal128, Float64, Int16, Int32, Int64, Timestamp, Utf8View};
    matches!(data_type, Int16 | Int32 | Int64 | Float64 | Decimal128(..) | Utf8View | Timestamp(..))
}
