//! Catalogs and databases of a session, and the names of tables and views in them.
//!
//! A statement names a table by one to three parts. The parser [joins](joined) them with dots into one word.
//! A part that contains a dot or a backquote is in backquotes. The catalog finds a table by its [`Path`].
//! Plans, metrics and checkpoints identify it by its [label](Path::label).

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, Result, nearest};
use datafusion_sql::sqlparser::ast::{Ident, ObjectName};

/// Flink's names of the catalog and the database of a new session.
const DEFAULT_CATALOG: &str = "default_catalog";
const DEFAULT_DATABASE: &str = "default_database";

/// The catalog, the database and the name of a table or view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    catalog: String,
    database: String,
    pub(crate) table: String,
}

impl Path {
    pub(crate) fn database(&self) -> [&str; 2] {
        [&self.catalog, &self.database]
    }

    /// The table's name in plans. It contains the database unless that is the default one.
    pub(crate) fn label(&self) -> String {
        let Path { catalog, database, table } = self;
        match (catalog.as_str(), database.as_str()) {
            (DEFAULT_CATALOG, DEFAULT_DATABASE) => table.clone(),
            (DEFAULT_CATALOG, database) => format!("{database}.{table}"),
            (catalog, database) => format!("{catalog}.{database}.{table}"),
        }
    }

    pub(crate) fn is_in(&self, catalog: &str, database: &str) -> bool {
        self.catalog == catalog && self.database == database
    }
}

/// Joins the parts of a name into one word.
pub(crate) fn joined<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let word = |part: &'a str| match part.contains(['.', '`']) {
        true => format!("`{}`", part.replace('`', "``")),
        false => part.to_owned(),
    };
    parts.into_iter().map(word).collect::<Vec<_>>().join(".")
}

/// The parts of a name that [`joined`] has made.
pub(crate) fn parts_of(name: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '`' if quoted && letters.peek() == Some(&'`') => part.extend(letters.next()),
            '`' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            _ => part.push(letter),
        }
    }
    parts.push(part);
    parts
}

/// The qualified name of a table or view as one word.
pub(crate) fn plain(name: &ObjectName) -> Option<Ident> {
    let parts: Vec<&Ident> = name.0.iter().map(|part| part.as_ident()).collect::<Option<_>>()?;
    let first = parts.first().filter(|_| parts.len() <= 3)?;
    Some(Ident { value: joined(parts.iter().map(|part| part.value.as_str())), ..(*first).clone() })
}

/// The catalogs with their databases, and the ones in use.
pub(crate) struct Databases {
    catalogs: BTreeMap<String, CatalogEntry>,
    catalog: String,
    /// `None`: it was dropped.
    database: Option<String>,
}

/// The databases of a catalog.
struct CatalogEntry {
    /// The database that `USE CATALOG` selects.
    first: String,
    databases: BTreeSet<String>,
}

impl CatalogEntry {
    fn new(first: &str) -> CatalogEntry {
        CatalogEntry { first: first.to_owned(), databases: BTreeSet::from([first.to_owned()]) }
    }
}

impl Databases {
    pub(crate) fn new() -> Databases {
        Databases {
            catalogs: BTreeMap::from([(DEFAULT_CATALOG.to_owned(), CatalogEntry::new(DEFAULT_DATABASE))]),
            catalog: DEFAULT_CATALOG.to_owned(),
            database: Some(DEFAULT_DATABASE.to_owned()),
        }
    }

    /// The path of a name in a statement. Its database must exist, the table need not.
    pub(crate) fn path(&self, name: &str) -> Result<Path> {
        let mut parts = parts_of(name);
        let table = parts.pop().unwrap_or_default();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (catalog, database) = self.existing(&parts)?;
        Ok(Path { catalog, database, table })
    }

    /// The catalog and the existing database of these parts. Without parts, the ones in use.
    pub(crate) fn existing(&self, parts: &[&str]) -> Result<(String, String)> {
        let (catalog, database) = match (parts, &self.database) {
            ([], Some(database)) => (self.catalog.clone(), database.clone()),
            ([], None) => {
                return Err(Error::user("no database is in use").remedy("write USE and the name of a database"));
            }
            _ => self.named(parts)?,
        };
        if self.has(&catalog, &database) {
            return Ok((catalog, database));
        }
        let error = Error::user(format!("there is no database '{database}'"));
        let known = self.catalogs.get(&catalog).into_iter().flat_map(|entry| &entry.databases).map(String::as_str);
        Err(match nearest(&database, known) {
            Some(near) => error.remedy(format!("did you mean '{near}'?")),
            None => error.remedy(format!("write CREATE DATABASE {database}")),
        })
    }

    fn has(&self, catalog: &str, database: &str) -> bool {
        self.catalogs.get(catalog).is_some_and(|entry| entry.databases.contains(database))
    }

