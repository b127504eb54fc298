//! Decisions on the number of tasks of jobs: which ones a process remembers, and what clients get.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_dataflow::Plan;
use anabranch_plan::autoscale_settings;
use anabranch_protocol::autoscale::Observation;
use hyper::StatusCode;
use serde::Serialize;

use super::answers::{Answer, json};
use crate::autoscale::Decided;

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
    at_ms: i64,
    observation: Observation,
    tasks: Option<u32>,
    text: String,
}

/// The newest decisions on a job.
#[derive(Debug, Serialize)]
struct AutoscaleDocument {
    mode: &'static str,
    settings: BTreeMap<String, String>,
    decisions: Vec<DecisionDocument>,
}

/// The decision after an interval.
#[derive(Debug, Serialize)]
struct DecisionDocument {
    at_ms: i64,
    tasks: Option<u32>,
    text: String,
}

/// Observations of a job.
#[derive(Debug, Serialize)]
struct ObservationList {
    settings: BTreeMap<String, String>,
    observations: Vec<ObservationDocument>,
}

/// The observation of an interval.
#[derive(Debug, Serialize)]
struct ObservationDocument {
    at_ms: i64,
    #[serde(flatten)]
    observation: Observation,
}

impl ScalingRecords {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, VecDeque<Interval>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, job: &str, at_ms: i64, decided: &Decided) {
        let mut jobs = self.lock();
        let intervals = jobs.entry(job.to_owned()).or_default();
        let (observation, text) = (decided.observation.clone(), decided.decision.to_string());
        intervals.push_back(Interval { at_ms, observation, tasks: decided.tasks(), text });
        if intervals.len() > KEPT {
            intervals.pop_front();
        }
    }

    fn of(&self, job: &str) -> Vec<Interval> {
        self.lock().get(job).map(|intervals| intervals.iter().cloned().collect()).unwrap_or_default()
    }
}

fn settings(plan: &Plan) -> BTreeMap<String, String> {
    plan.options.autoscale.as_ref().map(|options| autoscale_settings(options).into_iter().collect()).unwrap_or_default()
}

/// The newest decisions, oldest first.
pub(super) fn autoscale(records: &ScalingRecords, job: &str, plan: &Plan) -> Answer {
    let intervals = records.of(job);
    let newest = intervals.into_iter().rev().take(LISTED).rev();
    let decision = |Interval { at_ms, tasks, text, .. }| DecisionDocument { at_ms, tasks, text };
    let mode = match &plan.options.autoscale {
        None => "off",
        Some(options) if options.observes_only => "observe",
        Some(_) => "on",
    };
    let decisions = newest.map(decision).collect();
    json(StatusCode::OK, &AutoscaleDocument { mode, settings: settings(plan), decisions })
}

/// All that was observed, oldest first.
pub(super) fn observations(records: &ScalingRecords, job: &str, plan: &Plan) -> Answer {
    let document = |Interval { at_ms, observation, .. }| ObservationDocument { at_ms, observation };
    let observations = records.of(job).into_iter().map(document).collect();
    json(StatusCode::OK, &ObservationList { settings: settings(plan), observations })
}
