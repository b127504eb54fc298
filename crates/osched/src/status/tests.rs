use super::*;

#[test]
fn metrics_have_labels_that_are_escaped_and_leave_out_what_is_unknown() {
    let target = TargetStatus { name: "a\"b".to_owned(), threads: 3, ..TargetStatus::default() };
    let known = TaskStatus { task: "x".to_owned(), priority: Some(2.5), ..TaskStatus::default() };
    let unknown = TaskStatus { task: "y".to_owned(), ..TaskStatus::default() };
    let status = Status { targets: vec![target], tasks: vec![known, unknown], writes: 7, ..Status::default() };
    let text = status.exposition();
    assert!(text.contains("anabranch_osched_target_threads{target=\"a\\\"b\"} 3\n"), "{text}");
    assert!(
        text.contains("anabranch_osched_writes_total 7\n") && !text.contains("anabranch_osched_pressure"),
        "{text}"
    );
    assert!(text.contains("task=\"x\"} 2.5\n") && !text.contains("task=\"y\""), "{text}");
}
