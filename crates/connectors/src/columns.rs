//! Declared columns of connectors with fixed columns: a declaration may name some of them in any order.

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use crate::format::is_string;

/// Index of each declared column among the known ones.
pub(crate) fn match_columns(known: &Schema, declared: &Schema, connector: &str) -> Result<Vec<usize>> {
    declared.fields().iter().map(|field| match_column(known, field, connector)).collect()
}

fn match_column(known: &Schema, declared: &Field, connector: &str) -> Result<usize> {
    let name = declared.name();
    let Some((index, column)) = known.column_with_name(name) else {
        let names: Vec<_> = known.fields().iter().map(|f| f.name().as_str()).collect();
        return Err(Error::user(format!("connector '{connector}' has no column '{name}'"))
            .remedy(format!("its columns are: {}; a declaration without columns has them all", names.join(", "))));
    };
    if !compatible(column.data_type(), declared.data_type()) {
        let (is, declared) = (sql_name(column.data_type()), sql_name(declared.data_type()));
        return Err(Error::user(format!("column '{name}' of connector '{connector}' is {is}, not {declared}"))
            .remedy(format!("declare it as {is} and CAST it in the query")));
    }
    if column.is_nullable() && !declared.is_nullable() {
        return Err(Error::user(format!("column '{name}' of connector '{connector}' can be NULL"))
            .remedy("declare it without NOT NULL"));
    }
    Ok(index)
}

/// Whether values of the known type can be converted to the declared type: the same type, another type of
/// text, or another type of milliseconds since the Unix epoch.
fn compatible(known: &DataType, declared: &DataType) -> bool {
    let is_time = |t: &DataType| matches!(t, DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _));
    match (known, declared) {
        (DataType::Struct(known), DataType::Struct(declared)) => {
            known.len() == declared.len()
                && known.iter().zip(declared).all(|(known, declared)| {
                    known.name() == declared.name()
                        && declared.is_nullable()
                        && compatible(known.data_type(), declared.data_type())
                })
        }
        _ => known == declared || (is_string(known) && is_string(declared)) || (is_time(known) && is_time(declared)),
    }
}

/// The column in its declared type.
pub(crate) fn conform(column: ArrayRef, declared: &Field) -> Result<ArrayRef> {
    if column.data_type() == declared.data_type() { Ok(column) } else { Ok(cast(&column, declared.data_type())?) }
}
