use super::*;

#[test]
fn each_metric_stands_at_its_place_and_is_found_by_its_name() {
    for (place, metric) in Metric::all().enumerate() {
        assert_eq!(metric as usize, place, "{metric:?}");
        assert_eq!(Metric::parse(metric.name()).expect("its own name"), metric);
        assert!(!metric.remedy().is_empty());
    }
    assert_eq!(Metric::parse("lag_ms").expect("the second name"), Metric::AgeMs);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_one() {
    let error = Metric::parse("queue_row").expect_err("no such metric").to_string();
    assert_eq!(error, "unknown metric 'queue_row'\n  help: did you mean 'queue_rows'?");
    let error = Metric::parse("zzz").expect_err("no such metric").to_string();
    assert!(error.contains("use one of: rows_in, rows_out"), "{error}");
}
