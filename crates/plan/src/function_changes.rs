//! Replaces or drops functions in the scripts that declare them.
//!
//! A script calls a function in the statements after its declaration. So the new declaration takes the place
//! of the former one, and planning the changed script checks all calls.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::Ident;

use crate::place::{at, or_at};
use crate::statement::{Statement, parse};
use crate::steps::Planned;
use crate::text::{StatementText, split_statements, start_in};

/// Declares no variant of a table, because only the declarations of functions matter here.
fn as_it_is(name: &Ident, _: BTreeMap<String, String>) -> Result<String> {
    Ok(name.value.clone())
}

/// The remedy for other statements.
const FORM: &str = "write CREATE OR REPLACE FUNCTION f(a BIGINT, ...) RETURNS BIGINT RETURN expression";

/// Functions to replace or to drop.
#[derive(Clone, Debug)]
pub struct FunctionChanges {
    changes: Vec<FunctionChange>,
}

#[derive(Clone, Debug)]
struct FunctionChange {
    name: String,
    /// The new declaration. `None`: the function is dropped.
    text: Option<String>,
}

impl FunctionChanges {
    /// Parses statements `CREATE OR REPLACE FUNCTION` and `DROP FUNCTION`.
    ///
    /// # Errors
    /// Other statements, and a function named twice.
    pub fn parse(text: &str) -> Result<FunctionChanges> {
        let mut changes: Vec<FunctionChange> = Vec::new();
        for statement in split_statements(text)? {
            let place = |error: Error| or_at(error, statement.line, statement.column);
            let wrong = |what: &str| Err(place(Error::user(what.to_owned()).remedy(FORM)));
            let (name, text) = match parse(&statement, &mut as_it_is).map_err(place)? {
                Statement::CreateFunction(create) if create.or_replace => (create.name, Some(statement.text.clone())),
                Statement::CreateFunction(_) => return wrong("a function of running jobs is replaced, not created"),
                Statement::Drop { kind: "function", name, .. } => (name, None),
                _ => return wrong("only functions can be changed in all jobs that use them"),
            };
            let start = name.span.start;
            let change = FunctionChange { name: name.value, text };
            if changes.iter().any(|other| other.is(&change.name)) {
                return Err(Error::user(format!("function {} is named twice", change.name)).at(at(start)));
            }
            changes.push(change);
        }
        match changes.is_empty() {
            true => Err(Error::user("there is no statement that changes a function").remedy(FORM)),
            false => Ok(FunctionChanges { changes }),
        }
    }

    /// The functions' names as the statements write them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().map(|change| change.name.as_str())
    }

    /// The functions that the job of a script calls, directly or through views, tables and other functions.
    #[must_use]
    pub fn used_by(&self, job: &Planned) -> Vec<&str> {
        let is_called =
            |name: &&str| job.functions.iter().flatten().any(|called| called.name.eq_ignore_ascii_case(name));
        self.names().filter(is_called).collect()
    }

    /// The functions to drop.
    pub fn dropped(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().filter(|change| change.text.is_none()).map(|change| change.name.as_str())
    }

    /// Replaces the declarations in a script. A function that the script does not declare is declared before
    /// the next replaced one of `self`. Without a next one, no call can need it, and it is omitted.
    ///
    /// # Errors
    /// The script declares one of the functions more than once: each call would have to be assigned to a
    /// declaration.
    pub fn applied_to(&self, script: &str) -> Result<String> {
        let declarations = self.declarations(script)?;
        let mut changed: Vec<(&StatementText, String)> = Vec::new();
        let mut before = String::new();
        for change in &self.changes {
            let Some(text) = &change.text else { continue };
            match declarations.get(&change.name) {
                Some(former) => changed.push((former, std::mem::take(&mut before) + text)),
                None => before.push_str(&format!("{text};\n")),
            }
        }
        changed.sort_by_key(|(former, _)| (former.line, former.column));
        let (mut result, mut copied) = (String::new(), 0);
        for (former, text) in changed {
            let start = start_in(script, former);
            result.push_str(&script[copied..start]);
            result.push_str(&text);
            copied = start + former.text.len();
        }
        result.push_str(&script[copied..]);
        Ok(result)
    }

    /// The statement of a script that declares each function.
    fn declarations(&self, script: &str) -> Result<BTreeMap<String, StatementText>> {
        let mut found = BTreeMap::new();
        let known: BTreeSet<&str> = self.names().collect();
        for statement in split_statements(script)? {
            let Ok(Statement::CreateFunction(create)) = parse(&statement, &mut as_it_is) else { continue };
            let Some(name) = known.iter().find(|name| create.name.value.eq_ignore_ascii_case(name)) else { continue };
            let (line, column) = (statement.line, statement.column);
            if found.insert((*name).to_owned(), statement).is_some() {
                let error = Error::user(format!("the statements declare function {name} more than once"));
                let remedy = "change the job with its own script: anabranch alter JOB FILE.sql";
                return Err(or_at(error, line, column).remedy(remedy));
            }
        }
        Ok(found)
    }
}

impl FunctionChange {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}
