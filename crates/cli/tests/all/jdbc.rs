//! Jobs that write tables of PostgreSQL, as users run them: processes of the binary that are killed, and a
//! real server.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anabranch_model::{Clock as _, SystemClock};

use crate::postgres::{PASSWORD, Postgres, USER};
use crate::process::{LIMIT, Process};
use crate::service::{Service, name_of};

const ROWS: u64 = 60_000;

/// Rows as they are, and sums of groups that are updated all the time.
fn script(server: &Postgres) -> String {
    let table = |name: &str, columns: &str| {
        format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'jdbc', 'url' = '{}', 'table-name' = '{name}', 'username' = '{USER}',
               'password' = '{PASSWORD}');\n",
            server.url()
        )
    };
    let numbers = format!(
        "CREATE TABLE numbers (id BIGINT, price DECIMAL(8, 2), at TIMESTAMP(3)) WITH ('connector' = 'datagen', 'rows-per-second' = '4000', 'start-time' = '2024-01-01',
           'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}', 'fields.price.max' = '100');\n"
    );
    [
        numbers,
        table("every_row", "id BIGINT, price DECIMAL(8, 2), at TIMESTAMP(3)"),
        table("sums", "part BIGINT, n BIGINT, total BIGINT, PRIMARY KEY (part) NOT ENFORCED"),
        // Most groups come and go: they are deleted again.
        table("odd_counts", "part BIGINT, n BIGINT, PRIMARY KEY (part) NOT ENFORCED"),
        table("labels", "part BIGINT, label STRING"),
        table("by_label", "label STRING, n BIGINT, PRIMARY KEY (label) NOT ENFORCED"),
        "INSERT INTO by_label SELECT label, COUNT(*) FROM numbers JOIN labels ON id % 10 = labels.part GROUP BY label;\n".to_owned(),
        "INSERT INTO every_row SELECT * FROM numbers;\n".to_owned(),
        "INSERT INTO sums SELECT id % 100, COUNT(*), SUM(id) FROM numbers GROUP BY id % 100;\n".to_owned(),
        "INSERT INTO odd_counts SELECT id % 70, COUNT(*) FROM numbers GROUP BY id % 70 HAVING COUNT(*) % 2 = 1;\n"
            .to_owned(),
    ]
    .concat()
}

fn start(script: &Path, checkpoints: &Path, parallelism: u32) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("run").arg(script).args(["--plain", "--parallelism", &parallelism.to_string()]);
    command.args(["--set", &format!("checkpoint-directory={}", checkpoints.display())]);
    command.args(["--set", "checkpoint-interval=200ms"]).stdin(Stdio::null());
    Process::start(command)
}

