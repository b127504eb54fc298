//! The tables, views, functions and options that statements have declared.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::{Error, Result, nearest};
use datafusion_expr::ScalarUDF;

use crate::databases::{Databases, Path};
use crate::functions::Functions;
use crate::hints::without_options;
use crate::rel::Rel;
use crate::settings::Settings;
use crate::sql_function::is_reserved;
use crate::table::{Declared, Table};

/// The state of a session. Statements change it; it is never written to disk.
pub struct Catalog {
    relations: BTreeMap<Path, Relation>,
    pub(crate) databases: Databases,
    pub(crate) settings: Settings,
    pub(crate) functions: Arc<Functions>,
    /// Declared functions by name in lower case.
    sql_functions: BTreeMap<String, Arc<ScalarUDF>>,
    /// One text has all declarations, so all places in plans refer to it.
    pub(crate) has_one_text: bool,
}

#[derive(Clone)]
pub(crate) enum Relation {
    Table(Arc<Declared>),
    View(Arc<View>),
}

/// A query with a name.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) plan: Rel,
    /// The statement that declares it.
    pub(crate) text: String,
}

/// Aggregates that the planner replaces by calls of other functions.
const FLINK_AGGREGATES: [&str; 5] =
    ["approx_count_distinct", "json_arrayagg", "json_objectagg", "listagg", "percentile"];

impl Catalog {
    /// An empty catalog.
    #[must_use]
    pub fn new() -> Self {
        Catalog {
            relations: BTreeMap::new(),
            databases: Databases::new(),
            settings: Settings::default(),
            functions: Arc::new(Functions::new()),
            sql_functions: BTreeMap::new(),
            has_one_text: false,
        }
    }

    /// The names of all tables and views, with their kinds. A name has its database and catalog only if these
    /// are not the ones in use.
    pub fn names(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.declared().map(|(path, relation)| (self.databases.short_name(path), relation.kind()))
    }

    /// Declared tables and views, without the variants that OPTIONS hints create.
    pub(crate) fn declared(&self) -> impl Iterator<Item = (&Path, &Relation)> {
        self.relations.iter().filter(|(path, _)| without_options(&path.table).is_none())
    }

