//! Joins with tables that are asked while the job runs: a service over HTTP, PostgreSQL, files that are read
//! again.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_connectors::MemorySink;
use anabranch_model::{Clock as _, LookupReading, SystemClock};
use anabranch_server::{Engine, Job, Settings};
use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;

use crate::postgres::{PASSWORD, USER, shared};
use crate::service::{Service, name_of};

/// Nothing that works takes this long.
const LIMIT: Duration = Duration::from_secs(60);

struct Running {
    job: Job,
    batches: Arc<Mutex<Vec<RecordBatch>>>,
}

fn start(sql: &str) -> Running {
    let mut engine = Engine::default();
    let (sink, batches) = MemorySink::collected();
    engine.register("collect", Arc::new(sink));
    let settings = Settings { parallelism: Some(1), ..Settings::default() };
    Running { job: engine.run(sql, &settings).expect("it starts"), batches }
}

impl Running {
    /// The rows so far, in their order.
    fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for batch in self.batches.lock().expect("no panic").iter() {
            let cell = |column, row| array_value_to_string(column, row).expect("shown");
            let line = |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" | ");
            rows.extend((0..batch.num_rows()).map(line));
        }
        rows
    }

    /// The calls of all tasks.
    fn calls(&self) -> LookupReading {
        let mut all = LookupReading::default();
        for of in self.job.metrics().iter().filter_map(|task| task.lookups) {
            all.keys += of.keys;
            all.hits += of.hits;
            all.calls += of.calls;
            all.failures += of.failures;
            all.call_ns += of.call_ns;
        }
        all
    }

    /// The rows and the calls of a job that ends.
    fn ended(self) -> (Vec<String>, LookupReading) {
        assert!(self.job.wait_timeout(LIMIT), "the job hangs: {} rows", self.rows().len());
        let (rows, calls) = (self.rows(), self.calls());
        self.job.wait().expect("it ends well");
        (rows, calls)
    }

    fn wait_for(&self, what: &str, condition: impl Fn(&Running) -> bool) {
        let clock = SystemClock::new();
        let limit = clock.now().plus(LIMIT);
        while !condition(self) {
            assert!(clock.now() < limit, "{what} in vain: {} rows, like {:?}", self.rows().len(), self.rows().last());
            anabranch_model::pause(Duration::from_millis(10));
        }
    }
}

/// Numbers from 1 on as they come, with their processing time.
fn numbers(rows: u64, per_second: u64) -> String {
    format!(
        "CREATE TABLE numbers (id BIGINT, at TIMESTAMP(3), proctime AS PROCTIME()) WITH ('connector' = 'datagen',
           'rows-per-second' = '{per_second}', 'partitions' = '1', 'start-time' = '2024-01-01', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
           'fields.id.end' = '{rows}');\n"
    )
}

fn users(service: &Service, path: &str, options: &str) -> String {
    format!(
        "CREATE TABLE users (id BIGINT, name STRING, level INT) WITH ('connector' = 'http', 'url' = '{}', 'token' = 'let-me-in'{options});\n",
        service.url(path)
    )
}

const NAMED: &str = "CREATE TABLE named (id BIGINT, name STRING) WITH ('connector' = 'collect');\n";

/// Fails at the first row that differs.
fn check(rows: &[String], expected: &[String], what: &str) {
    let differs = rows.iter().zip(expected).position(|(row, expected)| row != expected);
    if let Some(at) = differs {
        panic!("{what}: row {at} is {}, not {}", rows[at], expected[at]);
    }
    assert_eq!(rows.len(), expected.len(), "{what}");
}

/// The rows of a LEFT JOIN of so many numbers, divided by `of`, with their names.
fn expected(rows: u64, of: impl Fn(u64) -> u64) -> Vec<String> {
    (1..=rows).map(|id| format!("{id} | {}", name_of(of(id)).unwrap_or_default())).collect()
}

