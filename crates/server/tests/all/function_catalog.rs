//! The catalogue of functions: each example gives the value that is written beside it, and docs/functions.md
//! has all of them. `UPDATE_GOLDEN=1` writes both.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anabranch_plan::{FunctionDoc, function_catalog, split_statements};
use anabranch_server::{Engine, Reply, Session, Settings};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};

const HEAD: &str = "# Functions

All functions that SQL may call, with the value of an example. [sql/functions.md](sql/functions.md#rules) has their rules. This page is generated from
`crates/functions/src/catalog.tsv`; the tests run each example.
";

fn updates() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

fn path(of: &str) -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..").join(of)
}

/// The value of an example.
fn value(session: &mut Session, example: &str) -> Result<String, String> {
    let statements = split_statements(&format!("SELECT {example};")).map_err(|e| e.to_string())?;
    let Reply::Query(query) = session.execute(&statements[0]).map_err(|e| e.to_string())? else {
        return Err("no query".into());
    };
    let batches: Vec<RecordBatch> = query.rows.iter().collect();
    query.job.wait().map_err(|e| e.to_string())?;
    let values = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| shown(batch.column(0), row)));
    Ok(values.collect::<Vec<_>>().join(", "))
}

/// As the shell shows it.
fn shown(column: &ArrayRef, row: usize) -> String {
    let format = FormatOptions::new().with_null("NULL");
    ArrayFormatter::try_new(column, &format).expect("a value that can be shown").value(row).to_string()
}

#[test]
fn examples_give_their_values() {
    let set = vec![("execution.runtime-mode".to_owned(), "batch".to_owned())];
    let settings = Settings { parallelism: Some(1), set, ..Settings::default() };
    let mut session = Session::new(Engine::default(), &settings).expect("a session");
    let (mut wrong, mut values) = (Vec::new(), Vec::new());
    for doc in function_catalog() {
        let value = match doc.example {
            "" => String::new(),
            example => value(&mut session, example).unwrap_or_else(|error| format!("error: {error}")),
        };
        if value != doc.result || value.starts_with("error") {
            wrong.push(format!("{} is {value}, not {}", doc.example, doc.result));
        }
        values.push(value);
    }
    if updates() {
        write_values(&values);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn write_values(values: &[String]) {
    let path = path("crates/functions/src/catalog.tsv");
    let mut values = values.iter();
    let text = fs::read_to_string(&path).expect("readable");
    let lines = text.lines().map(|line| match line.starts_with("# ") {
        true => line.to_owned(),
        false => format!("{}\t{}", line.rsplit_once('\t').expect("fields").0, values.next().expect("a value")),
    });
    fs::write(&path, lines.map(|line| line + "\n").collect::<String>()).expect("writable");
}

#[test]
fn the_page_of_functions_has_the_catalogue() {
    let path = path("docs/functions.md");
    let page = page(function_catalog());
    if updates() {
        fs::write(&path, &page).expect("writable");
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == page, "docs/functions.md is outdated: UPDATE_GOLDEN=1");
}

fn page(docs: &[FunctionDoc]) -> String {
    let mut page = HEAD.to_owned();
    let mut families: Vec<&str> = docs.iter().map(|doc| doc.family).collect();
    families.dedup();
    page += "\n";
    for family in &families {
        let anchor = family.to_lowercase().replace(',', "").replace(' ', "-");
        let _ = writeln!(page, "* [{family}](#{anchor})");
    }
    for family in families {
        let _ = write!(page, "\n## {family}\n\n| function | gives | | example | its value |\n|---|---|---|---|---|\n");
        for doc in docs.iter().filter(|doc| doc.family == family) {
            let calls: Vec<String> = doc.signatures.iter().map(|call| code(call)).collect();
            let aliases: Vec<String> = doc.aliases.iter().map(|alias| code(alias)).collect();
            let also = if aliases.is_empty() { String::new() } else { format!("; also {}", aliases.join(", ")) };
            let (calls, returns) = (calls.join("<br>"), doc.returns.replace('<', "&lt;"));
            let (example, result) = (code(doc.example), code(doc.result));
            let _ = writeln!(page, "| {calls} | {returns} | {}{also} | {example} | {result} |", doc.summary);
        }
    }
    page
}

/// Code in a table.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

/// What the catalogue describes is what a session may call.
#[test]
fn each_function_that_can_be_called_is_described() {
    let session = Session::new(Engine::default(), &Settings::default()).expect("a session");
    let known = session.vocabulary().functions;
    let forms = ["ARRAY", "CAST", "CEIL TO", "EXTRACT", "FLOOR TO", "IF", "LAG", "MAP", "ROW_NUMBER", "TIMESTAMPADD"];
    let forms =
        forms.into_iter().chain(["TIMESTAMPDIFF", "OVERLAPS", "TRY_CAST", "MOD", "LOCALTIME", "LOCALTIMESTAMP", "ROW"]);
    let forms: Vec<&str> = forms.collect();
    let unknown = function_catalog().iter().flat_map(FunctionDoc::names).filter(|name| {
        let is_known = known.iter().any(|of| of.eq_ignore_ascii_case(name));
        !is_known && !forms.contains(name)
    });
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&str>::new(), "no session can call these");
    let aggregates = ["ARRAY_AGG", "AVG", "COUNT", "FIRST_VALUE", "LAST_VALUE", "LISTAGG", "MAX", "MIN", "SUM"];
    for name in aggregates {
        assert!(function_catalog().iter().any(|doc| doc.name == name), "{name} is not described");
    }
}
