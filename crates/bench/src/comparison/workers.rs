//! What worker processes cost, compared with tasks in one process, and their latency.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_model::{LatencySummary, Result};

use super::Scale;
use crate::engine::{self, KeysTable};
use crate::measure::measure;
use crate::pingpong;
use crate::report::{Bounded, Section, Table};

/// Worker processes; a task of each stage in each.
const WORKERS: u32 = 2;
/// Largest processor time of worker processes over that of one process.
const CPU_BOUND: f64 = 1.35;
/// The largest 99th percentile of latency, in microseconds.
const P99_BOUND_US: f64 = 5000.0;
/// How far the median may be above the machine's.
const P50_BOUND_US: f64 = 500.0;
/// Keys of this share of a workload are generated, by each process, and read repeatedly.
const GENERATED_SHARE: u64 = 5;
/// Time between two ticks of a source with a rate.
const TICK: Duration = Duration::from_micros(500);

fn table(scale: Scale, distinct: u64, rows: u64) -> KeysTable {
    let count = (scale.keys / GENERATED_SHARE).max(1);
    KeysTable {
        count,
        distinct,
        seed: scale.seed,
        repeat: (rows / count).max(1),
        rows_per_s: 0,
        rows: 0,
        slow_ms: 0,
        readers: WORKERS,
        lags: PathBuf::new(),
    }
}

/// Keyed count over worker processes and in one process, for each number of distinct keys.
pub(crate) fn workers(scale: Scale) -> Result<Vec<Section>> {
    // With many keys a row costs several times as much.
    let sizes = [(100, scale.repeat), (scale.distinct_keys, scale.repeat / 3)];
    sizes.into_iter().map(|(distinct, repeat)| workers_of(scale, distinct, repeat.max(1))).collect()
}

fn workers_of(scale: Scale, distinct: u64, repeat: u64) -> Result<Section> {
    let table = table(scale, distinct, scale.keys * repeat);
    let mut contestants = vec![
        engine::count_at(&format!("one process, parallelism {WORKERS}"), &table, None)?,
        engine::count_at(&format!("{WORKERS} worker processes"), &table, Some(WORKERS))?,
    ];
    let comparison = measure(&mut contestants, scale.repetitions.min(5))?;
    let ratio = comparison.measurements[1].cpu_ratio_median(&comparison.measurements[0]);
    Ok(Section {
        title: format!("Worker processes: count per key, {distinct} distinct keys"),
        note: format!(
            "{} rows with a checkpoint every second. CPU time is that of all processes, from their start to their end; each task generates \
             the keys that it reads. The limit is one process. {}.",
            table.count * table.repeat,
            Bounded::new("CPU of worker processes over that of one process", ratio, CPU_BOUND, "").sentence()
        ),
        table: Table::Contestants { comparison, limits: 1 },
    })
}

/// Latency over worker processes at half of their rate, beside a bare message.
pub(crate) fn latency(scale: Scale) -> Result<Section> {
    let keys = table(scale, scale.distinct_keys, scale.keys * (scale.repeat / 3).max(1));
    let held = scale.latency_duration;
    let most_per_s = engine::rate_at(&keys, WORKERS, held)?;
    let rate = ((most_per_s / 2.0) as u64).max(1);
    let duration = scale.latency_duration * 2;
    let rounds = u32::try_from(scale.latency_duration.as_micros() / TICK.as_micros()).unwrap_or(u32::MAX) / 2;
    let mut floor = pingpong::loopback(rounds, TICK)?;
    let slow = duration / 3;
    let rows = (rate as f64 * (duration - slow * 9 / 10).as_secs_f64()) as u64;
    let slow_ms = u64::try_from(slow.as_millis()).unwrap_or(u64::MAX);
    let LatencySummary { p50_us, p99_us, p999_us, max_us, .. } =
        engine::latency_at(&KeysTable { rows_per_s: rate, rows, slow_ms, ..keys.clone() }, WORKERS)?;
    floor.merge(&pingpong::loopback(rounds, TICK)?)?;
    let (floor_p50_us, floor_p99_us) = (floor.quantile_us(0.5), floor.quantile_us(0.99));
    Ok(Section {
        title: "Latency of grouping over worker processes".into(),
        note: format!(
            "From a key's reading to its counting after the exchange, {WORKERS} worker processes, {} distinct \
             keys, buffer timeout 0, a checkpoint every second, at half of {:.2} million rows per second, \
             the highest rate that is held for {} s without a growing lag, to a tenth. Keys come every 0.5 ms; in the first third of the time, \
             a tenth of them. The noise \
             floor is a message there and back between two threads over a loopback socket, once in 0.5 ms, before and after.",
            keys.distinct,
            most_per_s / 1e6,
            held.as_secs_f64()
        ),
        table: Table::Bounds(vec![
            Bounded::new("p50", p50_us as f64, floor_p50_us + P50_BOUND_US, "µs"),
            Bounded::new("p99", p99_us as f64, P99_BOUND_US, "µs"),
            Bounded::plain("p99.9", format!("{p999_us} µs")),
            Bounded::plain("max", format!("{max_us} µs")),
            Bounded::plain("noise floor, p50", format!("{floor_p50_us:.1} µs")),
            Bounded::plain("noise floor, p99", format!("{floor_p99_us:.1} µs")),
        ]),
    })
}
