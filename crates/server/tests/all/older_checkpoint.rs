//! An older copy of the checkpoint directory is put back: its job would write results that are there. Each
//! remedy of the refusal, carried out as the message says, gives every row once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_model::Result;
use anabranch_server::{Engine, Job, Settings};
use tempfile::TempDir;

use crate::postgres::{PASSWORD, Postgres, USER, shared};

/// Nothing that works takes this long.
const LIMIT: Duration = Duration::from_secs(120);
const ROWS: u64 = 20_000;

/// The table that a job writes.
enum Target {
    Files(PathBuf),
    /// Folders by `part`.
    Folders(PathBuf),
    Database(&'static Postgres, &'static str),
}

impl Target {
    fn ddl(&self) -> String {
        match self {
            Target::Files(path) => {
                format!("WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}')", path.display())
            }
            Target::Folders(path) => format!(
                "PARTITIONED BY (part) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}')",
                path.display()
            ),
            Target::Database(server, name) => format!(
                "WITH ('connector' = 'jdbc', 'url' = '{}', 'table-name' = '{name}', 'username' = '{USER}', 'password' = '{PASSWORD}')",
                server.url()
            ),
        }
    }

    fn create(&self) {
        if let Target::Database(server, name) = self {
            server.sql(&format!("CREATE TABLE {name} (id bigint, part bigint)"));
        }
    }

    /// The ids of all rows that a reader sees, sorted.
    fn ids(&self) -> Vec<u64> {
        let texts = match self {
            Target::Files(path) | Target::Folders(path) => lines(path),
            Target::Database(server, name) => server.sql(&format!("SELECT id FROM {name}")),
        };
        let id = |text: &String| {
            text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect::<String>()
        };
        let mut ids: Vec<u64> = texts.iter().map(|text| id(text).parse().expect("a number")).collect();
        ids.sort_unstable();
        ids
    }

    fn empty(&self) {
        match self {
            Target::Files(path) | Target::Folders(path) => fs::remove_dir_all(path).expect("removed"),
            Target::Database(server, name) => _ = server.sql(&format!("TRUNCATE {name}")),
        }
    }
}

/// The lines of the visible files in a folder and its folders.
fn lines(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("folder") {
        let path = entry.expect("readable").path();
        if path.file_name().expect("a name").to_string_lossy().starts_with('.') {
            continue;
        }
        match path.is_dir() {
            true => found.extend(lines(&path)),
            false => found.extend(fs::read_to_string(path).expect("text").lines().map(str::to_owned)),
        }
    }
    found
}

/// A job that writes the numbers from 1 to [`ROWS`].
struct Numbers<'a> {
    target: &'a Target,
    checkpoints: PathBuf,
}

impl Numbers<'_> {
    fn start(&self) -> Result<Job> {
        let sql = format!(
            "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2000', 'fields.id.kind' = 'sequence',
               'fields.id.start' = '1', 'fields.id.end' = '{ROWS}');
             CREATE TABLE results (id BIGINT, part BIGINT) {};
             INSERT INTO results SELECT id, id % 3 FROM numbers;",
            self.target.ddl()
        );
        let set = [
            ("checkpoint-directory", self.checkpoints.to_str().expect("text")),
            ("checkpoint-interval", "100 ms"),
            ("epoch-interval", "20 ms"),
            ("job-name", "numbers"),
        ];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Engine::default().run(&sql, &Settings { parallelism: Some(2), set, ..Settings::default() })
    }

    /// Runs until so many more rows are visible, and cancels the job.
    fn advance(&self, rows: usize) {
        let before = if self.checkpoints.exists() { self.target.ids().len() } else { 0 };
        let job = self.start().expect("a job");
        for _ in 0..LIMIT.as_millis() / 200 {
            let is_there = !matches!(self.target, Target::Files(path) | Target::Folders(path) if !path.exists());
            if is_there && self.target.ids().len() >= before + rows {
                job.stop();
                assert!(job.wait_timeout(LIMIT), "the job hangs");
                job.wait().expect("a stop is no failure");
                assert!(self.target.ids().len() < ROWS as usize, "stopped before the end");
                return;
            }
            assert!(!job.wait_timeout(Duration::from_millis(200)), "{:?}", job.wait());
        }
        panic!("no rows come");
    }

    /// Runs until the job ends by itself.
    fn outcome(&self) -> Result<()> {
        let job = self.start()?;
        assert!(job.wait_timeout(LIMIT), "the job hangs");
        job.wait().map(drop)
    }

    fn refusal(&self) -> String {
        self.outcome().expect_err("the job must not write").to_string()
    }

    /// Runs to the end of the input.
    fn finish(&self) {
        self.outcome().expect("it ends");
        assert_eq!(self.target.ids(), (1..=ROWS).collect::<Vec<_>>());
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("folder") {
        let entry = entry.expect("readable");
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => _ = fs::copy(entry.path(), to.join(entry.file_name())).expect("copied"),
        }
    }
}

