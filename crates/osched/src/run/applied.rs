//! A policy while it decides.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Error, Nanos, Result};
use anabranch_schedule::{
    Condition, Constant, FormulaPolicy, Goal, Grouping, Level, Metric, Policy, Scale, Schedule, Target, Transform,
    by_name, to_tasks,
};

use super::Formulas;
use super::watched::Watched;
use crate::config::{PolicyConfig, Property};
use crate::program::Program;
use crate::status::PolicyStatus;
use crate::translator::Translator;

/// For so many decisions, but no longer than this time, a policy only computes its goal: the value without it
/// is known then.
const OBSERVED: u64 = 8;
const OBSERVED_MAX: Duration = Duration::from_secs(2);
/// The part that a new value has in the mean of a goal.
const WEIGHT: f64 = 0.1;

pub(super) struct Applied {
    pub(super) config: PolicyConfig,
    policy: Box<dyn Policy>,
    pub(super) translator: Box<dyn Translator>,
    pub(super) due_at: Nanos,
    /// Whether it was due while no thread waited for a core, and so has not decided.
    pub(super) passed_over: bool,
    /// Whether its condition was true.
    pub(super) active: bool,
    failure: Option<Error>,
    decisions: u64,
    pub(super) writes: u64,
    goal_now: Option<f64>,
    goal_before: Option<f64>,
    /// The priorities of the last decision, by target.
    pub(super) priorities: BTreeMap<String, Vec<f64>>,
    /// Its condition with what it remembers of each target.
    conditions: BTreeMap<String, Condition>,
}

/// The policy that a configuration names.
pub(super) fn policy_of(config: &PolicyConfig, formulas: Formulas) -> Result<Box<dyn Policy>> {
    if !config.command.is_empty() {
        return Ok(Box::new(Program::new(&config.command, config.level.unwrap_or(Level::Task))));
    }
    let Some(text) = &config.priority else { return Ok(Box::new(Constant)) };
    if is_name(text) {
        return by_name(text, config.seed);
    }
    let formula = formulas(text)?;
    Ok(Box::new(FormulaPolicy::new(formula, text.clone(), config.level.unwrap_or(Level::Task))))
}

/// Whether a text is meant as the name of a policy: words of letters with hyphens between them. An expression
/// has other characters, or metrics as words: `relief-1`, `selectivity-relief`.
fn is_name(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    text.split('-').all(|word| is_word(word) && Metric::parse(word).is_err())
}

fn level_of(config: &PolicyConfig, policy: &dyn Policy) -> Level {
    config.level.unwrap_or_else(|| policy.level())
}

/// Lets a target compute what a policy reads, and its goal if that can be had. Errors: a metric is missing.
pub(super) fn prepare(config: &PolicyConfig, policy: &dyn Policy, watched: &mut Watched) -> Result<()> {
    let level = level_of(config, policy);
    watched
        .want(level, &policy.needs())
        .map_err(|missing| Error::from(missing).at(format!("target '{}', policy '{}'", watched.name, config.name)))?;
    if let Some(when) = &config.when {
        watched.want(Level::Task, &when.needs()).map_err(|missing| {
            Error::from(missing).at(format!("target '{}', condition '{}'", watched.name, when.text()))
        })?;
    }
    if let Some(metric) = policy.goal().metric() {
        // Without the metric, views show no goal.
        let _ = watched.want(level, &[metric]);
    }
    Ok(())
}

impl Applied {
    pub(super) fn new(config: PolicyConfig, policy: Box<dyn Policy>, translator: Box<dyn Translator>) -> Self {
        Applied {
            config,
            policy,
            translator,
            due_at: Nanos(0),
            passed_over: false,
            active: false,
            failure: None,
            decisions: 0,
            writes: 0,
            goal_now: None,
            goal_before: None,
            priorities: BTreeMap::new(),
            conditions: BTreeMap::new(),
        }
    }

    /// Whether its condition is true of a target.
    pub(super) fn holds(&mut self, name: &str, target: &Target) -> bool {
        let Some(when) = &self.config.when else { return true };
        self.conditions.entry(name.to_owned()).or_insert_with(|| when.clone()).update(target)
    }

    fn level(&self) -> Level {
        level_of(&self.config, self.policy.as_ref())
    }

