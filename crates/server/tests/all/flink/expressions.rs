//! Expressions against the answers of real Flink: `tests/flink/answers.tsv` has the type of each expression
//! and its value in every row of the table `input`.
//!
//! An expression that Flink refuses is not compared. Every expression that differs is listed, with the
//! reason, in `tests/flink/differences.tsv`, and every one that we refuse in `tests/flink/refused.tsv`. A
//! listed expression must differ, or be refused. `tests/flink/zones` has the same for time zones of the
//! session: an expression that is listed there differs in some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anabranch_server::{Engine, Reply, Session, Settings};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;

use super::texts::{equal, sql_type, text, without_lengths};
use super::{execute, file, read, reasons};

/// The time zone without a prefix in the file of answers.
const UTC: &str = "UTC";
/// Expressions in one query.
const BATCH: usize = 40;

/// The answer to an expression: its type, and its value by row.
#[derive(Clone, Debug, Default)]
struct Answer {
    data_type: String,
    values: Vec<String>,
}

/// The answers of Flink in a time zone, without the expressions that it refuses.
fn answers(folder: &str, zone: &str) -> Vec<(String, Answer)> {
    let text = read(&format!("{folder}answers.tsv"));
    let prefix = if zone == UTC { String::new() } else { format!("{zone}: ") };
    let parse = |line: &str| {
        let mut parts = line.strip_prefix(&prefix)?.split('\t').map(str::to_owned);
        let (expression, data_type) = (parts.next()?, parts.next()?);
        (!data_type.starts_with('!')).then(|| (expression, Answer { data_type, values: parts.collect() }))
    };
    text.lines().filter_map(parse).collect()
}

struct Ours {
    session: Session,
    ids: Vec<i32>,
}

impl Ours {
    /// A session in a time zone, with the table of a folder.
    fn new(folder: &str, zone: &str) -> Self {
        let settings = Settings { parallelism: Some(1), ..Settings::default() };
        let mut session = Session::new(Engine::default(), &settings).expect("a session");
        let create = format!(
            "{} WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}')",
            read(&format!("{folder}input.sql")),
            file(&format!("{folder}input.json")).display()
        );
        execute(&mut session, &create).expect("the table");
        execute(&mut session, &format!("SET 'table.local-time-zone' = '{zone}'")).expect("the zone");
        let ids = (0..i32::try_from(read(&format!("{folder}input.json")).lines().count()).expect("few rows")).collect();
        Ours { session, ids }
    }

    /// Why the expression cannot be planned.
    fn refusal(&mut self, expression: &str) -> Option<String> {
        let planned = execute(&mut self.session, &format!("EXPLAIN SELECT {expression} AS c FROM input"));
        planned.err().map(|error| error.lines().next().unwrap_or_default().to_owned())
    }

    /// The answers to all expressions, one by one if they fail together.
    fn answer(&mut self, expressions: &[String], answers: &mut BTreeMap<String, Answer>) {
        if let Ok(columns) = self.query(expressions, "") {
            answers.extend(expressions.iter().cloned().zip(columns));
        } else if expressions.len() > 1 {
            let (left, right) = expressions.split_at(expressions.len() / 2);
            self.answer(left, answers);
            self.answer(right, answers);
        } else if let Some(why) = self.refusal(&expressions[0]) {
            let values = vec![format!("refused: {why}"); self.ids.len()];
            answers.insert(expressions[0].clone(), Answer { data_type: "?".into(), values });
        } else {
            let mut answer = Answer { data_type: "?".into(), values: Vec::new() };
            for id in self.ids.clone() {
                match self.query(expressions, &format!(" WHERE id = {id}")) {
                    Ok(columns) => {
                        let [column] = columns.as_slice() else { panic!("one column") };
                        answer.data_type.clone_from(&column.data_type);
                        answer.values.extend(column.values.iter().cloned());
                    }
                    Err(error) => answer.values.push(format!("!{}", error.lines().next().unwrap_or_default())),
                }
            }
            answers.insert(expressions[0].clone(), answer);
        }
    }

