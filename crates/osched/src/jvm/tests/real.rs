//! Names of the threads of real JVMs. Machines without Java skip these tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anabranch_model::{Clock as _, SystemClock, pause};

use super::super::{Jvm, is_jvm};
use crate::kernel::{NamedThread, Proc};

const LONG: &str = "Source: a name that is longer than 15 characters (1/2)#0";

/// A JVM with a thread of a long name. It ends with its value, and with the test's process.
struct Java {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl Java {
    /// None: there is no Java, or the command before it is not permitted.
    fn start(before: &[&str], options: &[&str]) -> Option<Java> {
        let folder = format!("{}/fixtures/jvm", env!("CARGO_MANIFEST_DIR"));
        let words: Vec<&str> = before.iter().copied().chain(["java"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["-Xmx32m", "-Xshare:auto", "-XX:TieredStopAtLevel=1"]).args(options);
        command.args(["-cp", &folder, "Names", LONG, "q1 \"quoted\" name of a thread"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            println!("skipped: {words:?} does not start");
            return None;
        };
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("piped")));
        let mut java = Java { child, input, output };
        if !java.is_ready() {
            println!("skipped: {words:?} ends at once");
            return None;
        }
        Some(java)
    }

    /// Waits for its word. A JVM that was asked while it stood still may write its stacks before.
    fn is_ready(&mut self) -> bool {
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            if self.output.read_line(&mut line).unwrap_or(0) == 0 {
                return false;
            }
        }
        true
    }

    /// The JVM's process: the child, or what `unshare` has started.
    fn jvm(&self, proc: &Proc) -> Jvm {
        let child = self.child.id();
        let is_it = |process: &crate::kernel::Process| {
            (process.pid == child || parent_of(process.pid) == Some(child)) && is_jvm(process.pid)
        };
        Jvm::new(proc.find(is_it).expect("processes").swap_remove(0))
    }

    fn add_thread(&mut self) {
        self.input.as_mut().expect("open").write_all(b"+").expect("sent");
        self.input.as_mut().expect("open").flush().expect("sent");
        assert!(self.is_ready());
    }

    fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // It ends when its input does, wherever it runs.
        drop(self.input.take());
        drop(self.child.wait());
    }
}

fn names(jvm: &mut Jvm, proc: &Proc, clock: &SystemClock) -> Vec<(NamedThread, String)> {
    let threads = proc.threads(jvm.process.pid).expect("threads");
    let names = jvm.names(proc, &threads, clock);
    threads.into_iter().zip(names).collect()
}

fn has(names: &[(NamedThread, String)], name: &str) -> bool {
    names.iter().any(|(_, found)| found == name)
}

/// Asks until all names are known: a JVM that has just started, or a loaded machine, may need longer than one
/// answer may take.
fn whole(jvm: &mut Jvm, proc: &Proc, clock: &SystemClock) -> Vec<(NamedThread, String)> {
    for _ in 0..300 {
        let found = names(jvm, proc, clock);
        if jvm.obstacle().is_none() && jvm.is_complete() {
            return found;
        }
        pause(Duration::from_millis(200));
        jvm.ask_again = clock.now();
    }
    panic!("{:?}", jvm.obstacle());
}

#[test]
fn a_jvm_tells_full_names_also_of_threads_that_come_later() {
    let Some(mut java) = Java::start(&["env"], &[]) else { return };
    let (proc, clock) = (Proc::new().expect("Linux"), SystemClock::new());
    let mut jvm = java.jvm(&proc);
    let found = whole(&mut jvm, &proc, &clock);
    assert!(has(&found, LONG) && has(&found, "q1 \"quoted\" name of a thread"), "{found:?}");
    let (thread, _) = found.iter().find(|(_, name)| name == LONG).expect("found");
    assert!(LONG.starts_with(&thread.name) && thread.name.len() <= 15, "the kernel's name belongs to the same thread");
    java.add_thread();
    assert!(has(&whole(&mut jvm, &proc, &clock), "a thread that has come later"));
    let leftover = format!("/tmp/.attach_pid{}", jvm.process.pid);
    assert!(!std::path::Path::new(&leftover).exists());
}

#[test]
fn a_jvm_that_tells_nothing_leaves_15_characters_and_lives() {
    for (option, words) in [("-XX:+DisableAttachMechanism", "DisableAttachMechanism"), ("-Xrs", "-Xrs")] {
        let Some(mut java) = Java::start(&["env"], &[option]) else { return };
        let (proc, clock) = (Proc::new().expect("Linux"), SystemClock::new());
        let mut jvm = java.jvm(&proc);
        let found = names(&mut jvm, &proc, &clock);
        assert!(!has(&found, LONG) && found.iter().any(|(_, name)| LONG.starts_with(name.as_str())), "{found:?}");
        let obstacle = jvm.obstacle().expect("told");
        assert!(
            obstacle.contains(words) && obstacle.contains("15 characters") && obstacle.contains("help: "),
            "{obstacle}"
        );
        assert!(jvm.is_complete(), "it is not asked in vain");
        java.add_thread();
        assert!(java.is_alive());
    }
}

/// A JVM that does not run cannot answer. The time for it is bounded, and it is left alone for a while.
#[test]
fn a_jvm_that_hangs_takes_bounded_time() {
    let Some(mut java) = Java::start(&["env"], &[]) else { return };
    let (proc, clock) = (Proc::new().expect("Linux"), SystemClock::new());
    let mut jvm = java.jvm(&proc);
    let send = |signal| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(jvm.process.pid).expect("a number")).expect("a number");
        rustix::process::kill_process(pid, signal).expect("sent");
    };
    send(rustix::process::Signal::STOP);
    let begin = clock.now();
    let mut other = Jvm::new(jvm.process.clone());
    assert!(!has(&names(&mut other, &proc, &clock), LONG));
    assert!(clock.now().since(begin) < 60_000_000_000);
    assert!(other.obstacle().expect("told").contains("in time"), "{:?}", other.obstacle());
    // A clock that stands still: the pause has not passed.
    let still = anabranch_model::ManualClock::default();
    other.ask_again = still.now().plus(Duration::from_nanos(1));
    other.names(&proc, &proc.threads(other.process.pid).expect("threads"), &still);
    assert_eq!(other.failures, 1, "not asked again at once");
    send(rustix::process::Signal::CONT);
    java.add_thread();
    assert!(has(&whole(&mut jvm, &proc, &clock), LONG));
}

/// Another user, another `/tmp`, other numbers of processes. These need root, and namespaces.
#[test]
fn jvms_of_other_users_and_in_namespaces_are_reached_as_root() {
    let own_tmp: [&str; 5] = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /tmp && exec java \"$@\""];
    let own_numbers = ["unshare", "-mpf", "--mount-proc"];
    for before in [&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"][..], &own_tmp, &own_numbers] {
        let Some(java) = Java::start(before, &[]) else { continue };
        let (proc, clock) = (Proc::new().expect("Linux"), SystemClock::new());
        let mut jvm = java.jvm(&proc);
        assert!(has(&whole(&mut jvm, &proc, &clock), LONG), "{before:?}");
    }
}
