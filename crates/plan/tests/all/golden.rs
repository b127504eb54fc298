//! Plans and errors of SQL files against their recorded text. `UPDATE_GOLDEN=1 cargo test -p anabranch-plan`
//! rewrites the records.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anabranch_dataflow::{ExchangeKind, OperatorSpec, Part, PartSpec, Plan, Port};
use anabranch_model::{Result, StageId};
use anabranch_plan::{Catalog, PlanOptions, Planned, plan_script};

use crate::connectors::Connectors;

fn plan(text: &str, parallelism: u32) -> Result<Planned> {
    let options = PlanOptions { parallelism: Some(parallelism), ..PlanOptions::default() };
    plan_script(text, &mut Catalog::new(), &Connectors, &options)
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "sql"));
    files.sort();
    assert!(!files.is_empty(), "{} holds no SQL file", folder.display());
    files
}

fn compare(path: &Path, actual: &str, failures: &mut String) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, actual).expect("write");
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected != actual {
        let _ = writeln!(failures, "--- {}\nexpected:\n{expected}\nactual:\n{actual}", path.display());
    }
}

fn rendered(planned: &Planned) -> String {
    let mut text = String::new();
    for report in &planned.reports {
        let _ = writeln!(text, "{report}\n");
    }
    if let Some(plan) = &planned.plan {
        let _ = write!(text, "{}", plan.with_equal_stages_once());
    }
    text
}