    pub(super) fn properties(&self) -> &'static [Property] {
        self.config.properties()
    }

    pub(super) fn scale(&self) -> Scale {
        self.config.scale.unwrap_or_else(|| self.policy.scale())
    }

    /// Whether it looks before it decides.
    pub(super) fn only_observes(&self) -> bool {
        let most = OBSERVED_MAX.as_millis() / self.config.period.as_millis().max(1);
        u128::from(self.decisions) < most.min(u128::from(OBSERVED)) && self.policy.goal() != Goal::None
    }

    /// Lets a target compute what the policy reads. Errors: a metric is missing.
    pub(super) fn prepare(&self, watched: &mut Watched) -> Result<()> {
        prepare(&self.config, self.policy.as_ref(), watched)
    }

    /// Decides by something else from now on.
    pub(super) fn switch(&mut self, priority: &str, formulas: Formulas, targets: &mut [Watched]) -> Result<()> {
        let config = PolicyConfig { priority: Some(priority.to_owned()), command: Vec::new(), ..self.config.clone() };
        let policy = policy_of(&config, formulas)?;
        let is_of = |watched: &&mut Watched| watched.failure().is_none() && config.targets.contains(&watched.name);
        targets.iter_mut().filter(is_of).try_for_each(|watched| prepare(&config, policy.as_ref(), watched))?;
        (self.config, self.policy) = (config, policy);
        (self.goal_now, self.goal_before) = (None, None);
        Ok(())
    }

    /// The schedule of the threads of some targets, and the names of those about which it could not decide.
    pub(super) fn decide(&mut self, targets: &[&Watched]) -> (Schedule, Vec<String>) {
        let mut failed = Vec::new();
        let mut schedule = Schedule::default();
        let (mut goals, mut failure) = (Vec::new(), None);
        let (level, grouping) = (self.level(), self.config.group);
        self.priorities.clear();
        for watched in targets {
            let Some((nodes, metrics)) = watched.at(level) else { continue };
            let priorities = match self.policy.priorities(nodes, metrics) {
                Ok(priorities) => to_tasks(&watched.graph, nodes, &priorities),
                Err(error) => {
                    failure = Some(error.at(format!("target '{}'", watched.name)));
                    failed.push(watched.name.clone());
                    continue;
                }
            };
            goals.push(self.policy.goal().value(nodes, metrics));
            let transform =
                Transform { grouping, aggregate: self.config.group_priority, engine_first: grouping == Grouping::None };
            let of_target = transform.to_schedule(&watched.graph, &priorities);
            schedule.threads.extend(of_target.threads);
            let named = |(name, group)| (format!("{}/{name}", watched.name), group);
            schedule.groups.extend(of_target.groups.into_iter().map(named));
            self.priorities.insert(watched.name.clone(), priorities);
        }
        self.failure = failure;
        self.count(&goals);
        (schedule, failed)
    }

    fn count(&mut self, goals: &[f64]) {
        let known: Vec<f64> = goals.iter().copied().filter(|goal| goal.is_finite()).collect();
        if !known.is_empty() {
            let goal = known.iter().sum::<f64>() / known.len() as f64;
            let mean = if self.only_observes() { &mut self.goal_before } else { &mut self.goal_now };
            *mean = Some(mean.map_or(goal, |mean| mean + WEIGHT * (goal - mean)));
        }
        self.decisions += 1;
    }

    pub(super) fn status(&self) -> PolicyStatus {
        let goal = self.policy.goal();
        PolicyStatus {
            name: self.config.name.clone(),
            priority: self.policy.name().to_owned(),
            translator: self.config.translator().to_owned(),
            active: self.active,
            failure: self.failure.as_ref().map(ToString::to_string),
            goal: (goal != Goal::None).then(|| goal.name().to_owned()),
            goal_now: self.goal_now,
            goal_before: self.goal_before,
            decisions: self.decisions,
            writes: self.writes,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_schedule::POLICY_NAMES;

    use super::*;

    #[test]
    fn names_of_policies_are_told_from_expressions() {
        for name in POLICY_NAMES.into_iter().chain(["drian", "max-wieght", "queue"]) {
            assert!(is_name(name), "{name}: an unknown name is answered with the nearest one");
        }
        for text in [
            "relief",
            "relief-1",
            "1-selectivity",
            "selectivity-relief",
            "-relief",
            "5",
            "queue_rows",
            "relief - 1",
            "abs(relief)",
            "",
        ] {
            assert!(!is_name(text), "{text}");
        }
    }
}
