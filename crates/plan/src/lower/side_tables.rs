//! Tables that sources write themselves: dead letters, and late rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{OnLate, OnMalformed, sql_name};
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field};
use datafusion_common::tree_node::TreeNodeRecursion;

use super::Lowering;
use crate::catalog::Catalog;
use crate::place::{counted, planning_error, through};
use crate::rel::Rel;
use crate::table::Table;
use crate::with_options::{LATE_TABLE, Malformed};

/// The tables for undecodable records and late rows of a query's tables, by name. Their names are resolved
/// when the statement is planned, like those of the query's own tables.
pub(crate) fn side_tables(plan: &Rel, catalog: &Catalog) -> Result<BTreeMap<String, Arc<Table>>> {
    let mut found = BTreeMap::new();
    let mut add = |table: &Table, option: &str, name: &str, check: &dyn Fn(&Table) -> Result<()>| -> Result<()> {
        let located = |error: Error| error.at(format!("table {}, option '{option}'", table.name));
        let target = catalog.labelled(name).map_err(located)?;
        target.check_writable().and_then(|()| check(target)).map_err(located)?;
        found.insert(name.to_owned(), Arc::clone(target));
        Ok(())
    };
    let walked = plan.see(&mut |node| {
        let Rel::Get(scan) = node else { return Ok(TreeNodeRecursion::Continue) };
        let table = Table::of_scan(scan).map_err(through)?;
        if let Malformed::DeadLetter(name) = &table.options.malformed {
            add(table, "dead-letter.table", name, &check_dead_letter).map_err(through)?;
        }
        if let Some(name) = &table.options.late_table {
            add(table, LATE_TABLE, name, &|target| check_late(table, target)).map_err(through)?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(planning_error)?;
    Ok(found)
}

fn check_dead_letter(target: &Table) -> Result<()> {
    let name = &target.name;
    let types: Vec<&DataType> = target.written.fields().iter().map(|f| f.data_type()).collect();
    let fits = match types.as_slice() {
        [a, b, c, d] => {
            [a, b, c].iter().all(|t| **t == &DataType::Utf8View) && matches!(d, DataType::Utf8View | DataType::Binary)
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(Error::user(format!("table '{name}' cannot take records that could not be decoded")).remedy(format!(
        "declare it as CREATE TABLE {name} (source_table STRING, place STRING, error STRING, record STRING)"
    )))
}

/// Checks that a table has the columns of `source`, in order.
fn check_late(source: &Table, target: &Table) -> Result<()> {
    if source.name == target.name {
        return Err(Error::user("a table cannot take its own late rows").remedy("name another table"));
    }
    let (from, to) = (source.physical.fields(), target.written.fields());
    let declared = |field: &Field| {
        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
        format!("{} {}{not_null}", field.name(), sql_name(field.data_type()))
    };
    let fits =
        |from: &Field, to: &Field| from.data_type() == to.data_type() && (to.is_nullable() || !from.is_nullable());
    let what = match from.iter().zip(to).find(|(from, to)| !fits(from, to)) {
        Some((from, to)) => format!("its column '{}' is not {}", declared(to), declared(from)),
        None if from.len() != to.len() => {
            format!("it has {}, and the rows have {}", counted(to.len(), "column"), from.len())
        }
        None => return Ok(()),
    };
    let columns: Vec<String> = from.iter().map(|field| declared(field)).collect();
    let name = &target.name;
    Err(Error::user(format!("table '{name}' cannot take late rows of table '{}': {what}", source.name)).remedy(
        format!(
            "declare it with all columns of that table that are not computed: CREATE TABLE {name} ({})",
            columns.join(", ")
        ),
    ))
}

impl Lowering<'_> {
    pub(super) fn on_malformed(&self, table: &Table) -> Result<OnMalformed> {
        match &table.options.malformed {
            Malformed::Fail => Ok(OnMalformed::Fail),
            Malformed::Skip => Ok(OnMalformed::Skip),
            Malformed::DeadLetter(name) => Ok(OnMalformed::DeadLetter(Box::new(self.side_table(name)?.sink()))),
        }
    }

    pub(super) fn on_late(&self, table: &Table) -> Result<OnLate> {
        match &table.options.late_table {
            None => Ok(OnLate::Drop),
            Some(name) => Ok(OnLate::Write(Box::new(self.side_table(name)?.sink()))),
        }
    }

    fn side_table(&self, name: &str) -> Result<&Table> {
        let target = self.side_tables.get(name).map(Arc::as_ref);
        target.ok_or_else(|| Error::internal(format!("table '{name}' was not looked up")))
    }
}
