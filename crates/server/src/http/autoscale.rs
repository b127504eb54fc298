//! Decisions on the number of tasks of jobs: which ones a process remembers, and what clients get.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use anabranch_dataflow::Plan;
use anabranch_plan::autoscale_settings;
use anabranch_protocol::autoscale::{Graph, Observation, Sample};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::{Answer, Api, json};
use super::description::OpenObject;
use super::jobs::ServedJob;
use crate::autoscale::Decided;
use crate::threads::lock;

/// Intervals of a job that are remembered.
const KEPT: usize = 1000;
/// Decisions of a job that are listed.
const LISTED: usize = 100;

/// Observations and decisions of the last intervals, for each job.
#[derive(Default)]
pub struct ScalingRecords {
    jobs: Mutex<BTreeMap<String, VecDeque<Interval>>>,
}

#[derive(Clone)]
struct Interval {
    observation: ObservationDocument,
    decision: Decision,
}

/// The decisions on the number of tasks of a job that follows its load.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Autoscale {
    mode: AutoscaleMode,
    /// Options by their names; none if the mode is off.
    settings: BTreeMap<String, String>,
    /// The newest hundred, oldest first.
    decisions: Vec<Decision>,
}

/// Whether the number of tasks follows the load.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum AutoscaleMode {
    Off,
    Observe,
    On,
}

/// The decision after an interval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Decision {
    at_ms: i64,
    /// The number of tasks that each stage is to have. Null: nothing is to change.
    tasks: Option<u32>,
    /// The decision, and what the interval shows of each stage.
    text: String,
}

/// What was observed of the tasks of a job.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ObservationList {
    /// Options by their names; none if nothing is observed.
    settings: BTreeMap<String, String>,
    /// The newest thousand, oldest first.
    observations: Vec<ObservationDocument>,
}

/// What was observed in an interval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Observation")]
struct ObservationDocument {
    at_ms: i64,
    /// The stages, with the numbers of tasks that they may have.
    #[schemars(with = "OpenObject")]
    graph: Graph,
    /// What their tasks have done.
    #[schemars(with = "OpenObject")]
    sample: Sample,
}

impl ScalingRecords {
    pub(crate) fn push(&self, job: &str, at_ms: i64, decided: &Decided) {
        let mut jobs = lock(&self.jobs);
        let intervals = jobs.entry(job.to_owned()).or_default();
        let Observation { graph, sample } = decided.observation.clone();
        let observation = ObservationDocument { at_ms, graph, sample };
        let decision = Decision { at_ms, tasks: decided.tasks(), text: decided.decision.to_string() };
        intervals.push_back(Interval { observation, decision });
        if intervals.len() > KEPT {
            intervals.pop_front();
        }
    }

    fn of(&self, job: &str) -> Vec<Interval> {
        lock(&self.jobs).get(job).map(|intervals| intervals.iter().cloned().collect()).unwrap_or_default()
    }
}

fn settings(plan: &Plan) -> BTreeMap<String, String> {
    plan.options.autoscale.as_ref().map(|options| autoscale_settings(options).into_iter().collect()).unwrap_or_default()
}

fn intervals(api: &Api, job: &dyn ServedJob) -> Vec<Interval> {
    api.jobs.scaling().map(|records| records.of(job.name())).unwrap_or_default()
}

/// The newest decisions, oldest first.
pub(super) fn autoscale(api: &Api, job: &dyn ServedJob) -> Answer {
    let plan = job.plan();
    let newest = intervals(api, job).into_iter().rev().take(LISTED).rev();
    let mode = match &plan.options.autoscale {
        None => AutoscaleMode::Off,
        Some(options) if options.observes_only => AutoscaleMode::Observe,
        Some(_) => AutoscaleMode::On,
    };
    let decisions = newest.map(|interval| interval.decision).collect();
    json(StatusCode::OK, &Autoscale { mode, settings: settings(&plan), decisions })
}

/// All that was observed, oldest first.
pub(super) fn observations(api: &Api, job: &dyn ServedJob) -> Answer {
    let observations = intervals(api, job).into_iter().map(|interval| interval.observation).collect();
    json(StatusCode::OK, &ObservationList { settings: settings(&job.plan()), observations })
}
