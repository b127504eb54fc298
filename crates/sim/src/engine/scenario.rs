//! What a seed decides: the query, its tables, the faults, and the job's settings.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{AlignmentSpec, Lateness, Plan, StateBackendKind, Thresholds, WatermarkSpec};
use anabranch_model::{Result, Rng};

use super::outside::Rates;
use super::query::{Contents, PARALLELISM_MAX, Planned, Queries, UPDATING_FROM, UPDATING_TO, contents};
use super::tables::{HERE, Quiet, partition_name};
use super::truth::Reference;

/// Number of turns with faults.
pub(super) const FAULT_TURNS: u64 = 2_500;

/// What a seed decides.
#[derive(Clone)]
pub(super) struct Scenario<'a> {
    pub(super) query: &'a Planned,
    pub(super) contents: Arc<Contents>,
    pub(super) rates: Rates,
    /// Crashes of a process per 10,000 turns.
    pub(super) crashes: u64,
    /// Takeovers by another process per 10,000 turns.
    pub(super) rivals: u64,
    /// Steps of the wall clock per 10,000 turns.
    pub(super) wall_steps: u64,
    /// Changes of the plan while the job runs, per 10,000 turns.
    pub(super) changes: u64,
    /// The turn in which the job is stopped.
    pub(super) stop_at: Option<u64>,
    /// The job takes checkpoints.
    pub(super) durable: bool,
    /// The job starts from a savepoint of another job that reads the same tables.
    pub(super) from_savepoint: bool,
    /// The turn from which on the newest checkpoint may be damaged, once.
    pub(super) damage_at: Option<u64>,
    /// The turns in which the store takes no object, as a full disk does.
    pub(super) full: Range<u64>,
    /// The turns in which a task does nothing in any process, and which task.
    pub(super) hung: Option<(Range<u64>, usize)>,
    /// A partition that stays open without rows for long, and the idle timeout.
    pub(super) quiet: Option<(Quiet, u64)>,
    /// Readers can leave out partitions that are ahead of others.
    pub(super) readers_hold: bool,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) restart_attempts: u32,
    group_epochs: Option<u64>,
    pub(super) batch_rows: usize,
    channel_bytes: usize,
    pub(super) epoch_interval: Duration,
    buffer_timeout: Duration,
    /// Some rows are later than their watermark allows. Then their own partition decides whether they are
    /// late.
    pub(super) late_rows: bool,
    thresholds: Thresholds,
    /// Workers in other processes, if there are any.
    pub(super) several: Option<Several>,
    /// Bytes of state that an operator may hold in memory if the rest is flushed to disk.
    state_bytes: usize,
}

/// Workers in other processes, and what goes wrong between them: so many times in 10,000 turns.
#[derive(Clone, Debug)]
pub(super) struct Several {
    pub(super) machines: usize,
    /// How many tasks of one stage each has.
    pub(super) slots: u32,
    /// How many the job waits for.
    pub(super) awaited: usize,
    /// The tables that are written exist only in the coordinator's process.
    sinks_here: bool,
    /// How long something is under way, at most.
    pub(super) delay_us: u64,
    /// Bytes that are written at once, at most, and those that may be under way.
    pub(super) chunk: usize,
    pub(super) window: usize,
    pub(super) kills: u64,
    pub(super) stops: u64,
    pub(super) cuts: u64,
    pub(super) resets: u64,
    /// A machine whose calls fail often.
    pub(super) sick: Option<usize>,
    /// Workers end with their coordinator. Else others stand by, and adopt the tasks.
    pub(super) once: bool,
    /// How often the process of a coordinator is stopped for a while.
    pub(super) freezes: u64,
    /// Only coordinators fail.
    pub(super) calm: bool,
}

impl Several {
    fn draw(rng: &mut Rng, faulty: bool, durable: bool) -> Several {
        let upto = |rng: &mut Rng, most: u64| if faulty { rng.below(most + 1) } else { 0 };
        let machines = 1 + rng.below(4) as usize;
        let slots = PARALLELISM_MAX.div_ceil(machines as u32);
        Several {
            machines,
            slots: slots + rng.below(u64::from(PARALLELISM_MAX - slots + 1)) as u32,
            awaited: 1 + rng.below(machines as u64) as usize,
            sinks_here: rng.below(4) == 0,
            delay_us: 1 << rng.below(13),
            chunk: 1 << (3 + rng.below(12)),
            window: 1 << (8 + rng.below(10)),
            kills: upto(rng, 15),
            stops: upto(rng, 15),
            cuts: upto(rng, 30),
            resets: upto(rng, 15),
            sick: (faulty && rng.below(4) == 0).then(|| 1 + rng.below(machines as u64) as usize),
            once: !durable || rng.below(4) == 0,
            freezes: upto(rng, 15),
            calm: false,
        }
    }

