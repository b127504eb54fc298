//! Sources and sinks that record what they did, and plans to run them in.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses a part; a test may panic")]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anabranch_dataflow::{
    ConnectorSpec, Exchange, ExchangeKind, JobOptions, OnMalformed, Plan, Port, SinkSpec, SourceSpec, Stage,
    TableTraits,
};
use anabranch_model::{Epoch, Error, KeyGroups, PartitionId, Result, Rng, StageId};
use anabranch_operators::{Connector, Malformed, Polled, Positions, Rows, Sink, Source, TaskContext};
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

/// Rows are (source task, sequence number).
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("task", DataType::Int64, false), Field::new("seq", DataType::Int64, false)]))
}

/// What happened, by epoch.
#[derive(Default)]
pub(crate) struct Log {
    /// Per source task: sequence numbers below this were cut into the epoch or an earlier one.
    pub(crate) cut: BTreeMap<(u32, u64), i64>,
    /// Per sink task: rows before the end of the epoch and after the end of the one before.
    pub(crate) written: BTreeMap<(u32, u64), Vec<(i64, i64)>>,
    /// Per source task: epochs that it was notified of as done.
    pub(crate) done: BTreeMap<u32, Vec<u64>>,
    pub(crate) dead_letters: usize,
    pub(crate) finished_sinks: u32,
}

/// The newest row that each source task has given.
pub(crate) type Given = Arc<Mutex<BTreeMap<u32, i64>>>;

/// Behaviour of the tables of a test.
#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) log: Arc<Mutex<Log>>,
    /// Rows per source task; `None` never ends.
    pub(crate) rows: Option<i64>,
    pub(crate) seed: u64,
    /// Sinks wait while this is closed.
    pub(crate) gate: Arc<(Mutex<bool>, Condvar)>,
    /// Every n-th poll returns a malformed record.
    pub(crate) malformed_every: Option<u64>,
    /// The sink fails, or panics, at this row.
    pub(crate) fail_at: Option<i64>,
    pub(crate) panic_at: Option<i64>,
    /// How far sources may be ahead of the slowest, and the newest row that each has given.
    pub(crate) drift: Option<(i64, Given)>,
}

impl Tables {
    pub(crate) fn new(seed: u64, rows: Option<i64>) -> Self {
        Tables {
            log: Arc::default(),
            rows,
            seed,
            gate: Arc::new((Mutex::new(true), Condvar::new())),
            malformed_every: None,
            fail_at: None,
            panic_at: None,
            drift: None,
        }
    }

    pub(crate) fn set_gate(&self, open: bool) {
        *self.gate.0.lock().unwrap() = open;
        self.gate.1.notify_all();
    }
}

impl Connector for Tables {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: self.rows.is_some(),
            readable: true,
            writable: true,
            max_readers: None,
            schema: None,
            ..TableTraits::default()
        })
    }

    fn source(&self, _: &SourceSpec, context: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        let rng = Rng::new(self.seed ^ u64::from(context.index));
        Ok(Box::new(LogSource { tables: self.clone(), task: context.index, next: 0, polls: 0, rng, opened: false }))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let dead_letter = spec.table == "dead_letters";
        Ok(Box::new(LogSink { tables: self.clone(), task: context.index, rows: Vec::new(), dead_letter }))
    }
}

struct LogSource {
    tables: Tables,
    task: u32,
    next: i64,
    polls: u64,
    rng: Rng,
    opened: bool,
}