    /// The names of the columns of a table or view; none if there is no such relation.
    #[must_use]
    pub fn columns(&self, relation: &str) -> Vec<&str> {
        let plan = match self.get(relation) {
            Ok(Relation::Table(declared)) => &declared.plan,
            Ok(Relation::View(view)) => &view.plan,
            Err(_) => return Vec::new(),
        };
        plan.columns().fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The names of all functions that SQL may call, in alphabetical order and lower case.
    #[must_use]
    pub fn function_names(&self) -> Vec<String> {
        let mut names = self.functions.scalar_names();
        names.extend(self.aggregate_names());
        names.extend(self.sql_functions.keys().cloned());
        names.sort();
        names.dedup();
        names
    }

    /// The names of all aggregates, in lower case.
    pub(crate) fn aggregate_names(&self) -> Vec<String> {
        let mut names = self.functions.aggregate_names();
        names.extend(FLINK_AGGREGATES.map(str::to_owned));
        names
    }

    /// Sets an option, as `SET` does, for jobs with this number of key groups.
    pub fn set(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        self.settings.preset(name, value, key_groups)
    }

    /// Sets an option to a value that `SET` cannot change.
    pub fn fix(&mut self, name: &str, value: &str, key_groups: u16) -> Result<()> {
        self.settings.fix(name, value, key_groups)
    }

    /// The names of all options of `SET`.
    #[must_use]
    pub fn setting_names(&self) -> Vec<String> {
        self.settings.list().into_iter().map(|(name, _)| name).collect()
    }

    /// The option `job-name`.
    #[must_use]
    pub fn job_name(&self) -> &str {
        &self.settings.job.job_name
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Relation> {
        self.relations.get(&self.databases.path(name)?).ok_or_else(|| self.unknown("table", name))
    }

    pub(crate) fn table(&self, name: &str) -> Result<&Arc<Table>> {
        match self.get(name)? {
            Relation::Table(declared) => Ok(&declared.table),
            Relation::View(_) => Err(no_table(name)),
        }
    }

    /// The table with this label in plans.
    pub(crate) fn labelled(&self, label: &str) -> Result<&Arc<Table>> {
        match self.relations.iter().find(|(path, _)| path.label() == label) {
            Some((_, Relation::Table(declared))) => Ok(&declared.table),
            Some((_, Relation::View(_))) => Err(no_table(label)),
            None => Err(self.unknown("table", label)),
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.databases.path(name).is_ok_and(|path| self.relations.contains_key(&path))
    }

    pub(crate) fn insert(&mut self, name: &str, relation: Relation, replace: bool) -> Result<()> {
        let path = self.databases.path(name)?;
        if let Some(existing) = self.relations.get(&path)
            && (!replace || existing.kind() != relation.kind())
        {
            return Err(Error::user(format!("there is already a {} '{name}'", existing.kind()))
                .remedy(format!("choose another name, or DROP {} {name} first", existing.kind().to_uppercase())));
        }
        let label = path.label();
        if self.relations.keys().any(|other| *other != path && other.label() == label) {
            return Err(Error::user(format!("there is already a table or view that plans call '{label}'"))
                .remedy("choose another name: a database and a table have the name of this table"));
        }
        self.relations.insert(path, relation);
        Ok(())
    }

    /// Restores the former declaration of a name after a failed statement.
    pub(crate) fn put_back(&mut self, name: &str, former: Option<Relation>) {
        let Ok(path) = self.databases.path(name) else { return };
        match former {
            Some(former) => self.relations.insert(path, former),
            None => self.relations.remove(&path),
        };
    }

    pub(crate) fn remove(&mut self, kind: &str, name: &str) -> Result<()> {
        let path = self.databases.path(name)?;
        match self.relations.get(&path) {
            Some(relation) if relation.kind() == kind => {
                self.relations.remove(&path);
                Ok(())
            }
            Some(relation) => Err(Error::user(format!("'{name}' is a {}, not a {kind}", relation.kind()))
                .remedy(format!("write DROP {} {name}", relation.kind().to_uppercase()))),
            None => Err(self.unknown(kind, name)),
        }
    }

    /// Drops a database, with its tables and views if `cascade`. Returns the message for the user.
    pub(crate) fn drop_database(&mut self, parts: &[&str], if_exists: bool, cascade: bool) -> Result<String> {
        let name = parts.last().copied().unwrap_or_default();
        let (catalog, database) = match self.databases.existing(parts) {
            Err(_) if if_exists => return Ok(format!("there is no database {name}")),
            found => found?,
        };
        let inside = self.declared().find(|(path, _)| path.is_in(&catalog, &database));
        if let (false, Some((table, _))) = (cascade, inside) {
            return Err(Error::user(format!("database '{name}' has tables, such as '{}'", table.table))
                .remedy("drop them first, or write CASCADE"));
        }
        self.databases.remove(&catalog, &database)?;
        self.relations.retain(|path, _| !path.is_in(&catalog, &database));
        Ok(format!("database {name} dropped"))
    }

    /// The declared function with this name, ignoring case.
    pub(crate) fn sql_function(&self, name: &str) -> Option<&Arc<ScalarUDF>> {
        self.sql_functions.get(&name.to_lowercase())
    }

    /// The names of declared functions as they are declared.
    pub(crate) fn sql_functions(&self) -> impl Iterator<Item = &str> {
        self.sql_functions.values().map(|function| function.name())
    }

    /// Refuses the names of built-in functions.
    pub(crate) fn check_function_name(&self, name: &str) -> Result<()> {
        let functions = &self.functions;
        if functions.scalar(name).is_none() && functions.aggregate(name).is_none() && !is_reserved(name) {
            return Ok(());
        }
        Err(Error::user(format!("{} is a built-in function of SQL", name.to_uppercase())).remedy("choose another name"))
    }

    pub(crate) fn insert_function(&mut self, function: ScalarUDF, replace: bool) -> Result<()> {
        let name = function.name().to_lowercase();
        if !replace && self.sql_functions.contains_key(&name) {
            return Err(Error::user(format!("there is already a function '{}'", function.name()))
                .remedy("choose another name, or write CREATE OR REPLACE FUNCTION"));
        }
        self.sql_functions.insert(name, Arc::new(function));
        Ok(())
    }

    pub(crate) fn remove_function(&mut self, name: &str) -> Result<()> {
        self.check_function_name(name)?;
        match self.sql_functions.remove(&name.to_lowercase()) {
            Some(_) => Ok(()),
            None => Err(self.unknown_function(name)),
        }
    }

    pub(crate) fn unknown_function(&self, name: &str) -> Error {
        let error = Error::user(format!("there is no function '{name}'"));
        match nearest(name, self.sql_functions()) {
            Some(near) => error.remedy(format!("did you mean '{near}'?")),
            None => error.remedy("SHOW USER FUNCTIONS lists those that statements have declared"),
        }
    }

    fn unknown(&self, kind: &str, name: &str) -> Error {
        let error = Error::user(format!("there is no {kind} '{name}'"));
        let names: Vec<String> = self.names().map(|(name, _)| name).collect();
        match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => error.remedy(format!("did you mean '{near}'?")),
            None if names.is_empty() => error.remedy("declare it with CREATE TABLE"),
            None => error.remedy(format!("declare it with CREATE TABLE; there are: {}", names.join(", "))),
        }
    }
}

fn no_table(name: &str) -> Error {
    Error::user(format!("'{name}' is a view, not a table")).remedy("name a table of CREATE TABLE")
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Relation {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Relation::Table(_) => "table",
            Relation::View(_) => "view",
        }
    }
}
