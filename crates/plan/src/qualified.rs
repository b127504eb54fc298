//! Names of tables in queries that have a database before them, or a point of their own: a table becomes one word that the catalog understands,
//! see [`joined`], and is called by its own name in its query.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Spanned, TableAlias,
    TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::databases::joined;
use crate::hints::{misplaced, without_options};
use crate::place::at;
use crate::walk::change_relations;

/// Names the tables of a query so.
///
/// # Errors
/// A hint with options of a name of WITH, and a column whose database does not say which table is meant.
pub(crate) fn name_tables(query: &mut Query) -> Result<()> {
    let mut names = Names::default();
    if let ControlFlow::Break(error) = VisitMut::visit(query, &mut names) {
        return Err(error);
    }
    if !names.databases.is_empty()
        && let ControlFlow::Break(error) = VisitMut::visit(query, &mut Columns(&names))
    {
        return Err(error);
    }
    let mut common = CommonNames::default();
    let _ = Visit::visit(query, &mut common);
    let named = change_relations(query, &mut |name| {
        let own = match name.0.as_slice() {
            [own] => own.as_ident(),
            _ => None,
        };
        if let Some(own) = own.filter(|own| without_options(&own.value).is_some_and(|base| common.0.contains(base))) {
            return ControlFlow::Break(misplaced(own.span.start));
        }
        if own.is_none_or(|own| !common.0.contains(&own.value))
            && let Some(plain) = plain(name)
        {
            *name = ObjectName::from(vec![plain]);
        }
        ControlFlow::Continue(())
    });
    match named {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The parts of a name as one, if they can be those of a table.
pub(crate) fn of_session(parts: Vec<Ident>) -> Vec<Ident> {
    plain(&ObjectName::from(parts.clone())).map_or(parts, |plain| vec![plain])
}

/// The name of a table or view as one word.
pub(crate) fn plain(name: &ObjectName) -> Option<Ident> {
    let parts: Vec<&Ident> = name.0.iter().map(|part| part.as_ident()).collect::<Option<_>>()?;
    let first = parts.first().filter(|_| parts.len() <= 3)?;
    Some(Ident { value: joined(parts.iter().map(|part| part.value.as_str())), ..(*first).clone() })
}

/// What tables are called, after each has been given its own name.
#[derive(Default)]
struct Names {
    /// How many are called so.
    own: BTreeMap<String, usize>,
    /// What stands before the names of tables.
    databases: BTreeSet<Vec<String>>,
}

impl VisitorMut for Names {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        let mut called = None;
        match table {
            TableFactor::Table { name, alias, .. } => {
                let mut parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
                if let Some(last) = parts.pop() {
                    let base = without_options(&last.value);
                    let own = base.unwrap_or(&last.value);
                    if alias.is_none() && (base.is_some() || !parts.is_empty() || own.contains(['.', '`'])) {
                        let name = Ident { span: last.span, ..Ident::with_quote('`', own) };
                        *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                    }
                    called = Some(own.to_owned());
                }
                if !parts.is_empty() {
                    self.databases.insert(parts.iter().map(|part| part.value.clone()).collect());
                }
                called = alias.as_ref().map(|alias| alias.name.value.clone()).or(called);
            }
            TableFactor::Derived { alias: Some(alias), .. } => called = Some(alias.name.value.clone()),
            _ => {}
        }
        if let Some(called) = called {
            *self.own.entry(called).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Takes the database from the names of columns.
struct Columns<'a>(&'a Names);

impl Columns<'_> {
    /// How many parts of a name are those of a database. `rest`: at least so many follow the table's name.
    fn database(&self, parts: &[&str], rest: usize, start: Location) -> Result<usize> {
        let Names { own, databases } = self.0;
        for database in databases {
            let Some((table, columns)) = parts
                .strip_prefix(database.iter().map(String::as_str).collect::<Vec<_>>().as_slice())
                .and_then(|rest| rest.split_first())
            else {
                continue;
            };
            match own.get(*table) {
                Some(1) if columns.len() >= rest => return Ok(database.len()),
                Some(_) if columns.len() >= rest => {
                    let error = Error::user(format!("several tables of the statement are called '{table}'"));
                    return Err(error.at(at(start)).remedy("give each an alias, and name columns by it"));
                }
                _ => {}
            }
        }
        Ok(0)
    }
}

impl VisitorMut for Columns<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let start = expr.span().start;
        let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
        let words: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
        match self.database(&words, 1, start) {
            Ok(database) => drop(parts.drain(..database)),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            let select = match body {
                SetExpr::Select(select) => select,
                SetExpr::SetOperation { left, right, .. } => {
                    bodies.extend([left.as_mut(), right.as_mut()]);
                    continue;
                }
                _ => continue,
            };
            for item in &mut select.projection {
                let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
                    continue;
                };
                let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
                let words: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
                let start = parts.first().map_or(Location::new(0, 0), |part| part.span.start);
                match self.database(&words, 0, start) {
                    Ok(database) => drop(name.0.drain(..database)),
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names that queries give to others in WITH: they have no database.
#[derive(Default)]
struct CommonNames(BTreeSet<String>);

impl Visitor for CommonNames {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(tables.map(|table| table.alias.name.value.clone()));
        ControlFlow::Continue(())
    }
}
