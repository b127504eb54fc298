//! State: the cost and benefit of state on disk, the cost of a checkpoint of much state, and the recovery
//! time of a killed job.

use std::sync::Arc;

use anabranch_model::{Error, Result};

use super::{PARALLELISM, Scale, quantiles, section};
use crate::contestant::program;
use crate::engine::ManyValues;
use crate::measure::measure;
use crate::report::{Bounded, Section, Table};
use crate::workload::Keys;
use crate::{engine, peer};

/// Memory limit of an operator whose state goes to disk: a tenth of the state, or less.
const BOUND: &str = "32 mb";
const BOUND_BYTES: u64 = 32 << 20;
/// The same, of groups with many values.
const VALUES_BOUND: &str = "4 mb";
/// The most open files, and the longest time for a stop.
const FILES_BOUND: f64 = 256.0;
const STOP_BOUND_S: f64 = 5.0;
const ON_DISK: [(&str, &str); 2] = [("state-backend", "disk"), ("state-bytes", BOUND)];
/// How often a key appears while it is in use, in the workload whose keys are in use for a while.
const TIMES: u64 = 5;
/// The general store counts this part of the keys only, because it is slow.
const STORE_SHARE: usize = 1000;
/// Share of the keys that change between two checkpoints.
const HOT_SHARE: u64 = 100;

/// State ten times as large as its memory limit.
pub(crate) fn memory(scale: Scale) -> Result<Section> {
    let few = Keys::generate(scale.keys * 2, 100, scale.seed);
    let many = Keys::generate(scale.keys * 2, scale.keys, scale.seed);
    let floor = engine::state_memory(&few, 1, &ON_DISK)?;
    let on_disk = engine::state_memory(&many, 1, &ON_DISK)?;
    let in_memory = engine::state_memory(&many, 1, &[])?;
    let value = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let state = on_disk.saturating_sub(floor);
    let share = format!("{} ({:.2} of the bound)", value(state), state as f64 / BOUND_BYTES as f64);
    Ok(Section {
        title: "State larger than memory: resident memory".into(),
        note: format!(
            "Largest resident memory while {} keys, drawn from {}, are counted at parallelism 1, less that before. \
             On disk the bound is {}.",
            many.count,
            many.distinct,
            value(BOUND_BYTES)
        ),
        table: Table::Values(vec![
            ("100 keys: what the job takes anyway".into(), value(floor)),
            ("all keys, in memory".into(), value(in_memory)),
            ("all keys, on disk".into(), value(on_disk)),
            ("of this, state".into(), share),
        ]),
    })
}

/// State on disk, checkpoints of much state, and recovery.
pub(crate) fn state(scale: Scale, add: &mut dyn FnMut(Section) -> Result<()>) -> Result<()> {
    on_disk(scale)?.into_iter().try_for_each(&mut *add)?;
    add(large_checkpoint(scale)?)?;
    add(recovery(scale)?)
}

/// State on a local disk, compared with state in memory and with a general store.
pub(super) fn on_disk(scale: Scale) -> Result<Vec<Section>> {
    let scale = Scale { repetitions: scale.repetitions.min(3), ..scale };
    let near = Arc::new(Keys::moving(scale.keys * 2, scale.distinct_keys / 10, TIMES, scale.seed));
    let scattered = Arc::new(Keys::generate(scale.keys * 2, scale.keys, scale.seed));
    let mut sections = Vec::new();
    for (title, keys) in [("good locality", &near), ("no locality", &scattered)] {
        let contestants = vec![
            engine::grouping_as("in memory", keys, 1, &[])?,
            engine::grouping_as(format!("on disk, {BOUND} of memory"), keys, 1, &ON_DISK)?,
        ];
        let note = format!(
            "{} keys of {}, parallelism 1; the limit is the same job with state in memory.",
            keys.count, keys.distinct
        );
        sections.push(section(&format!("State on disk: {title}"), note, contestants, 1, scale)?);
    }
    let blocks = scattered.blocks.len().div_ceil(STORE_SHARE);
    let store = peer::fjall::Counters::new(scattered.distinct, BOUND_BYTES)?;
    let store = program("peer: fjall", move || store.count(&scattered, blocks));
    let comparison = measure(&mut [store], 1)?;
    sections.push(Section {
        title: "State on disk: a general store".into(),
        note: format!(
            "The first of the scattered keys as counters in a key-value store that has all of them, with {BOUND} of memory: \
             a batch is read, changed and written. As above, the files fit into the memory that the system has for them. What \
             the store does in the background afterwards is not counted."
        ),
        table: Table::Contestants { comparison, limits: 1 },
    });
    Ok(sections)
}

