//! `CREATE TABLE`, also with `LIKE` another table or `AS SELECT` a query.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field};
use datafusion_sql::sqlparser::ast::Ident;

use crate::catalog::{Catalog, Relation};
use crate::hints::with_options;
use crate::insert::{InsertedRows, plan_rows};
use crate::like::merged;
use crate::lower::Output;
use crate::place::at;
use crate::rel::Columns;
use crate::statement::{AlterTable, ColumnDefinition, ColumnKind, CreateTable};
use crate::table::Table;
use crate::{PlanOptions, TableResolver};

/// Declares a table. Returns the message for the user.
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
    let like = create.like.take();
    if let Some(like) = &like {
        create = merged(create, like, catalog)?;
    }
    let or_replace = create.or_replace;
    let table = Table::declare(create, catalog, resolver, options).map_err(|error| match &like {
        // Places in the other declaration do not belong to this statement.
        Some(like) => error.only_at(at(like.table.span.start)),
        None => error,
    })?;
    catalog.insert(&name, Relation::Table(Arc::new(table)), or_replace).map_err(|e| e.at(at(start)))?;
    Ok(format!("table {name} created"))
}

/// Replaces the declaration of a table. Returns the message for the user. Earlier views and jobs keep the
/// former declaration.
pub(crate) fn alter_table(
    alter: AlterTable,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<String> {
    let AlterTable { table: name, if_exists, change } = alter;
    if if_exists && !catalog.contains(&name.value) {
        return Ok(format!("there is no table {}", name.value));
    }
    let here = |error: Error| error.at(at(name.span.start));
    let create = catalog.table(&name.value).map_err(here)?.statement.clone();
    let former = catalog.databases.path(&name.value)?;
    // The session may use another database now than at the declaration.
    let create =
        CreateTable { name: name.clone(), if_not_exists: false, or_replace: true, start: name.span.start, ..create };
    let mut create = create.altered(change)?;
    let new_name = create.name.value.clone();
    let is_renamed = catalog.databases.path(&new_name).map_err(here)? != former;
    if is_renamed && catalog.contains(&new_name) {
        return Err(here(
            Error::user(format!("there is already a table or view '{new_name}'")).remedy("choose another name"),
        ));
    }
    if is_renamed {
        create.options.extend(options.options_of(&former.label()));
    }
    // Places in the former declaration do not belong to this statement.
    create_table(create, catalog, resolver, options).map_err(|error| error.only_at(at(name.span.start)))?;
    if is_renamed {
        catalog.remove("table", &name.value)?;
    }
    Ok(format!("table {} altered", name.value))
}

/// Declares a variant of this table with the options of a hint. Returns the variant's name.
pub(crate) fn declare_with(
    name: &Ident,
    with: BTreeMap<String, String>,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<String> {
    let mut create = catalog.table(&name.value)?.statement.clone();
    create.name.value = with_options(&name.value, &with);
    create.options.extend(with);
    let value = create.name.value.clone();
    // A known variant may come from a former declaration of the table.
    if !matches!(catalog.get(&value), Ok(Relation::Table(known)) if known.table.statement == create) {
        let declared = Table::declare(create, catalog, resolver, options);
        let declared = declared.map_err(|error| error.only_at(at(name.span.start)))?;
        catalog.insert(&value, Relation::Table(Arc::new(declared)), true)?;
    }
    Ok(value)
}

/// Declares a table with the columns of a query, and plans the INSERT of the query's rows. The query reads
/// the tables as they were before. `None`: the table exists.
pub(crate) fn create_as(
    mut create: CreateTable,
    catalog: &mut Catalog,
    resolver: &dyn TableResolver,
    options: &PlanOptions,
) -> Result<Option<Output>> {
    let query = create.query.take().ok_or_else(|| Error::internal("a table AS a query without one"))?;
    if create.if_not_exists && catalog.contains(&create.name.value) {
        return Ok(None);
    }
    let rows = InsertedRows::bind(query, &create.name, catalog)?;
    let columns = add_columns(&mut create, rows.plan.columns())?;
    let name = create.name.clone();
    create_table(create, catalog, resolver, options)?;
    plan_rows(&name, &columns, rows, catalog).map(Some)
}

/// Adds the columns of a query to the declaration, and returns their names. As in Flink, columns that only
/// the declaration has come first. A column of both has the query's position and the declared type.
fn add_columns(create: &mut CreateTable, rows: &Columns) -> Result<Vec<Ident>> {
    let (mut columns, mut of_query) = (Vec::new(), Vec::new());
    for field in rows.fields() {
        let name = Ident { span: create.name.span, ..Ident::with_quote('`', field.name()) };
        if let Some(index) = create.columns.iter().position(|own| own.name.value == name.value) {
            let own = create.columns.remove(index);
            if let ColumnKind::Computed(_) = own.kind {
                let what = format!("column '{}' is computed, but the query gives it too", name.value);
                return Err(Error::user(what).at(at(own.name.span.start)).remedy("omit it in one of them"));
            }
            of_query.push(own);
        } else {
            let data_type = of_column(field.data_type()).ok_or_else(|| {
                let found = match field.data_type() {
                    DataType::Null => "NULL".to_owned(),
                    DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".to_owned(),
                    other => sql_name(other),
                };
                Error::user(format!(
                    "column '{}' of the query is {found}, which no column of a table can be",
                    name.value
                ))
                .at(at(create.name.span.start))
                .remedy(format!("convert it: CAST({} AS STRING)", name.value))
            })?;
            let kind = ColumnKind::Physical { data_type, nullable: field.is_nullable() };
            of_query.push(ColumnDefinition { name: name.clone(), kind });
        }
        columns.push(name);
    }
    create.columns.extend(of_query);
    Ok(columns)
}

/// The type of a column that holds these values. `None`: there is none.
fn of_column(of_values: &DataType) -> Option<DataType> {
    let field = |field: &Field| Some(field.clone().with_data_type(of_column(field.data_type())?));
    Some(match of_values {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::List(item) => DataType::List(field(item)?.with_name("item").into()),
        DataType::Map(entries, is_sorted) => DataType::Map(field(entries)?.into(), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|own| field(own)).collect::<Option<_>>()?),
        DataType::Null | DataType::Interval(_) | DataType::Duration(_) => return None,
        other => other.clone(),
    })
}
