//! The types of arrays and their elements.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::ReturnFieldArgs;
use datafusion_expr::type_coercion::binary::type_union_resolution;

use crate::definition::Kind;
use crate::map::{map_type, parts};

/// The types in which a function of arrays receives its arguments; `None` if it does not take them.
pub(crate) fn coerce(kinds: &[Kind], given: &[DataType]) -> Option<Vec<DataType>> {
    let element = |data_type: &DataType| match data_type {
        DataType::List(item) => Some(plain(item.data_type())),
        _ => None,
    };
    let all = |mut types: Vec<DataType>| {
        let first = types.pop()?;
        types.iter().try_fold(first, |known, next| common(&known, next))
    };
    match kinds.first()? {
        Kind::Common => {
            let data_type = all(given.iter().map(plain).collect())?;
            (!data_type.is_null()).then(|| vec![data_type; given.len()])
        }
        Kind::CommonList => {
            let lists = given.iter().filter(|data_type| !data_type.is_null());
            let data_type = list_of(all(lists.map(element).collect::<Option<_>>()?)?);
            Some(vec![data_type; given.len()])
        }
        _ => {
            let element = element(given.first()?)?;
            let accept = |(kind, given): (&Kind, &DataType)| match kind {
                Kind::List => Some(list_of(element.clone())),
                Kind::Element => common(&element, &plain(given)).filter(|common| *common == element),
                kind => kind.accept(given),
            };
            kinds.iter().zip(given).map(accept).collect()
        }
    }
}

/// An array of such elements, any of which may be NULL.
pub(crate) fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", element, true)))
}

/// The type with one type of texts, and with arrays and maps whose elements and values may be NULL.
pub(crate) fn plain(data_type: &DataType) -> DataType {
    match data_type {
        text if text.is_string() => DataType::Utf8View,
        DataType::List(item) => list_of(plain(item.data_type())),
        DataType::Map(..) => match parts(data_type) {
            Some((key, value)) => map_type(plain(key), plain(value), true),
            None => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// The type that has the values of both, as in Flink: text and numbers have none.
pub(crate) fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        _ if left == right => Some(left.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (DataType::List(left), DataType::List(right)) => Some(list_of(common(left.data_type(), right.data_type())?)),
        (DataType::Map(..), DataType::Map(..)) => {
            let ((key, value), (other_key, other_value)) = (parts(left)?, parts(right)?);
            Some(map_type(common(key, other_key)?, common(value, other_value)?, true))
        }
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other, other_zone)) if zone == other_zone => {
            Some(DataType::Timestamp(*unit.max(other), zone.clone()))
        }
        (DataType::Float64, other) | (other, DataType::Float64) if other.is_numeric() => Some(DataType::Float64),
        (DataType::Float32, DataType::Decimal128(..)) | (DataType::Decimal128(..), DataType::Float32) => {
            Some(DataType::Float64)
        }
        (DataType::Float32, other) | (other, DataType::Float32) if other.is_numeric() => Some(DataType::Float32),
        _ if left.is_numeric() && right.is_numeric() => type_union_resolution(&[left.clone(), right.clone()]),
        _ => None,
    }
}

pub(crate) fn refused(message: &str) -> DataFusionError {
    DataFusionError::Plan(message.to_owned())
}

pub(super) fn array_of(args: &ReturnFieldArgs) -> Result<DataType> {
    let element = args.arg_fields.first().ok_or_else(|| refused("ARRAY[] has no type: it needs an element"))?;
    Ok(list_of(element.data_type().clone()))
}

/// The type of the elements of the first argument.
pub(super) fn element(args: &ReturnFieldArgs) -> Result<DataType> {
    match args.arg_fields.first().map(|field| field.data_type()) {
        Some(DataType::List(element)) => Ok(element.data_type().clone()),
        _ => Err(refused("the argument is not an ARRAY")),
    }
}

/// The same for elements that have an order.
pub(super) fn compared(args: &ReturnFieldArgs) -> Result<DataType> {
    let element = element(args)?;
    if element.is_nested() || element == DataType::Boolean {
        return Err(refused("the elements of the ARRAY have no order: they are numbers, times or texts"));
    }
    Ok(element)
}

/// The type of an array whose elements have an order.
pub(super) fn sorted(args: &ReturnFieldArgs) -> Result<DataType> {
    compared(args).map(list_of)
}
