//! Tables whose records are versions of rows. They are read as updating rows: the latest record of each key,
//! unless it is a deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::Versions;
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr, ExprFunctionExt as _, WindowFunctionDefinition, lit};

use crate::functions::{Functions, ROW_NUMBER};
use crate::place::planning_error;
use crate::rel::{self, Rel};

/// The additional columns of a scan.
const HIDDEN: [&str; 2] = [ORDER, "$deleted"];

/// The column that orders versions: the latest one has the greatest value.
pub(crate) const ORDER: &str = "$order";

/// The columns of a scan of all versions. A deletion has values only for the key and the metadata, so the
/// other columns are nullable.
pub(crate) fn all_versions(
    declared: &SchemaRef,
    key: &[String],
    versions: Versions,
    metadata: &mut BTreeMap<usize, String>,
) -> SchemaRef {
    let mut fields: Vec<Field> = Vec::new();
    for (column, field) in declared.fields().iter().enumerate() {
        let is_known = key.contains(field.name()) || metadata.contains_key(&column);
        fields.push(field.as_ref().clone().with_nullable(field.is_nullable() || !is_known));
    }
    let types = [DataType::Int64, DataType::Boolean];
    for ((name, key), data_type) in HIDDEN.into_iter().zip([versions.order, versions.deleted]).zip(types) {
        metadata.insert(fields.len(), key.to_owned());
        fields.push(Field::new(name, data_type, false));
    }
    Arc::new(Schema::new(fields))
}

/// The present rows: the latest version of each key, unless it is a deletion.
pub(crate) fn latest(scan: Rel, key: &[String], functions: &Functions) -> Result<Rel> {
    let Some(row_number) = functions.window(ROW_NUMBER) else {
        return Err(Error::internal("no function numbers rows"));
    };
    let column = |plan: &Rel, name: &str| {
        let place = plan.columns().fields().iter().position(|field| field.name() == name);
        let place = place.ok_or_else(|| Error::internal(format!("a scan of versions without column '{name}'")))?;
        Ok(Expr::Column(plan.columns().id(place)))
    };
    let keys = key.iter().map(|name| column(&scan, name)).collect::<Result<Vec<Expr>>>()?;
    let order = column(&scan, HIDDEN[0])?.sort(false, false);
    let call = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number), Vec::new());
    let call = Expr::from(call).partition_by(keys).order_by(vec![order]).build().map_err(planning_error)?;
    let call = rel::call(call, scan.columns()).map_err(planning_error)?;
    let ranked = scan.over([call]).map_err(planning_error)?;
    let number = Expr::Column(ranked.columns().id(ranked.width() - 1));
    let is_there = number.eq(lit(1_i64)).and(Expr::Not(Box::new(column(&ranked, HIDDEN[1])?)));
    ranked.filter(is_there).map_err(planning_error)
}