/// Groups with many values, all of which every batch touches, with less and less memory for them.
pub(crate) fn many_values(scale: Scale) -> Result<Section> {
    let mut values = Vec::new();
    for of in [1, 4, 16, 64].map(|times| scale.keys / 1000 * times) {
        let set = [("state-backend", "disk"), ("state-bytes", VALUES_BOUND)];
        let ManyValues { rows_per_s, files, checkpoints, stopped } =
            engine::many_values(of, &set, scale.latency_duration, scale.seed)?;
        values.push(Bounded::plain(format!("{of} values: rows per second"), format!("{rows_per_s:.0}")));
        values.push(Bounded::plain(format!("{of} values: checkpoints"), checkpoints.to_string()));
        values.push(Bounded::new(format!("{of} values: open files, most"), files as f64, FILES_BOUND, ""));
        values.push(Bounded::new(
            format!("{of} values: until it has stopped"),
            stopped.as_secs_f64(),
            STOP_BOUND_S,
            "s",
        ));
    }
    Ok(Section {
        title: "State on disk: groups with many values".into(),
        note: format!(
            "COUNT(DISTINCT) of {} groups, {VALUES_BOUND} of memory, parallelism 1, a checkpoint every second, {} s each. A batch has rows of all \
             groups, and a group is read with all of its values. Files are those of state on disk.",
            engine::GROUPS,
            scale.latency_duration.as_secs_f64()
        ),
        table: Table::Bounds(values),
    })
}

/// A checkpoint of much state that has changed little.
pub(super) fn large_checkpoint(scale: Scale) -> Result<Section> {
    let keys = Keys::each(scale.keys);
    let hot = Keys::generate(scale.keys / 10, scale.keys / HOT_SHARE, scale.seed);
    let (rate, duration) = (scale.keys / 10, scale.latency_duration * 2);
    let without = engine::changing(&keys, &hot, PARALLELISM, rate, duration, false)?;
    let with = engine::changing(&keys, &hot, PARALLELISM, rate, duration, true)?;
    let mut sizes: Vec<u64> = with.bytes.values().copied().collect();
    sizes.sort_unstable();
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    let whole: u64 = sizes.iter().filter(|bytes| **bytes > 10 * median).sum();
    if median == 0 || whole == 0 {
        return Err(Error::outside(format!("not enough checkpoints were written: {sizes:?} bytes")));
    }
    Ok(Section {
        title: "A checkpoint of much state".into(),
        note: format!(
            "{} keys are counted, in memory; then {} rows per second come of {} of them, with a checkpoint every second. Latency \
             is from a row's reading to its counting behind the exchange, parallelism {PARALLELISM}, buffer timeout 0, epochs of \
             2 ms.",
            keys.count, rate, hot.distinct
        ),
        table: Table::Values(vec![
            ("bytes of the whole state, as stored".into(), whole.to_string()),
            (
                "bytes of a checkpoint, median".into(),
                format!("{median} ({:.2} % of the whole)", median as f64 * 100.0 / whole as f64),
            ),
            ("latency without checkpoints".into(), quantiles(without.latency)),
            ("latency with checkpoints".into(), quantiles(with.latency)),
        ]),
    })
}

/// From the start of a process to its first result.
pub(super) fn recovery(scale: Scale) -> Result<Section> {
    Ok(Section {
        title: "Recovery of the main job".into(),
        note: format!(
            "From the start of a process to its first row printed, parallelism {PARALLELISM}: of a job that is new, without \
             checkpoints, and of one that was killed (SIGKILL) after some. Its state is small."
        ),
        table: Table::Latencies(engine::recovery(PARALLELISM, scale.repetitions.min(7))?.into()),
    })
}
