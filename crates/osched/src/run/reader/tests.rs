//! Engines that do not answer.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender};

use anabranch_model::SystemClock;
use anabranch_schedule::{Formula, Operator, OperatorIndex, Query, QueryIndex, Role, Task};

use super::*;
use crate::config::Config;
use crate::run::{Environment, Formulas, Osched};

/// Answers once for each message, and waits for the next one.
struct Gated {
    gate: Receiver<Result<()>>,
}

impl Driver for Gated {
    fn look(&mut self) -> Result<Graph> {
        Ok(Graph {
            queries: vec![Query { name: "query".to_owned() }],
            operators: vec![Operator { query: QueryIndex(0), name: "operator".to_owned(), role: Role::Source }],
            tasks: vec![Task { query: QueryIndex(0), name: "task".to_owned(), runs: vec![OperatorIndex(0)] }],
            ..Graph::default()
        })
    }

    fn read(&mut self, now: Nanos) -> Result<Readings> {
        // Without a sender the test is over.
        self.gate.recv().unwrap_or(Ok(()))?;
        Ok(Readings { at: now, values: Vec::new() })
    }

    fn offers(&self) -> Vec<Metric> {
        vec![Metric::QueueRows]
    }
}

fn gated() -> (Sender<Result<()>>, Box<dyn Driver>) {
    let (gate, receiver) = channel();
    (gate, Box::new(Gated { gate: receiver }))
}

#[test]
fn a_busy_engine_is_asked_once() {
    let (gate, driver) = gated();
    let kernel = Proc::new().expect("a kernel");
    let mut reader = Reader::start("engine", driver, kernel, Arc::new(SystemClock::new())).expect("a thread");
    assert!(reader.answer(Duration::ZERO).is_none(), "nobody has asked");
    assert!(reader.ask());
    assert!(!reader.ask(), "the answer is owed already");
    assert!(reader.answer(Duration::ZERO).is_none());
    gate.send(Ok(())).expect("it waits");
    let answer = reader.answer(Duration::MAX).expect("an answer").expect("readings");
    let look = answer.look.expect("the first answer says what runs");
    assert_eq!((look.graph.tasks.len(), look.offers.contains(&Metric::QueueRows)), (1, true));
    assert!(reader.ask());
    gate.send(Err(Error::outside("away"))).expect("it waits");
    assert!(reader.answer(Duration::MAX).expect("an answer").is_err());
    assert!(reader.ask());
    gate.send(Ok(())).expect("it waits");
    let back = reader.answer(Duration::MAX).expect("an answer").expect("readings");
    assert!(back.look.is_some(), "after a failure it may be another process");
}

struct NoFormulas;

impl Formulas for NoFormulas {
    fn compile(&self, expression: &str) -> Result<Box<dyn Formula>> {
        Err(Error::user(format!("no formulas here: {expression}")))
    }
}

fn start(targets: &[&str], drivers: Vec<Box<dyn Driver>>) -> Result<Osched> {
    let target = |name: &&str| format!("[[target]]\nname = '{name}'\nengine = 'process'\nprocess = '1'\n");
    let targets: String = targets.iter().map(target).collect();
    let config = format!("{targets}[[policy]]\npriority = 'queue-size'\nperiod = '20 ms'\n");
    let environment = Environment {
        clock: Arc::new(SystemClock::new()),
        kernel: Proc::new().expect("a kernel"),
        formulas: Box::new(NoFormulas),
        guardian: |_: &Path| Command::new("true"),
        drivers,
        dry_run: true,
    };
    Osched::start(Config::parse(&config).expect("a configuration"), environment)
}

#[test]
fn an_engine_that_answers_the_third_time_is_taken() {
    let (gate, driver) = gated();
    for answer in [Err(Error::outside("busy")), Err(Error::outside("busy")), Ok(())] {
        gate.send(answer).expect("it waits");
    }
    start(&["only"], vec![driver]).expect("it has answered").end().expect("the end");
    let (gate, driver) = gated();
    (0..3).for_each(|_| gate.send(Err(Error::outside("away"))).expect("it waits"));
    let error = start(&["only"], vec![driver]).err().expect("refused").to_string();
    assert!(error.contains("target 'only'") && error.contains("away"), "{error}");
}

#[test]
fn an_engine_that_hangs_does_not_hold_the_others_or_the_end() {
    let (hanging, first) = gated();
    let (answering, second) = gated();
    // Both are there at the start. Later only the second one answers.
    hanging.send(Ok(())).expect("it waits");
    (0..100).for_each(|_| answering.send(Ok(())).expect("it waits"));
    let mut osched = start(&["first", "second"], vec![first, second]).expect("both answer");
    // Steps go on although the first engine never answers again.
    for _ in 0..5 {
        osched.step().expect("a step");
    }
    let failing: BTreeSet<String> = {
        let status = osched.status();
        let status = status.lock().expect("a status");
        status.targets.iter().filter(|target| target.failure.is_some()).map(|target| target.name.clone()).collect()
    };
    assert!(failing.is_empty(), "a late answer is not a failure: {failing:?}");
    osched.end().expect("the end");
    drop(hanging);
}
