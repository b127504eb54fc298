//! `CURRENT_WATERMARK` after a restart.

use std::fs;
use std::path::Path;

use crate::live::{EVENTS, finish, settings, wait_for};
use anabranch_server::Engine;

/// The visible rows, and how many of them were read before the first watermark.
fn rows(folder: &Path) -> (usize, usize) {
    let files = fs::read_dir(folder.join("seen")).into_iter().flatten().map(|entry| entry.expect("entry").path());
    let visible = files.filter(|path| !path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with('.')));
    let lines: String = visible.map(|path| fs::read_to_string(path).expect("text")).collect();
    (lines.lines().count(), lines.lines().filter(|line| line.contains("\"w\":null")).count())
}

#[test]
fn the_first_rows_after_a_restart_know_the_watermark_before_it() {
    let folder = tempfile::tempdir().expect("folder");
    let sql = format!(
        "{EVENTS} CREATE TABLE seen (event_time BIGINT, w TIMESTAMP_LTZ(3))
           WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO seen SELECT event_time, CURRENT_WATERMARK(ts) FROM events;",
        folder.path().join("seen").display()
    );
    let engine = Engine::default();
    let settings = settings(Some(&folder.path().join("checkpoints")), 1);
    let job = engine.run(&sql, &settings).expect("a job");
    wait_for("waited for rows", &|| rows(folder.path()).0 > 2000);
    drop(job);
    let (_, before) = rows(folder.path());
    for _ in 0..2 {
        let job = engine.run(&sql, &settings).expect("it resumes");
        let present = rows(folder.path()).0;
        wait_for("waited for rows", &|| rows(folder.path()).0 > present + 2000);
        drop(job);
    }
    finish(engine.run(&sql, &settings).expect("it resumes"));
    assert_eq!(rows(folder.path()), (30_000, before));
}
