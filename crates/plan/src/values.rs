//! `VALUES`: the types of its columns. The values of a column are made to have one type, as Flink does, where the library
//! would make text of a number.

use std::ops::ControlFlow;

use anabranch_dataflow::{DECIMAL_DIGITS_MAX, as_decimal, fraction_digits, sql_name};
use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{self, Query, SetExpr, Spanned, VisitorMut};

use crate::place::at;
use crate::walk::change_syntax;

/// Gives the values of each column of every `VALUES` one type. `typed` plans a value and tells its type, if it has one.
pub(crate) fn unify(query: &mut Query, typed: &dyn Fn(&ast::Expr) -> Option<(Expr, DataType)>) -> Result<()> {
    match change_syntax(query, &mut Unifying { typed }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Unifying<'a> {
    typed: &'a dyn Fn(&ast::Expr) -> Option<(Expr, DataType)>,
}

impl VisitorMut for Unifying<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match self.body(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Unifying<'_> {
    fn body(&self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left)?;
                self.body(right)
            }
            SetExpr::Values(values) => {
                let mut rows: Vec<&mut Vec<ast::Expr>> = values.rows.iter_mut().map(|row| &mut row.content).collect();
                let width = rows.first().map_or(0, |row| row.len());
                if let Some((number, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != width) {
                    let place = row.first().map(|cell| at(cell.span().start));
                    let (number, values) = (number + 1, row.len());
                    let error =
                        Error::user(format!("row {number} of VALUES has {values} values, but the first has {width}"))
                            .remedy("give each row a value for each column; NULL is one");
                    return Err(place.into_iter().fold(error, Error::at));
                }
                (0..width).try_for_each(|column| self.column(column, &mut rows))
            }
            _ => Ok(()),
        }
    }

    fn column(&self, column: usize, rows: &mut [&mut Vec<ast::Expr>]) -> Result<()> {
        // A value without a type is an error that the planner reports.
        let Some(cells) = rows.iter().map(|row| (self.typed)(&row[column])).collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        let exact = cells.iter().any(|(_, data_type)| data_type.is_decimal());
        let mut common = DataType::Null;
        for ((expr, data_type), row) in cells.iter().zip(rows.iter()) {
            let data_type = if exact { digits_of(expr, data_type) } else { data_type.clone() };
            common = common_type(&common, &data_type).ok_or_else(|| {
                let (first, second) = (sql_name(&common), sql_name(&data_type));
                Error::user(format!("column {} of VALUES has values of the types {first} and {second}", column + 1))
                    .at(at(row[column].span().start))
                    .remedy("convert them to one type with CAST")
            })?;
        }
        for ((_, data_type), row) in cells.iter().zip(rows) {
            if let Some(to) = ast_type(&common).filter(|_| *data_type != common && !data_type.is_null()) {
                let expr = Box::new(std::mem::replace(&mut row[column], ast::Expr::value(ast::Value::Null)));
                row[column] =
                    ast::Expr::Cast { kind: ast::CastKind::Cast, expr, data_type: to, array: false, format: None };
            }
        }
        Ok(())
    }
}

/// A whole number that a query names has the digits of an INT, beside DECIMAL.
fn digits_of(expr: &Expr, data_type: &DataType) -> DataType {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) if i32::try_from(*number).is_ok() => DataType::Int32,
        _ => data_type.clone(),
    }
}

/// The type that holds the values of both.
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

/// The type as a query names it, of those that [`common_type`] makes of others.
fn ast_type(data_type: &DataType) -> Option<ast::DataType> {
    Some(match data_type {
        DataType::Int16 => ast::DataType::SmallInt(None),
        DataType::Int32 => ast::DataType::Int(None),
        DataType::Int64 => ast::DataType::BigInt(None),
        DataType::Float64 => ast::DataType::Double(ast::ExactNumberInfo::None),
        DataType::Decimal128(precision, scale) => {
            ast::DataType::Decimal(ast::ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)))
        }
        DataType::Utf8View => ast::DataType::String(None),
        DataType::Timestamp(unit, None) => {
            ast::DataType::Timestamp(Some(fraction_digits(unit)), ast::TimezoneInfo::None)
        }
        DataType::Timestamp(unit, Some(_)) => {
            ast::DataType::Timestamp(Some(fraction_digits(unit)), ast::TimezoneInfo::Tz)
        }
        _ => return None,
    })
}