    /// Workers do not fail.
    fn calm(self) -> Several {
        Several {
            kills: 0,
            stops: 0,
            cuts: 0,
            resets: 0,
            sick: None,
            once: false,
            sinks_here: false,
            calm: true,
            ..self
        }
    }
}

impl<'a> Scenario<'a> {
    pub(super) fn draw(queries: &'a Queries, seed: u64) -> Result<Self> {
        let rng = &mut Rng::new(seed);
        let faulty = rng.below(8) > 0;
        let upto = |rng: &mut Rng, most: u64| if faulty { rng.below(most + 1) } else { 0 };
        let us = |rng: &mut Rng, most: u64| Duration::from_micros(rng.below(most + 1));
        let durable = rng.below(8) > 0;
        let late_rows = rng.below(4) == 0;
        let mut contents = contents(rng, late_rows)?;
        let query = queries.draw(rng, seed);
        let mut scenario = Scenario {
            query,
            rates: Rates { fails: upto(rng, 8), crashes: upto(rng, 8) },
            crashes: upto(rng, 20),
            rivals: upto(rng, 15),
            wall_steps: if faulty { 20 } else { 0 },
            changes: 0,
            stop_at: (rng.below(4) == 0).then(|| rng.below(FAULT_TURNS)),
            durable,
            from_savepoint: rng.below(5) == 0,
            damage_at: (durable && faulty && rng.below(4) == 0).then(|| rng.below(FAULT_TURNS / 2)),
            quiet: (rng.below(4) == 0).then(|| quiet(&mut contents, rng)).filter(|_| !query.waits_for_no_match()),
            contents: Arc::new(contents),
            interval: us(rng, 2_000),
            timeout: Duration::from_millis(200 + rng.below(2_000)),
            restart_attempts: rng.below(4) as u32,
            group_epochs: (rng.below(4) > 0).then(|| 1 + rng.below(3)),
            batch_rows: 1 + rng.below(24) as usize,
            // Sometimes one envelope at a time.
            channel_bytes: 1 + if rng.below(2) == 0 { rng.below(100) } else { rng.below(8_000) } as usize,
            epoch_interval: Duration::from_micros(200 + rng.below(2_000)),
            buffer_timeout: us(rng, 3_000),
            late_rows,
            thresholds: Thresholds {
                partial_groups: 1 << rng.below(8),
                snapshot_changed_rows: 1 << rng.below(8),
                run_file_bytes: 1 << (10 + rng.below(10)),
                little_bytes: 1 << rng.below(8),
                state_file_bytes: 1 << (8 + rng.below(10)),
            },
            state_bytes: 1 << (12 + rng.below(8)),
            full: 0..0,
            hung: None,
            several: None,
            readers_hold: false,
        };
        if faulty && rng.below(5) == 0 {
            scenario.full = stretch(rng);
        }
        // A source that hangs while it has rows may become idle. Then positions do not determine event time.
        if faulty && scenario.quiet.is_none() && rng.below(5) == 0 {
            scenario.hung = Some((stretch(rng), rng.below(16) as usize));
        }
        if rng.below(2) == 0 {
            let mut several = Several::draw(rng, faulty, durable);
            // Tables of a coordinator's process end with it.
            several.sinks_here &= several.once;
            scenario.several = Some(several);
        }
        scenario.take_time();
        if durable && rng.below(2) == 0 {
            scenario.changes = 1 + rng.below(60);
        }
        if faulty && durable && rng.below(6) == 0 {
            scenario.several = scenario.several.map(Several::calm);
            scenario.calm();
        }
        scenario.readers_hold = (UPDATING_FROM..UPDATING_TO).contains(&seed) && rng.below(2) == 0;
        Ok(scenario)
    }

    /// What is under way between workers takes time, and a row may cause many that are updated.
    fn take_time(&mut self) {
        if self.several.is_some() {
            self.timeout += Duration::from_millis(1_000);
        }
        if self.query.is_updating() {
            self.timeout += Duration::from_millis(6_000);
        }
    }

    /// If only coordinators fail, everything else works.
    fn calm(&mut self) {
        if self.several.as_ref().is_some_and(|several| several.calm) {
            (self.rates, self.full, self.hung, self.damage_at) = (Rates::default(), 0..0, None, None);
            // No checkpoint takes too long.
            self.timeout = Duration::from_secs(60);
        }
    }

