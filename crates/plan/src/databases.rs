//! Catalogs and databases of a session: what the names of tables and views begin with. A table is known by one name, whatever database a
//! statement is in: that of the default database has no prefix, others are `database.table` or `catalog.database.table`.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::Ident;

use crate::place::nearest;

/// Flink's names of the catalog and the database that a session begins with.
const DEFAULT_CATALOG: &str = "default_catalog";
const DEFAULT_DATABASE: &str = "default_database";

/// What statements have declared, and where they are.
pub(crate) struct Databases {
    catalogs: BTreeMap<String, OfCatalog>,
    catalog: String,
    /// `None`: it was dropped.
    database: Option<String>,
}

struct OfCatalog {
    /// The database that is in use when the catalog is.
    first: String,
    databases: BTreeSet<String>,
}

impl OfCatalog {
    fn new(first: &str) -> OfCatalog {
        OfCatalog { first: first.to_owned(), databases: BTreeSet::from([first.to_owned()]) }
    }
}

impl Databases {
    pub(crate) fn new() -> Databases {
        Databases {
            catalogs: BTreeMap::from([(DEFAULT_CATALOG.to_owned(), OfCatalog::new(DEFAULT_DATABASE))]),
            catalog: DEFAULT_CATALOG.to_owned(),
            database: Some(DEFAULT_DATABASE.to_owned()),
        }
    }

    /// The name by which a table is known that a statement names so, with its parts separated by points. One that begins with no known
    /// database stays as it is.
    pub(crate) fn full_name(&self, name: &str) -> String {
        let qualified = match name.split_once('.') {
            None => self.database.as_deref().map(|database| (self.catalog.as_str(), database, name)),
            Some((first, rest)) => match rest.split_once('.') {
                Some((database, table)) if self.has(first, database) => Some((first, database, table)),
                _ => self.has(&self.catalog, first).then_some((self.catalog.as_str(), first, rest)),
            },
        };
        match qualified {
            None | Some((DEFAULT_CATALOG, DEFAULT_DATABASE, _)) => {
                qualified.map_or(name, |(_, _, table)| table).to_owned()
            }
            Some((DEFAULT_CATALOG, database, table)) => format!("{database}.{table}"),
            Some((catalog, database, table)) => format!("{catalog}.{database}.{table}"),
        }
    }

    fn has(&self, catalog: &str, database: &str) -> bool {
        self.catalogs.get(catalog).is_some_and(|of| of.databases.contains(database))
    }

    /// Fails where no table can be declared: in a database that is not there.
    pub(crate) fn check(&self, table: &Ident) -> Result<()> {
        let parts: Vec<&str> = match table.quote_style {
            Some(_) => vec![&table.value],
            None => table.value.split('.').collect(),
        };
        match &parts[..parts.len() - 1] {
            [] if self.database.is_none() => Err(none_in_use()),
            [] => Ok(()),
            parts => self.path(parts).and_then(|(catalog, database)| self.known(&catalog, &database)),
        }
    }

    /// The catalog and the database that `[catalog.]database` names.
    fn path(&self, parts: &[&str]) -> Result<(String, String)> {
        match parts {
            [database] => Ok((self.catalog.clone(), (*database).to_owned())),
            [catalog, database] if self.catalogs.contains_key(*catalog) => {
                Ok(((*catalog).to_owned(), (*database).to_owned()))
            }
            [catalog, _] => Err(self.unknown_catalog(catalog)),
            _ => Err(Error::user("the name of a database has one part, or two with that of its catalog")),
        }
    }

    fn known(&self, catalog: &str, database: &str) -> Result<()> {
        if self.has(catalog, database) {
            return Ok(());
        }
        let error = Error::user(format!("there is no database '{database}'"));
        let known = self.catalogs.get(catalog).into_iter().flat_map(|of| &of.databases).map(String::as_str);
        Err(match nearest(database, known) {
            Some(near) => error.remedy(format!("did you mean '{near}'?")),
            None => error.remedy(format!("write CREATE DATABASE {database}")),
        })
    }

    fn unknown_catalog(&self, catalog: &str) -> Error {
        let error = Error::user(format!("there is no catalog '{catalog}'"));
        match nearest(catalog, self.catalogs.keys().map(String::as_str)) {
            Some(near) => error.remedy(format!("did you mean '{near}'?")),
            None => error.remedy(format!("write CREATE CATALOG {catalog} WITH ('type' = '{IN_MEMORY}')")),
        }
    }

    /// Adds a database. Returns a text for the user.
    pub(crate) fn create(&mut self, parts: &[&str], if_not_exists: bool) -> Result<String> {
        let (catalog, database) = self.path(parts)?;
        let is_new = self.catalogs.get_mut(&catalog).is_some_and(|of| of.databases.insert(database.clone()));
        match (is_new, if_not_exists) {
            (true, _) => Ok(format!("database {database} created")),
            (false, true) => Ok(format!("database {database} exists")),
            (false, false) => Err(Error::user(format!("there is already a database '{database}'"))
                .remedy("choose another name, or write IF NOT EXISTS")),
        }
    }

    /// What the full names of a database's tables begin with; of the one in use, if it is not named.
    pub(crate) fn prefix(&self, parts: &[&str]) -> Result<String> {
        let (catalog, database) = match (parts, &self.database) {
            ([], Some(database)) => (self.catalog.clone(), database.clone()),
            ([], None) => return Err(none_in_use()),
            _ => self.path(parts)?,
        };
        self.known(&catalog, &database)?;
        Ok(match (catalog.as_str(), database.as_str()) {
            (DEFAULT_CATALOG, DEFAULT_DATABASE) => String::new(),
            (DEFAULT_CATALOG, database) => format!("{database}."),
            (catalog, database) => format!("{catalog}.{database}."),
        })
    }