#[test]
fn rows_keep_their_order_while_calls_of_a_slow_service_overlap() {
    for (path, options) in
        [("/users/{id}", ", 'request.max-concurrent' = '32'"), ("/users", ", 'request.max-keys' = '50'")]
    {
        let service = Service::start(200);
        let join = "INSERT INTO named SELECT n.id, u.name FROM numbers AS n LEFT JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON n.id = u.id;";
        let clock = SystemClock::new();
        let begun = clock.now();
        let job = start(&[&numbers(600, 2000), &users(&service, path, options), NAMED, join].concat());
        let (rows, calls) = job.ended();
        check(&rows, &expected(600, |id| id), path);
        assert_eq!((calls.keys, calls.hits, calls.failures), (600, 0, 0));
        assert_eq!(calls.calls, service.state.requests.load(SeqCst));
        let (most, seconds) = (service.state.most.load(SeqCst), clock.now().since(begun) as f64 / 1e9);
        println!("{path}: 600 rows in {seconds:.1} s, {} requests of 200 ms, {most} at a time", calls.calls);
        assert!(most > 3, "{path}: {most} at a time");
        assert!(seconds < 0.2 * calls.calls as f64 / 2.0, "{path}: {} requests took {seconds} s", calls.calls);
    }
}

#[test]
fn a_cache_answers_for_keys_that_come_again_and_for_those_without_rows() {
    let service = Service::start(1);
    let cache = ", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '100'";
    let join = "INSERT INTO named SELECT n.id, u.name FROM (SELECT id, id % 20 AS user_id, proctime FROM numbers) AS n
        LEFT JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON u.id = n.user_id;";
    let job = start(&[&numbers(4000, 4000), &users(&service, "/users/{id}", cache), NAMED, join].concat());
    let (rows, calls) = job.ended();
    check(&rows, &expected(4000, |id| id % 20), "cached");
    assert_eq!(calls.calls, service.state.requests.load(SeqCst));
    assert!(calls.hits > 0 && calls.hits <= calls.keys, "{calls:?}");
    // Keys of batches that come before the first answer are asked more than once.
    assert!(calls.calls <= 200, "{calls:?}");
}

