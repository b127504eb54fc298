//! Whole queries against the answers of real Flink: `tests/flink/queries/*.sql` has below each query its
//! columns and the rows that are left at its end (`Queries.java` says how).
//!
//! A query that Flink refuses is not compared. Each is run with changes, a row at a time, and with final rows
//! only. Every query that differs is listed, with the reason, in `tests/flink/queries/differences.tsv`: as
//! `refused`, as `types` where names or types of columns differ and the rows are equal, or as `differs`. A
//! listed query must do so.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anabranch_dataflow::WEIGHT;
use anabranch_server::{Engine, Reply, Session, Settings};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::texts::{equal, sql_type, text, without_lengths};
use super::{execute, file, read};

const BEGIN: &str = "--- ";

/// A query, and Flink's answer to it.
struct Asked {
    name: String,
    sql: String,
    answer: Expected,
}

enum Expected {
    /// Flink does not have it.
    Refused,
    /// An error while it runs.
    Failed,
    Rows(Rows),
}

/// A result: the names and types of its columns, and its rows.
#[derive(Debug, Default)]
struct Rows {
    streaming: bool,
    updates: bool,
    columns: Vec<(String, String)>,
    rows: Vec<Vec<String>>,
}

/// The queries of all files.
fn corpus() -> Vec<Asked> {
    let mut asked: Vec<Asked> = Vec::new();
    let entries = fs::read_dir(file("queries")).expect("the folder").map(|entry| entry.expect("readable").path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "sql")).collect();
    paths.sort();
    for path in paths.iter().filter(|path| !path.ends_with("tables.sql")) {
        let text = fs::read_to_string(path).expect("readable");
        for section in text.split(&format!("\n{BEGIN}")).skip(1) {
            let (name, section) = section.split_once('\n').expect("a query");
            assert!(asked.iter().all(|other| other.name != name), "two queries are called {name}");
            asked.push(parse(name, section));
        }
    }
    asked
}

fn parse(name: &str, section: &str) -> Asked {
    let mut sql = String::new();
    let mut headers = Vec::new();
    let mut rows = Vec::new();
    let mut error = None;
    for line in section.lines() {
        if let Some(row) = line.strip_prefix("--= ") {
            rows.push(row.split(" | ").map(str::to_owned).collect());
        } else if let Some(header) = line.strip_prefix("--: ") {
            headers.push(header);
        } else if let Some(reason) = line.strip_prefix("--! ") {
            error = Some(reason);
        } else {
            sql += &format!("{line}\n");
        }
    }
    let answer = match (error, headers.as_slice()) {
        (Some(reason), _) if reason.starts_with("refused") => Expected::Refused,
        (Some(_), _) => Expected::Failed,
        (None, [mode, columns]) => Expected::Rows(Rows {
            streaming: mode.starts_with("streaming"),
            updates: mode.ends_with("updates"),
            columns: columns.split(" | ").map(column).collect(),
            rows,
        }),
        _ => panic!("{name} has no answer of Flink: run tests/flink/record.sh"),
    };
    Asked { name: name.into(), sql, answer }
}

/// A column's name and its type. Only names have backticks or blanks before the type begins.
fn column(text: &str) -> (String, String) {
    let at = text.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| at);
    let starts = at.filter(|at| text[at + 1..].starts_with(|c: char| c.is_ascii_uppercase()));
    let at = starts.into_iter().next().expect("a type");
    (text[..at].to_owned(), without_lengths(&text[at + 1..]))
}

/// A session with the tables.
fn session(streaming: bool) -> Session {
    let mode = if streaming { "streaming" } else { "batch" };
    let rows = if streaming { "1" } else { "8192" };
    let set = [("execution.runtime-mode", mode), ("batch-rows", rows)];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let settings = Settings { parallelism: Some(if streaming { 1 } else { 2 }), set, ..Settings::default() };
    let mut session = Session::new(Engine::default(), &settings).expect("a session");
    for statement in read("queries/tables.sql").split_inclusive(";\n").map(|s| s.trim().trim_end_matches(';')) {
        let Some((_, declared)) = statement.split_once("CREATE TABLE ") else { continue };
        let name = declared.split_whitespace().next().expect("a name");
        let format = if file(&format!("queries/{name}.csv")).exists() { "csv" } else { "json" };
        let path = file(&format!("queries/{name}.{format}"));
        let with = format!("'connector' = 'filesystem', 'format' = '{format}', 'path' = '{}'", path.display());
        execute(&mut session, &format!("{statement} WITH ({with})")).expect(name);
    }
    session
}

/// Our answer: an error begins with `refused` or `failed`.
fn ours(sql: &str, streaming: bool) -> Result<Rows, String> {
    let mut session = session(streaming);
    let mut reply = Err("no statement".to_owned());
    let statements: Vec<&str> = sql.split(";\n").filter(|statement| !statement.trim().is_empty()).collect();
    for statement in statements {
        reply = Ok(execute(&mut session, statement).map_err(|e| format!("refused: {e}"))?);
    }
    let Reply::Query(query) = reply? else { return Err("refused: no query".into()) };
    let batches: Vec<RecordBatch> = query.rows.iter().collect();
    assert!(query.job.wait_timeout(Duration::from_secs(60)), "the job hangs: {sql}");
    query.job.wait().map_err(|e| format!("failed: {e}"))?;
    let named = query.schema.fields().iter().filter(|field| field.name() != WEIGHT);
    let columns: Vec<_> = named.map(|field| (field.name().clone(), sql_type(field.data_type()))).collect();
    let updates = columns.len() < query.schema.fields().len();
    let mut counts: BTreeMap<Vec<String>, i64> = BTreeMap::new();
    for batch in &batches {
        let weights = batch.column_by_name(WEIGHT).map(|weights| weights.as_primitive::<Int64Type>());
        let shown: Vec<_> = batch.columns().iter().zip(query.schema.fields()).collect();
        for row in 0..batch.num_rows() {
            let values = shown.iter().filter(|(_, field)| field.name() != WEIGHT).map(|(column, _)| text(column, row));
            *counts.entry(values.collect()).or_default() += weights.map_or(1, |weights| weights.value(row));
        }
    }
    let mut rows = Vec::new();
    for (row, count) in counts {
        let count = usize::try_from(count).map_err(|_| format!("failed: {row:?} is taken back and was not there"))?;
        rows.extend(vec![row; count]);
    }
    let rows = rows.into_iter().skip(query.skip).take(query.limit.unwrap_or(usize::MAX)).collect();
    Ok(Rows { streaming, updates, columns, rows })
}

