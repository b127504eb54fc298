//! `SHOW CREATE TABLE`: a declaration as a statement. Values of secret options are left out where people see it.

use anabranch_dataflow::sql_name;
use anabranch_model::is_secret;

use crate::statement::{ColumnKind, CreateTable};

/// The statement that declares the table, for people.
pub(crate) fn shown_table(table: &CreateTable) -> String {
    table_text(table, is_secret)
}

/// A statement that declares the table, whatever was declared before, with its secrets.
pub(crate) fn declaration(table: &CreateTable) -> String {
    table_text(table, |_| false).replacen("CREATE", "CREATE OR REPLACE", 1)
}

fn table_text(table: &CreateTable, is_hidden: impl Fn(&str) -> bool) -> String {
    let name = |text: &str| format!("`{}`", text.replace('`', "``"));
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut elements: Vec<String> = Vec::new();
    for column in &table.columns {
        let column_name = name(&column.name.value);
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
        elements.push(format!("WATERMARK FOR {} AS {}", name(&watermark.column.value), watermark.expr));
    }
    if !table.primary_key.is_empty() {
        let keys: Vec<String> = table.primary_key.iter().map(|key| name(&key.value)).collect();
        elements.push(format!("PRIMARY KEY ({}) NOT ENFORCED", keys.join(", ")));
    }
    let options = table.options.iter().map(|(key, value)| {
        let value = if is_hidden(key) { "***" } else { value };
        format!("{} = {}", text(key), text(value))
    });
    let options: Vec<String> = options.collect();
    let mut lines = format!("CREATE TABLE {}", name(&table.name.value));
    let list = |before: &str, list: Vec<String>| match list.is_empty() {
        true => String::new(),
        false => format!("{before}\n  {}\n)", list.join(",\n  ")),
    };
    lines.push_str(&list(" (", elements));
    if !table.partitioned_by.is_empty() {
        let keys: Vec<String> = table.partitioned_by.iter().map(|key| name(&key.value)).collect();
        lines.push_str(&format!(" PARTITIONED BY ({})", keys.join(", ")));
    }
    lines.push_str(&list(" WITH (", options));
    lines
}
