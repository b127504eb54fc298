//! Parses `CREATE`, `DROP` and `USE` of catalogs and databases.

use std::collections::BTreeMap;

use anabranch_model::Result;
use datafusion_sql::sqlparser::ast::{Ident, ObjectName};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::Location;

use super::create_table::{comment, options};
use super::parsed;

/// A statement on catalogs or databases. A database is named by one part, or by two with its catalog.
#[derive(Debug)]
pub(crate) enum DatabaseStatement {
    CreateDatabase { database: QualifiedName, if_not_exists: bool },
    DropDatabase { database: QualifiedName, if_exists: bool, cascade: bool },
    UseDatabase(QualifiedName),
    CreateCatalog { catalog: QualifiedName, options: BTreeMap<String, String>, if_not_exists: bool },
    UseCatalog(QualifiedName),
}

/// A name of one or more parts.
#[derive(Debug)]
pub(crate) struct QualifiedName {
    parts: Vec<Ident>,
    pub(crate) start: Location,
}

impl QualifiedName {
    pub(crate) fn parts(&self) -> Vec<&str> {
        self.parts.iter().map(|part| part.value.as_str()).collect()
    }
}

/// Parses what follows `CREATE`. `None`: something else is created.
pub(super) fn create(parser: &mut Parser) -> Result<Option<DatabaseStatement>> {
    let Some(kind) = parser.parse_one_of_keywords(&[Keyword::DATABASE, Keyword::CATALOG]) else { return Ok(None) };
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let named = qualified_name(parser)?;
    comment(parser)?;
    let options = if parser.parse_keyword(Keyword::WITH) { options(parser)? } else { BTreeMap::new() };
    Ok(Some(match kind {
        // Options of a database have no effect on its tables.
        Keyword::DATABASE => DatabaseStatement::CreateDatabase { database: named, if_not_exists },
        _ => DatabaseStatement::CreateCatalog { catalog: named, options, if_not_exists },
    }))
}

/// Parses what follows `DROP`. `None`: something else is dropped.
pub(super) fn drop_database(parser: &mut Parser) -> Result<Option<DatabaseStatement>> {
    if !parser.parse_keyword(Keyword::DATABASE) {
        return Ok(None);
    }
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let database = qualified_name(parser)?;
    let cascade = parser.parse_one_of_keywords(&[Keyword::RESTRICT, Keyword::CASCADE]) == Some(Keyword::CASCADE);
    Ok(Some(DatabaseStatement::DropDatabase { database, if_exists, cascade }))
}

/// Parses `USE ...`.
pub(super) fn use_database(parser: &mut Parser) -> Result<DatabaseStatement> {
    parser.next_token();
    let of_catalog = parser.parse_keyword(Keyword::CATALOG);
    let named = qualified_name(parser)?;
    Ok(if of_catalog { DatabaseStatement::UseCatalog(named) } else { DatabaseStatement::UseDatabase(named) })
}

pub(super) fn qualified_name(parser: &mut Parser) -> Result<QualifiedName> {
    let start = parser.peek_token().span.start;
    let name: ObjectName = parsed(parser.parse_object_name(false))?;
    Ok(QualifiedName { parts: name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(), start })
}