#[test]
fn a_job_that_is_killed_again_and_again_writes_each_row_once() {
    let server = Postgres::start();
    server.sql(
        "CREATE TABLE every_row (id bigint, price numeric(8, 2), at timestamp(3));
         CREATE TABLE sums (part bigint PRIMARY KEY, n bigint, total bigint);
         CREATE TABLE odd_counts (part bigint PRIMARY KEY, n bigint);
         CREATE TABLE by_label (label text PRIMARY KEY, n bigint);
         CREATE TABLE labels (note text, part int, label varchar(10));
         INSERT INTO labels SELECT 'unused', i, CASE WHEN i < 3 THEN 'few' ELSE 'many' END FROM generate_series(0, 8) i",
    );
    let folder = tempfile::tempdir().expect("folder");
    let (file, checkpoints) = (folder.path().join("job.sql"), folder.path().join("checkpoints"));
    std::fs::File::create(&file).expect("file").write_all(script(&server).as_bytes()).expect("written");
    let count = || server.sql("SELECT count(*) FROM every_row")[0].parse::<u64>().expect("a number");
    let clock = SystemClock::new();
    let mut before = 0;
    for parallelism in [2, 1, 3, 2] {
        let mut job = start(&file, &checkpoints, parallelism);
        let limit = clock.now().plus(LIMIT);
        // Committed rows have come, and others are on their way.
        while count() < before + 2_000 {
            assert!(!job.has_ended() && clock.now() < limit, "{} rows: {}", count(), job.said_last());
            anabranch_model::pause(Duration::from_millis(20));
        }
        job.kill();
        before = count();
        assert!(before < ROWS, "killed before the end");
    }
    let job = start(&file, &checkpoints, 2);
    let limit = clock.now().plus(LIMIT);
    while !job.has_ended() {
        assert!(clock.now() < limit, "{}", job.said_last());
        anabranch_model::pause(Duration::from_millis(50));
    }
    let sum = ROWS * (ROWS + 1) / 2;
    let whole = server.sql("SELECT count(*), count(DISTINCT id), sum(id), count(price), count(at) FROM every_row");
    assert_eq!(whole, [format!("{ROWS}|{ROWS}|{sum}|{ROWS}|{ROWS}")], "{}", job.said_last());
    let sums = "SELECT count(*), sum(n), sum(total) FROM sums WHERE n = 600 AND total = part * 600 + CASE part WHEN 0 THEN 18030000 ELSE 17970000 END";
    assert_eq!(server.sql(sums), [format!("100|{ROWS}|{sum}")]);
    let odd = "SELECT count(*), min(n), max(n) FROM odd_counts";
    // 60000 = 857 * 70 + 10: the numbers from 1 to 10 have come once more, which is an even count.
    assert_eq!(server.sql(odd), ["60|857|857"]);
    assert_eq!(server.sql("SELECT * FROM by_label ORDER BY label"), ["few|18000", "many|36000"]);
    assert!(server.sql("SELECT scope FROM anabranch_commits").len() >= 3, "{}", job.said_last());
}

/// Rows wait for a slow service and for the database whenever the process is killed.
#[test]
fn a_job_that_is_killed_while_rows_wait_for_answers_writes_each_row_once() {
    const ROWS: u64 = 12_000;
    let server = Postgres::start();
    server.sql(
        "CREATE TABLE named (id bigint, name text, label text);
         CREATE TABLE labels (part int PRIMARY KEY, label text);
         INSERT INTO labels SELECT i, 'label ' || i FROM generate_series(0, 8) i",
    );
    let service = Service::start(100);
    let jdbc = |name: &str, columns: &str, options: &str| {
        format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'jdbc', 'url' = '{}', 'table-name' = '{name}', 'username' = '{USER}',
               'password' = '{PASSWORD}'{options});\n",
            server.url()
        )
    };
    let script = [
        format!(
            "CREATE TABLE numbers (id BIGINT, proctime AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '800', 'start-time' = '2024-01-01',
               'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}');
             CREATE TABLE users (id BIGINT, name STRING) WITH ('connector' = 'http', 'url' = '{}', 'token' = 'let-me-in', 'request.max-keys' = '100');\n",
            service.url("/users")
        ),
        jdbc("labels", "part INT, label STRING", ", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '5'"),
        jdbc("named", "id BIGINT, name STRING, label STRING", ""),
        "INSERT INTO named SELECT n.id, u.name, l.label FROM (SELECT id, CAST(id % 10 AS INT) AS part, proctime FROM numbers) AS n
           LEFT JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON u.id = n.id
           LEFT JOIN labels FOR SYSTEM_TIME AS OF n.proctime AS l ON l.part = n.part;\n"
            .to_owned(),
    ]
    .concat();
    let folder = tempfile::tempdir().expect("folder");
    let (file, checkpoints) = (folder.path().join("job.sql"), folder.path().join("checkpoints"));
    std::fs::File::create(&file).expect("file").write_all(script.as_bytes()).expect("written");
    let count = || server.sql("SELECT count(*) FROM named")[0].parse::<u64>().expect("a number");
    let clock = SystemClock::new();
    let mut before = 0;
    for parallelism in [1, 2, 3] {
        let mut job = start(&file, &checkpoints, parallelism);
        let limit = clock.now().plus(LIMIT);
        while count() < before + 400 {
            assert!(!job.has_ended() && clock.now() < limit, "{} rows: {}", count(), job.said_last());
            anabranch_model::pause(Duration::from_millis(20));
        }
        job.kill();
        before = count();
        assert!(before < ROWS, "killed before the end");
    }
    let job = start(&file, &checkpoints, 2);
    let limit = clock.now().plus(LIMIT);
    while !job.has_ended() {
        assert!(clock.now() < limit, "{}", job.said_last());
        anabranch_model::pause(Duration::from_millis(50));
    }
    let rows = server.sql("SELECT id, coalesce(name, ''), coalesce(label, '') FROM named ORDER BY id");
    let label = |id: u64| if id % 10 == 9 { String::new() } else { format!("label {}", id % 10) };
    let expected = (1..=ROWS).map(|id| format!("{id}|{}|{}", name_of(id).unwrap_or_default(), label(id)));
    let wrong = rows.iter().zip(expected).find(|(row, expected)| row != &expected);
    assert_eq!(wrong, None, "{}", job.said_last());
    assert_eq!(rows.len() as u64, ROWS, "{}", job.said_last());
}

