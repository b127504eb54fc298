//! Carries out `SHOW` and `DESCRIBE`. A declaration is shown as a statement. The values of secret options are
//! hidden from users.

use std::collections::BTreeSet;
use std::fmt::Write;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result, is_secret};
use datafusion_sql::sqlparser::ast::Ident;

use crate::TableResolver;
use crate::catalog::{Catalog, Relation};
use crate::databases::parts_of;
use crate::place::{at, planning_error};
use crate::sql_function::SqlFunction;
use crate::statement::{ColumnKind, CreateTable, Pattern, QualifiedName, Show};
use crate::zones::zone_windows;

/// The output of a statement.
pub(crate) fn show(what: &Show, catalog: &Catalog, resolver: &dyn TableResolver) -> Result<String> {
    let relation = |name: &Ident| catalog.get(&name.value).map_err(|e| e.at(at(name.span.start)));
    let lines = |lines: Vec<String>| Ok(lines.join("\n"));
    let takes = |pattern: &Option<Pattern>, name: &str| pattern.as_ref().is_none_or(|pattern| pattern.takes(name));
    match what {
        Show::Settings => {
            lines(catalog.settings.list().into_iter().map(|(name, value)| format!("{name} = {value}")).collect())
        }
        Show::Relations { views, of, pattern } => {
            let parts = of.as_ref().map(QualifiedName::parts).unwrap_or_default();
            let (of_catalog, database) = catalog.databases.existing(&parts).map_err(|e| match of {
                Some(of) => e.at(at(of.start)),
                None => e,
            })?;
            let own = catalog.declared().filter(|(path, _)| path.is_in(&of_catalog, &database));
            let own = own.map(|(path, relation)| (path.table.as_str(), relation.kind()));
            let names = own.filter(|(name, kind)| (!views || *kind == "view") && takes(pattern, name));
            lines(names.map(|(name, kind)| format!("{name} ({kind})")).collect())
        }
        Show::Functions { user, pattern } => {
            let own = || catalog.sql_functions().map(str::to_owned).collect();
            let names: Vec<String> = if *user { own() } else { catalog.function_names() };
            lines(names.into_iter().filter(|name| takes(pattern, name)).collect())
        }
        Show::Connectors => {
            let connectors = resolver.connectors();
            let width = connectors.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            lines(connectors.into_iter().map(|(name, about)| format!("{name:width$}  {about}")).collect())
        }
        Show::Catalogs => lines(catalog.databases.catalogs().map(str::to_owned).collect()),
        Show::Databases => lines(catalog.databases.databases().map(str::to_owned).collect()),
        Show::CurrentCatalog => Ok(catalog.databases.catalog().to_owned()),
        Show::CurrentDatabase => Ok(catalog.databases.database().unwrap_or("none").to_owned()),
        Show::Columns(name) => describe(relation(name)?, catalog.settings.table.zone.as_deref()),
        Show::CreateTable(name) => {
            let table = catalog.table(&name.value).map_err(|e| e.at(at(name.span.start)))?;
            Ok(table_text(&table.statement, is_secret))
        }
        Show::CreateView(name) => match relation(name)? {
            Relation::View(view) => Ok(view.text.clone()),
            Relation::Table(_) => {
                let error = Error::user(format!("'{}' is a table, not a view", name.value)).at(at(name.span.start));
                Err(error.remedy(format!("write SHOW CREATE TABLE {name}")))
            }
        },
        Show::CreateFunction(name) => {
            let function = catalog.sql_function(&name.value).and_then(|function| SqlFunction::from_udf(function));
            let function = function.ok_or_else(|| catalog.unknown_function(&name.value).at(at(name.span.start)))?;
            Ok(function.text().to_owned())
        }
    }
}

