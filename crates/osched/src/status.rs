//! What `osched` shows of itself: in the live view, over HTTP and in `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

#[cfg(test)]
mod tests;

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// Whether decisions are suspended and all threads are as they were before.
    pub paused: bool,
    /// Whether nothing is written: decisions are only shown.
    pub dry_run: bool,
    /// Share of the last period for which some thread of the machine waited for a core, 0 to 1; `None`: the
    /// kernel does not say.
    pub pressure: Option<f64>,
    /// Processor time of this process.
    pub cpu_ms: f64,
    /// Writes to the kernel so far.
    pub writes: u64,
    /// Writes that the kernel refused, or that another program has undone.
    pub failed_writes: u64,
    /// Engines.
    pub targets: Vec<TargetStatus>,
    /// Policies.
    pub policies: Vec<PolicyStatus>,
    /// Tasks of all targets.
    pub tasks: Vec<TaskStatus>,
    /// What went wrong or is missing, newest last: the latest ones.
    pub notices: Vec<String>,
    /// How many there were so far.
    pub notices_total: u64,
}

/// An engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetStatus {
    /// As configured.
    pub name: String,
    /// Which driver reads it.
    pub engine: String,
    /// Why it is not read; `None` if it is.
    pub failure: Option<String>,
    /// Queries that run.
    pub queries: usize,
    /// Their operators.
    pub operators: usize,
    /// Their tasks.
    pub tasks: usize,
    /// Threads of this machine that are known.
    pub threads: usize,
    /// How long the last reading took.
    pub read_ms: f64,
}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PolicyStatus {
    /// As configured.
    pub name: String,
    /// What it decides by.
    pub priority: String,
    /// The mechanism.
    pub translator: String,
    /// Whether its condition is true, if it has one.
    pub active: bool,
    /// Why it decides nothing now, apart from its condition.
    pub failure: Option<String>,
    /// What it is to improve, and the unit.
    pub goal: Option<String>,
    /// The goal's value over the last decisions.
    pub goal_now: Option<f64>,
    /// Its value before the policy was active, over as many readings.
    pub goal_before: Option<f64>,
    /// Decisions so far.
    pub decisions: u64,
    /// Writes so far.
    pub writes: u64,
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskStatus {
    /// Its engine.
    pub target: String,
    /// Its query.
    pub query: String,
    /// Its name.
    pub task: String,
    /// Its readings, by the names of metrics; those that are not known are missing.
    pub metrics: BTreeMap<&'static str, f64>,
    /// As the last policy decided.
    pub priority: Option<f64>,
    /// The nice value that its thread has, such as `nice -5`.
    pub written: Option<String>,
}

impl Status {
    /// In the text format of Prometheus.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>| {
            if samples.is_empty() {
                return;
            }
            let _ = writeln!(text, "# HELP anabranch_osched_{name} {help}\n# TYPE anabranch_osched_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "anabranch_osched_{name}{labels} {value}");
            }
        };
        let one = |value: f64| vec![(String::new(), value)];
        family("cpu_seconds_total", "counter", "Processor time of this process.", one(self.cpu_ms / 1e3));
        family("writes_total", "counter", "Writes to the kernel.", one(self.writes as f64));
        family("failed_writes_total", "counter", "Writes that had no effect.", one(self.failed_writes as f64));
        family("paused", "gauge", "1 while decisions are suspended.", one(f64::from(u8::from(self.paused))));
        let pressure = self.pressure.map_or_else(Vec::new, one);
        family("pressure", "gauge", "Share of time for which a thread waited for a core.", pressure);
        let targets = |value: fn(&TargetStatus) -> f64| {
            self.targets.iter().map(|target| (labels(&[("target", &target.name)]), value(target))).collect()
        };
        let up = targets(|target| f64::from(u8::from(target.failure.is_none())));
        family("target_up", "gauge", "1 if the engine was read.", up);
        family("target_threads", "gauge", "Threads that are known.", targets(|target| target.threads as f64));
        family("target_read_seconds", "gauge", "Time of the last reading.", targets(|target| target.read_ms / 1e3));
        let policies = |value: fn(&PolicyStatus) -> Option<f64>| {
            let of = |policy: &PolicyStatus| Some((labels(&[("policy", &policy.name)]), value(policy)?));
            self.policies.iter().filter_map(of).collect()
        };
        let active = policies(|policy| Some(f64::from(u8::from(policy.active && policy.failure.is_none()))));
        family("policy_active", "gauge", "1 while the policy decides.", active);
        family("policy_goal", "gauge", "What the policy is to improve.", policies(|policy| policy.goal_now));
        family("policy_decisions_total", "counter", "Decisions.", policies(|policy| Some(policy.decisions as f64)));
        let of_task = |task: &TaskStatus| {
            let names = [("target", &task.target), ("query", &task.query), ("task", &task.task)];
            Some((labels(&names.map(|(name, value)| (name, value.as_str()))), task.priority?))
        };
        family("task_priority", "gauge", "As the policy decided.", self.tasks.iter().filter_map(of_task).collect());
        text
    }
}

fn labels(labels: &[(&str, &str)]) -> String {
    let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", all.join(","))
}