    /// The existing catalog, and the database that `[catalog.]database` names.
    fn named(&self, parts: &[&str]) -> Result<(String, String)> {
        match parts {
            [database] => Ok((self.catalog.clone(), (*database).to_owned())),
            [catalog, database] if self.catalogs.contains_key(*catalog) => {
                Ok(((*catalog).to_owned(), (*database).to_owned()))
            }
            [catalog, _] => Err(self.unknown_catalog(catalog)),
            _ => Err(Error::user("the name of a database has one part, or two with that of its catalog")
                .remedy("write db, or catalog.db")),
        }
    }

    fn unknown_catalog(&self, catalog: &str) -> Error {
        let error = Error::user(format!("there is no catalog '{catalog}'"));
        match nearest(catalog, self.catalogs.keys().map(String::as_str)) {
            Some(near) => error.remedy(format!("did you mean '{near}'?")),
            None => error.remedy(format!("write CREATE CATALOG {catalog} WITH ('type' = '{IN_MEMORY}')")),
        }
    }

    /// Adds a database. Returns the message for the user.
    pub(crate) fn create(&mut self, parts: &[&str], if_not_exists: bool) -> Result<String> {
        let (catalog, database) = self.named(parts)?;
        let is_new = self.catalogs.get_mut(&catalog).is_some_and(|entry| entry.databases.insert(database.clone()));
        match (is_new, if_not_exists) {
            (true, _) => Ok(format!("database {database} created")),
            (false, true) => Ok(format!("database {database} exists")),
            (false, false) => Err(Error::user(format!("there is already a database '{database}'"))
                .remedy("choose another name, or write IF NOT EXISTS")),
        }
    }

    /// Removes a database. The caller removes its tables.
    pub(crate) fn remove(&mut self, catalog: &str, database: &str) -> Result<()> {
        if (catalog, database) == (DEFAULT_CATALOG, DEFAULT_DATABASE) {
            return Err(Error::user(format!("database {DEFAULT_CATALOG}.{DEFAULT_DATABASE} cannot be dropped"))
                .remedy("drop its tables"));
        }
        if let Some(entry) = self.catalogs.get_mut(catalog) {
            entry.databases.remove(database);
        }
        if catalog == self.catalog && self.database.as_deref() == Some(database) {
            self.database = None;
        }
        Ok(())
    }

    /// Makes this database the default for names. Returns the message for the user.
    pub(crate) fn use_database(&mut self, parts: &[&str]) -> Result<String> {
        let (catalog, database) = self.existing(parts)?;
        let text = format!("the database is {database}");
        (self.catalog, self.database) = (catalog, Some(database));
        Ok(text)
    }

    /// Adds a catalog with one database. Returns the message for the user.
    pub(crate) fn create_catalog(
        &mut self,
        parts: &[&str],
        options: &BTreeMap<String, String>,
        if_not_exists: bool,
    ) -> Result<String> {
        let name = catalog_name(parts)?;
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
        self.catalogs.insert(name.to_owned(), CatalogEntry::new(first));
        Ok(format!("catalog {name} created"))
    }

    /// Makes this catalog the default for databases. Returns the message for the user.
    pub(crate) fn use_catalog(&mut self, parts: &[&str]) -> Result<String> {
        let name = catalog_name(parts)?;
        let Some(entry) = self.catalogs.get(name) else { return Err(self.unknown_catalog(name)) };
        if name != self.catalog {
            self.database = Some(entry.first.clone()).filter(|first| entry.databases.contains(first));
            name.clone_into(&mut self.catalog);
        }
        Ok(format!("the catalog is {name}"))
    }

    /// The shortest name by which a statement can name a table now.
    pub(crate) fn short_name(&self, path: &Path) -> String {
        let Path { catalog, database, table } = path;
        match (*catalog == self.catalog, self.database.as_ref() == Some(database)) {
            (true, true) => joined([table.as_str()]),
            (true, false) => joined([database.as_str(), table]),
            (false, _) => joined([catalog.as_str(), database, table]),
        }
    }

    pub(crate) fn catalogs(&self) -> impl Iterator<Item = &str> {
        self.catalogs.keys().map(String::as_str)
    }

    /// The databases of the catalog in use.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &str> {
        self.catalogs.get(&self.catalog).into_iter().flat_map(|entry| &entry.databases).map(String::as_str)
    }

    pub(crate) fn catalog(&self) -> &str {
        &self.catalog
    }

    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
}

fn catalog_name<'a>(parts: &[&'a str]) -> Result<&'a str> {
    match parts {
        [name] => Ok(name),
        _ => Err(Error::user("the name of a catalog has one part").remedy("write it without dots")),
    }
}

/// The type of catalogs that only a session holds.
const IN_MEMORY: &str = "generic_in_memory";
/// The option with the name of such a catalog's first database.
const DEFAULT_OF_CATALOG: &str = "default-database";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names_are_found_again() {
        for parts in [vec!["t"], vec!["d", "t"], vec!["a.b", "t`s", "x.y"], vec!["", "."]] {
            assert_eq!(parts_of(&joined(parts.iter().copied())), parts);
        }
        assert_eq!(joined(["shop", "orders"]), "shop.orders");
        assert_eq!(joined(["my.db", "orders"]), "`my.db`.orders");
    }
}
