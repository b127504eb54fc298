//! Names: which column a name means, in a query and in the queries around it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use anabranch_model::Error;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Column, Result};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::place::{at, column_not_found, through};
use crate::rel::{Col, Rel};

/// What a query calls a table: an alias, or its own name with the database before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) own: String,
    /// The catalog and the database. Empty if there is an alias.
    pub(crate) before: Vec<String>,
}

impl TableName {
    pub(crate) fn alias(own: &str) -> Rc<TableName> {
        Rc::new(TableName { own: own.to_owned(), before: Vec::new() })
    }

    /// Whether a name of several parts is this one.
    fn is(&self, parts: &[Ident]) -> bool {
        let Some((own, before)) = parts.split_last() else { return false };
        let missing = self.before.len().checked_sub(before.len());
        let same = |known: &[String]| known.iter().zip(before).all(|(known, part)| *known == part.value);
        own.value == self.own && missing.is_some_and(|missing| same(&self.before[missing..]))
    }
}

/// A column that a query can name.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The table that it is of. `None`: of none, or of several.
    pub(crate) table: Option<Rc<TableName>>,
    pub(crate) name: String,
    pub(crate) column: Column,
    pub(crate) field: FieldRef,
    /// What it stands for, if it is not the column itself.
    pub(crate) value: Option<Expr>,
    /// Only a name with its table means it, and `*` leaves it out.
    pub(crate) hidden: bool,
}

impl Item {
    /// The expression for it.
    pub(crate) fn expr(&self) -> Expr {
        self.value.clone().unwrap_or_else(|| Expr::Column(self.column.clone()))
    }
}

/// The columns that a part of a query can name, and those of the queries around it.
#[derive(Debug, Default)]
pub(crate) struct Scope<'o> {
    pub(crate) items: Vec<Item>,
    by_name: HashMap<String, Vec<usize>>,
    outer: Option<&'o Scope<'o>>,
}

/// What a name means.
pub(crate) struct Found {
    pub(crate) item: Item,
    /// How many parts of the name are those of the column. Fields of a row follow.
    pub(crate) parts: usize,
    /// It is a column of a query around this one.
    pub(crate) outer: bool,
}

