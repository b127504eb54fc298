//! Resolves names in a query and in its outer queries.

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

/// The name of a table in a query: an alias, or its own name and its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) own: String,
    /// The catalog and the database. Empty for an alias.
    pub(crate) before: Vec<String>,
}

impl TableName {
    pub(crate) fn alias(own: &str) -> Rc<TableName> {
        Rc::new(TableName { own: own.to_owned(), before: Vec::new() })
    }

    /// Whether a qualified name means this table.
    fn is_named(&self, parts: &[Ident]) -> bool {
        let Some((own, before)) = parts.split_last() else { return false };
        let missing = self.before.len().checked_sub(before.len());
        let same = |known: &[String]| known.iter().zip(before).all(|(known, part)| *known == part.value);
        own.value == self.own && missing.is_some_and(|missing| same(&self.before[missing..]))
    }
}

/// A column that a query can name.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// `None`: the column has no table, or several.
    pub(crate) table: Option<Rc<TableName>>,
    pub(crate) name: String,
    pub(crate) column: Column,
    pub(crate) field: FieldRef,
    /// The expression that the name stands for, if it is not the column itself.
    pub(crate) value: Option<Expr>,
    /// Only a qualified name can mean it, and `*` omits it.
    pub(crate) hidden: bool,
}

impl Item {
    pub(crate) fn expr(&self) -> Expr {
        self.value.clone().unwrap_or_else(|| Expr::Column(self.column.clone()))
    }
}

/// The columns that a part of a query can name, and the scope of the outer query.
#[derive(Debug, Default)]
pub(crate) struct Scope<'o> {
    pub(crate) items: Vec<Item>,
    by_name: HashMap<String, Vec<usize>>,
    outer: Option<&'o Scope<'o>>,
}

/// The meaning of a name.
pub(crate) struct Found {
    pub(crate) item: Item,
    /// The number of parts of the name that name the column. The remaining parts name fields of a row.
    pub(crate) parts: usize,
    /// The column belongs to an outer query.
    pub(crate) outer: bool,
}

impl<'o> Scope<'o> {
    pub(crate) fn new(items: Vec<Item>, outer: Option<&'o Scope<'o>>) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            by_name.entry(item.name.clone()).or_default().push(index);
        }
        Scope { items, by_name, outer }
    }

    /// The columns of a plan as items of a table.
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

    /// The type of a column of this query or of an outer query.
    pub(crate) fn field_of(&self, column: &Column) -> Option<FieldRef> {
        let own = self.items.iter().find(|item| item.column == *column).map(|item| FieldRef::clone(&item.field));
        own.or_else(|| self.outer?.field_of(column))
    }

    /// The tables, in their order.
    pub(crate) fn tables(&self) -> Vec<Rc<TableName>> {
        let mut tables: Vec<Rc<TableName>> = Vec::new();
        for table in self.items.iter().filter_map(|item| item.table.as_ref()) {
            if !tables.contains(table) {
                tables.push(Rc::clone(table));
            }
        }
        tables
    }

    /// Resolves a name in this query.
    ///
    /// # Errors
    /// The name is ambiguous.
    pub(crate) fn own(&self, name: &[Ident]) -> Result<Option<Found>> {
        // A table has priority over a column, and a database over a table.
        for parts in (1..name.len().min(4)).rev() {
            let is_meant = |item: &&Item| item.table.as_ref().is_some_and(|table| table.is_named(&name[..parts]));
            if let Some(item) = self.only(&name[parts], name, is_meant)? {
                return Ok(Some(Found { item: item.clone(), parts: parts + 1, outer: false }));
            }
        }
        let Some(first) = name.first() else { return Ok(None) };
        let found = self.only(first, name, |item| !item.hidden)?;
        // Only rows have fields.
        let found = found.filter(|item| name.len() == 1 || matches!(item.field.data_type(), DataType::Struct(_)));
        Ok(found.map(|item| Found { item: item.clone(), parts: 1, outer: false }))
    }

    /// Finds the only item that the name can mean.
    fn only(&self, column: &Ident, name: &[Ident], is_meant: impl Fn(&&Item) -> bool) -> Result<Option<&Item>> {
        let indexes = self.by_name.get(&column.value).map_or(&[][..], Vec::as_slice);
        let meant: Vec<&Item> = indexes.iter().map(|index| &self.items[*index]).filter(is_meant).collect();
        // A merged column of USING has priority over the columns of its tables.
        let shared: Vec<&Item> = meant.iter().copied().filter(|item| item.table.is_none()).collect();
        match (meant.as_slice(), shared.as_slice()) {
            ([], _) => Ok(None),
            ([only], _) | (_, [only]) => Ok(Some(only)),
            _ => Err(through(ambiguous(column, start_of(name)))),
        }
    }

    /// Resolves a name in this query, or in the outer queries.
    ///
    /// # Errors
    /// The name is ambiguous.
    pub(crate) fn find(&self, name: &[Ident]) -> Result<Option<Found>> {
        if let Some(found) = self.own(name)? {
            return Ok(Some(found));
        }
        let found = self.outer.map(|outer| outer.find(name)).transpose()?.flatten();
        Ok(found.map(|found| Found { outer: true, ..found }))
    }

    /// The columns of a table, including those that `*` omits.
    pub(crate) fn of_table(&self, name: &[Ident]) -> Vec<&Item> {
        self.items.iter().filter(|item| item.table.as_ref().is_some_and(|table| table.is_named(name))).collect()
    }

    /// The names of a row's fields. `None`: the name means no row.
    ///
    /// # Errors
    /// The name is ambiguous.
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

    /// The error for `name.*` if the name is neither a table nor a row.
    pub(crate) fn no_table(&self, name: &[Ident]) -> Error {
        let written: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
        let error = Error::user(format!("'{}' is neither a table of this FROM nor a row", written.join(".")));
        let tables: Vec<String> = self.tables().iter().map(|table| table.own.clone()).collect();
        error.at(at(start_of(name))).remedy(format!("the tables are: {}", tables.join(", ")))
    }

    /// The error for an unknown name.
    pub(crate) fn unknown(&self, name: &[Ident]) -> Error {
        let mut known: Vec<&Item> = Vec::new();
        let mut next = Some(self);
        while let Some(scope) = next {
            known.extend(scope.items.iter().filter(|item| !item.name.starts_with('$')));
            next = scope.outer;
        }
        let written: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
        // For a known table, the remedy lists its columns.
        let table = |item: &Item| match (&item.table, name) {
            (Some(table), [first, _, ..]) => table.is_named(std::slice::from_ref(first)),
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
