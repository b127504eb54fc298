//! The scopes that distinguish the writers of one job.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Tables, in_one_stage, plan, schema, sink_spec};
use anabranch_dataflow::{
    ConnectorSpec, ExchangeKind, JobOptions, OnMalformed, Plan, SinkSpec, SourceSpec, TableTraits,
};
use anabranch_model::{Result, SystemClock};
use anabranch_operators::{Connector, Connectors, Delivery, Former, Positions, Sink, Source, TaskContext};
use anabranch_runtime::{Checkpointing, Job};
use anabranch_state::{Access, Store};
use arrow::datatypes::SchemaRef;

/// Tables that record which table was opened with which scope.
struct Remembering {
    tables: Tables,
    opened: Mutex<BTreeSet<(String, String)>>,
    /// Of the writer that was opened last.
    former: Mutex<Former>,
}

impl Remembering {
    fn new(rows: Option<i64>) -> Arc<Remembering> {
        let tables = Tables::new(1, rows);
        Arc::new(Remembering { tables, opened: Mutex::default(), former: Mutex::default() })
    }
}

fn checkpointing(folder: &Path) -> Checkpointing {
    Checkpointing {
        store: Store::open(folder.to_str().expect("a path"), &Access::default()).expect("a store"),
        interval: Duration::from_secs(3600),
        timeout: Duration::from_secs(60),
        restart_attempts: 0,
        new_job: "job".into(),
        seed: 1,
    }
}

fn start(plan: &Plan, tables: &Arc<Remembering>, checkpointing: &Checkpointing) -> Job {
    let mut connectors = Connectors::default();
    connectors.register("log", tables.clone());
    Job::start(plan, &connectors, Arc::new(SystemClock::new()), Some(checkpointing), None).expect("a job")
}

impl Connector for Remembering {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.tables.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        self.tables.source(spec, context, from)
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let Delivery::ExactlyOnce { scope, former } = &context.delivery else { panic!("the job keeps checkpoints") };
        former.clone_into(&mut self.former.lock().expect("no panic"));
        self.opened.lock().expect("no panic").insert((spec.table.clone(), scope.clone()));
        self.tables.sink(spec, context)
    }
}

/// A sink identifies its rows by the scope after a crash: two tables of a job must not share it, and it must
/// not depend on how stages are cut.
#[test]
fn dead_letters_have_a_separate_scope_even_in_a_stage_that_writes_a_table() {
    let dead = || OnMalformed::DeadLetter(Box::new(sink_spec("dead_letters", schema())));
    let two_stages = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), dead());
    let one_stage = in_one_stage(&two_stages);
    for plan in [two_stages, one_stage] {
        let folder = tempfile::tempdir().unwrap();
        let tables = Remembering::new(Some(100));
        let job = start(&plan, &tables, &checkpointing(folder.path()));
        assert!(job.handle().wait_timeout(Duration::from_secs(60)), "the job hangs");
        job.wait().expect("the job ends");
        let expected = [("dead_letters", "job-malformed-0"), ("results", "job-0")];
        let expected = expected.map(|(table, scope)| (table.to_owned(), scope.to_owned()));
        assert_eq!(*tables.opened.lock().unwrap(), BTreeSet::from(expected), "{} stages", plan.stages.len());
    }
}

/// What a former writer has left behind can be found only by its name.
#[test]
fn writers_know_their_former_scopes_when_a_damaged_checkpoint_was_passed_over() {
    let plan = plan(3, ExchangeKind::Forward, 3, JobOptions::default(), OnMalformed::Fail);
    let folder = tempfile::tempdir().unwrap();
    let checkpointing = checkpointing(folder.path());
    let tables = Remembering::new(None);
    let job = start(&plan, &tables, &checkpointing);
    for _ in 0..2 {
        job.handle().checkpoint_now().expect("committed");
    }
    job.handle().cancel();
    job.wait().expect_err("cancelled");
    assert_eq!(*tables.former.lock().unwrap(), Former::default());
    let entries = std::fs::read_dir(folder.path().join("log")).unwrap().map(|entry| entry.unwrap().path());
    std::fs::write(entries.max().unwrap(), "{").unwrap();

    let job = start(&plan, &tables, &checkpointing);
    let scopes = vec!["job-0".to_owned(), "job-2-0".to_owned()];
    assert_eq!(*tables.former.lock().unwrap(), Former { scopes, tasks: 3 });
    job.handle().cancel();
    job.wait().expect_err("cancelled");
}