    fn query(&mut self, expressions: &[String], condition: &str) -> Result<Vec<Answer>, String> {
        let mut sql = "SELECT id".to_owned();
        for (index, expression) in expressions.iter().enumerate() {
            let _ = write!(sql, ", {expression} AS c{index}");
        }
        let Reply::Query(query) = execute(&mut self.session, &format!("{sql} FROM input{condition}"))? else {
            return Err("no query".into());
        };
        let batches: Vec<RecordBatch> = query.rows.iter().collect();
        query.job.wait().map_err(|e| e.to_string())?;
        let column = |index: usize| {
            let mut rows = BTreeMap::new();
            for batch in &batches {
                let ids = batch.column(0).as_primitive::<Int32Type>();
                for row in 0..batch.num_rows() {
                    rows.insert(ids.value(row), text(batch.column(index), row));
                }
            }
            Answer { data_type: sql_type(query.schema.field(index).data_type()), values: rows.into_values().collect() }
        };
        Ok((1..=expressions.len()).map(column).collect())
    }
}

/// The difference, if any.
fn difference(flink: &Answer, ours: &Answer) -> Option<String> {
    let data_type = without_lengths(&flink.data_type);
    for (row, (flink, ours)) in flink.values.iter().zip(&ours.values).enumerate() {
        if !equal(flink, ours, &data_type) {
            return Some(format!("row {row}: Flink {flink}, ours {ours}"));
        }
    }
    // The type of an expression that fails in every row is unknown.
    let known = data_type != "?" && ours.data_type != "?";
    (known && data_type != ours.data_type).then(|| format!("Flink's type {data_type}, ours {}", ours.data_type))
}