fn check(target: &Target) {
    let folder = TempDir::new().expect("folder");
    let place = |name: &str| folder.path().join(name);
    target.create();
    let numbers = Numbers { target, checkpoints: place("checkpoints") };
    numbers.advance(2_000);
    copy(&numbers.checkpoints, &place("older"));
    numbers.advance(2_000);
    copy(&numbers.checkpoints, &place("newest"));
    copy(&place("older"), &numbers.checkpoints);
    let before = target.ids();
    let refusal = numbers.refusal();
    assert!(refusal.contains("has results up to epoch") && refusal.contains("written twice"), "{refusal}");
    assert!(refusal.contains("put the newest one back instead; or start over: empty the tables"), "{refusal}");
    assert_eq!(target.ids(), before, "a job that was refused has written nothing");

    // The newest copy.
    copy(&place("newest"), &numbers.checkpoints);
    numbers.finish();

    // Started over, from a state in which the older copy is refused.
    copy(&place("older"), &numbers.checkpoints);
    let refusal = numbers.refusal();
    assert!(refusal.contains("has results up to epoch"), "{refusal}");
    target.empty();
    Numbers { target, checkpoints: place("new") }.finish();
}

#[test]
fn files_refuse_an_older_copy_and_both_remedies_give_each_row_once() {
    let folder = TempDir::new().expect("folder");
    check(&Target::Files(folder.path().join("out")));
}

#[test]
fn folders_of_partitions_refuse_an_older_copy_and_both_remedies_give_each_row_once() {
    let folder = TempDir::new().expect("folder");
    check(&Target::Folders(folder.path().join("out")));
}

#[test]
fn a_database_refuses_an_older_copy_and_both_remedies_give_each_row_once() {
    check(&Target::Database(shared(), "older_copy"));
}

/// A hidden file that was removed between its checkpoint and its commit.
#[test]
fn a_hidden_file_that_was_removed_is_put_back_or_the_job_starts_over() {
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out");
    let target = Target::Files(out.clone());
    let numbers = Numbers { target: &target, checkpoints: folder.path().join("checkpoints") };
    numbers.advance(2_000);
    // As if the process had been killed before it committed its last checkpoint, and somebody had removed the
    // hidden files.
    let names = || {
        fs::read_dir(&out)
            .expect("folder")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
    };
    let markers: Vec<String> = names().filter(|name| name.ends_with(".committed")).collect();
    let aside = folder.path().join("aside");
    fs::create_dir(&aside).expect("folder");
    for marker in &markers {
        let visible = marker.trim_start_matches('.').replace(".committed", "-0.json");
        if out.join(&visible).exists() {
            fs::rename(out.join(&visible), aside.join(&visible)).expect("moved");
        }
        fs::remove_file(out.join(marker)).expect("removed");
    }
    let mut put_back = 0;
    while let Err(error) = numbers.outcome() {
        let error = error.to_string();
        assert!(error.contains("put the hidden file back and start the job again"), "{error}");
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let hidden = words(&error).into_iter().find(|word| word.contains("/.part-")).expect("the file is named");
        let visible =
            words(&error).into_iter().map(|word| word.trim().to_owned()).find(|word| word.starts_with("part-"));
        let visible = visible.expect("its name is told").lines().next().expect("a line").to_owned();
        fs::rename(aside.join(visible), hidden).expect("put back");
        put_back += 1;
        assert!(put_back < 4, "{error}");
    }
    assert!(put_back > 0, "no hidden file was missed");
    assert_eq!(target.ids(), (1..=ROWS).collect::<Vec<_>>());
}
