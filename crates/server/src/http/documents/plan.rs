//! The document of a plan.

mod sql;

use anabranch_dataflow::{Exchange, Plan, Port, Scheduling, Stage};
use schemars::JsonSchema;
use serde::Serialize;

use self::sql::{PlanSql, StageSql};

/// A job's plan.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub(in crate::http) struct PlanDocument {
    version: u32,
    /// The policy by which the job orders its own threads. Null: the system orders them.
    scheduling: Option<&'static str>,
    stages: Vec<StageDocument>,
    exchanges: Vec<ExchangeDocument>,
    /// The plan as EXPLAIN prints it.
    text: String,
}

/// Operators in one chain.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Stage")]
struct StageDocument {
    stage: u32,
    name: String,
    /// Number of its tasks.
    parallelism: u32,
    /// The table that it reads.
    source: Option<String>,
    operators: Vec<String>,
    /// The table that it writes.
    sink: Option<String>,
    /// Time between the ends of its shortest windows. Null: it has none, or they follow from the rows.
    window_step_ms: Option<i64>,
    /// By how much these ends are after multiples of it, since 1970.
    window_offset_ms: Option<i64>,
    sql: StageSql,
}

/// The edge between two stages.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Exchange")]
struct ExchangeDocument {
    /// The sending stage.
    from: u32,
    /// The receiving stage.
    to: u32,
    /// How rows are distributed.
    kind: String,
    /// The operator of the receiving stage that reads it to its end before the stream, by its index.
    static_side_of: Option<usize>,
}

impl PlanDocument {
    /// The plan of a running job. Its places are in the text as it is shown: with marks for secrets.
    pub(in crate::http) fn of_job(plan: &Plan) -> Self {
        Self::of(plan, &PlanSql::of_plan(plan, true))
    }

    /// The plan of a text that the client has sent.
    pub(in crate::http) fn of_text(plan: &Plan) -> Self {
        Self::of(plan, &PlanSql::of_plan(plan, false))
    }

    fn of(plan: &Plan, sql: &PlanSql) -> Self {
        let stages = plan.stages.iter().map(|stage| StageDocument::of(stage, sql)).collect();
        let exchanges = plan.exchanges.iter().map(ExchangeDocument::from).collect();
        let scheduling = plan.options.scheduling.map(Scheduling::name);
        PlanDocument { version: plan.version.0, scheduling, stages, exchanges, text: plan.to_string() }
    }
}

impl StageDocument {
    fn of(stage: &Stage, sql: &PlanSql) -> Self {
        let ends = stage.window_ends();
        StageDocument {
            stage: stage.id.0,
            name: stage.name.clone(),
            parallelism: stage.parallelism,
            source: stage.source.as_ref().map(ToString::to_string),
            operators: stage.operators.iter().map(ToString::to_string).collect(),
            sink: stage.sink.as_ref().map(ToString::to_string),
            window_step_ms: ends.map(|ends| ends.step_ms),
            window_offset_ms: ends.map(|ends| ends.offset_ms),
            sql: sql.of_stage(stage),
        }
    }
}

impl From<&Exchange> for ExchangeDocument {
    fn from(exchange: &Exchange) -> Self {
        let static_side_of = match exchange.port {
            Port::Main | Port::Second | Port::Further(_) => None,
            Port::Side(operator) => Some(operator),
        };
        let kind = exchange.kind.to_string();
        ExchangeDocument { from: exchange.from.0, to: exchange.to.0, kind, static_side_of }
    }
}
