//! `CREATE TABLE`, also `LIKE` another table, and `AS SELECT`: with the columns of a query, and its rows.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field};
use datafusion_sql::sqlparser::ast::{Ident, Query};

use crate::catalog::{Catalog, Relation};
use crate::like::merged;
use crate::place::at;
use crate::query::Planner;
use crate::spelling::name_columns;
use crate::statement::{ColumnDefinition, ColumnKind, CreateTable, Insert};
use crate::table::Table;
use crate::{PlanOptions, TableResolver};

/// Declares a table and returns a text for the user.
pub(crate) fn create_table(
    mut create: CreateTable,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<String> {
    let (name, start) = (create.name.value.clone(), create.start);
    if create.if_not_exists && catalog.contains(&name) {
        return Ok(format!("table {name} exists"));
    }
    if let Some(like) = create.like.take() {
        create = merged(create, &like, catalog)?;
    }
    let or_replace = create.or_replace;
    let table = Table::declare(create, catalog, resolver, options)?;
    catalog.insert(&name, Relation::Table(Arc::new(table)), or_replace).map_err(|e| e.at(at(start)))?;
    Ok(format!("table {name} created"))
}

/// Declares a table with the columns of a query, and returns the INSERT of its rows. `None`: the table exists.
pub(crate) fn create_as(
    mut create: CreateTable,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<Option<Insert>> {
    let query = create.query.take().ok_or_else(|| Error::internal("a table AS a query without one"))?;
    if create.if_not_exists && catalog.contains(&create.name.value) {
        return Ok(None);
    }
    let insert = with_columns(&mut create, query, catalog)?;
    create_table(create, catalog, resolver, options)?;
    Ok(Some(insert))
}

/// Adds the columns of the query to those of the declaration, and returns the INSERT of its rows. As in Flink, declared columns come first,
/// and one with the name of a column of the query has the declared type.
fn with_columns(create: &mut CreateTable, query: Box<Query>, catalog: &Catalog) -> Result<Insert> {
    let mut named = query.clone();
    name_columns(&mut named);
    let plan = Planner::new(catalog).query(named)?;
    let mut columns = Vec::new();
    for field in plan.schema().fields() {
        let name = Ident { span: create.name.span, ..Ident::with_quote('`', field.name()) };
        if let Some(own) = create.columns.iter().find(|own| own.name.value == name.value) {
            if let ColumnKind::Computed(_) = own.kind {
                let what = format!("column '{}' is computed, but the query gives it too", name.value);
                return Err(Error::user(what).at(at(own.name.span.start)).remedy("omit it in one of them"));
            }
        } else {
            if field.data_type().is_null() {
                return Err(Error::user(format!("column '{}' of the query is NULL of no type", name.value))
                    .at(at(create.name.span.start))
                    .remedy("give it one: CAST(NULL AS STRING)"));
            }
            let (data_type, nullable) = (of_column(field.data_type()), field.is_nullable());
            let kind = ColumnKind::Physical { data_type, nullable };
            create.columns.push(ColumnDefinition { name: name.clone(), kind });
        }
        columns.push(name);
    }
    Ok(Insert { table: create.name.clone(), columns, query, start: create.start })
}

/// The type that a column is declared with that has these values.
fn of_column(of: &DataType) -> DataType {
    let field = |field: &Field| field.clone().with_data_type(of_column(field.data_type()));
    match of {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::List(item) => DataType::List(field(item).with_name("item").into()),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|of| field(of)).collect()),
        other => other.clone(),
    }
}