#[test]
fn plans_are_as_recorded() {
    let mut failures = String::new();
    for path in files("tests/plans") {
        let text = fs::read_to_string(&path).expect("read");
        let mut actual = String::new();
        for parallelism in [1, 4] {
            let planned = plan(&text, parallelism).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let _ = write!(actual, "parallelism {parallelism}\n\n{}\n", rendered(&planned));
        }
        compare(&path.with_extension("plan"), &actual, &mut failures);
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn errors_are_as_recorded() {
    let mut failures = String::new();
    for path in files("tests/errors") {
        let text = fs::read_to_string(&path).expect("read");
        let actual = match plan(&text, 2) {
            Ok(_) => "planned without an error\n".to_owned(),
            Err(error) => format!("{error}\n"),
        };
        compare(&path.with_extension("err"), &actual, &mut failures);
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn plans_survive_serialization_and_are_deterministic() {
    for path in files("tests/plans") {
        let text = fs::read_to_string(&path).expect("read");
        let Some(first) = plan(&text, 4).expect("plan").plan else { continue };
        let json = serde_json::to_string(&first).expect("to JSON");
        let back: Plan = serde_json::from_str(&json).expect("from JSON");
        assert_eq!(back, first, "{}", path.display());
        for _ in 0..5 {
            assert_eq!(plan(&text, 4).expect("plan").plan.as_ref(), Some(&first), "{}", path.display());
        }
    }
}

/// The examples differ in their WITH clauses only.
#[test]
fn examples_have_the_recorded_plan() {
    let examples = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../examples");
    let recorded = fs::read_to_string(examples.join("../crates/plan/tests/plans/ad_campaigns.plan")).expect("read");
    let examples_of = [("ad_campaigns.sql", "ad_events", "print"), ("ad_campaigns_kafka.sql", "kafka", "kafka")];
    for (name, connector, sink) in examples_of {
        let text = fs::read_to_string(examples.join(name)).expect("read");
        let plan = rendered(&plan(&text, 1).expect("plan"));
        let expected = format!("source events ({connector})");
        assert!(plan.contains(&expected), "{name}: {plan}");
        let plan = plan.replace(&expected, "source events (ad_events)");
        let plan = plan.replace(&format!("sink results ({sink})"), "sink results (print)");
        assert!(recorded.contains(&plan), "{name}: {plan}");
    }
}

/// What the runtime relies on, for each plan and for the one in which no source is shared.
#[test]
fn plans_are_well_formed() {
    let mut shared = 0;
    for path in files("tests/plans") {
        let text = fs::read_to_string(&path).expect("read");
        let Some(plan) = plan(&text, 4).expect("plan").plan else { continue };
        check_form(&plan, &path);
        let ids: BTreeSet<StageId> = plan.shared_sources().map(|stage| stage.id).collect();
        let readers: usize = ids.iter().map(|id| plan.outputs(*id).count()).sum();
        let apart = plan.with_own_sources(&ids);
        check_form(&apart, &path);
        let sources = |plan: &Plan| plan.stages.iter().filter(|stage| stage.source.is_some()).count();
        assert_eq!(sources(&apart), sources(&plan) - ids.len() + readers, "{}", path.display());
        let sides = plan.static_stages();
        assert!(ids.iter().all(|id| !sides.contains(id)), "{}: a static side is shared", path.display());
        shared += ids.len();
    }
    assert!(shared > 3, "{shared} sources are shared");
}

/// Positions and state are found again at any number of tasks.
#[test]
fn parts_of_a_plan_are_the_same_at_any_number_of_tasks() {
    for path in files("tests/plans") {
        let text = fs::read_to_string(&path).expect("read");
        let parts = |parallelism: u32| {
            let plan = plan(&text, parallelism).expect("plan").plan?;
            let source = |part: Part<'_>| match part.spec {
                PartSpec::Source(source) => Some(format!("{} {} {:?}", part.id, source.table, source.projection)),
                _ => None,
            };
            Some((plan.parts().len(), plan.parts().into_iter().filter_map(source).collect::<Vec<_>>()))
        };
        assert_eq!(parts(1), parts(4), "{}", path.display());
    }
}

/// A join of several streams is divided into the joins of two that the option gives: state is found again,
/// whichever of them wrote it.
#[test]
fn joins_of_several_streams_can_be_divided_into_joins_of_two() {
    let mut divided = 0;
    for path in files("tests/plans").into_iter().chain(files("../../examples/nexmark")) {
        let text = fs::read_to_string(&path).expect("read");
        let Some(at_once) = plan(&text, 4).expect("plan").plan else { continue };
        let option = "SET 'table.optimizer.multi-join.enabled' = 'false';";
        let by_two = plan(&format!("{option}\n{text}"), 4).expect("plan").plan.expect("a plan");
        let ids: BTreeSet<StageId> =
            at_once.stages.iter().filter(|stage| stage.multi_join().is_some()).map(|stage| stage.id).collect();
        divided += ids.len();
        let again = at_once.with_joins_of_two(&ids);
        check_form(&again, &path);
        let parts = |plan: &Plan| -> Vec<String> {
            plan.parts().iter().map(|part| format!("{} {:?}", part.id, part.spec)).collect()
        };
        assert_eq!(parts(&again), parts(&by_two), "{}", path.display());
        for id in ids {
            let joins = at_once.stage(id).multi_join().expect("it is one").chain.sides.len();
            for last in 1..=joins {
                check_form(&at_once.with_last_joins_of_two(id, last), &path);
            }
            assert_eq!(at_once.with_last_joins_of_two(id, joins), at_once.with_joins_of_two(&[id].into()));
            assert_eq!(at_once.with_last_joins_of_two(id, 0).to_string(), at_once.to_string());
        }
    }
    assert!(divided > 3, "{divided} joins are divided");
}

/// Partial aggregates of equal stages are computed once: what keeps something stays as it was, under the
/// identity that it had.
#[test]
fn equal_stages_are_one_and_nothing_that_is_kept_moves() {
    let mut shared = BTreeSet::new();
    let streaming = |path| (path, "SET 'execution.runtime-mode' = 'streaming';\n");
    let plans = files("tests/plans").into_iter().map(|path| (path, ""));
    for (path, settings) in plans.chain(files("../../examples/nexmark").into_iter().map(streaming)) {
        let text = format!("{settings}{}", fs::read_to_string(&path).expect("read"));
        for parallelism in [1, 2] {
            let Some(apart) = plan(&text, parallelism).expect("plan").plan else { continue };
            let once = apart.with_equal_stages_once();
            check_form(&once, &path);
            let parts = |plan: &Plan| -> Vec<String> {
                plan.parts().iter().map(|part| format!("{} {:?}", part.id, part.spec)).collect()
            };
            assert_eq!(parts(&once), parts(&apart), "{}", path.display());
            assert_eq!(once.with_equal_stages_once(), once, "{}", path.display());
            let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
            shared.extend(name.filter(|_| once.stages.len() < apart.stages.len()));
        }
    }
    assert_eq!(shared, ["equal_partial_aggregates", "q5"].map(str::to_owned).into());
}

#[test]
fn the_queries_of_nexmark_have_one_generator() {
    let mut several = BTreeSet::new();
    for path in files("../../examples/nexmark") {
        let text = fs::read_to_string(&path).expect("read");
        let planned = plan(&text, 2).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let plan = planned.plan.expect("a job");
        let sources = plan.stages.iter().filter_map(|stage| stage.source.as_ref());
        let generators = sources.filter(|source| source.connector.connector == "nexmark").count();
        assert_eq!(generators, 1, "{}:\n{plan}", path.display());
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        several.extend(name.filter(|_| plan.shared_sources().next().is_some()));
    }
    let expected = ["q20", "q23", "q3", "q4", "q5", "q7", "q8", "q9"].map(str::to_owned);
    assert_eq!(several, expected.into(), "queries that read events more than once");
}

/// Ids in order, exchanges forward, ports that exist, equal parallelism where tasks pair up, one channel
/// between two tasks.
fn check_form(plan: &Plan, path: &Path) {
    for (index, stage) in plan.stages.iter().enumerate() {
        assert_eq!(stage.id.0 as usize, index, "{}", path.display());
        let fed = plan.inputs(stage.id).any(|e| e.port == Port::Main);
        assert!(fed != stage.source.is_some(), "{}: {}", path.display(), stage.name);
        let asks = matches!(stage.operators.first(), Some(OperatorSpec::LookupJoin(_)));
        assert!(!asks || stage.source.is_none(), "{}: {} asks for rows of its own", path.display(), stage.name);
        let leaves = plan.outputs(stage.id).count() > 0;
        assert!(leaves != stage.sink.is_some(), "{}: {}", path.display(), stage.name);
        let receivers: BTreeSet<StageId> = plan.outputs(stage.id).map(|exchange| exchange.to).collect();
        assert_eq!(receivers.len(), plan.outputs(stage.id).count(), "{}: {}", path.display(), stage.name);
    }
    let labels: Vec<&String> = plan.stages.iter().filter_map(|stage| stage.label.as_ref()).collect();
    assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len(), "{}: {labels:?}", path.display());
    for exchange in &plan.exchanges {
        assert!(exchange.from < exchange.to, "{}", path.display());
        let (from, to) = (plan.stage(exchange.from), plan.stage(exchange.to));
        match &exchange.kind {
            ExchangeKind::Forward => assert_eq!(from.parallelism, to.parallelism),
            ExchangeKind::Hash { keys } => assert!(keys.iter().all(|key| *key < from.schema.fields().len())),
            ExchangeKind::Broadcast | ExchangeKind::Rebalance => {}
        }
        if let Port::Side(operator) = exchange.port {
            let OperatorSpec::StaticJoin(join) = &to.operators[operator] else {
                panic!("{}: the side port leads to no join", path.display());
            };
            assert_eq!(join.build_schema, from.schema, "{}", path.display());
        }
    }
}

/// Names of the library's types, and what it says before its messages: no user knows them.
#[test]
fn nothing_of_the_library_is_shown() {
    let library = [
        "Utf8View",
        "Decimal128",
        "Date32",
        "Time32",
        "Time64",
        "Timestamp(",
        "Interval(",
        "Duration(",
        "List(",
        "Struct(",
        "Boolean",
        "Execution error",
        "Arrow error",
        "Error during planning",
        "DataFusion",
        "Field {",
        "AS Int64",
        "AS Int32",
        "AS Float64",
    ];
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).to_path_buf();
    let mut shown = Vec::new();
    for folder in [folder.join("tests/plans"), folder.join("tests/errors"), folder.join("../../tests/golden")] {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "plan" && extension != "err") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("readable");
            let found = text.lines().filter(|line| library.iter().any(|of| line.contains(of)));
            shown.extend(found.map(|line| format!("{}: {line}", path.display())));
        }
    }
    assert!(shown.is_empty(), "{} lines:\n{}", shown.len(), shown.join("\n"));
}