#[test]
fn a_service_that_is_away_for_a_while_loses_no_row_and_one_that_stays_away_fails_the_job() {
    let service = Service::start(1);
    let join = "INSERT INTO named SELECT n.id, u.name FROM numbers AS n JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON n.id = u.id AND u.level < 5;";
    let sql = |retries: u32| {
        let users = users(&service, "/users", &format!(", 'lookup.max-retries' = '{retries}'"));
        [&numbers(2000, 1000), &users, NAMED, join].concat()
    };
    let job = start(&sql(10));
    job.wait_for("rows", |job| !job.rows().is_empty());
    service.state.fails.store(true, SeqCst);
    job.wait_for("failures", |job| job.calls().failures > 0);
    service.state.fails.store(false, SeqCst);
    let (rows, calls) = job.ended();
    let all = expected(2000, |id| id).into_iter().filter(|row| row.ends_with('"'));
    let few = all.filter(|row| matches!(row.trim_end_matches('"').chars().last(), Some('0'..='4')));
    check(&rows, &few.collect::<Vec<_>>(), "after the outage");
    assert!(calls.failures > 0);

    service.state.fails.store(true, SeqCst);
    let job = start(&sql(1));
    assert!(job.job.wait_timeout(LIMIT), "the job hangs");
    let error = job.job.wait().expect_err("no service").to_string();
    for part in ["table users", "has not answered 2 calls: 503", "not now", "'lookup.max-retries'"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_connection_that_the_service_closes_meanwhile_is_no_failure() {
    let service = Service::start(0);
    service.state.closes_after_ms.store(30, SeqCst);
    let join = "INSERT INTO named SELECT n.id, u.name FROM numbers AS n LEFT JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON n.id = u.id;";
    for path in ["/users", "/users/{id}"] {
        let users = users(&service, path, ", 'lookup.max-retries' = '0'");
        let (rows, calls) = start(&[&numbers(20, 20), &users, NAMED, join].concat()).ended();
        check(&rows, &expected(20, |id| id), path);
        assert_eq!((calls.failures, calls.calls >= 20), (0, true), "{path}");
    }
}

#[test]
fn a_request_has_no_more_keys_than_it_may_however_many_rows_come_at_once() {
    let service = Service::start(1);
    let join = "INSERT INTO named SELECT n.id, u.name FROM numbers AS n LEFT JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON n.id = u.id;";
    for cache in ["NONE", "PARTIAL', 'lookup.partial-cache.max-rows' = '1000"] {
        let users = users(&service, "/users", &format!(", 'request.max-keys' = '70', 'lookup.cache' = '{cache}'"));
        let (rows, _) = start(&[&numbers(20_000, 1_000_000), &users, NAMED, join].concat()).ended();
        check(&rows, &expected(20_000, |id| id), cache);
        assert_eq!(service.state.most_keys.load(SeqCst), 70, "{cache}");
    }
}

#[test]
fn a_job_stops_and_is_cancelled_while_its_service_does_not_answer() {
    let service = Service::start(600_000);
    let join = "INSERT INTO named SELECT n.id, u.name FROM numbers AS n JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON n.id = u.id;";
    let timeout = ", 'request.timeout' = '1 s', 'lookup.max-retries' = '0'";
    for options in [timeout, ""] {
        let job = start(&[&numbers(1_000_000, 1000), &users(&service, "/users", options), NAMED, join].concat());
        let before = service.state.requests.load(SeqCst);
        job.wait_for("a call", |_| service.state.requests.load(SeqCst) > before);
        job.job.stop();
        if options.is_empty() {
            // A second request to stop does not wait for what is on its way.
            job.job.stop();
        }
        assert!(job.job.wait_timeout(LIMIT), "the job hangs");
        let _ = job.job.wait();
    }
}

fn jdbc(table: &str, columns: &str, options: &str) -> String {
    format!(
        "CREATE TABLE {table} ({columns}) WITH ('connector' = 'jdbc', 'url' = '{}', 'table-name' = '{table}', 'username' = '{USER}',
           'password' = '{PASSWORD}'{options});\n",
        shared().url()
    )
}

#[test]
fn a_database_is_asked_by_several_columns_of_its_own_types() {
    shared().sql(
        "CREATE TABLE people (region char(4), id int, code uuid, name text, PRIMARY KEY (region, id));
         INSERT INTO people SELECT CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, i, md5(i::text)::uuid, 'name ' || i
           FROM generate_series(1, 50) i;
         INSERT INTO people VALUES ('even', 99, NULL, 'nobody')",
    );
    for (cache, hits) in
        [("", false), (", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.expire-after-access' = '1 min'", true)]
    {
        let people =
            jdbc("people", "region STRING, id BIGINT, code STRING, name STRING, long AS UPPER(name) || '!'", cache);
        let join = "INSERT INTO named SELECT n.id, p.long FROM (SELECT id, CASE WHEN id % 2 = 0 THEN 'even' ELSE 'odd' END AS region,
              CASE WHEN id % 9 <> 0 THEN id % 60 END AS person, proctime FROM numbers) AS n
            LEFT JOIN people FOR SYSTEM_TIME AS OF n.proctime AS p ON p.region = n.region AND n.person = p.id;";
        let (rows, calls) = start(&[&numbers(3000, 3000), &people, NAMED, join].concat()).ended();
        let name =
            |id: u64| (!id.is_multiple_of(9) && (1..=50).contains(&(id % 60))).then(|| format!("NAME {}!", id % 60));
        let all: Vec<String> = (1..=3000).map(|id| format!("{id} | {}", name(id).unwrap_or_default())).collect();
        check(&rows, &all, cache);
        assert_eq!(calls.hits > 0, hits, "{calls:?}");
    }
    // A text finds a value of another type of the database.
    let people = jdbc("people", "region STRING, id BIGINT, code STRING, name STRING", "");
    let join = "INSERT INTO named SELECT n.id, p.name FROM (SELECT id, LOWER(code) AS code, proctime FROM (
          SELECT id, proctime, 'C4CA4238-A0B9-2382-0DCC-509A6F75849B' AS code FROM numbers)) AS n
        JOIN people FOR SYSTEM_TIME AS OF n.proctime AS p ON p.code = n.code;";
    let (rows, _) = start(&[&numbers(3, 100), &people, NAMED, join].concat()).ended();
    assert_eq!(rows, ["1 | name 1", "2 | name 1", "3 | name 1"]);
}

