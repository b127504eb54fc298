//! What a user sees of a change of a running job: how long no result comes, and how late results are, beside
//! a stop and a start of the same job.

mod beside_checkpoint;
mod subject;

use std::time::{Duration, Instant};

use anabranch_model::Result;
use anabranch_server::Job;

use super::Scale;
use crate::report::{Bounded, Section, Table};
use crate::trace::{Seen, millis};
pub(super) use beside_checkpoint::beside_checkpoint;
use subject::{OBSERVED, Subject, Text};

/// The longest time without a result around a change of a filter or of the parallelism, in milliseconds.
const GAP_BOUND_MS: f64 = 100.0;
/// The same if the change adds a part: one interval of checkpoints.
const ADDED_GAP_BOUND_MS: f64 = 1000.0;
/// From the request to a checkpoint by the new version, in milliseconds.
const EFFECT_BOUND_MS: f64 = 1000.0;
/// How much the 99th percentile of the latency may grow in the worst second, in milliseconds.
const P99_BOUND_MS: f64 = 50.0;

/// Changes of one kind, and their bounds.
struct Kind {
    name: &'static str,
    /// One change after the other, each with its round.
    steps: &'static [fn(&mut Text, u32)],
    bounds: Bounds,
}

#[derive(Clone, Copy)]
struct Bounds {
    gap_ms: f64,
    time_ms: Option<f64>,
    p99_ms: Option<f64>,
}

const CHANGED: Bounds = Bounds { gap_ms: GAP_BOUND_MS, time_ms: Some(EFFECT_BOUND_MS), p99_ms: Some(P99_BOUND_MS) };
const ADDED: Bounds = Bounds { gap_ms: ADDED_GAP_BOUND_MS, ..CHANGED };
/// State that moves takes the time to copy it.
const RESCALED: Bounds = Bounds { gap_ms: GAP_BOUND_MS, time_ms: None, p99_ms: None };

/// These are compared with a stop and a start.
const COMPARED: [Kind; 2] = [
    Kind { name: "filter changed", steps: &[|text, round| text.filter = round + 1], bounds: CHANGED },
    Kind {
        name: "rescaled 2, 4, 3",
        steps: &[|text, _| text.parallelism = 4, |text, _| text.parallelism = 3, |text, _| text.parallelism = 2],
        bounds: RESCALED,
    },
];

/// These are undone after each round.
const PARTS: [Kind; 4] = [
    Kind { name: "filter inserted", steps: &[|text, _| text.filtered = true], bounds: ADDED },
    Kind { name: "static join inserted", steps: &[|text, _| text.joined = true], bounds: ADDED },
    Kind { name: "statement added that reads the same stream", steps: &[|text, _| text.tapped = true], bounds: ADDED },
    Kind { name: "function replaced", steps: &[|text, round| text.factor = round + 2], bounds: ADDED },
];

/// A running job is changed, without keys in its state and with many.
pub(crate) fn changes(scale: Scale) -> impl Iterator<Item = Result<Section>> {
    let (keys, filling) = (scale.events / 2, Duration::from_secs(10).min(scale.latency_duration * 2));
    // Ten times the state, at a rate that half of the machine can take.
    let sizes = [(keys / 100, filling), (keys, filling), (keys * 10, filling * 5)];
    let sections = sizes.into_iter().map(move |(keys, filling)| changes_at(scale, keys, filling));
    let parts = std::iter::once_with(move || parts(scale, (keys, filling)));
    let beside = std::iter::once_with(move || beside_checkpoint(scale, (keys, filling)));
    sections.chain(parts).chain(beside)
}

