//! Statements about jobs: what the shell understands besides SQL when it is connected to a coordinator. One
//! table has all forms.

use std::collections::BTreeMap;

use anabranch_model::{Error, Result};
use anabranch_server::{StatementText, Word, words};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Jobs,
    Describe(String),
    Stop(String),
    Cancel(String),
    Changes(String),
    Abort(String),
    Drain(String),
    Rescale {
        job: String,
        tasks: u32,
        stage: Option<u32>,
    },
    Balance {
        job: String,
        stage: Option<u32>,
        seconds: u32,
    },
    Migrate {
        job: String,
        tasks: Vec<(u32, u32)>,
        to: String,
    },
    Set {
        job: String,
        settings: Vec<(String, String)>,
    },
    /// Changes the job to this text.
    Alter {
        job: String,
        script: String,
    },
    /// A statement that is understood and refused, with the reason and the remedy.
    Refused(&'static str, &'static str),
}

/// Default duration of a measurement, in seconds.
const MEASURED_S: u32 = 10;

/// A form of a statement, and what it requests.
type Form = (&'static str, fn(Bound) -> Order);

/// The forms. Words in capitals are keywords; `<name>` and the like bind fields of [`Bound`]; `<script>`
/// binds the rest.
const FORMS: [Form; 22] = [
    ("SHOW JOBS", |_| Order::Jobs),
    ("DESCRIBE JOB <name>", |parsed| Order::Describe(parsed.name)),
    ("DESC JOB <name>", |parsed| Order::Describe(parsed.name)),
    ("SHOW JOB <name>", |parsed| Order::Describe(parsed.name)),
    ("STOP JOB <name>", |parsed| Order::Stop(parsed.name)),
    ("STOP JOB <name> WITH SAVEPOINT", |_| with_savepoint()),
    ("STOP JOB <name> WITH DRAIN", |_| with_drain()),
    ("STOP JOB <name> WITH SAVEPOINT WITH DRAIN", |_| with_drain()),
    ("CANCEL JOB <name>", |parsed| Order::Cancel(parsed.name)),
    ("SHOW CHANGES FOR JOB <name>", |parsed| Order::Changes(parsed.name)),
    ("ABORT CHANGE OF JOB <name>", |parsed| Order::Abort(parsed.name)),
    ("DRAIN WORKER <name>", |parsed| Order::Drain(parsed.name)),
    ("ALTER JOB <name> RESCALE <number>", rescale),
    ("ALTER JOB <name> RESCALE <number> STAGE <stage>", rescale),
    ("ALTER JOB <name> BALANCE", balance),
    ("ALTER JOB <name> BALANCE OVER <number> SECONDS", balance),
    ("ALTER JOB <name> BALANCE STAGE <stage>", balance),
    ("ALTER JOB <name> BALANCE STAGE <stage> OVER <number> SECONDS", balance),
    ("ALTER JOB <name> MIGRATE TASK <tasks> TO <worker>", |parsed| Order::Migrate {
        job: parsed.name,
        tasks: parsed.tasks,
        to: parsed.worker,
    }),
    ("ALTER JOB <name> SET <settings>", |parsed| Order::Set { job: parsed.name, settings: parsed.settings }),
    ("ALTER JOB <name> SET ( <settings> )", |parsed| Order::Set { job: parsed.name, settings: parsed.settings }),
    ("ALTER JOB <name> AS <script>", |parsed| Order::Alter { job: parsed.name, script: parsed.script }),
];

fn rescale(parsed: Bound) -> Order {
    Order::Rescale { job: parsed.name, tasks: parsed.number.unwrap_or_default(), stage: parsed.stage }
}

fn balance(parsed: Bound) -> Order {
    Order::Balance { job: parsed.name, stage: parsed.stage, seconds: parsed.number.unwrap_or(MEASURED_S) }
}

fn with_savepoint() -> Order {
    Order::Refused(
        "a job cannot be stopped with a savepoint by one statement",
        "STOP JOB ends it with a checkpoint. Copy that one: anabranch savepoint PLACE DIRECTORY --last; DESCRIBE JOB shows PLACE",
    )
}

fn with_drain() -> Order {
    Order::Refused(
        "STOP JOB ... WITH DRAIN is not supported: open windows stay open in the job's checkpoint",
        "omit WITH DRAIN",
    )
}

/// The values that a form has bound.
#[derive(Default)]
struct Bound {
    name: String,
    worker: String,
    number: Option<u32>,
    stage: Option<u32>,
    tasks: Vec<(u32, u32)>,
    settings: Vec<(String, String)>,
    script: String,
}

/// The order of a statement about jobs, and whether it is only to be shown (EXPLAIN). `None`: it is not about
/// jobs.
pub(super) fn order(statement: &StatementText) -> Result<Option<(Order, bool)>> {
    let words = words(&statement.text);
    let explains = words.first().is_some_and(|word| word.is("EXPLAIN"));
    let words = &words[usize::from(explains)..];
    let mut furthest = 0;
    let mut expected: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (form, made) in &FORMS {
        match bind(form, words, &statement.text) {
            Ok(bound) => return Ok(Some((made(bound), explains))),
            Err(matched) => {
                furthest = furthest.max(matched);
                expected.entry(matched).or_default().push(form);
            }
        }
    }
    // `DESCRIBE job` is about a table.
    let begins = words.get(1).is_some_and(|word| !word.is("JOB") || words.len() > 2);
    if furthest < 2 || !begins {
        return Ok(None);
    }
    let end = statement.text.len();
    let place = words.get(furthest).map_or(end, |word| word.place.start);
    let forms = expected.remove(&furthest).unwrap_or_default().join("; ");
    let what = words.get(furthest).map_or_else(
        || "the statement ends too early".to_owned(),
        |word| format!("'{}' is not expected here", word.text),
    );
    Err(Error::user(what).at(at(statement, place)).remedy(format!("use one of: {forms}")))
}

/// Whether the statement replaces a function, and whether that is only to be shown.
pub(super) fn replaces_function(statement: &StatementText) -> Option<bool> {
    let words = words(&statement.text);
    let explains = words.first().is_some_and(|word| word.is("EXPLAIN"));
    let words: Vec<&Word> = words[usize::from(explains)..].iter().filter(|word| !word.is("TEMPORARY")).collect();
    let begins = ["CREATE", "OR", "REPLACE", "FUNCTION"];
    let replaces = begins.iter().enumerate().all(|(at, keyword)| words.get(at).is_some_and(|word| word.is(keyword)));
    replaces.then_some(explains)
}

/// The value of a `SET` of Flink's option for the display of changing results.
pub(super) fn result_mode(statement: &StatementText) -> Option<String> {
    let words = words(&statement.text);
    match words.as_slice() {
        [set, name, equals, value]
            if set.is("SET")
                && name.is_quoted()
                && name.text == "sql-client.execution.result-mode"
                && equals.is("=")
                && value.is_quoted() =>
        {
            Some(value.text.clone())
        }
        _ => None,
    }
}

/// The place of a byte of a statement in its script.
fn at(statement: &StatementText, byte: usize) -> String {
    let before = &statement.text[..byte];
    let (line, column) = match before.rfind('\n') {
        None => (0, statement.column - 1 + before.chars().count() as u64),
        Some(newline) => (before.matches('\n').count() as u64, before[newline + 1..].chars().count() as u64),
    };
    format!("line {}, column {}", statement.line + line, column + 1)
}

/// Binds a form. `Err`: the number of words that match.
fn bind(form: &str, words: &[Word], text: &str) -> Result<Bound, usize> {
    let (mut bound, mut next) = (Bound::default(), 0);
    for part in form.split(' ') {
        let word = words.get(next).ok_or(next)?;
        let number = || word.text.parse::<u32>().ok().filter(|_| !word.is_quoted()).ok_or(next);
        match part {
            "<name>" => bound.name.clone_from(name(word).ok_or(next)?),
            "<worker>" => bound.worker.clone_from(name(word).ok_or(next)?),
            "<number>" => bound.number = Some(number()?),
            "<stage>" => bound.stage = Some(number()?),
            "<tasks>" => {
                next = list(words, next, |words, at| {
                    let task = words.get(at).and_then(|word| task(&word.text)).ok_or(at)?;
                    bound.tasks.push(task);
                    Ok(at + 1)
                })?;
                continue;
            }
            "<settings>" => {
                next = list(words, next, |words, at| {
                    let value = |at: usize| words.get(at).filter(|word| word.is_quoted()).ok_or(at);
                    let (key, value) = (value(at)?, value(at + 2)?);
                    words.get(at + 1).filter(|word| word.is("=")).ok_or(at + 1)?;
                    bound.settings.push((key.text.clone(), value.text.clone()));
                    Ok(at + 3)
                })?;
                continue;
            }
            "<script>" => {
                text[word.place.start..].clone_into(&mut bound.script);
                return Ok(bound);
            }
            keyword if word.is(keyword) => {}
            _ => return Err(next),
        }
        next += 1;
    }
    if next == words.len() { Ok(bound) } else { Err(next) }
}

/// Binds elements separated by commas. Returns the index of the first word after them.
fn list(
    words: &[Word],
    first: usize,
    mut element: impl FnMut(&[Word], usize) -> Result<usize, usize>,
) -> Result<usize, usize> {
    let mut next = element(words, first)?;
    while words.get(next).is_some_and(|word| word.is(",")) {
        next = element(words, next + 1)?;
    }
    Ok(next)
}

fn name(word: &Word) -> Option<&String> {
    let is_plain = word.text.chars().all(|c| c.is_alphanumeric() || c == '_');
    (!word.text.is_empty() && (word.is_quoted() || is_plain)).then_some(&word.text)
}

/// `1.0`: task 0 of stage 1.
fn task(text: &str) -> Option<(u32, u32)> {
    let (stage, task) = text.split_once('.')?;
    Some((stage.parse().ok()?, task.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<(Order, bool)>> {
        order(&StatementText { text: text.to_owned(), line: 3, column: 5, terminated: true })
    }

    #[test]
    fn each_form_is_understood() {
        let job = || "ads-2".to_owned();
        for (text, expected) in [
            ("show jobs", Order::Jobs),
            ("DESCRIBE JOB 'ads-2'", Order::Describe(job())),
            ("SHOW JOB `ads-2`", Order::Describe(job())),
            ("STOP JOB \"ads-2\"", Order::Stop(job())),
            ("SHOW CHANGES FOR JOB 'ads-2'", Order::Changes(job())),
            ("ABORT CHANGE OF JOB 'ads-2' -- now", Order::Abort(job())),
            ("DRAIN WORKER one", Order::Drain("one".into())),
            ("ALTER JOB 'ads-2' RESCALE 4", Order::Rescale { job: job(), tasks: 4, stage: None }),
            ("ALTER JOB 'ads-2' RESCALE 4 STAGE 1", Order::Rescale { job: job(), tasks: 4, stage: Some(1) }),
            ("ALTER JOB 'ads-2' BALANCE", Order::Balance { job: job(), stage: None, seconds: 10 }),
            (
                "ALTER JOB 'ads-2' BALANCE STAGE 1 OVER 3 SECONDS",
                Order::Balance { job: job(), stage: Some(1), seconds: 3 },
            ),
            (
                "ALTER JOB 'ads-2' MIGRATE TASK '1.0', '1.2' TO 'two'",
                Order::Migrate { job: job(), tasks: vec![(1, 0), (1, 2)], to: "two".into() },
            ),
            (
                "ALTER JOB 'ads-2' SET ('a' = 'it''s', 'b'='2')",
                Order::Set { job: job(), settings: vec![("a".into(), "it's".into()), ("b".into(), "2".into())] },
            ),
            ("ALTER JOB 'ads-2' SET 'a' = '1'", Order::Set { job: job(), settings: vec![("a".into(), "1".into())] }),
            (
                "ALTER JOB 'ads-2' AS\nINSERT INTO r SELECT '; ' FROM t",
                Order::Alter { job: job(), script: "INSERT INTO r SELECT '; ' FROM t".into() },
            ),
        ] {
            assert_eq!(parsed(text).expect(text), Some((expected.clone(), false)), "{text}");
            assert_eq!(parsed(&format!("EXPLAIN {text}")).expect(text).map(|(_, explains)| explains), Some(true));
        }
        let refused = parsed("STOP JOB a WITH SAVEPOINT").expect("understood");
        assert!(matches!(refused, Some((Order::Refused(..), false))), "{refused:?}");
    }

    #[test]
    fn what_is_not_about_jobs_is_left_to_sql() {
        for text in
            ["SELECT 1", "SHOW TABLES", "DESCRIBE job", "EXPLAIN SELECT 1", "ALTER TABLE t ADD x INT", "", "SHOW"]
        {
            assert_eq!(parsed(text).expect(text), None, "{text}");
        }
    }

    #[test]
    fn an_error_has_its_place_and_the_forms_that_fit() {
        for (text, place, what) in [
            ("ALTER JOB ads GROW 4", "line 3, column 19", "'GROW' is not expected here"),
            ("ALTER JOB ads\nRESCALE many", "line 4, column 9", "RESCALE <number> STAGE"),
            ("ALTER JOB ads RESCALE", "line 3, column 26", "ends too early"),
            ("SHOW CHANGES", "line 3, column 17", "SHOW CHANGES FOR JOB <name>"),
            ("STOP JOB ads-2", "line 3, column 17", "STOP JOB <name>"),
            ("ALTER JOB ads MIGRATE TASK 1 TO two", "line 3, column 32", "'1' is not expected"),
        ] {
            let error = parsed(text).expect_err(text).to_string();
            assert!(error.contains(place) && error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn functions_that_are_replaced() {
        let replaces =
            |text: &str| replaces_function(&StatementText { text: text.into(), line: 1, column: 1, terminated: true });
        assert_eq!(replaces("CREATE OR REPLACE FUNCTION f() RETURNS INT RETURN 1"), Some(false));
        assert_eq!(replaces("explain create or replace temporary function f"), Some(true));
        assert_eq!((replaces("CREATE FUNCTION f"), replaces("CREATE OR REPLACE VIEW v")), (None, None));
    }
}