impl Source for LogSource {
    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        let partition = PartitionId(self.task);
        if !std::mem::replace(&mut self.opened, true) {
            return Ok(Polled::Opened { partition, name: self.task.to_string() });
        }
        if self.tables.rows.is_some_and(|rows| self.next >= rows) {
            if let Some((_, given)) = &self.tables.drift {
                given.lock().unwrap().remove(&self.task);
            }
            return Ok(Polled::End);
        }
        self.polls += 1;
        // Aligned sources have a pace of their own each.
        let slowness = if self.tables.drift.is_some() { 1 + 3 * u64::from(self.task % 3) } else { 1 };
        if self.rng.below(8) < slowness {
            anabranch_model::pause(wait.min(Duration::from_micros(300)));
            return Ok(Polled::Pending);
        }
        let left = self.tables.rows.map_or(i64::MAX, |rows| rows - self.next);
        let count = left.min(1 + self.rng.below(40) as i64);
        let malformed = match self.tables.malformed_every.filter(|n| self.polls.is_multiple_of(*n)) {
            None => Vec::new(),
            Some(_) => vec![Malformed {
                place: format!("log record {}", self.next),
                error: "not a record".into(),
                record: b"{broken".to_vec(),
            }],
        };
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![i64::from(self.task); count as usize])),
            Arc::new(Int64Array::from_iter_values(self.next..self.next + count)),
        ];
        if let Some((drift, given)) = &self.tables.drift {
            let mut given = given.lock().unwrap();
            let slowest = given.values().copied().min().unwrap_or(i64::MAX);
            let last = self.next - 1;
            // Without rows nothing is known of its time.
            assert!(
                self.next == 0 || last <= slowest.saturating_add(*drift),
                "task {} at {last}: {given:?}",
                self.task
            );
            given.insert(self.task, last + count);
        }
        self.next += count;
        let batch = RecordBatch::try_new(schema(), columns)?;
        Ok(Polled::Rows(Rows { partition, batch, malformed }))
    }

    fn epoch_cut(&mut self, epoch: Epoch) -> Result<()> {
        let again = self.tables.log.lock().unwrap().cut.insert((self.task, epoch.0), self.next);
        assert!(again.is_none(), "epoch {epoch} was cut twice");
        Ok(())
    }

    fn epoch_done(&mut self, epoch: Epoch) -> Result<()> {
        self.tables.log.lock().unwrap().done.entry(self.task).or_default().push(epoch.0);
        Ok(())
    }
}

struct LogSink {
    tables: Tables,
    task: u32,
    rows: Vec<(i64, i64)>,
    dead_letter: bool,
}

impl Sink for LogSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.dead_letter {
            self.tables.log.lock().unwrap().dead_letters += batch.num_rows();
            return Ok(());
        }
        let (gate, changed) = &*self.tables.gate;
        let open = gate.lock().unwrap();
        drop(changed.wait_timeout_while(open, Duration::from_secs(20), |open| !*open).unwrap());
        let (tasks, seqs) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
        for (task, seq) in tasks.values().iter().zip(seqs.values()) {
            if self.tables.fail_at == Some(*seq) {
                return Err(Error::outside("the disk is full"));
            }
            assert!(self.tables.panic_at != Some(*seq), "a bug at {seq}");
            self.rows.push((*task, *seq));
        }
        Ok(())
    }

    fn epoch_end(&mut self, epoch: Epoch) -> Result<()> {
        if !self.dead_letter {
            let rows = std::mem::take(&mut self.rows);
            let again = self.tables.log.lock().unwrap().written.insert((self.task, epoch.0), rows);
            assert!(again.is_none(), "epoch {epoch} ended twice");
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.tables.log.lock().unwrap().finished_sinks += 1;
        Ok(())
    }
}

pub(crate) fn connector(name: &str) -> ConnectorSpec {
    ConnectorSpec::new(name, &[])
}

pub(crate) fn sink_spec(table: &str, schema: SchemaRef) -> SinkSpec {
    SinkSpec::new(table, connector("log"), schema)
}

/// The same plan, if its source and its sink are in one stage.
pub(crate) fn in_one_stage(plan: &Plan) -> Plan {
    let stage = Stage { sink: plan.stages[1].sink.clone(), ..plan.stages[0].clone() };
    Plan::new(plan.key_groups, plan.options.clone(), vec![stage], Vec::new())
}

/// A source stage, an exchange, a sink stage.
pub(crate) fn plan(
    sources: u32,
    kind: ExchangeKind,
    sinks: u32,
    options: JobOptions,
    on_malformed: OnMalformed,
) -> Plan {
    let source = SourceSpec { on_malformed, ..SourceSpec::new("log", connector("log"), schema()) };
    let stage = |id: u32, name: &str, parallelism: u32| Stage {
        id: StageId(id),
        name: name.into(),
        parallelism,
        label: None,
        tasks_max: None,
        source: None,
        operators: Vec::new(),
        sink: None,
        query: None,
        schema: schema(),
        origin: Default::default(),
    };
    let first = Stage { source: Some(source), ..stage(0, "read", sources) };
    let last = Stage { sink: Some(sink_spec("results", schema())), ..stage(1, "write", sinks) };
    let exchanges = vec![Exchange { from: StageId(0), to: StageId(1), port: Port::Main, kind }];
    Plan::new(KeyGroups(128), options, vec![first, last], exchanges)
}
