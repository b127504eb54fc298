//! What tells the writers of one job from each other: their scopes.

mod support;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, ExchangeKind, JobOptions, OnMalformed, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Result, SystemClock};
use anabranch_operators::{Connector, Connectors, Delivery, Positions, Sink, Source, TaskContext};
use anabranch_runtime::{Checkpointing, Job};
use anabranch_state::{Access, Store};
use arrow::datatypes::SchemaRef;
use support::{Tables, plan, schema, sink_spec};

/// Tables that remember which table was opened with which scope.
struct Remembering {
    tables: Tables,
    opened: Mutex<BTreeSet<(String, String)>>,
}

impl Connector for Remembering {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.tables.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        self.tables.source(spec, context, from)
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let Delivery::ExactlyOnce { scope } = &context.delivery else { panic!("the job keeps checkpoints") };
        self.opened.lock().expect("no panic").insert((spec.table.clone(), scope.clone()));
        self.tables.sink(spec, context)
    }
}

/// The scope is what a sink knows its rows by after a crash: two tables of one must not share it, nor may it depend on how
/// stages are cut.
#[test]
fn dead_letters_have_a_name_of_their_own_also_in_a_stage_that_writes_a_table() {
    let dead = || OnMalformed::DeadLetter(Box::new(sink_spec("dead_letters", schema())));
    let two_stages = plan(1, ExchangeKind::Forward, 1, JobOptions::default(), dead());
    let mut one_stage = two_stages.clone();
    one_stage.stages.truncate(1);
    one_stage.stages[0].sink = two_stages.stages[1].sink.clone();
    one_stage.exchanges.clear();
    for plan in [two_stages, one_stage] {
        let folder = tempfile::tempdir().unwrap();
        let checkpointing = Checkpointing {
            store: Store::open(folder.path().to_str().unwrap(), &Access::default()).unwrap(),
            interval: Duration::from_secs(3600),
            timeout: Duration::from_secs(60),
            restart_attempts: 0,
            new_job: "job".into(),
            seed: 1,
        };
        let tables = Arc::new(Remembering { tables: Tables::new(1, Some(100)), opened: Mutex::default() });
        let mut connectors = Connectors::default();
        connectors.register("log", tables.clone());
        let job =
            Job::start(&plan, &connectors, Arc::new(SystemClock::new()), Some(&checkpointing), None).expect("a job");
        assert!(job.handle().wait_timeout(Duration::from_secs(60)), "the job hangs");
        job.wait().expect("the job ends");
        let expected = [("dead_letters", "job-malformed-0"), ("results", "job-0")];
        let expected = expected.map(|(table, scope)| (table.to_owned(), scope.to_owned()));
        assert_eq!(*tables.opened.lock().unwrap(), BTreeSet::from(expected), "{} stages", plan.stages.len());
    }
}