/// How an answer differs from Flink's, as the list of differences says it, and what differs.
type Difference = (&'static str, String);

/// What differs, if anything. Columns without a name have other ones in Flink.
fn difference(flink: &Rows, ours: &Rows) -> Option<Difference> {
    let named = |columns: &[(String, String)]| columns.iter().map(|(n, t)| format!("{n} {t}")).collect::<Vec<_>>();
    let same_column =
        |(f, o): (&(String, String), &(String, String))| f.1 == o.1 && (f.0 == o.0 || f.0.starts_with("EXPR$"));
    let columns = || format!("Flink's columns {:?}, ours {:?}", named(&flink.columns), named(&ours.columns));
    if flink.columns.len() != ours.columns.len() {
        return Some(("differs", columns()));
    }
    let same = |flink: &[String], ours: &[String], types: &[(String, String)]| {
        types.iter().enumerate().all(|(at, (_, data_type))| equal(&flink[at], &ours[at], data_type))
    };
    let mut left: Vec<&Vec<String>> = ours.rows.iter().collect();
    let mut missing = Vec::new();
    for row in &flink.rows {
        match left.iter().position(|ours| same(row, ours, &flink.columns)) {
            Some(at) => drop(left.remove(at)),
            None => missing.push(row.join(" | ")),
        }
    }
    if !missing.is_empty() || !left.is_empty() {
        let left: Vec<String> = left.iter().map(|row| row.join(" | ")).collect();
        let lines =
            |rows: &[String], from: &str| rows.iter().map(|row| format!("\n    {from} {row}")).collect::<String>();
        return Some(("differs", format!("rows{}{}", lines(&missing, "Flink"), lines(&left, "ours "))));
    }
    if flink.streaming && ours.streaming && ours.updates && !flink.updates {
        return Some(("differs", "the rows of Flink stay, ours are updated".to_owned()));
    }
    let same = flink.columns.iter().zip(&ours.columns).all(same_column);
    (!same).then(|| ("types", columns()))
}

/// How our answers differ from Flink's.
fn compare(asked: &Asked) -> Option<Difference> {
    match &asked.answer {
        Expected::Refused => None,
        Expected::Failed => [true, false]
            .iter()
            .all(|streaming| ours(&asked.sql, *streaming).is_ok())
            .then(|| ("differs", "Flink fails, we do not".to_owned())),
        Expected::Rows(flink) => {
            let modes: &[bool] = match flink.streaming {
                true if asked.sql.contains("'execution.runtime-mode' = 'streaming'") => &[true],
                true => &[true, false],
                false => &[false],
            };
            let differences = modes.iter().filter_map(|streaming| {
                let mode = if *streaming { "with changes" } else { "final rows" };
                match ours(&asked.sql, *streaming) {
                    Ok(ours) => difference(flink, &ours).map(|(kind, what)| (kind, format!("{mode}: {what}"))),
                    Err(error) if error.starts_with("refused") => Some(("refused", error)),
                    Err(error) => Some(("differs", format!("{mode}: {error}"))),
                }
            });
            // Other rows say more than other types.
            differences.min_by_key(|(kind, _)| *kind)
        }
    }
}

#[test]
fn queries_give_the_rows_of_flink() {
    let list = read("queries/differences.tsv");
    let listed = list.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let mut listed: BTreeMap<&str, &str> = listed
        .map(|line| match line.as_slice() {
            [name, kind @ ("differs" | "refused" | "types"), reason] if !reason.is_empty() => (*name, *kind),
            _ => panic!("differences.tsv: NAME, `differs`, `refused` or `types`, REASON, not {line:?}"),
        })
        .collect();
    let corpus = corpus();
    // Only those whose names contain `QUERY`, if it is set.
    let only = std::env::var("QUERY").unwrap_or_default();
    let mut wrong = Vec::new();
    for asked in &corpus {
        let listed = listed.remove(asked.name.as_str());
        if !asked.name.contains(&only) {
            continue;
        }
        match (compare(asked), listed) {
            (Some((kind, what)), listed) if listed != Some(kind) => {
                wrong.push(format!("{}\t{kind}\t{what}", asked.name));
            }
            (None, Some(_)) => wrong.push(format!("{}\tis listed and does not differ", asked.name)),
            _ => {}
        }
    }
    wrong.extend(listed.keys().map(|name| format!("{name}\tis listed and is not a query")));
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    let answered = corpus.iter().filter(|asked| matches!(asked.answer, Expected::Rows(_))).count();
    assert!(answered > 200, "most queries have an answer, not {answered}");
}