/// Rows that change while the job runs are found as they are when they are asked for; a table that is read as
/// a whole is what it was until it is read again.
#[test]
fn tables_change_while_a_job_runs() {
    shared().sql("CREATE TABLE labels (id int PRIMARY KEY, label text); INSERT INTO labels VALUES (1, 'before')");
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("labels.json");
    let write = |path: &Path, text: &str| {
        // As a program does whose readers must not see a part.
        let new = path.with_extension("new");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).expect("written");
    };
    let inner = folder.path().join("data");
    std::fs::create_dir(&inner).expect("a folder");
    let inside = inner.join("labels.json");
    let full = ", 'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '50 ms'";
    let files = format!(
        "CREATE TABLE labels (id BIGINT, label STRING) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json'{full});\n",
        inner.display()
    );
    let asked = jdbc("labels", "id BIGINT, label STRING", "");
    let whole = jdbc("labels", "id BIGINT, label STRING", full);
    for (name, table) in [("asked", asked), ("whole", whole), ("files", files)] {
        shared().sql("UPDATE labels SET label = 'before'");
        write(&file, "{\"id\": 1, \"label\": \"before\"}\n");
        std::fs::rename(&file, &inside).expect("moved");
        let join = "INSERT INTO named SELECT n.id, l.label FROM (SELECT id, 1 AS one, proctime FROM numbers) AS n
            LEFT JOIN labels FOR SYSTEM_TIME AS OF n.proctime AS l ON l.id = n.one;";
        let job = start(&[&numbers(1_000_000, 500), &table, NAMED, join].concat());
        job.wait_for("the first label", |job| job.rows().last().is_some_and(|row| row.ends_with("| before")));
        if name == "files" {
            // A file that cannot be read does not take the old rows away.
            write(&file, "{\"id\": 1, \"label\"\n");
            std::fs::rename(&file, &inside).expect("moved");
            job.wait_for("a notice", |job| {
                let told = job.job.notices().after(0);
                told.iter().any(|of| of.text.contains("table labels") && of.text.contains("could not be read"))
            });
            let seen = job.rows().len();
            job.wait_for("rows after that", |job| job.rows().len() > seen + 100);
            assert!(job.rows().last().is_some_and(|row| row.ends_with("| before")));
        }
        shared().sql("UPDATE labels SET label = 'after'");
        write(&file, "{\"id\": 1, \"label\": \"after\"}\n");
        std::fs::rename(&file, &inside).expect("moved");
        job.wait_for("the second label", |job| job.rows().last().is_some_and(|row| row.ends_with("| after")));
        job.job.stop();
        let (rows, calls) = job.ended();
        let first = rows.iter().position(|row| row.ends_with("| after")).expect("found");
        assert!(rows[..first].iter().all(|row| row.ends_with("| before")), "{name}");
        // Of calls that overlap, one that begins later may be answered earlier.
        assert!(name == "asked" || rows[first..].iter().all(|row| row.ends_with("| after")), "{name}");
        assert!(rows.last().is_some_and(|row| row.ends_with("| after")), "{name}");
        assert_eq!(
            rows.len(),
            rows.last().and_then(|row| row.split(' ').next()?.parse::<usize>().ok()).expect("a number")
        );
        assert_eq!(calls.hits > 0, name != "asked", "{name}: {calls:?}");
    }
}
