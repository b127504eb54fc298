//! The option `stage-parallelism`: which stages have a number of tasks of their own.

use anabranch_dataflow::{ConnectorSpec, ExchangeKind, Plan, TableTraits};
use anabranch_model::{Result, StageId};
use anabranch_plan::{Catalog, PlanOptions, TableResolver, plan_script};
use arrow::datatypes::SchemaRef;

/// Every table can be read and written; `narrow` has two partitions.
struct Tables;

impl TableResolver for Tables {
    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        let max_readers = (spec.connector == "narrow").then_some(2);
        Ok(TableTraits {
            bounded: false,
            readable: true,
            writable: true,
            max_readers,
            schema: None,
            ..TableTraits::default()
        })
    }
}

const TABLES: &str =
    "CREATE TABLE t (n BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'wide');
CREATE TABLE u (n BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'narrow');
CREATE TABLE r (n BIGINT) WITH ('connector' = 'wide');\n";

fn counts(table: &str, keys: &str) -> String {
    format!(
        "INSERT INTO r SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY {keys} window_start, window_end;\n"
    )
}

fn plan(parallelism: u32, stages: &str, statements: &str) -> std::result::Result<Plan, String> {
    let options = PlanOptions { parallelism: Some(parallelism), ..PlanOptions::default() };
    let text = format!("SET 'stage-parallelism' = '{stages}';\n{TABLES}{statements}");
    let planned = plan_script(&text, &mut Catalog::new(), &Tables, &options);
    planned.map(|planned| planned.plan.expect("a job")).map_err(|error| error.to_string())
}

fn tasks(plan: &Plan) -> Vec<(Option<&str>, u32)> {
    plan.stages.iter().map(|stage| (stage.label.as_deref(), stage.parallelism)).collect()
}

#[test]
fn stages_have_numbers_of_their_own_by_their_labels() {
    let two = counts("t", "s,") + &counts("t", "n,");
    let plain = plan(2, "", &two).expect("a plan");
    // The source, its two readers and what follows them.
    let labels = [Some("source t"), None, Some("aggregate"), None, Some("aggregate#2")];
    assert_eq!(tasks(&plain), labels.map(|label| (label, 2)));
    let own = plan(2, "aggregate#2=5, source t=1", &two).expect("a plan");
    let expected = [1, 1, 2, 1, 5];
    assert_eq!(tasks(&own), labels.into_iter().zip(expected).collect::<Vec<_>>());
    own.check().expect("a plan that can run");
    let text = serde_json::to_string(&own).expect("JSON");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), own);
}

/// The aggregate of a job with one task has no stage of its own; the number of its tasks gives it one.
#[test]
fn a_stage_that_was_part_of_another_gets_tasks() {
    let one = plan(1, "", &counts("t", "s,")).expect("a plan");
    assert_eq!(tasks(&one), [(Some("source t"), 1)]);
    let divided = plan(1, "aggregate=3", &counts("t", "s,")).expect("a plan");
    assert_eq!(tasks(&divided), [(Some("source t"), 1), (Some("aggregate"), 3)]);
    let divided = plan(1, "source t=3", &counts("t", "s,")).expect("a plan");
    assert_eq!(tasks(&divided), [(Some("source t"), 3), (Some("aggregate"), 1)]);
    let same = plan(4, "source t=1, aggregate=1", &counts("t", "s,")).expect("a plan");
    assert_eq!(tasks(&same), [(Some("source t"), 1)]);
}

#[test]
fn a_number_that_no_stage_can_have_is_refused() {
    let of_all = counts("u", "");
    for (stages, why) in [
        ("aggregate=2", "there is no stage 'aggregate' whose number of tasks can be set"),
        ("source t=2", "help: the stages are: source u"),
        ("source u=3", "stage 'source u' cannot have 3 tasks: its table has 2 partitions"),
        ("source u", "write STAGE=TASKS"),
        ("source u=0", "use a whole number from 1 to 128"),
    ] {
        let error = plan(2, stages, &of_all).expect_err(stages);
        assert!(error.contains(why) && error.contains("option 'stage-parallelism'"), "{stages}: {error}");
    }
    assert_eq!(tasks(&plan(2, "source u=1", &of_all).expect("a plan"))[0], (Some("source u"), 1));
}

/// Joins that are carried out at once have one stage, that of the last of them.
#[test]
fn a_join_that_is_carried_out_with_others_has_no_number_of_tasks() {
    let joins = "INSERT INTO r SELECT a.n FROM t AS a JOIN t AS b ON a.n = b.n JOIN u AS c ON a.n = c.n;\n";
    let own = plan(2, "join#2=3", joins).expect("a plan");
    assert_eq!(tasks(&own).last(), Some(&(Some("join#2"), 3)));
    let error = plan(2, "join=3", joins).expect_err("a join without a stage");
    assert!(error.contains("there is no stage 'join'") && error.contains("join#2, source t, source u"), "{error}");
    let chain = "SET 'table.optimizer.multi-join.enabled' = 'false';\n".to_owned() + joins;
    let both = plan(2, "join=3, join#2=4", &chain).expect("a plan");
    let joined = tasks(&both).into_iter().filter(|(label, _)| label.is_some_and(|label| label.starts_with("join")));
    assert_eq!(joined.collect::<Vec<_>>(), [(Some("join"), 3), (Some("join#2"), 4)]);
}

#[test]
fn key_groups_are_divided_as_an_option_says_for_as_many_tasks() {
    let plan = |parallelism, shares: &str| {
        let set = format!("SET 'stage-key-groups' = '{shares}';\n");
        plan(parallelism, "", &(set + &counts("t", "s,"))).expect("a plan")
    };
    let sizes = |plan: &Plan, stage| {
        let ranges = plan.assignment.of(StageId(stage)).to_vec();
        ranges.iter().map(|range| range.end - range.first).collect::<Vec<_>>()
    };
    let balanced = plan(3, "aggregate=1+100+27");
    balanced.check().expect("a plan that can run");
    assert_eq!((sizes(&balanced, 0), sizes(&balanced, 1)), (vec![43, 43, 42], vec![1, 100, 27]));
    let text = serde_json::to_string(&balanced).expect("JSON");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), balanced);
    for other in [plan(2, "aggregate=1+100+27"), plan(2, "aggregate#2=1+127")] {
        assert_eq!(sizes(&other, 1), [64, 64], "without effect");
    }
}

/// What is behind an exchange by key has more tasks.
#[test]
fn a_source_has_no_more_tasks_than_its_table_has_partitions() {
    let keyed = plan(8, "", &counts("u", "s,")).expect("a plan");
    assert_eq!(tasks(&keyed), [(Some("source u"), 2), (Some("aggregate"), 8)]);
    let passed_on = plan(8, "", "INSERT INTO r SELECT n FROM u WHERE n > 1;").expect("a plan");
    assert_eq!(tasks(&passed_on), [(Some("source u"), 2)]);
    let wide = TABLES.replace(
        "r (n BIGINT) WITH ('connector' = 'wide')",
        "w (n BIGINT) WITH ('connector' = 'wide', 'sink.parallelism' = '8')",
    );
    let wide = wide.lines().last().expect("a table").to_owned();
    let divided = plan(8, "", &format!("{wide}\nINSERT INTO w SELECT n FROM u WHERE n > 1;")).expect("a plan");
    assert_eq!(tasks(&divided), [(Some("source u"), 2), (None, 8)]);
    assert!(divided.exchanges.iter().all(|exchange| exchange.kind == ExchangeKind::Rebalance));
}
