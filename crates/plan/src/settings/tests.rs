use std::path::Path;
use std::time::Duration;

use anabranch_dataflow::Scheduling;

use super::*;

#[test]
fn every_value_that_is_shown_can_be_set() {
    let mut settings = Settings::default();
    for (name, value) in settings.list() {
        settings.set(&name, &value, 128).expect("what SET shows");
    }
    assert_eq!(settings.list(), Settings::default().list());
    let error = settings.set("paralelism", "3", 128).expect_err("unknown").to_string();
    assert!(error.contains("did you mean 'parallelism'"), "{error}");
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = options().flat_map(|option| option.flink.iter().copied().chain([option.name])).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    let shadowed: Vec<_> = names.iter().filter(|name| without_effect::check(name, "").is_some()).collect();
    assert!(shadowed.is_empty(), "without effect too: {shadowed:?}");
}

#[test]
fn a_refused_value_changes_nothing() {
    let mut settings = Settings::default();
    settings.set("autoscale-utilization-percent", "95", 128).expect_err("overloaded");
    assert_eq!(settings.list(), Settings::default().list());
}

#[test]
fn reset_gives_the_value_before_the_first_set() {
    let mut settings = Settings::default();
    settings.preset("buffer-timeout", "1.5 ms", 128).expect("from the command line");
    for (name, value) in [("buffer-timeout", "0"), ("table.exec.emit.early-fire.delay", "1 s"), ("batch-rows", "7")] {
        settings.set(name, value, 128).expect("set");
    }
    settings.reset(Some("execution.buffer-timeout"), 128).expect("by its name in Flink");
    assert_eq!(settings.job.buffer_timeout, Duration::from_micros(1_500));
    assert_eq!(settings.job.batch_rows, 7, "only that one is reset");
    settings.reset(Some("pipeline.jars"), 128).expect("without effect");
    settings.reset(None, 128).expect("all");
    let mut expected = Settings::default();
    expected.preset("buffer-timeout", "1500 us", 128).expect("set");
    assert_eq!(settings.list(), expected.list());
}

#[test]
fn values_have_the_names_of_flink_too() {
    let mut settings = Settings::default();
    for (text, expected) in [("hashmap", "memory"), ("RocksDB", "disk"), ("jobmanager", "memory"), ("forst", "disk")] {
        settings.set("state.backend.type", text, 128).expect(text);
        assert!(settings.list().contains(&("state-backend".to_owned(), expected.to_owned())), "{text}");
    }
    settings.set("scheduling", "Queue-Size", 128).expect("a policy");
    assert_eq!(settings.job.scheduling, Some(Scheduling::QueueSize));
    let error = settings.set("scheduling", "queue-sise", 128).expect_err("unknown").to_string();
    assert!(error.contains("unknown value 'queue-sise'") && error.contains("did you mean 'queue-size'?"), "{error}");
    let policies = Scheduling::ALL.map(|policy| settings.set("scheduling", policy.name(), 128).is_ok());
    assert_eq!(policies, [true; 7]);
}

#[test]
fn what_is_fixed_is_checked_and_keeps_its_value() {
    let mut settings = Settings::default();
    settings.fix("parallelism.default", "3", 128).expect("fixed");
    settings.set("parallelism", "2", 128).expect("without effect");
    settings.set("parallelism", "0", 128).expect_err("still checked");
    settings.set("batch-rows", "7", 128).expect("not fixed");
    assert_eq!((settings.parallelism, settings.job.batch_rows), (Some(3), 7));
    settings.fix("parallelism", "4", 128).expect("fixed again");
    assert_eq!(settings.parallelism, Some(4));
}

#[test]
fn groups_are_sized_by_number_or_by_bounds() {
    let mut settings = Settings::default();
    let mut set = |name: &str, value: &str| settings.set(name, value, 128).map_err(|error| error.to_string());
    set("group-epochs", " Auto ").expect("automatic");
    set("group-epochs", "20").expect("fixed");
    for (name, value, expected) in [
        ("group-epochs", "0", "'0' is not a number in range"),
        ("group-epochs", "many", "use 'auto', or a whole number from 1"),
        ("coordination-percent-min", "11", "'11' is not between 0 and 10 percent"),
        ("coordination-percent-max", "4 %", "lower that first"),
        ("coordination-percent-max", "NaN", "is not between"),
        ("coordination-percent-max", "a lot", "is not a percentage"),
    ] {
        let error = set(name, value).expect_err(value);
        assert!(error.contains(expected) && error.contains(name) && error.contains("help:"), "{error}");
    }
    set("coordination-percent-max", "20 %").expect("higher");
    set("coordination-percent-min", "12.5").expect("below it");
    let group = settings.job.group;
    assert_eq!((group.epochs, group.overhead_percent_min, group.overhead_percent_max), (Some(20), 12.5, 20.0));
}

/// The marks around the tables of docs/sql/options.md.
const BEGIN: &str = "<!-- Generated from crates/plan/src/settings: UPDATE_GOLDEN=1 cargo test -p anabranch-plan -->\n";
const END: &str = "<!-- End of what is generated -->\n";

#[test]
fn the_page_of_options_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql/options.md");
    let present = std::fs::read_to_string(&path).expect("readable");
    let (head, rest) = present.split_once(BEGIN).expect("a beginning");
    let (_, tail) = rest.split_once(END).expect("an end");
    let page = format!("{head}{BEGIN}{}{END}{tail}", options_page());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(&path, &page).expect("writable");
    }
    assert!(present == page, "docs/sql/options.md is outdated: UPDATE_GOLDEN=1");
}
