//! Engines that are gone, hang, or answer rubbish.

use super::*;

#[test]
fn an_interface_that_is_no_flink_is_an_error_with_address_and_remedy() {
    type Page = fn(&str, Option<String>) -> Answer;
    let pages: [(Page, &str); 6] = [
        (|_, _| Answer::Status(404), "status 404"),
        (|_, _| Answer::Silence(Vec::new()), "within 300 ms"),
        (|_, _| Answer::Ok(b"<html>".to_vec()), "JSON"),
        (|_, _| Answer::Ok(b"{\"jobs\": 5}".to_vec()), "JSON"),
        (|_, _| Answer::Raw(b"\x00\x01\x02".to_vec()), ""),
        (
            |path, page| if path == "/taskmanagers" { Answer::Status(500) } else { as_recorded(path, page) },
            "status 500",
        ),
    ];
    for (page, words) in pages {
        let server = serve(&V2_3, page);
        let (mut flink, _) = driver(&V2_3, &server);
        if words.starts_with("within") {
            flink.http = impatient(true);
        }
        let text = flink.look().expect_err("no Flink").to_string();
        assert!(text.contains(&server.url) && text.contains(words) && text.contains("help: "), "{text}");
    }
}

/// A reporter that fails leaves the graph; it works again once it answers.
#[test]
fn a_reporter_that_hangs_is_an_error_of_reading_only() {
    let requests = AtomicUsize::new(0);
    let server = serve(&V2_3, move |path, page| match path {
        "/metrics" => match requests.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::Silence(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()),
            1 => Answer::Ok(b"<html>\n</html>\n".to_vec()),
            _ => as_recorded(path, page),
        },
        _ => as_recorded(path, page),
    });
    let (mut flink, _) = driver(&V2_3, &server);
    let patient = std::mem::replace(&mut flink.reporter_http, impatient(false));
    assert_eq!(flink.look().expect("the graph").tasks.len(), 22);
    flink.reporter_http = patient;
    assert!(flink.offers().is_empty());
    let advice = flink.advice().join("\n");
    assert!(advice.contains("/metrics") && advice.contains("within 300 ms"), "{advice}");
    let error = flink.read(Nanos(1)).expect_err("rubbish").to_string();
    assert!(error.contains("/metrics") && error.contains("Prometheus reporter"), "{error}");
    assert!(flink.is_stale(), "its address may have changed");
    assert!(flink.read(Nanos(2)).expect("readings").values.len() > 22);
}

#[test]
fn a_job_that_comes_makes_the_graph_stale() {
    let requests = AtomicUsize::new(0);
    let server = serve(&V2_3, move |path, page| match path {
        "/metrics" if requests.fetch_add(1, Ordering::SeqCst) >= 2 => {
            let line = "flink_taskmanager_job_task_numRecordsIn{job_id=\"new\",task_id=\"v\",subtask_index=\"0\",} 1\n";
            Answer::Ok((page.expect("recorded") + line).into_bytes())
        }
        _ => as_recorded(path, page),
    });
    let (mut flink, _) = driver(&V2_3, &server);
    flink.look().expect("a cluster");
    flink.read(Nanos(1)).expect("readings");
    assert!(!flink.is_stale());
    flink.read(Nanos(2)).expect("readings");
    assert!(flink.is_stale());
    // The interface does not know the job: looking again and again does not help.
    flink.look().expect("a cluster");
    flink.read(Nanos(3)).expect("readings");
    assert!(!flink.is_stale());
}

#[test]
fn without_a_reporter_the_graph_is_followed_and_the_lines_are_told() {
    let has_ended = std::sync::Arc::new(AtomicUsize::new(0));
    let served = std::sync::Arc::clone(&has_ended);
    let server = serve(&V2_3, move |path, page| match path {
        "/jobs/overview" if served.load(Ordering::SeqCst) == 1 => Answer::Ok(b"{\"jobs\": []}".to_vec()),
        _ => as_recorded(path, page),
    });
    let (mut flink, _) = driver(&V2_3, &server);
    flink.metrics.clear();
    assert_eq!(flink.look().expect("a cluster").tasks.len(), 22);
    let advice = flink.advice().join("\n");
    for words in ["PrometheusReporterFactory", "filter.includes", "buffer-debloat.enabled: true"] {
        assert!(advice.contains(words), "{advice}");
    }
    let second = 1_000_000_000;
    assert!(flink.read(Nanos(3 * second)).expect("nothing").values.is_empty() && !flink.is_stale());
    has_ended.store(1, Ordering::SeqCst);
    flink.read(Nanos(4 * second)).expect("not asked yet");
    assert!(!flink.is_stale());
    flink.read(Nanos(6 * second)).expect("asked");
    assert!(flink.is_stale());
    assert_eq!(flink.look().expect("no job").queries.len(), 0);
}

#[test]
fn what_the_reporter_leaves_out_or_has_too_much_is_told() {
    let advice = |page: String| {
        let server = serve(&V2_3, move |path, recorded| match path {
            "/metrics" => Answer::Ok(page.clone().into_bytes()),
            _ => as_recorded(path, recorded),
        });
        let (mut flink, _) = driver(&V2_3, &server);
        flink.look().expect("a cluster");
        flink.advice().join("\n")
    };
    let recorded = fixture("flink-2.3/metrics.txt");
    assert!(!advice(recorded.clone()).contains("filter"));
    assert!(advice("other_family 1\n".repeat(20_000) + &recorded).contains("KB for each read"));
    let filtered: String =
        recorded.lines().filter(|line| !line.contains("numRecordsOut")).map(|line| format!("{line}\n")).collect();
    assert!(advice(filtered).contains("leaves out numRecordsIn or numRecordsOut"));
    assert!(advice(recorded.replace("task_id=", "other=")).contains("variables.excludes"));
}

/// Without the times of deployment, threads of equal names are left alone, and the driver asks for another
/// look.
#[test]
fn times_of_deployment_that_are_missing_are_asked_for_again() {
    let requests = AtomicUsize::new(0);
    let server = serve(&V2_3, move |path, page| match path.contains("/vertices/") {
        true if requests.fetch_add(1, Ordering::SeqCst) < 4 => Answer::Status(503),
        _ => as_recorded(path, page),
    });
    let (mut flink, _) = driver(&V2_3, &server);
    let run_tasks = |graph: &Graph| graph.threads.iter().filter(|t| matches!(t.kind, ThreadKind::Task(_))).count();
    assert_eq!(run_tasks(&flink.look().expect("a cluster")), 18);
    assert!(flink.is_stale());
    assert_eq!(run_tasks(&flink.look().expect("a cluster")), 22);
    assert!(!flink.is_stale());
}