/// Calls `measure` with a job that has had some time to fill its state.
fn with_job<T>(
    (keys, filling): (u64, Duration),
    checkpoint_interval: &'static str,
    measure: impl FnOnce(&mut Subject<'_>, Job, u64) -> Result<T>,
) -> Result<T> {
    let folder = crate::folder()?;
    let rows_per_s = (keys as f64 / filling.as_secs_f64()) as u64;
    let mut subject = Subject::new(folder.path(), rows_per_s, checkpoint_interval)?;
    let job = subject.engine.start(&subject.plan()?)?;
    std::thread::sleep(filling);
    measure(&mut subject, job, rows_per_s)
}

fn changes_at(scale: Scale, keys: u64, filling: Duration) -> Result<Section> {
    let rounds = scale.repetitions.min(3);
    with_job((keys, filling), "1 s", |subject, mut job, rows_per_s| {
        let quiet = Instant::now();
        std::thread::sleep(OBSERVED);
        let gap = subject.arrivals.lock().longest_gap(quiet, Instant::now());
        let mut values = vec![Bounded::plain("longest gap without a change", format!("{:.1} ms", millis(gap)))];
        let mut state_bytes = 0;
        for Kind { name, steps, bounds } in &COMPARED {
            let (mut live, mut stopped) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                for step in *steps {
                    step(&mut subject.text, round);
                    live.push(subject.change(&job)?);
                    let last = job.status().last_checkpoint;
                    state_bytes = last.map_or(state_bytes, |last| state_bytes.max(last.bytes));
                }
            }
            // Afterwards, so that rows that wait for a start are no part of what is compared with the
            // changes.
            for round in rounds..2 * rounds {
                for step in *steps {
                    step(&mut subject.text, round);
                    let seen;
                    (job, seen) = subject.stop_and_start(job)?;
                    stopped.push(seen);
                }
            }
            values.extend(rows(&format!("{name}, while it runs"), &live, Some(*bounds)));
            values.extend(rows(&format!("{name}, stop and start"), &stopped, None));
        }
        let note = format!(
            "A generator of {rows_per_s} rows per second; statement 1 filters and writes rows as they come, statement 2 counts for each of \
             about {keys} keys in a window that stays open: up to {} MB in a checkpoint. Parallelism 2, a checkpoint each second, {rounds} rounds. The longest time \
             without a row of statement 1, and the time from the request until a checkpoint by the new version. Latency is from the time at \
             which a row is due until statement 1 writes it, at least once: the 99th percentile in the worst second from the request on, less that of the second \
             before. Beside it the same change by \
             stopping the job with a checkpoint and starting it with the other text, in the same process.",
            state_bytes >> 20
        );
        Ok(Section { title: format!("Changes of a running job, {keys} keys"), note, table: Table::Bounds(values) })
    })
}

/// Parts are added to a running job.
pub(super) fn parts(scale: Scale, (keys, filling): (u64, Duration)) -> Result<Section> {
    let rounds = scale.repetitions.min(2);
    with_job((keys, filling), "1 s", |subject, job, rows_per_s| {
        let mut seen = [const { Vec::new() }; PARTS.len()];
        for round in 0..rounds {
            for (Kind { steps, .. }, seen) in PARTS.iter().zip(&mut seen) {
                for step in *steps {
                    step(&mut subject.text, round);
                    seen.push(subject.change(&job)?);
                }
            }
            subject.text = Text { factor: subject.text.factor, ..Text::default() };
            subject.reconfigure(&job)?;
            std::thread::sleep(OBSERVED);
        }
        let values = PARTS.iter().zip(&seen).flat_map(|(kind, seen)| rows(kind.name, seen, Some(kind.bounds)));
        let note = format!(
            "The job of the sections above, with {rows_per_s} rows per second and about {keys} keys, {rounds} rounds. A filter before the aggregate, \
             a join of statement 1 with a file of 1000 rows, a statement that reads the view of statement 1, and another body for the \
             function that statement 1 calls. The bound of the gap is the interval of checkpoints."
        );
        let table = Table::Bounds(values.collect());
        Ok(Section { title: format!("Parts added to a running job, {keys} keys"), note, table })
    })
}

/// What was seen of changes of one kind: median and worst.
fn rows(name: &str, seen: &[Seen], bounds: Option<Bounds>) -> Vec<Bounded> {
    let of = |value: fn(&Seen) -> f64| seen.iter().map(value).collect::<Vec<f64>>();
    let measures = [
        ("longest gap", of(|seen| millis(seen.gap)), bounds.map(|bounds| bounds.gap_ms)),
        ("time", of(|seen| millis(seen.time)), bounds.and_then(|bounds| bounds.time_ms)),
        ("added p99 latency", of(Seen::added_p99_ms), bounds.and_then(|bounds| bounds.p99_ms)),
    ];
    let both = |(measure, values, bound): (&str, Vec<f64>, Option<f64>)| {
        let (median, worst) = median_and_worst(values);
        [("median", median), ("worst", worst)].map(|(which, value_ms)| {
            let name = format!("{name}: {measure}, {which}");
            match bound {
                Some(bound_ms) => Bounded::new(name, value_ms, bound_ms, "ms"),
                None => Bounded::plain(name, format!("{value_ms:.1} ms")),
            }
        })
    };
    measures.into_iter().flat_map(both).collect()
}

/// Median and largest value.
pub(super) fn median_and_worst(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() - 1])
}
