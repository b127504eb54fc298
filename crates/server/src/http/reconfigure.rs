//! Changes of running jobs by their users: what clients send and get.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock as _, Error, ErrorKind, Secrets, StageId, SystemClock, TaskId};
use anabranch_plan::{share_setting, stage_setting};
use anabranch_protocol::membership::WorkerId;
use anabranch_runtime::{Ahead, Changing, Moves, Reconfigured};
use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Answer, Answered, Api, REQUEST, failed, json, on_thread, parsed, refused, wrong_order};
use super::balance::{BalanceDocument, BalanceOrder, OPTION, measure};
use super::documents::{PlanDocument, ScriptDocument};
use super::histories::{ChangeDocument, ChangeRecord, documents, ms_since};
use super::jobs::Refusal;
use super::orders::JobOrder;
use crate::{Settings, TableOption};

/// The order to change a running job: its text, settings, number of tasks or workers. What is not given
/// stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReconfigureOrder {
    /// All statements of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// Options as by SET, by their names. They replace the job's options of these names; null removes one.
    pub settings: BTreeMap<String, Option<String>>,
    /// Options of tables. They replace the job's options of these tables and names.
    pub options: Vec<TableOption>,
    /// Tasks of each parallel stage, or of one, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<NonZeroU32>,
    /// The stage of the present plan that gets this number of tasks; the others keep theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<u32>,
    /// Tasks that move to other workers.
    pub moves: Vec<MoveOrder>,
    /// Moves key groups of hot tasks to other tasks of their stage. Nothing else may be changed at the same
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<BalanceOrder>,
    /// Workers from which all tasks of the job move away. They get none of it any more.
    pub away_from: Vec<String>,
    /// Drops state that the new text does not use. Without it such a text is refused.
    pub allow_lost_state: bool,
    /// Accepts new sources, and sources with another event time, although windows behind them have fired:
    /// earlier rows are late. Without it such a text is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_late: bool,
    /// Only reports the outcome for each part.
    pub dry_run: bool,
    /// The order is refused with 409 if the plan that runs has another version: the job was changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_version: Option<u32>,
}

/// A task that goes to another worker.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Move")]
pub struct MoveOrder {
    /// Its stage in the plan of the change.
    pub stage: u32,
    /// Its index within the stage.
    pub task: u32,
    /// Name of the worker.
    pub to: String,
}

impl ReconfigureOrder {
    /// The options that this sets. `present` is the plan that runs.
    fn parallel_settings(&self, present: &Plan) -> Result<Vec<(String, String)>, Refusal> {
        let stages = |tasks: &BTreeMap<String, u32>| ("stage-parallelism".to_owned(), stage_setting(tasks));
        let mut own = present.options.stage_parallelism.clone();
        let mut shares = present.options.stage_key_groups.clone();
        // The key groups of stages that get another number of tasks are divided evenly.
        let evenly = |shares: BTreeMap<String, Vec<u16>>| {
            let had = !present.options.stage_key_groups.is_empty();
            had.then(|| (OPTION.to_owned(), share_setting(&shares)))
        };
        match (self.stage, self.parallelism) {
            (None, None) => Ok(Vec::new()),
            // All stages have this number from then on.
            (None, Some(_)) => {
                let stages = (!own.is_empty()).then(|| stages(&BTreeMap::new()));
                Ok(stages.into_iter().chain(evenly(BTreeMap::new())).collect())
            }
            (Some(stage), None) => {
                let error = Error::user(format!("stage {stage} is given without its number of tasks"));
                Err(Refusal::Wrong(error.remedy("give both, such as {\"stage\": 1, \"parallelism\": 4}")))
            }
            (Some(stage), Some(tasks)) => {
                let found = present.stages.get(stage as usize);
                let Some(label) = found.and_then(|stage| stage.label.clone()) else {
                    return Err(Refusal::Wrong(match found {
                        None => Error::user(format!("the plan has no stage {stage}"))
                            .remedy(format!("give a number below {}", present.stages.len())),
                        Some(of) => Error::user(format!(
                            "stage {stage} ({}) has no number of tasks of its own",
                            of.name
                        ))
                        .remedy(
                            "an aggregate without keys and a static side have one task; a writer has as many as its \
                                 table's option sink.parallelism, or as the stage before it",
                        ),
                    }));
                };
                shares.remove(&label);
                own.insert(label, tasks.get());
                Ok([stages(&own)].into_iter().chain(evenly(shares)).collect())
            }
        }
    }

    /// Refuses a change of another version than the present one.
    fn check_version(&self, present: &Plan) -> Result<(), Refusal> {
        match self.if_version {
            Some(version) if version != present.version.0 => {
                let error = Error::user(format!(
                    "the job runs version {} of its plan, and the change is for version {version}: somebody else has changed it",
                    present.version.0
                ));
                Err(Refusal::Conflict(error.remedy("read the job's text again, and make the change in it")))
            }
            _ => Ok(()),
        }
    }