impl<'o> Scope<'o> {
    pub(crate) fn new(items: Vec<Item>, outer: Option<&'o Scope<'o>>) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            by_name.entry(item.name.clone()).or_default().push(place);
        }
        Scope { items, by_name, outer }
    }

    /// The columns of a plan, as those of a table.
    pub(crate) fn items_of(plan: &Rel, table: Option<&Rc<TableName>>) -> Vec<Item> {
        let item = |col: &Col| Item {
            table: table.cloned(),
            name: col.field.name().clone(),
            column: col.id.clone(),
            field: FieldRef::clone(&col.field),
            value: None,
            hidden: false,
        };
        plan.columns().iter().map(item).collect()
    }

    /// The type of a column of this query, or of one around it.
    pub(crate) fn field_of(&self, column: &Column) -> Option<FieldRef> {
        let own = self.items.iter().find(|item| item.column == *column).map(|item| FieldRef::clone(&item.field));
        own.or_else(|| self.outer?.field_of(column))
    }

    /// The names of tables, in their order.
    pub(crate) fn tables(&self) -> Vec<Rc<TableName>> {
        let mut tables: Vec<Rc<TableName>> = Vec::new();
        for table in self.items.iter().filter_map(|item| item.table.as_ref()) {
            if !tables.contains(table) {
                tables.push(Rc::clone(table));
            }
        }
        tables
    }

    /// What a name means in this query.
    ///
    /// # Errors
    /// The name may mean several columns.
    pub(crate) fn own(&self, name: &[Ident]) -> Result<Option<Found>> {
        // A table goes before a column, and a database before a table.
        for parts in (1..name.len().min(4)).rev() {
            let is_meant = |item: &&Item| item.table.as_ref().is_some_and(|table| table.is(&name[..parts]));
            if let Some(item) = self.only(&name[parts], name, is_meant)? {
                return Ok(Some(Found { item: item.clone(), parts: parts + 1, outer: false }));
            }
        }
        let Some(first) = name.first() else { return Ok(None) };
        let found = self.only(first, name, |item| !item.hidden)?;
        // Other types have no fields.
        let found = found.filter(|item| name.len() == 1 || matches!(item.field.data_type(), DataType::Struct(_)));
        Ok(found.map(|item| Found { item: item.clone(), parts: 1, outer: false }))
    }

    /// The one column of a name that is meant.
    fn only(&self, column: &Ident, name: &[Ident], is_meant: impl Fn(&&Item) -> bool) -> Result<Option<&Item>> {
        let places = self.by_name.get(&column.value).map_or(&[][..], Vec::as_slice);
        let meant: Vec<&Item> = places.iter().map(|place| &self.items[*place]).filter(is_meant).collect();
        // A column that tables share goes before those of one table.
        let shared: Vec<&Item> = meant.iter().copied().filter(|item| item.table.is_none()).collect();
        match (meant.as_slice(), shared.as_slice()) {
            ([], _) => Ok(None),
            ([only], _) | (_, [only]) => Ok(Some(only)),
            _ => Err(through(ambiguous(column, start_of(name)))),
        }
    }

    /// What a name means in this query, or in the ones around it.
    ///
    /// # Errors
    /// The name may mean several columns.
    pub(crate) fn find(&self, name: &[Ident]) -> Result<Option<Found>> {
        if let Some(found) = self.own(name)? {
            return Ok(Some(found));
        }
        let found = self.outer.map(|outer| outer.find(name)).transpose()?.flatten();
        Ok(found.map(|found| Found { outer: true, ..found }))
    }

    /// The columns of a table, also those that `*` leaves out.
    pub(crate) fn of_table(&self, name: &[Ident]) -> Vec<&Item> {
        self.items.iter().filter(|item| item.table.as_ref().is_some_and(|table| table.is(name))).collect()
    }

    /// The names of the fields of a row. `None`: the name means no row.
    ///
    /// # Errors
    /// The name may mean several columns.
    pub(crate) fn fields(&self, name: &[Ident]) -> Result<Option<Vec<String>>> {
        let Some(Found { item, parts, .. }) = self.find(name)? else { return Ok(None) };
        let mut data_type = item.field.data_type();
        for part in &name[parts..] {
            let DataType::Struct(fields) = data_type else { return Ok(None) };
            let Some(field) = fields.iter().find(|field| *field.name() == part.value) else { return Ok(None) };
            data_type = field.data_type();
        }
        let DataType::Struct(fields) = data_type else { return Ok(None) };
        Ok(Some(fields.iter().map(|field| field.name().clone()).collect()))
    }

    /// The error of `name.*` where the name is neither that of a table nor that of a row.
    pub(crate) fn no_table(&self, name: &[Ident]) -> Error {
        let written: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
        let error = Error::user(format!("'{}' is no table of this FROM, and no row", written.join(".")));
        let tables: Vec<String> = self.tables().iter().map(|table| table.own.clone()).collect();
        error.at(at(start_of(name))).remedy(format!("the tables are: {}", tables.join(", ")))
    }

    /// The error of a name that means nothing.
    pub(crate) fn unknown(&self, name: &[Ident]) -> Error {
        let mut known: Vec<&Item> = Vec::new();
        let mut next = Some(self);
        while let Some(scope) = next {
            known.extend(scope.items.iter().filter(|item| !item.name.starts_with('$')));
            next = scope.outer;
        }
        let written: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
        // Of a table that is known, its columns are said.
        let table = |item: &Item| match (&item.table, name) {
            (Some(table), [first, _, ..]) => table.is(std::slice::from_ref(first)),
            _ => false,
        };
        let of_table: Vec<&Item> = known.iter().copied().filter(|item| table(item)).collect();
        let shown = if of_table.is_empty() { known } else { of_table };
        let mut seen = HashSet::new();
        let names: Vec<&str> = shown.iter().map(|item| item.name.as_str()).filter(|name| seen.insert(*name)).collect();
        let last = written.last().copied().unwrap_or_default();
        column_not_found(&written.join("."), last, &names).at(at(start_of(name)))
    }
}

pub(crate) fn start_of(name: &[Ident]) -> Location {
    name.first().map_or(Location::new(0, 0), |part| part.span.start)
}

fn ambiguous(column: &Ident, start: Location) -> Error {
    let error = Error::user(format!("column '{}' is in more than one table", column.value));
    error.at(at(start)).remedy(format!("write it with its table: t.{}", column.value))
}
