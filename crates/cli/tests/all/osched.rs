//! `anabranch osched` beside a running job of this engine: real processes, real nice values, real signals.
//!
//! The job uses more cores than there are, so that its threads wait for cores whatever else runs on the
//! machine.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::process::Process;

/// Between two looks at nice values.
const PAUSE: Duration = Duration::from_millis(20);

/// A job that takes all it gets: its rows pass through several stages, each of which has a task for each core
/// and one more.
const BUSY: &str = "
    CREATE TABLE events (id BIGINT, kind BIGINT) WITH ('connector' = 'datagen', 'fields.kind.min' = '0', 'fields.kind.max' = '1000');
    CREATE TABLE counts (kind BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO counts SELECT kind, COUNT(*) FROM (SELECT kind, MAX(id) AS id FROM events GROUP BY kind, id) GROUP BY kind;";

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
}

/// A busy job, and the folder of the journal.
struct Scene {
    folder: TempDir,
    job: Process,
    url: String,
}

impl Scene {
    fn start(settings: &[&str]) -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("busy.sql");
        std::fs::write(&file, BUSY).expect("written");
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let parallelism = (cores + 1).to_string();
        let mut command = program();
        command.args(["run", "--plain", "--listen", "127.0.0.1:0", "--parallelism", &parallelism]).arg(&file);
        command.args(settings).stdin(Stdio::null());
        let job = Process::start(command);
        job.wait_for("listening at ");
        let said = job.said();
        let url = said.lines().find_map(|line| line.strip_prefix("listening at ")).expect("an address");
        let url = url.split_whitespace().next().expect("an address").to_owned();
        Scene { folder, job, url }
    }

    fn journals(&self) -> PathBuf {
        self.folder.path().join("journals")
    }

    /// A configuration with these policies.
    fn configuration(&self, policies: &str) -> PathBuf {
        let file = self.folder.path().join("osched.toml");
        let (url, journals) = (&self.url, self.journals());
        let text = format!(
            "listen = \"127.0.0.1:0\"\nstate-directory = \"{}\"\n[[target]]\nname = \"ads\"\nengine = \"anabranch\"\nurl = \"{url}\"\n{policies}\n",
            journals.display()
        );
        std::fs::write(&file, text).expect("written");
        file
    }

    fn osched(&self, policies: &str) -> Process {
        let mut command = program();
        command.args(["osched", "run", "--plain"]).arg(self.configuration(policies)).stdin(Stdio::null());
        Process::start(command)
    }

    /// Nice values of all threads of the job's process.
    fn nices(&self) -> Vec<i32> {
        nices(self.job.id())
    }

    /// Waits until the threads' nice values are as wanted.
    fn until(&self, what: &str, wanted: impl Fn(&[i32]) -> bool) {
        for _ in 0..6_000 {
            if wanted(&self.nices()) {
                return;
            }
            anabranch_model::pause(PAUSE);
        }
        panic!("{what}: {:?}", self.nices());
    }
}

fn nices(pid: u32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let stat = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat")).ok();
    let nice = |stat: String| stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(16)?.parse().ok());
    threads.filter_map(|thread| stat(thread.ok()?)).filter_map(nice).collect()
}

/// The recorder's thread has a nice value of its own, and jobs without checkpoints have none.
fn is_plain(nices: &[i32]) -> bool {
    nices.iter().all(|nice| *nice == 0)
}

fn is_ordered(nices: &[i32]) -> bool {
    nices.iter().any(|nice| *nice > 0)
}

fn run(arguments: &[&str], file: &Path) -> Output {
    program().args(arguments).arg(file).stdin(Stdio::null()).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this user may lower nice values, as the tests of values need.
fn may_lower() -> bool {
    // SAFETY: the call takes no pointers.
    let (raised, lowered) =
        unsafe { (libc::setpriority(libc::PRIO_PROCESS, 0, -1), libc::setpriority(libc::PRIO_PROCESS, 0, 0)) };
    raised == 0 && lowered == 0
}

const DRAIN: &str = "[[policy]]\nname = \"p\"\npriority = \"drain\"\nperiod = \"50 ms\"";

#[test]
fn threads_are_ordered_while_it_runs_and_as_before_when_it_ends() {
    if !may_lower() {
        return;
    }
    let scene = Scene::start(&[]);
    let osched = scene.osched(DRAIN);
    scene.until("ordered", is_ordered);
    let other = program()
        .args(["osched", "run", "--plain", "--duration", "1s"])
        .arg(scene.configuration(DRAIN))
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    assert!(!other.status.success() && text(&other.stderr).contains("another osched"), "{}", text(&other.stderr));
    assert!(is_ordered(&scene.nices()), "the second one has changed nothing: {:?}", scene.nices());
    osched.signal("INT");
    let (code, said) = osched.end_with_said();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("all is as it was before"), "{said}");
    assert!(is_plain(&scene.nices()), "{:?}\n{said}", scene.nices());
    assert_eq!(std::fs::read_dir(scene.journals()).expect("a folder").filter(is_journal).count(), 0);
}