    /// Whether it says nothing but that key groups are to follow the load.
    fn only_balances(&self) -> bool {
        let nothing_to_plan = self.sql.is_none() && self.settings.is_empty() && self.options.is_empty();
        nothing_to_plan && self.parallelism.is_none() && self.moves.is_empty() && self.away_from.is_empty()
    }

    /// The number of tasks of all stages.
    fn parallelism_of_all(&self) -> Option<NonZeroU32> {
        self.parallelism.filter(|_| self.stage.is_none())
    }

    /// The job's order from then on.
    pub(crate) fn applied(&self, present: &JobOrder, plan: &Plan) -> Result<JobOrder, Refusal> {
        self.check_version(plan)?;
        let mut order = present.clone();
        order.sql = self.sql.clone().unwrap_or(order.sql);
        for (name, value) in &self.settings {
            match value {
                Some(value) => drop(order.settings.insert(name.clone(), value.clone())),
                None => drop(order.settings.remove(name)),
            }
        }
        let parallelism = self.parallelism_of_all().map(|tasks| ("parallelism".to_owned(), tasks.to_string()));
        order.settings.extend(parallelism);
        order.settings.extend(self.parallel_settings(plan)?);
        self.replace_options(&mut order.options);
        Ok(order)
    }

    /// The settings of an embedded job from then on.
    pub(crate) fn applied_to(&self, present: &Settings, plan: &Plan) -> Result<Settings, Refusal> {
        self.check_version(plan)?;
        let mut settings = present.clone();
        settings.set.retain(|(name, _)| !self.settings.contains_key(name));
        let given = self.settings.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        settings.set.extend(given);
        let stages = self.parallel_settings(plan)?;
        settings.set.retain(|(name, _)| !stages.iter().any(|(other, _)| other == name));
        settings.set.extend(stages);
        settings.parallelism = match self.settings.contains_key("parallelism") {
            true => None,
            false => settings.parallelism,
        };
        settings.parallelism = self.parallelism_of_all().map(NonZeroU32::get).or(settings.parallelism);
        self.replace_options(&mut settings.table_options);
        Ok(settings)
    }

    fn replace_options(&self, options: &mut Vec<TableOption>) {
        let is_replaced =
            |old: &TableOption| self.options.iter().any(|new| new.table == old.table && new.name == old.name);
        options.retain(|old| !is_replaced(old));
        options.extend(self.options.iter().cloned());
    }

    /// Where tasks are to be, with the number of each worker.
    pub(crate) fn moves(&self, worker: impl Fn(&str) -> Result<WorkerId, Refusal>) -> Result<Moves, Refusal> {
        let mut moves = Moves::default();
        let worker = |name: &str| match worker(name) {
            // The job is known; its worker is a part of the order.
            Err(Refusal::Unknown(error)) => Err(Refusal::Wrong(error)),
            found => found,
        };
        for MoveOrder { stage, task, to } in &self.moves {
            moves.to.insert(TaskId { stage: StageId(*stage), index: *task }, worker(to)?);
        }
        for name in &self.away_from {
            moves.away_from.insert(worker(name)?);
        }
        Ok(moves)
    }

    /// The request in a few words.
    fn title(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.sql.is_some().then(|| "new text".to_owned()));
        let of = self.stage.map(|stage| format!("stage {stage}: ")).unwrap_or_default();
        parts.extend(self.parallelism.map(|tasks| format!("{of}parallelism {tasks}")));
        let shares = self.settings.get(OPTION).cloned().flatten().unwrap_or_default();
        if self.balance.is_some() {
            return format!("balance: {shares}");
        }
        let names =
            self.settings.keys().cloned().chain(self.options.iter().map(|of| format!("{}.{}", of.table, of.name)));
        let names: Vec<String> = names.collect();
        parts.extend((!names.is_empty()).then(|| format!("options {}", names.join(", "))));
        let moved = self.moves.iter().map(|of| format!("task {}.{} to {}", of.stage, of.task, of.to));
        parts.extend(moved);
        parts.extend((!self.away_from.is_empty()).then(|| format!("away from {}", self.away_from.join(", "))));
        if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
    }
}

/// What a change has done, or would do.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Reconfigured")]
pub(super) struct ReconfiguredDocument {
    /// The version of the plan by which the job runs.
    version: u32,
    /// Whether the job is as it was: the plan is the same, or this was a dry run.
    unchanged: bool,
    /// From the request until the change was settled.
    took_ms: f64,
    /// State that was copied to where the new version needs it while the job ran as before.
    copied_bytes: u64,
    changes: Vec<ChangeDocument>,
    /// What is known before the change is carried out. Null if this was no dry run.
    ahead: Option<AheadDocument>,
    /// The measurement, if key groups were to follow the load.
    balance: Option<BalanceDocument>,
}

