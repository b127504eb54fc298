//! The types of maps, their keys and their values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;
use datafusion_expr::ReturnFieldArgs;

use crate::array::types::{common, list_of, plain, refused};
use crate::definition::Kind;

/// A map with such keys and values. Keys are never NULL.
#[must_use]
pub fn map_type(key: DataType, value: DataType, nullable: bool) -> DataType {
    let fields = vec![Field::new("key", key, false), Field::new("value", value, nullable)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields.into()), false)), false)
}

/// The types of a map's keys and values; `None` for another type.
#[must_use]
pub fn parts(data_type: &DataType) -> Option<(&DataType, &DataType)> {
    let DataType::Map(entries, _) = data_type else { return None };
    let DataType::Struct(fields) = entries.data_type() else { return None };
    Some((fields.first()?.data_type(), fields.get(1)?.data_type()))
}

/// Whether values of this type are maps or contain maps.
#[must_use]
pub fn has_map(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) => true,
        DataType::List(item) => has_map(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
        _ => false,
    }
}

/// The types in which a function of maps receives its arguments; `None` if it does not take them.
pub(crate) fn coerce(kinds: &[Kind], given: &[DataType]) -> Option<Vec<DataType>> {
    let all = |skip: usize, step: usize| {
        let mut types = given.iter().skip(skip).step_by(step).map(plain);
        let first = types.next()?;
        types.try_fold(first, |known, next| common(&known, &next)).filter(|known| !known.is_null())
    };
    match kinds.first()? {
        Kind::KeyOrValue if given.len().is_multiple_of(2) => {
            let (key, value) = (all(0, 2).filter(|key| !has_map(key))?, all(1, 2)?);
            Some((0..given.len()).map(|index| if index % 2 == 0 { key.clone() } else { value.clone() }).collect())
        }
        Kind::KeyOrValue => None,
        Kind::CommonMap => {
            let data_type = all(0, 1)?;
            parts(&data_type)?;
            Some(vec![data_type; given.len()])
        }
        _ => {
            let (key, value) = parts(given.first()?)?;
            let (key, value) = (plain(key), plain(value));
            let accept = |(kind, given): (&Kind, &DataType)| match kind {
                Kind::Map => Some(map_type(key.clone(), value.clone(), true)),
                Kind::Key => common(&key, &plain(given)),
                kind => kind.accept(given),
            };
            kinds.iter().zip(given).map(accept).collect()
        }
    }
}

fn argument<'a>(args: &'a ReturnFieldArgs, index: usize) -> Result<&'a DataType> {
    args.arg_fields.get(index).map(|field| field.data_type()).ok_or_else(|| refused("an argument is missing"))
}

/// The types of the keys and values of the first argument.
fn parts_of<'a>(args: &'a ReturnFieldArgs) -> Result<(&'a DataType, &'a DataType)> {
    parts(argument(args, 0)?).ok_or_else(|| refused("the argument is not a MAP"))
}

pub(super) fn map_of(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(map_type(argument(args, 0)?.clone(), argument(args, 1)?.clone(), true))
}

pub(super) fn of_texts(_: &ReturnFieldArgs) -> Result<DataType> {
    Ok(map_type(DataType::Utf8View, DataType::Utf8View, true))
}

/// A map of the elements of two arrays.
pub(super) fn of_arrays(args: &ReturnFieldArgs) -> Result<DataType> {
    let element = |index| match argument(args, index)? {
        DataType::List(item) => Ok(item.data_type().clone()),
        _ => Err(refused("the argument is not an ARRAY")),
    };
    Ok(map_type(element(0)?, element(1)?, true))
}

pub(super) fn keys(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(list_of(parts_of(args)?.0.clone()))
}

pub(super) fn values(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(list_of(parts_of(args)?.1.clone()))
}

/// An array of rows of a key and a value.
pub(super) fn entries(args: &ReturnFieldArgs) -> Result<DataType> {
    match argument(args, 0)? {
        DataType::Map(entries, _) => Ok(list_of(entries.data_type().clone())),
        _ => Err(refused("the argument is not a MAP")),
    }
}