fn is_journal(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "journal"))
}

#[test]
fn a_guardian_restores_after_a_kill() {
    if !may_lower() {
        return;
    }
    let scene = Scene::start(&[]);
    let mut osched = scene.osched(DRAIN);
    scene.until("ordered", is_ordered);
    osched.kill();
    scene.until("restored", is_plain);
    let file = scene.configuration(DRAIN);
    let restored =
        program().args(["osched", "restore", "--state-directory"]).arg(scene.journals()).output().expect("runs");
    assert!(text(&restored.stdout).contains("nothing to restore"), "{}", text(&restored.stdout));
    drop(file);
}

#[test]
fn a_policy_is_switched_and_paused_while_it_runs() {
    if !may_lower() {
        return;
    }
    let scene = Scene::start(&[]);
    let osched = scene.osched(DRAIN);
    osched.wait_for("status and control: http://");
    let said = osched.said();
    let url = said.lines().find_map(|line| line.strip_prefix("status and control: ")).expect("an address").to_owned();
    scene.until("ordered", is_ordered);
    let switched =
        |priority: &str| program().args(["osched", "switch", "p", priority, "--url", &url]).output().expect("runs");
    let wrong = switched("drian");
    assert!(
        !wrong.status.success() && text(&wrong.stderr).contains("did you mean 'drain'?"),
        "{}",
        text(&wrong.stderr)
    );
    // Equal priorities change nothing.
    let constant = switched("constant");
    assert!(constant.status.success(), "{}", text(&constant.stderr));
    scene.until("all alike", is_plain);
    let without_spaces = switched("selectivity-1");
    assert!(without_spaces.status.success(), "{}", text(&without_spaces.stderr));
    let expression = switched("1000 - distance_to_sink * CASE WHEN queue_rows >= 0 THEN 2 ELSE 1 END");
    assert!(expression.status.success(), "{}", text(&expression.stderr));
    scene.until("ordered by an expression", is_ordered);
    let paused = |paused: bool| {
        let address = url.trim_start_matches("http://");
        let body = format!("{{\"paused\": {paused}}}");
        let request = format!(
            "POST /api/v1/osched/pause HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: \
             {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = std::net::TcpStream::connect(address).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    paused(true);
    assert!(is_plain(&scene.nices()), "{:?}", scene.nices());
    paused(false);
    scene.until("ordered again", is_ordered);
    let status = program().args(["osched", "check"]).arg(scene.configuration(DRAIN)).output().expect("runs");
    assert!(text(&status.stdout).contains("policy p: all that it needs is there"), "{}", text(&status.stdout));
}

/// A policy that waits for its condition leaves alone what the one after it has written.
#[test]
fn the_first_policy_whose_condition_is_true_decides() {
    if !may_lower() {
        return;
    }
    let scene = Scene::start(&[]);
    let never = "[[policy]]\nname = \"never\"\npriority = \"constant\"\nperiod = \"20 ms\"\nwhen = \"cpu_share < 0\"\n";
    let osched = scene.osched(&format!("{never}{DRAIN}"));
    scene.until("ordered", is_ordered);
    for _ in 0..50 {
        assert!(is_ordered(&scene.nices()), "{:?}", scene.nices());
        anabranch_model::pause(PAUSE);
    }
    osched.signal("TERM");
    let (code, said) = osched.end_with_said();
    assert_eq!(code, Some(0), "{said}");
    assert!(is_plain(&scene.nices()), "{:?}", scene.nices());
}

#[test]
fn a_dry_run_says_what_would_be_written_and_writes_nothing() {
    let scene = Scene::start(&[]);
    let file = scene.configuration(DRAIN);
    if !may_lower() {
        return;
    }
    let dry = run(&["osched", "run", "--dry-run", "--duration", "5s"], &file);
    let lines = text(&dry.stdout);
    assert!(dry.status.success(), "{}", text(&dry.stderr));
    assert!(lines.lines().any(|line| line.starts_with("nice 0 -> ") && line.contains("thread ")), "{lines}");
    assert!(is_plain(&scene.nices()), "{:?}", scene.nices());
    let targets = run(&["osched", "targets"], &file);
    let lines = text(&targets.stdout);
    assert!(lines.contains("query ") && lines.contains("operator 0.0 ") && lines.contains("  task 0.0 "), "{lines}");
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let scene = Scene::start(&[]);
    for (policies, expected) in [
        ("[[policy]]\npriority = \"deadlin\"", "did you mean 'deadline'?"),
        ("[[policy]]\npriority = \"deadline\"", "window"),
        ("[[policy]]\npriority = \"drain\"\ntranslator = \"nise\"", "did you mean 'nice'?"),
        ("[[policy]]\npriority = \"queue_row * 2\"", "queue_rows"),
        ("[[policy]]\npriority = \"drain\"\nperiod = \"1 ms\"", "20 ms to 600 s"),
    ] {
        let refused = run(&["osched", "run", "--plain", "--duration", "1s"], &scene.configuration(policies));
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{policies}\n{error}");
        assert!(error.contains(expected), "{policies}\n{error}");
        assert!(is_plain(&scene.nices()), "{:?}", scene.nices());
    }
    let nobody = program().args(["osched", "run", "http://127.0.0.1:1"]).output().expect("runs");
    assert!(text(&nobody.stderr).contains("nothing listens there"), "{}", text(&nobody.stderr));
}

/// The remedies lead from a request without the token to one that is carried out.
#[test]
fn a_switch_sends_the_token_that_the_file_asks_for() {
    let scene = Scene::start(&[]);
    let file = scene.configuration(DRAIN);
    let token = scene.folder.path().join("token");
    let bare = std::fs::read_to_string(&file).expect("a file");
    let run_with = |token: &Path| {
        let mut command = program();
        std::fs::write(&file, format!("token-file = \"{}\"\n{bare}", token.display())).expect("written");
        command.args(["osched", "run", "--plain", "--dry-run"]).arg(&file).stdin(Stdio::null());
        command
    };
    let missing = run_with(&token).output().expect("runs");
    let error = text(&missing.stderr);
    assert!(error.contains("token-file = ") && error.contains("give a file that this process may read"), "{error}");
    std::fs::write(&token, "correct-horse-battery-9\n").expect("written");
    let osched = Process::start(run_with(&token));
    osched.wait_for("status and control: http://");
    let said = osched.said();
    let url = said.lines().find_map(|line| line.strip_prefix("status and control: ")).expect("an address");
    let switch_at = |url: &str, more: &[&str]| {
        let line = ["osched", "switch", "p", "constant", "--url", url];
        program().args(line).args(more).output().expect("runs")
    };
    let switch = |more: &[&str]| switch_at(url, more);
    let no_address = text(&switch_at(url.trim_start_matches("http://"), &[]).stderr);
    assert!(no_address.contains("--url 127.0.0.1:") && no_address.contains("as the osched prints it"), "{no_address}");
    let other = text(&switch_at(&scene.url, &[]).stderr);
    assert!(other.contains("there is nothing at this path"), "another server of this program: {other}");
    let without = switch(&[]);
    let error = text(&without.stderr);
    assert!(!without.status.success() && error.contains("--token-file"), "{error}");
    let with = switch(&["--token-file", &token.display().to_string()]);
    assert!(with.status.success(), "{}", text(&with.stderr));
    osched.signal("INT");
    assert_eq!(osched.end_with_said().0, Some(0));
    let nobody = switch(&[]);
    assert!(text(&nobody.stderr).contains("anabranch osched run FILE"), "{}", text(&nobody.stderr));
}

/// The same policies in the engine, without a process of their own.
#[test]
fn a_job_orders_its_own_threads() {
    let scene = Scene::start(&["--set", "scheduling=drain"]);
    if may_lower() {
        scene.until("ordered", is_ordered);
    } else {
        scene.until("ordered", |nices| nices.iter().any(|nice| *nice > 0));
    }
}