/// A change before it is carried out.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ahead")]
struct AheadDocument {
    /// The new plan.
    plan: PlanDocument,
    /// The epoch of the checkpoint that has the bytes of the parts. Null: the job has no checkpoint yet.
    epoch: Option<u64>,
    /// Whether state would be loaded where it will be while the job runs as before. Null: where tasks would
    /// be is not known now.
    loads_ahead: Option<bool>,
}

impl From<Ahead> for AheadDocument {
    fn from(ahead: Ahead) -> Self {
        let Ahead { plan, epoch, loads_ahead } = ahead;
        AheadDocument { plan: PlanDocument::of_job(plan.as_ref()), epoch: epoch.map(|epoch| epoch.0), loads_ahead }
    }
}

/// The changes of a job that are remembered.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChangeList {
    /// Whether its plan is being changed.
    changing: bool,
    /// The present step of the change that is being carried out.
    step: Option<String>,
    changes: Vec<ChangeRecord>,
}

/// Changes a job, and remembers that. May wait.
pub(super) fn carry_out(api: &Api, job: &str, order: &ReconfigureOrder) -> (Result<Reconfigured, Refusal>, f64) {
    if let Err(why) = api.refuses_changes() {
        return (Err(why), 0.0);
    }
    let (clock, change) = (SystemClock::new(), || api.jobs.reconfigure(job, order));
    let start = clock.now();
    match order.dry_run {
        true => (change(), ms_since(&clock, start)),
        false => {
            let secrets = Secrets::of_sql(order.sql.as_deref().unwrap_or_default());
            api.jobs.histories().record((job, order.title()), &secrets, change)
        }
    }
}

/// Answers the request for a change.
pub(super) async fn reconfigure(api: Arc<Api>, name: String, body: Bytes) -> Answered {
    let form = "{\"sql\": \"STATEMENTS\"} or {\"parallelism\": 4}; see /api/v1/openapi.json";
    let mut order: ReconfigureOrder =
        parsed(&body, "a change of a job", form).map_err(|error| wrong_order(&error, ""))?;
    on_thread("change", REQUEST, move || {
        let of_text = |why: &Refusal, order: &ReconfigureOrder| not_made(why, order.sql.as_deref().unwrap_or_default());
        with_secrets(&api, &name, &mut order).map_err(|why| of_text(&why, &order))?;
        let balance = order.balance.clone().map(|balance| measured(&api, &name, &balance, &mut order));
        let balance = balance.transpose().map_err(|why| not_made(&why, ""))?;
        let (done, took_ms) = carry_out(&api, &name, &order);
        let done = done.map_err(|why| of_text(&why, &order))?;
        let Reconfigured { version, unchanged, copied_bytes, changes, ahead, .. } = done;
        let (version, changes, ahead) = (version.0, documents(&changes), ahead.map(AheadDocument::from));
        let done = ReconfiguredDocument { version, unchanged, took_ms, copied_bytes, changes, ahead, balance };
        Ok(json(StatusCode::OK, &done))
    })
    .await?
}

/// Puts the secrets of the present text in the places of their marks.
fn with_secrets(api: &Api, job: &str, order: &mut ReconfigureOrder) -> Result<(), Refusal> {
    let Some(sql) = order.sql.as_ref().filter(|sql| Secrets::has_marks(sql)) else { return Ok(()) };
    if order.if_version.is_none() && !order.dry_run {
        let error = Error::user("a text with marks of secrets needs the version of the text that they are from");
        return Err(Refusal::Wrong(error.remedy("send it as if_version, or write the secrets in their places")));
    }
    let present = api.jobs.script(job)?;
    order.sql = Some(Secrets::of_sql(&present.sql).unmarked(sql).map_err(Refusal::Wrong)?);
    Ok(())
}

/// The text that a job runs. It waits while the job is being changed.
pub(super) fn script(api: &Api, name: &str) -> Answered {
    let job = api.job(name)?;
    let order = api.jobs.script(name).map_err(|why| failed(why.error()))?;
    Ok(json(StatusCode::OK, &ScriptDocument::of(order, job.plan().version.0)))
}