/// Compares the answers of a folder in some time zones.
fn check(folder: &str, zones: &[&str]) {
    let (differences, refusals) = (read(&format!("{folder}differences.tsv")), read(&format!("{folder}refused.tsv")));
    let (differences, refusals) = (reasons(&differences), reasons(&refusals));
    let mut wrong = Vec::new();
    let (mut known, mut different) = (BTreeSet::new(), BTreeSet::new());
    for zone in zones {
        let (answers, mut ours) = (answers(folder, zone), Ours::new(folder, zone));
        assert!(answers.len() > 100, "{zone} has no answers of Flink: run tests/flink/record.sh");
        let mut planned = Vec::new();
        for (expression, _) in &answers {
            known.insert(expression.clone());
            match refusals.contains_key(expression.as_str()) {
                false => planned.push(expression.clone()),
                true if ours.refusal(expression).is_some() => {}
                true => wrong.push(format!("{expression}\tis listed and is not refused, {zone}")),
            }
        }
        let mut given = BTreeMap::new();
        for batch in planned.chunks(BATCH) {
            ours.answer(batch, &mut given);
        }
        for (expression, flink) in &answers {
            let Some(difference) = given.get(expression).and_then(|ours| difference(flink, ours)) else { continue };
            different.insert(expression.clone());
            if !differences.contains_key(expression.as_str()) {
                wrong.push(format!("{expression}\t{difference}, {zone}"));
            }
        }
    }
    let same = differences.keys().filter(|expression| !different.contains(**expression));
    wrong.extend(same.map(|expression| format!("{expression}\tis listed and does not differ")));
    let unknown = refusals.keys().filter(|expression| !known.contains(**expression));
    wrong.extend(unknown.map(|expression| format!("{expression}\tis listed and has no answer of Flink")));
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn expressions_give_the_answers_of_flink() {
    check("", &[UTC]);
}

#[test]
fn expressions_in_time_zones_give_the_answers_of_flink() {
    let zones = read("zones/zones.txt");
    check("zones/", &zones.lines().collect::<Vec<_>>());
}

/// A function whose name Flink has too must be compared with Flink.
#[test]
fn functions_of_flink_are_compared() {
    let plain = |name: &str| name.to_lowercase().replace('_', "");
    let flink: BTreeSet<String> = read("functions.txt").lines().map(plain).collect();
    let corpus = plain(&read("corpus.sql"));
    let mut ours = Ours::new("", UTC);
    let functions = ours.session.vocabulary().functions;
    let shared: Vec<String> = functions.into_iter().filter(|name| flink.contains(&plain(name))).collect();
    assert!(shared.len() > 80, "many names are shared, not {}", shared.len());
    // Flink's ROW is a constructor of its grammar.
    for name in shared.into_iter().filter(|name| name != "row" && !varies(name)) {
        let compared = corpus.contains(&format!("{}(", plain(&name)));
        let mut refused =
            || ours.refusal(&format!("{name}(s)")).is_some() && ours.refusal(&format!("{name}()")).is_some();
        assert!(
            compared || is_aggregate(&name) || refused(),
            "{name} is a function of Flink that is not in corpus.sql"
        );
    }
}

/// Values of these functions differ each time; their types are Flink's.
#[test]
fn clocks_and_random_numbers_have_values_of_their_kind() {
    let conditions = [
        "CURRENT_TIMESTAMP > TO_TIMESTAMP_LTZ(1700000000000, 3) AND NOW() < TO_TIMESTAMP_LTZ(32503680000000, 3)",
        "CURRENT_ROW_TIMESTAMP() >= TO_TIMESTAMP_LTZ((UNIX_TIMESTAMP() - 60) * 1000, 3)",
        "LOCALTIMESTAMP > TIMESTAMP '2023-01-01 00:00:00'",
        "CURRENT_DATE > DATE '2023-01-01' AND YEAR(CURRENT_DATE) < 3000",
        "CHAR_LENGTH(CAST(CURRENT_TIME AS STRING)) = 8 AND CHAR_LENGTH(CAST(LOCALTIME AS STRING)) = 8",
        "REGEXP(UUID(), '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$') AND UUID() <> UUID()",
        "RAND() >= 0 AND RAND() < 1",
        "RAND_INTEGER(3) IN (0, 1, 2) AND RAND_INTEGER(1) = 0",
    ];
    // Of these, the types.
    let typed = [
        ("CURRENT_TIMESTAMP", "TIMESTAMP_LTZ(3)"),
        ("NOW()", "TIMESTAMP_LTZ(3)"),
        ("LOCALTIMESTAMP", "TIMESTAMP(3)"),
        ("CURRENT_DATE", "DATE"),
        ("UNIX_TIMESTAMP()", "BIGINT"),
        ("RAND()", "DOUBLE"),
        ("RAND_INTEGER(2000000000)", "INT"),
        ("UUID()", "STRING"),
    ];
    let mut ours = Ours::new("", UTC);
    let expressions: Vec<String> = conditions.into_iter().chain(typed.map(|(of, _)| of)).map(str::to_owned).collect();
    let mut answers = BTreeMap::new();
    ours.answer(&expressions, &mut answers);
    for condition in conditions {
        let answer = &answers[condition];
        assert!(answer.values.iter().all(|value| value == "true"), "{condition}: {answer:?}");
    }
    for (expression, data_type) in typed {
        assert_eq!(answers[expression].data_type, data_type, "{expression}: {:?}", answers[expression]);
    }
    for drawn in ["UUID()", "RAND()", "RAND_INTEGER(2000000000)"] {
        assert_eq!(answers[drawn].values.iter().collect::<BTreeSet<_>>().len(), ours.ids.len(), "{drawn}");
    }
    let mut ours = Ours::new("", "Asia/Kolkata");
    let instant = "TIMESTAMPDIFF(MINUTE, TO_TIMESTAMP_LTZ(UNIX_TIMESTAMP(), 0), CURRENT_TIMESTAMP) IN (0, 1)";
    let local = "TIMESTAMPDIFF(MINUTE, CAST(CURRENT_TIMESTAMP AS TIMESTAMP(3)), LOCALTIMESTAMP) IN (0, 1)";
    let mut answers = BTreeMap::new();
    ours.answer(&[instant, local].map(str::to_owned), &mut answers);
    assert!(answers.values().all(|answer| answer.values.iter().all(|value| value == "true")), "{answers:?}");
}

/// Whether a function has another value each time.
fn varies(name: &str) -> bool {
    let clocks = ["current_date", "current_time", "current_timestamp", "current_row_timestamp", "now", "proctime"];
    ["rand", "rand_integer", "uuid"].iter().chain(&clocks).any(|of| *of == name)
}

/// The corpus has no aggregates.
fn is_aggregate(name: &str) -> bool {
    let own = ["array_agg", "avg", "count", "first_value", "last_value", "max", "min", "sum"];
    own.contains(&name) || ["json_arrayagg", "json_objectagg", "listagg", "percentile"].contains(&name)
}
