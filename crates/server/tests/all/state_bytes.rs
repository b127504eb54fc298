//! A job whose state exceeds 'state-bytes' stops. A higher limit, state on disk and more tasks, which the
//! error names, let the job resume from its checkpoint, and every row is there once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anabranch_model::Result;
use anabranch_server::{Engine, Settings};

const LIMIT: Duration = Duration::from_secs(120);
const ROWS: usize = 60_000;

/// Queries that keep each of [`ROWS`] keys until the end, and what their errors say.
const QUERIES: [(&str, &str); 2] = [
    (
        "SELECT id, COUNT(*) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(at), INTERVAL '1' HOUR))
         GROUP BY id, window_start, window_end",
        "the open windows of this task take",
    ),
    (
        "SELECT id, place FROM (
           SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at) AS place FROM numbers) WHERE place = 1",
        "the state of this task takes",
    ),
];

fn run(folder: &Path, query: &str, parallelism: u32, set: &[(&str, &str)]) -> Result<()> {
    let sql = format!(
        "CREATE TABLE numbers (id BIGINT, at AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR at AS at)
           WITH ('connector' = 'datagen', 'rows-per-second' = '30000', 'fields.id.kind' = 'sequence',
             'fields.id.start' = '1', 'fields.id.end' = '{ROWS}');
         CREATE TABLE results (id BIGINT, n BIGINT)
           WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}');
         INSERT INTO results {query};",
        folder.join("results").display()
    );
    let checkpoints = folder.join("checkpoints").display().to_string();
    let always = [
        ("checkpoint-directory", checkpoints.as_str()),
        ("checkpoint-interval", "50 ms"),
        ("epoch-interval", "5 ms"),
        ("job-name", "numbers"),
    ];
    let set = always.iter().chain(set).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let job = Engine::default().run(&sql, &Settings { parallelism: Some(parallelism), set, ..Settings::default() })?;
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    job.wait().map(drop)
}

/// The ids of the visible rows; none appears twice.
fn ids(folder: &Path) -> BTreeSet<u64> {
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(folder.join("results")).expect("folder") {
        let path = entry.expect("readable").path();
        if path.file_name().expect("a name").to_string_lossy().starts_with('.') {
            continue;
        }
        for line in fs::read_to_string(path).expect("text").lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(row["n"].as_u64(), Some(1), "{row}");
            assert!(ids.insert(row["id"].as_u64().expect("a number")), "{row} is there twice");
        }
    }
    ids
}

#[test]
fn a_higher_limit_and_a_disk_for_a_state_that_is_too_large_give_every_row_once() {
    for (query, error) in QUERIES {
        let more = [("state-bytes", "1 gb")];
        let disk = [("state-bytes", "1 mb"), ("state-backend", "disk")];
        let remedies: [(&str, &[(&str, &str)]); 2] =
            [("SET 'state-bytes' higher", &more), ("or 'state-backend' = 'disk'", &disk)];
        for (remedy, set) in remedies {
            let folder = tempfile::tempdir().expect("folder");
            let told = run(folder.path(), query, 2, &[("state-bytes", "1 mb")]).expect_err("too large").to_string();
            assert!(told.contains(error) && told.contains(remedy), "{told}");
            let manifests = folder.path().join("checkpoints/manifests");
            assert!(fs::read_dir(manifests).is_ok_and(|mut files| files.next().is_some()), "no checkpoint: {told}");
            run(folder.path(), query, 2, set).unwrap_or_else(|error| panic!("{remedy}: {error}"));
            assert_eq!(ids(folder.path()), (1..=ROWS as u64).collect(), "{remedy}");
        }
    }
}

#[test]
fn a_state_that_is_too_large_for_two_tasks_fits_into_sixteen() {
    let (query, error) = QUERIES[1];
    let folder = tempfile::tempdir().expect("folder");
    let set = [("state-bytes", "1 mb")];
    let told = run(folder.path(), query, 2, &set).expect_err("too large").to_string();
    assert!(told.contains(error) && told.contains("raise the parallelism"), "{told}");
    run(folder.path(), query, 16, &set).expect("it fits");
    assert_eq!(ids(folder.path()), (1..=ROWS as u64).collect());
}