/// The order gets the option that follows from the load. Without one it changes nothing.
fn measured(
    api: &Api,
    job: &str,
    balance: &BalanceOrder,
    order: &mut ReconfigureOrder,
) -> Result<BalanceDocument, Refusal> {
    if !order.only_balances() {
        let error = Error::user("a change that balances a job changes nothing else");
        return Err(Refusal::Wrong(error.remedy("send {\"balance\": {}} with nothing but dry_run")));
    }
    let measured = measure(api, job, balance)?;
    match measured.setting {
        Some(setting) => drop(order.settings.insert(OPTION.to_owned(), Some(setting))),
        None => order.dry_run = true,
    }
    Ok(measured.document)
}

/// The answer to a change that was not made.
pub(super) fn not_made(why: &Refusal, sql: &str) -> Box<Answer> {
    match why {
        Refusal::Wrong(error) if error.kind() == ErrorKind::User => wrong_order(error, sql),
        Refusal::Wrong(error) => failed(error),
        Refusal::Unknown(error) => refused(StatusCode::NOT_FOUND, error),
        Refusal::Conflict(error) | Refusal::Undone(error) => match error.kind() {
            ErrorKind::Internal => failed(error),
            // A client must not send it again by itself.
            _ => refused(StatusCode::CONFLICT, error),
        },
    }
}

/// The changes of a job that this process remembers, oldest first.
pub(super) fn changes(api: &Api, job: &str, changing: Option<Changing>) -> Answer {
    let step = changing.map(|changing| changing.to_string());
    let changes = api.jobs.histories().of(job);
    json(StatusCode::OK, &ChangeList { changing: changing.is_some(), step, changes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(value: &str) -> TableOption {
        TableOption { table: "a".into(), name: "b".into(), value: value.into() }
    }

    /// A plan with a number of tasks for one stage.
    fn plan() -> Plan {
        let set = [("parallelism", "2"), ("stage-parallelism", "source a=3")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let sql = "CREATE TABLE a (x BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'filesystem', 'path' = '/tmp', 'format' = 'json');
             CREATE TABLE b (x BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
             INSERT INTO b SELECT x, COUNT(*) FROM a GROUP BY x";
        let planned = crate::Engine::default().plan(sql, &Settings { set, ..Settings::default() });
        planned.expect("a plan").plan.expect("a job")
    }

    #[test]
    fn one_stage_or_all_get_another_number_of_tasks() {
        let (plan, present) = (plan(), JobOrder::default());
        let order =
            |stage, tasks| ReconfigureOrder { stage, parallelism: NonZeroU32::new(tasks), ..Default::default() };
        let one = order(Some(1), 4).applied(&present, &plan).expect("applied");
        assert_eq!(one.settings, [("stage-parallelism".into(), "aggregate=4, source a=3".into())].into());
        let all = order(None, 4).applied(&present, &plan).expect("applied");
        let expected =
            [("parallelism", "4"), ("stage-parallelism", "")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(all.settings, expected.into());
        for (wrong, why) in [(order(Some(7), 4), "the plan has no stage 7"), (order(Some(1), 0), "without its number")]
        {
            let error = wrong.applied(&present, &plan).expect_err(why);
            assert!(error.error().to_string().contains(why), "{error:?}");
        }
    }

    #[test]
    fn what_is_not_given_stays() {
        let settings = [("x", "1"), ("y", "2"), ("parallelism", "3")].map(|(name, value)| (name.into(), value.into()));
        let (name, sql, options) = ("job".to_owned(), "old".to_owned(), vec![option("1")]);
        let present = JobOrder { name, sql, settings: settings.into(), options, submission: None };
        let mut plan = plan();
        plan.options.stage_parallelism.clear();
        let same = ReconfigureOrder::default().applied(&present, &plan).expect("applied");
        assert_eq!(same, present);
        let order: ReconfigureOrder = serde_json::from_str(
            "{\"sql\": \"new\", \"settings\": {\"x\": \"9\", \"y\": null}, \"parallelism\": 4,
              \"options\": [{\"table\": \"a\", \"name\": \"b\", \"value\": \"2\"}]}",
        )
        .expect("an order");
        let next = order.applied(&present, &plan).expect("applied");
        let expected = [("x", "9"), ("parallelism", "4")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((next.sql.as_str(), next.settings), ("new", expected.into()));
        assert_eq!(next.options, [option("2")]);
        let set = vec![("y".to_owned(), "2".to_owned()), ("z".to_owned(), "3".to_owned())];
        let present = Settings { parallelism: Some(1), set, table_options: vec![option("1")] };
        let next = order.applied_to(&present, &plan).expect("applied");
        let expected = [("z", "3"), ("x", "9")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((next.parallelism, next.set, next.table_options), (Some(4), expected.into(), vec![option("2")]));
        serde_json::from_str::<ReconfigureOrder>("{\"parallelism\": 0}").expect_err("no task");
        serde_json::from_str::<ReconfigureOrder>("{\"sq\": \"\"}").expect_err("unknown");
    }
}
