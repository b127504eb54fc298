//! `CREATE TABLE ... LIKE`: merges a declaration with another table's. The rules are Flink's.

use anabranch_model::{Error, Result};

use crate::catalog::Catalog;
use crate::place::at;
use crate::statement::{ColumnDefinition, ColumnKind, CreateTable, Like, Merging};

/// The merged declaration.
pub(crate) fn merged(own: CreateTable, like: &Like, catalog: &Catalog) -> Result<CreateTable> {
    let here = |error: Error| error.at(at(like.table.span.start));
    let base = &catalog.table(&like.table.value).map_err(here)?.statement;
    let twice = |what: &str, part: &str, merging: Merging, other: &str| match merging {
        Merging::Including => Err(here(
            Error::user(format!("both tables have {what}")).remedy(format!("write LIKE ... (EXCLUDING {part}){other}")),
        )),
        Merging::Excluding | Merging::Overwriting => Ok(()),
    };
    let mut options = match like.options {
        Merging::Excluding => Default::default(),
        Merging::Including | Merging::Overwriting => base.options.clone(),
    };
    for (name, value) in own.options {
        if options.insert(name.clone(), value).is_some() {
            twice(&format!("the option '{name}'"), "OPTIONS", like.options, ", or OVERWRITING OPTIONS")?;
        }
    }
    let (mut watermark, mut primary_key, mut partitioned_by) = (own.watermark, own.primary_key, own.partitioned_by);
    if like.watermarks != Merging::Excluding && base.watermark.is_some() {
        match watermark {
            Some(_) => twice("a watermark", "WATERMARKS", like.watermarks, ", or OVERWRITING WATERMARKS")?,
            None => watermark.clone_from(&base.watermark),
        }
    }
    if like.constraints != Merging::Excluding && !base.primary_key.is_empty() {
        match primary_key.is_empty() {
            true => primary_key.clone_from(&base.primary_key),
            false => twice("a primary key", "CONSTRAINTS", like.constraints, "")?,
        }
    }
    if like.partitions != Merging::Excluding && !base.partitioned_by.is_empty() {
        match partitioned_by.is_empty() {
            true => partitioned_by.clone_from(&base.partitioned_by),
            false => twice("PARTITIONED BY", "PARTITIONS", like.partitions, "")?,
        }
    }
    let columns = columns(&base.columns, own.columns, like)?;
    Ok(CreateTable { columns, watermark, primary_key, partitioned_by, options, like: None, ..own })
}

/// The columns of the other table, then the new ones. A column that overwrites another takes its position.
fn columns(base: &[ColumnDefinition], own: Vec<ColumnDefinition>, like: &Like) -> Result<Vec<ColumnDefinition>> {
    let part = |column: &ColumnDefinition| match column.kind {
        ColumnKind::Physical { .. } => None,
        ColumnKind::Metadata { .. } => Some(("METADATA", like.metadata)),
        ColumnKind::Computed(_) => Some(("GENERATED", like.generated)),
    };
    let stays = |column: &&ColumnDefinition| part(column).is_none_or(|(_, merging)| merging != Merging::Excluding);
    let mut columns: Vec<ColumnDefinition> = base.iter().filter(stays).cloned().collect();
    for column in own {
        let Some(index) = columns.iter().position(|other| other.name.value == column.name.value) else {
            columns.push(column);
            continue;
        };
        let same = part(&columns[index]).zip(part(&column)).filter(|(other, own)| other.0 == own.0);
        match same {
            Some((_, (_, Merging::Overwriting))) => columns[index] = column,
            same => {
                let what = format!("'{}' has a column '{}' too", like.table.value, column.name.value);
                return Err(Error::user(what).at(at(column.name.span.start)).remedy(match same {
                    Some(((part, _), _)) => format!("write LIKE ... (EXCLUDING {part}), or OVERWRITING {part}"),
                    None => "give it another name".to_owned(),
                }));
            }
        }
    }
    Ok(columns)
}