/// A process that is frozen in the midst of a transaction: the kernel answers for it, so the database keeps
/// its locks.
#[test]
fn a_job_takes_over_soon_from_a_process_that_is_frozen_in_a_transaction() {
    const ROWS: u64 = 40_000;
    const SOON: Duration = Duration::from_secs(10);
    let server = Postgres::start();
    server.sql("CREATE TABLE every_row (id bigint)");
    let script = format!(
        "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2000', 'start-time' = '2024-01-01', 'fields.id.kind' = 'sequence',
           'fields.id.start' = '1', 'fields.id.end' = '{ROWS}');
         CREATE TABLE every_row (id BIGINT) WITH ('connector' = 'jdbc', 'url' = '{}', 'table-name' = 'every_row', 'username' = '{USER}', 'password' = '{PASSWORD}');
         INSERT INTO every_row SELECT id FROM numbers;",
        server.url()
    );
    let folder = tempfile::tempdir().expect("folder");
    let (file, checkpoints) = (folder.path().join("job.sql"), folder.path().join("checkpoints"));
    std::fs::write(&file, script).expect("written");
    let count = || server.sql("SELECT count(*) FROM every_row")[0].parse::<u64>().expect("a number");
    let clock = SystemClock::new();
    let wait = |what: &str, limit: Duration, job: &Process, is_there: &dyn Fn() -> bool| {
        let limit = clock.now().plus(limit);
        while !is_there() {
            assert!(clock.now() < limit, "{what}: {}", job.said_last());
            anabranch_model::pause(Duration::from_millis(20));
        }
    };
    let frozen = start(&file, &checkpoints, 2);
    wait("no rows come", LIMIT, &frozen, &|| count() > 2_000);
    // A transaction holds its row of the table of commits, and waits for this lock.
    let lock = server.locked("every_row");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'COPY%'";
    wait("no transaction waits", LIMIT, &frozen, &|| server.sql(waiting)[0] != "0");
    frozen.signal("STOP");
    drop(lock);
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND query LIKE 'COPY%'";
    wait("no transaction waits for its client", LIMIT, &frozen, &|| server.sql(idle)[0] != "0");
    let before = count();
    let begun = clock.now();
    let job = start(&file, &checkpoints, 2);
    wait("it waits for the frozen process", SOON, &job, &|| count() > before);
    let took = Duration::from_nanos(clock.now().since(begun));
    println!("rows come {took:?} after the start beside a frozen process");
    frozen.signal("CONT");
    wait("the job does not end", LIMIT, &job, &|| job.has_ended());
    let sum = ROWS * (ROWS + 1) / 2;
    let whole = server.sql("SELECT count(*), count(DISTINCT id), sum(id) FROM every_row");
    assert_eq!(whole, [format!("{ROWS}|{ROWS}|{sum}")], "{}", job.said_last());
}
