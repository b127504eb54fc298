//! Changed statements: each is planned or refused with a place in its text, within seconds, and none panics.
//!
//! A seed decides the text: a script, a query or an expression of the corpus, with some changes.
//! `ANABRANCH_SEED=n` plans the text of one seed and shows it; `make fuzz` plans those of new seeds until one
//! fails. The seed that is being planned is in a file, for the case that the process dies.

mod corpus;
mod mutate;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, TableTraits};
use anabranch_model::{Clock, Error, ErrorKind, Result, SystemClock};
use anabranch_plan::{Catalog, PlanOptions, TableResolver, execute, plan_script, split_statements};
use arrow::datatypes::SchemaRef;

use self::corpus::{Corpus, Form, Sample};
use self::mutate::Rng;
use crate::connectors::Connectors;

/// Seeds that each run plans, as many as it can in [`FOR_ALL`].
const SEEDS: u64 = 1_000;
/// For all seeds together.
const FOR_ALL: Duration = Duration::from_secs(60);
/// For one text: much longer than a large script takes, on a busy machine and without optimization.
const FOR_ONE: Duration = Duration::from_secs(30);

/// Connectors that refuse nothing: the text is what is tested.
struct Anything;

impl TableResolver for Anything {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let any = TableTraits { bounded: true, readable: true, writable: true, ..TableTraits::default() };
        Ok(Connectors.describe(spec, columns).unwrap_or(any))
    }
}

fn number(variable: &str) -> Option<u64> {
    let seed = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(seed.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Plans a text as a file, or its statements one by one.
fn plan(sample: &Sample) -> Result<()> {
    let (mut catalog, options) = (Catalog::new(), PlanOptions::default());
    if sample.form == Form::Script {
        return plan_script(&sample.text, &mut catalog, &Anything, &options).map(|_| ());
    }
    for statement in split_statements(&sample.text)? {
        execute(&statement, &mut catalog, &Anything, &options, "result")?;
    }
    Ok(())
}

/// What is wrong with an error.
fn complaint(error: &Error, text: &str) -> Option<String> {
    if error.kind() == ErrorKind::Internal {
        return Some("an internal error".to_owned());
    }
    let place = error.place().unwrap_or_default();
    let place = place.strip_prefix("line ").and_then(|place| place.split_once(", column "));
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
    let Some((Some(line), Some(column))) = place.map(|(line, column)| (number(line), number(column))) else {
        return Some("an error without a place".to_owned());
    };
    let (line, column): (usize, usize) = (line, column);
    let there = line.checked_sub(1).and_then(|line| text.split('\n').nth(line));
    // The place after the last character is that of its end.
    let is_there = there.is_some_and(|there| (1..=there.chars().count() + 1).contains(&column));
    (!is_there).then(|| "a place that is not in the text".to_owned())
}

/// How a text is planned: without an error, with one, or not as it should be.
fn outcome(sample: &Sample) -> std::result::Result<Option<Error>, String> {
    let planned = catch_unwind(AssertUnwindSafe(|| plan(sample)));
    match planned {
        Ok(Ok(())) => Ok(None),
        Ok(Err(error)) => match complaint(&error, &sample.text) {
            None => Ok(Some(error)),
            Some(wrong) => Err(format!("{wrong}: {error}")),
        },
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            Err(format!("a panic: {}", said.unwrap_or_default()))
        }
    }
}

/// Texts that were planned and texts that were refused.
#[derive(Debug, Default)]
struct Seen {
    planned: u64,
    refused: u64,
}

/// Plans the texts of seeds as long as there is time.
fn plan_all(seeds: impl Iterator<Item = u64>, time: Option<Duration>, seen: &mut Seen) {
    let corpus = Arc::new(Corpus::read());
    let clock = SystemClock::new();
    let (started, mut slowest, mut failures) = (clock.now(), (Duration::ZERO, 0), Vec::new());
    let (send, receive) = channel::<(u64, Sample)>();
    let (answer, answers) = channel();
    let planner = move || {
        for (_, sample) in receive {
            if answer.send(outcome(&sample)).is_err() {
                break;
            }
        }
    };
    let planner = Builder::new().name("fuzz".into()).spawn(planner).expect("a thread");
    let current = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz.seed");
    for seed in seeds {
        let before = clock.now();
        if time.is_some_and(|time| Duration::from_nanos(before.since(started)) > time) {
            println!("no time for seed {seed} and later ones");
            break;
        }
        fs::write(&current, seed.to_string()).expect("writable");
        let sample = corpus.changed(&mut Rng::new(seed));
        let shown = format!("ANABRANCH_SEED={seed}, from {}:\n{}", sample.name, sample.text);
        send.send((seed, sample)).expect("the planner lives");
        match answers.recv_timeout(FOR_ONE) {
            Ok(Ok(error)) => {
                if number("ANABRANCH_SEED").is_some() {
                    println!("{shown}\n{error:?}");
                }
                seen.planned += u64::from(error.is_none());
                seen.refused += u64::from(error.is_some());
            }
            Ok(Err(wrong)) => failures.push(format!("{wrong}\n{shown}\n")),
            Err(RecvTimeoutError::Timeout) => panic!("more than {FOR_ONE:?}\n{shown}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the planner died\n{shown}"),
        }
        slowest = slowest.max((Duration::from_nanos(clock.now().since(before)), seed));
    }
    println!("{seen:?}; the slowest took {:?}: seed {}", slowest.0, slowest.1);
    drop(send);
    planner.join().expect("no panic");
    assert!(failures.is_empty(), "{} seeds fail:\n\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn changed_statements_are_planned_or_refused_with_a_place() {
    let mut seen = Seen::default();
    if let Some(seed) = number("ANABRANCH_SEED") {
        return plan_all(seed..seed + 1, None, &mut seen);
    }
    plan_all(0..SEEDS, Some(FOR_ALL), &mut seen);
    // Changes that leave nothing right, or nothing wrong, would test little.
    assert!(seen.planned > seen.refused / 20 && seen.refused > seen.planned / 5, "{seen:?}");
}

#[test]
#[ignore = "goes on until a seed fails: make fuzz"]
fn changed_statements_without_end() {
    let first = number("ANABRANCH_FIRST_SEED").unwrap_or(1_000_000);
    for start in (first..).step_by(1_000) {
        println!("seeds from {start} on");
        plan_all(start..start + 1_000, None, &mut Seen::default());
    }
}

#[test]
fn most_of_the_corpus_is_planned_as_it_is() {
    let corpus = Corpus::read();
    let valid: Vec<&Sample> = corpus.samples.iter().filter(|sample| sample.is_valid).collect();
    let refusal = |sample: &&Sample| plan(sample).err().map(|error| format!("{}: {error}\n", sample.name));
    let refused: Vec<String> = valid.iter().filter_map(refusal).collect();
    assert!(refused.len() < valid.len() / 10, "{} of {}:\n{}", refused.len(), valid.len(), refused.concat());
}