/// The columns with their types, and the event time.
fn describe(relation: &Relation, zone: Option<&str>) -> Result<String> {
    let (plan, table) = match relation {
        Relation::Table(declared) => (&declared.plan, Some(&declared.table)),
        Relation::View(view) => (&view.plan, None),
    };
    let plan = zone_windows(plan.clone(), zone).map_err(planning_error)?;
    let width = plan.columns().fields().iter().map(|f| f.name().chars().count()).max().unwrap_or(0);
    let physical = table.map(|table| table.physical.fields().iter().map(|field| field.name()));
    let physical: BTreeSet<&String> = physical.into_iter().flatten().collect();
    let mut lines = Vec::new();
    for field in plan.columns().fields() {
        let mut line = format!("{:width$}  {}", field.name(), sql_name(field.data_type()));
        if !field.is_nullable() {
            line.push_str(" NOT NULL");
        }
        if let Some(table) = table {
            if !physical.contains(field.name()) {
                line.push_str("  computed");
            }
            let key = table.physical.index_of(field.name()).ok().and_then(|column| table.metadata.get(&column));
            if let Some(key) = key {
                line.push_str(&format!("  metadata from '{key}'"));
            }
            if table.primary_key.contains(field.name()) {
                line.push_str("  primary key");
            }
            if let Some(watermark) = table.watermark.as_ref().filter(|w| w.column == *field.name()) {
                let _ = write!(line, "  event time, watermark {} ms behind", watermark.delay_ms);
            }
        }
        lines.push(line);
    }
    if let Some(table) = table {
        lines.push(format!("connector {}", table.spec));
    }
    Ok(lines.join("\n"))
}

/// The quoted name of a table.
fn path_text(name: &str) -> String {
    parts_of(name).iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".")
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A statement that replaces the declaration of the table, including its secrets.
pub(crate) fn declaration(table: &CreateTable) -> String {
    table_text(table, |_| false).replacen("CREATE", "CREATE OR REPLACE", 1)
}

fn table_text(table: &CreateTable, is_hidden: impl Fn(&str) -> bool) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut elements: Vec<String> = Vec::new();
    for column in &table.columns {
        let column_name = quoted(&column.name.value);
        elements.push(match &column.kind {
            ColumnKind::Physical { data_type, nullable } => {
                format!("{column_name} {}{}", sql_name(data_type), if *nullable { "" } else { " NOT NULL" })
            }
            ColumnKind::Metadata { data_type, nullable, key, is_virtual } => {
                let not_null = if *nullable { "" } else { " NOT NULL" };
                let last = if *is_virtual { " VIRTUAL" } else { "" };
                format!("{column_name} {}{not_null} METADATA FROM {}{last}", sql_name(data_type), text(key))
            }
            ColumnKind::Computed(expr) => format!("{column_name} AS {expr}"),
        });
    }
    if let Some(watermark) = &table.watermark {
        elements.push(format!("WATERMARK FOR {} AS {}", quoted(&watermark.column.value), watermark.expr));
    }
    if !table.primary_key.is_empty() {
        let keys: Vec<String> = table.primary_key.iter().map(|key| quoted(&key.value)).collect();
        elements.push(format!("PRIMARY KEY ({}) NOT ENFORCED", keys.join(", ")));
    }
    let options = table.options.iter().map(|(key, value)| {
        let value = if is_hidden(key) { "***" } else { value };
        format!("{} = {}", text(key), text(value))
    });
    let options: Vec<String> = options.collect();
    let mut lines = format!("CREATE TABLE {}", path_text(&table.name.value));
    let list = |before: &str, list: Vec<String>| match list.is_empty() {
        true => String::new(),
        false => format!("{before}\n  {}\n)", list.join(",\n  ")),
    };
    lines.push_str(&list(" (", elements));
    if !table.partitioned_by.is_empty() {
        let keys: Vec<String> = table.partitioned_by.iter().map(|key| quoted(&key.value)).collect();
        lines.push_str(&format!(" PARTITIONED BY ({})", keys.join(", ")));
    }
    lines.push_str(&list(" WITH (", options));
    lines
}