    /// The name that a table has within the database of a prefix, if it is there.
    pub(crate) fn own_name<'a>(&self, full_name: &'a str, prefix: &str) -> Option<&'a str> {
        let own = full_name.strip_prefix(prefix)?;
        let is_elsewhere = |first: &str| self.has(DEFAULT_CATALOG, first) || self.catalogs.contains_key(first);
        match own.split_once('.') {
            Some((first, _)) if prefix.is_empty() && is_elsewhere(first) => None,
            _ => Some(own),
        }
    }

    /// The name by which a statement can name a table now.
    pub(crate) fn short_name(&self, full_name: &str) -> String {
        let own = self.prefix(&[]).ok().and_then(|prefix| self.own_name(full_name, &prefix));
        match (own, self.own_name(full_name, "")) {
            (Some(own), _) => own.to_owned(),
            (None, Some(of_default)) if self.catalog == DEFAULT_CATALOG => format!("{DEFAULT_DATABASE}.{of_default}"),
            (None, Some(of_default)) => format!("{DEFAULT_CATALOG}.{DEFAULT_DATABASE}.{of_default}"),
            (None, None) => full_name.to_owned(),
        }
    }

    pub(crate) fn exists(&self, parts: &[&str]) -> bool {
        self.path(parts).is_ok_and(|(catalog, database)| self.has(&catalog, &database))
    }

    /// Removes a database without tables.
    pub(crate) fn remove(&mut self, parts: &[&str]) -> Result<()> {
        let (catalog, database) = self.path(parts)?;
        if let Some(of) = self.catalogs.get_mut(&catalog) {
            of.databases.remove(&database);
        }
        if catalog == self.catalog && self.database.as_ref() == Some(&database) {
            self.database = None;
        }
        Ok(())
    }

    /// From now on, names without a database are of this one. Returns a text for the user.
    pub(crate) fn use_database(&mut self, parts: &[&str]) -> Result<String> {
        let (catalog, database) = self.path(parts)?;
        self.known(&catalog, &database)?;
        let text = format!("the database is {database}");
        (self.catalog, self.database) = (catalog, Some(database));
        Ok(text)
    }

    /// Adds a catalog, which begins with one database. Returns a text for the user.
    pub(crate) fn create_catalog(
        &mut self,
        parts: &[&str],
        options: &BTreeMap<String, String>,
        if_not_exists: bool,
    ) -> Result<String> {
        let name = of_catalog(parts)?;
        let option = |name: &str| options.get(name).map(String::as_str);
        if self.catalogs.contains_key(name) {
            let exists = Error::user(format!("there is already a catalog '{name}'"));
            return match if_not_exists {
                true => Ok(format!("catalog {name} exists")),
                false => Err(exists.remedy("choose another name, or write IF NOT EXISTS")),
            };
        }
        match option("type") {
            Some(IN_MEMORY) => {}
            Some(other) => {
                return Err(Error::user(format!("catalogs of type '{other}' are not supported")).remedy(format!(
                    "declare the tables with CREATE TABLE, in a catalog of type '{IN_MEMORY}' if its name matters"
                )));
            }
            None => {
                return Err(
                    Error::user("the catalog has no type").remedy(format!("write WITH ('type' = '{IN_MEMORY}')"))
                );
            }
        }
        if let Some(other) = options.keys().find(|name| !["type", DEFAULT_OF_CATALOG].contains(&name.as_str())) {
            return Err(Error::user(format!("option '{other}' is unknown to catalogs of type '{IN_MEMORY}'"))
                .remedy(format!("the options are: type, {DEFAULT_OF_CATALOG}")));
        }
        let first = option(DEFAULT_OF_CATALOG).unwrap_or("default");
        self.catalogs.insert(name.to_owned(), OfCatalog::new(first));
        Ok(format!("catalog {name} created"))
    }

    /// From now on, names of databases without a catalog are of this one. Returns a text for the user.
    pub(crate) fn use_catalog(&mut self, parts: &[&str]) -> Result<String> {
        let name = of_catalog(parts)?;
        let Some(of) = self.catalogs.get(name) else { return Err(self.unknown_catalog(name)) };
        if name != self.catalog {
            self.database = Some(of.first.clone()).filter(|first| of.databases.contains(first));
            name.clone_into(&mut self.catalog);
        }
        Ok(format!("the catalog is {name}"))
    }

    pub(crate) fn catalogs(&self) -> impl Iterator<Item = &str> {
        self.catalogs.keys().map(String::as_str)
    }

    /// Of the catalog in use.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &str> {
        self.catalogs.get(&self.catalog).into_iter().flat_map(|of| &of.databases).map(String::as_str)
    }

    pub(crate) fn catalog(&self) -> &str {
        &self.catalog
    }

    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
}

fn of_catalog<'a>(parts: &[&'a str]) -> Result<&'a str> {
    match parts {
        [name] => Ok(name),
        _ => Err(Error::user("the name of a catalog has one part").remedy("write it without points")),
    }
}

fn none_in_use() -> Error {
    Error::user("no database is in use").remedy("write USE and the name of a database")
}

/// The type of catalogs that a session keeps by itself.
const IN_MEMORY: &str = "generic_in_memory";
/// The option with the name of the database that such a catalog begins with.
const DEFAULT_OF_CATALOG: &str = "default-database";