    /// The job whose savepoint this one starts from: the same query over the same tables, without faults.
    pub(super) fn before(&self) -> Scenario<'a> {
        Scenario {
            rates: Rates::default(),
            crashes: 0,
            rivals: 0,
            wall_steps: 0,
            stop_at: None,
            durable: true,
            from_savepoint: false,
            damage_at: None,
            full: 0..0,
            hung: None,
            several: None,
            ..self.clone()
        }
    }

    pub(super) fn plan(&self, parallelism: u32, state_backend: StateBackendKind) -> Plan {
        let mut plan = self.with_lateness(self.query.at(parallelism).clone());
        plan.options.thresholds = self.thresholds;
        plan.options.group.epochs = self.group_epochs;
        plan.options.batch_rows = self.batch_rows;
        plan.options.channel_bytes = self.channel_bytes;
        plan.options.epoch_interval = self.epoch_interval;
        plan.options.buffer_timeout = self.buffer_timeout;
        if state_backend == StateBackendKind::Disk {
            plan.options.state_backend = state_backend;
            plan.options.state_bytes = self.state_bytes;
        }
        if self.several.as_ref().is_some_and(|several| several.sinks_here) {
            for sink in plan.stages.iter_mut().filter_map(|stage| stage.sink.as_mut()) {
                HERE.clone_into(&mut sink.connector.connector);
            }
        }
        for source in plan.stages.iter_mut().filter_map(|stage| stage.source.as_mut()) {
            // A malformed record is no row. So it would depend on the order of reads which partition is idle.
            let has_rows = source.table != "broken";
            let Some(watermark) = &mut source.watermark else { continue };
            watermark.idle_timeout_ms = self.quiet.as_ref().map(|(_, timeout_ms)| *timeout_ms).filter(|_| has_rows);
            // Which rows come first changes no result.
            let alignment = AlignmentSpec { group: "all".into(), max_drift_ms: 500, update_interval_ms: 1 };
            watermark.alignment = Some(alignment).filter(|_| self.batch_rows.is_multiple_of(3));
        }
        plan
    }

    /// What results are compared with.
    pub(super) fn reference(&self) -> Reference {
        let reference = self.query.reference();
        Reference { plan: self.with_lateness(reference.plan), ..reference }
    }

    /// Results depend on which rows are late.
    fn with_lateness(&self, mut plan: Plan) -> Plan {
        for watermark in watermarks(&mut plan) {
            watermark.lateness = if self.late_rows { Lateness::Partition } else { Lateness::Job };
        }
        plan
    }

    /// How often a coordinator's process is stopped for a while.
    pub(super) fn freezes(&self) -> u64 {
        self.several.as_ref().map_or(0, |several| several.freezes)
    }

    /// For messages.
    pub(super) fn describe(&self) -> String {
        let Scenario { query, interval, epoch_interval, batch_rows, .. } = self;
        let workers = self.several.as_ref().map_or_else(String::new, |several| format!(", {several:?}"));
        let checkpoints = match self.durable {
            true => format!("checkpoints every {interval:?}"),
            false => "no checkpoints".to_owned(),
        };
        let quiet = self.quiet.as_ref().map_or_else(String::new, |(quiet, timeout_ms)| {
            format!(", idle after {timeout_ms} ms, {} is quiet until turn {}", quiet.name, quiet.until_turn)
        });
        format!("{}, epochs of {epoch_interval:?}, {checkpoints}, {batch_rows} rows{quiet}{workers}", query.name)
    }
}

/// Some of the turns in which things go wrong.
fn stretch(rng: &mut Rng) -> Range<u64> {
    let first = rng.below(FAULT_TURNS);
    first..(first + rng.below(FAULT_TURNS / 4)).min(FAULT_TURNS)
}

fn watermarks(plan: &mut Plan) -> impl Iterator<Item = &mut WatermarkSpec> {
    plan.stages.iter_mut().filter_map(|stage| stage.source.as_mut()?.watermark.as_mut())
}

/// Makes a partition of a table short, so that it has no rows while others have.
fn quiet(contents: &mut Contents, rng: &mut Rng) -> (Quiet, u64) {
    let (timeout_ms, until_turn) = (1 + rng.below(4), rng.below(FAULT_TURNS));
    let partitions = contents.get_mut("events").map(Vec::as_mut_slice).unwrap_or_default();
    let which = rng.below(partitions.len().max(1) as u64) as usize;
    if let Some(partition) = partitions.get_mut(which) {
        let rows = partition.rows.num_rows().min(rng.below(20) as usize);
        partition.rows = partition.rows.slice(0, rows);
    }
    (Quiet { name: partition_name("events", which), until_turn }, timeout_ms)
}
