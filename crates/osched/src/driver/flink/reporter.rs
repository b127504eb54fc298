//! What TaskManagers report through their Prometheus reporters.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{ErrorKind, Result};
use anabranch_schedule::{Metric, Readings, TaskIndex};

use super::graph::{Outputs, Place, VertexPlace};
use super::windows::until_end_ms;
use crate::http::Http;
use crate::prometheus::{Sample, Scraper};

/// The port of a reporter that has none in its configuration.
const DEFAULT_PORT: u16 = 9249;
/// Rows after which it is clear how a chain with several outputs counts them.
const CLEAR_ROWS: f64 = 1_000.0;
/// Above this size of an answer the reporter should have a filter.
const LARGE_BYTES: usize = 200 << 10;
/// What all families of tasks begin with.
const OF_TASK: &str = "flink_taskmanager_job_task_";
/// Families of tasks, without their common beginning. Two names mean that versions, or the scopes of one
/// version, differ.
const FAMILIES: [(&str, Reported); 7] = [
    ("numRecordsIn", Reported::RowsIn),
    ("numRecordsOut", Reported::RowsOut),
    ("currentInputWatermark", Reported::WatermarkMs),
    ("Shuffle_Netty_Input_Buffers_inputQueueLength", Reported::Buffers),
    ("buffers_inputQueueLength", Reported::Buffers),
    ("Shuffle_Netty_Input_Buffers_inPoolUsage", Reported::PoolShare),
    ("buffers_inPoolUsage", Reported::PoolShare),
];

/// The lines that switch the reporter on.
pub(super) const LINES: [&str; 3] = [
    "metrics.reporter.prom.factory.class: org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
    "metrics.reporter.prom.port: 9250-9260",
    "metrics.reporter.prom.filter.includes: \"*.job.task:numRecordsIn,numRecordsOut,currentInputWatermark;\
     *.job.task.*:inputQueueLength,inPoolUsage\"",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reported {
    RowsIn,
    RowsOut,
    WatermarkMs,
    Buffers,
    PoolShare,
}

/// The reporters of one cluster on this machine.
#[derive(Default)]
pub(super) struct Reporters {
    scrapers: Vec<Scraper>,
    /// Whether the operators of a chain with several outputs emit each to its own: by job and vertex, once it
    /// is clear.
    have_own_outputs: BTreeMap<(String, String), bool>,
    /// What was seen at the last read.
    seen: BTreeSet<Reported>,
    /// Tasks that the graph does not have, at the last read.
    pub(super) unknown: BTreeSet<Place>,
    /// Samples of the last read that do not say which task they are about.
    unlabelled: usize,
}

/// Values of one read, by task.
type Values = BTreeMap<(TaskIndex, Reported), f64>;

impl Reporters {
    /// Reads these addresses from now on.
    pub(super) fn set(&mut self, urls: &BTreeSet<String>) {
        let known: BTreeSet<String> = self.scrapers.iter().map(|scraper| scraper.url.clone()).collect();
        let new: Vec<Scraper> = urls.iter().map(|url| Scraper::new(url)).collect();
        if known != new.iter().map(|scraper| scraper.url.clone()).collect() {
            self.scrapers = new;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scrapers.is_empty()
    }

    /// The metrics that the last read had values of.
    pub(super) fn offers(&self, vertices: &[VertexPlace]) -> Vec<Metric> {
        let mut offers = Vec::new();
        for (reported, metric) in [
            (Reported::RowsIn, Metric::RowsIn),
            (Reported::RowsOut, Metric::RowsOut),
            (Reported::Buffers, Metric::QueueBatches),
            (Reported::PoolShare, Metric::QueueShare),
        ] {
            offers.extend(self.seen.contains(&reported).then_some(metric));
        }
        let has_windows = vertices.iter().any(|vertex| vertex.window_step_ms.is_some());
        offers.extend((has_windows && self.seen.contains(&Reported::WatermarkMs)).then_some(Metric::UntilWindowMs));
        offers
    }

    /// What is missing or too much, and the lines for it.
    pub(super) fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let large = self.scrapers.iter().find(|scraper| scraper.size() > LARGE_BYTES);
        if self.is_empty() {
            advice.push(
                "no Prometheus reporter is known; add to Flink's configuration, and restart the TaskManagers:"
                    .to_owned(),
            );
            advice.extend(LINES.map(str::to_owned));
        } else if self.unlabelled > 0 {
            advice.push(
                "the reporter leaves out job_id, task_id or subtask_index, which distinguish tasks; take them out of:"
                    .to_owned(),
            );
            advice.push("metrics.reporter.prom.scope.variables.excludes".to_owned());
        } else if let Some(large) = large {
            advice.push(format!("{} serves {} KB for each read; add its filter:", large.url, large.size() >> 10));
            advice.push(LINES[2].to_owned());
        } else if !self.seen.is_empty()
            && [Reported::RowsIn, Reported::RowsOut].iter().any(|rows| !self.seen.contains(rows))
        {
            advice.push("the reporter's filter leaves out numRecordsIn or numRecordsOut; replace it:".to_owned());
            advice.push(LINES[2].to_owned());
        }
        advice
    }

    /// Reads all reporters. One that does not answer is an error only if none does: the others still tell
    /// about their tasks.
    pub(super) fn read(
        &mut self,
        http: &Http,
        vertices: &[VertexPlace],
        places: &BTreeMap<Place, TaskIndex>,
        readings: &mut Readings,
    ) -> Result<()> {
        let mut values = Values::new();
        let (mut failure, mut answers) = (None, 0);
        let (unknown, unlabelled) = (&mut self.unknown, &mut self.unlabelled);
        (*unlabelled, _) = (0, unknown.clear());
        for scraper in &mut self.scrapers {
            let take = |sample: Sample<'_>| {
                let Some((place, reported)) = place(&sample).zip(reported(sample.family)) else {
                    return *unlabelled += 1;
                };
                match places.get(&place) {
                    Some(task) => drop(values.insert((*task, reported), sample.value)),
                    None => drop(unknown.insert(place)),
                }
            };
            match scraper.scrape(http, |family| reported(family).is_some(), take) {
                Ok(_) => answers += 1,
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if answers == 0 || error.kind() == ErrorKind::User => return Err(error),
            _ => {}
        }
        self.seen = values.keys().map(|(_, reported)| *reported).collect();
        for vertex in vertices {
            self.add(vertex, &values, vertices, readings);
        }
        Ok(())
    }

    fn add(&mut self, vertex: &VertexPlace, values: &Values, vertices: &[VertexPlace], readings: &mut Readings) {
        let factor = self.factor(vertex, values, vertices);
        for task in &vertex.tasks {
            let value = |reported| values.get(&(*task, reported)).copied();
            // A source counts what it reads as zero.
            if let Some(rows) = value(Reported::RowsIn).filter(|rows| *rows > 0.0 || vertex.receives) {
                readings.add(*task, Metric::RowsIn, rows);
            }
            if let Some((rows, factor)) = value(Reported::RowsOut).zip(factor) {
                readings.add(*task, Metric::RowsOut, rows * factor);
            }
            if let Some(buffers) = value(Reported::Buffers).filter(|_| vertex.receives) {
                readings.add(*task, Metric::QueueBatches, buffers);
            }
            if let Some(share) = value(Reported::PoolShare).filter(|_| vertex.receives) {
                readings.add(*task, Metric::QueueShare, share.clamp(0.0, 1.0));
            }
            // Without a watermark it is the least number there is.
            let watermark = value(Reported::WatermarkMs).filter(|watermark| watermark.abs() < 9e18);
            if let Some((watermark, step)) = watermark.zip(vertex.window_step_ms) {
                readings.add(*task, Metric::UntilWindowMs, until_end_ms(step, watermark as i64) as f64);
            }
        }
    }

    /// By what a vertex' counter of emitted rows is multiplied. None while it is not clear.
    fn factor(&mut self, vertex: &VertexPlace, values: &Values, vertices: &[VertexPlace]) -> Option<f64> {
        let (low, high) = match vertex.outputs {
            Outputs::Factor(factor) => return Some(factor),
            Outputs::Between { low, high } => (low, high),
        };
        let key = (vertex.job.clone(), vertex.vertex.clone());
        if !self.have_own_outputs.contains_key(&key) {
            let sum = |vertex: &VertexPlace, reported| -> f64 {
                vertex.tasks.iter().filter_map(|task| values.get(&(*task, reported))).sum()
            };
            let emitted = sum(vertex, Reported::RowsOut);
            // Receivers that have other inputs as well say nothing about this one.
            let of_job =
                |other: &&VertexPlace| other.job == vertex.job && other.only_input.as_ref() == Some(&vertex.vertex);
            let receivers: Vec<&VertexPlace> = vertices.iter().filter(of_job).collect();
            if emitted < CLEAR_ROWS || receivers.is_empty() {
                return None;
            }
            let received: f64 = receivers.iter().map(|receiver| sum(receiver, Reported::RowsIn)).sum();
            let ratio = received / emitted * vertex.receivers as f64 / receivers.len() as f64;
            self.have_own_outputs.insert(key.clone(), (ratio - low).abs() <= (ratio - high).abs());
        }
        Some(if self.have_own_outputs[&key] { low } else { high })
    }
}

fn reported(family: &str) -> Option<Reported> {
    let name = family.strip_prefix(OF_TASK)?;
    FAMILIES.iter().find(|(known, _)| *known == name).map(|(_, reported)| *reported)
}

/// Which task a sample is about. None: its labels are switched off.
fn place(sample: &Sample<'_>) -> Option<Place> {
    let label = |name| sample.labels.get(name);
    Some((label("job_id")?.into_owned(), label("task_id")?.into_owned(), label("subtask_index")?.parse().ok()?))
}

/// The ports that a cluster's configuration gives to its Prometheus reporters; the default where it gives
/// none.
pub(super) fn ports(settings: &BTreeMap<String, String>) -> Vec<(u16, u16)> {
    let classes = settings.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("metrics.reporter.")?.strip_suffix(".factory.class")?;
        value.ends_with("PrometheusReporterFactory").then_some(name)
    });
    let mut ports = Vec::new();
    for name in classes {
        let range =
            settings.get(&format!("metrics.reporter.{name}.port")).cloned().unwrap_or_else(|| DEFAULT_PORT.to_string());
        ports.extend(range.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
        }));
    }
    ports
}
