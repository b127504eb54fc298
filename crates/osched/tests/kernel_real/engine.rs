//! A process that plays an engine: threads that use as much of one core as they get.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anabranch_model::pause;
use anabranch_osched::kernel::{GroupPath, NamedThread, Proc};
use anabranch_schedule::ThreadId;

/// The variable that tells this program its role, and the test that plays it.
const ROLE: &str = "OSCHED_TEST_ROLE";
const RUN: u8 = 0;
const START_ANOTHER: u8 = 1;
const END: u8 = 2;

/// Starts this test program in a role: the test of this path plays it if the variable is set.
pub(crate) fn role(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).stdout(Stdio::null());
    command
}

/// The role in which this process was started.
pub(crate) fn own_role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// A running engine. It ends with this value.
pub(crate) struct Engine {
    child: Child,
    orders: Option<ChildStdin>,
    pub(crate) threads: BTreeMap<String, ThreadId>,
}

impl Engine {
    /// An engine with threads of these names, all on one core.
    pub(crate) fn start(names: &[&str]) -> Engine {
        Engine::start_in(names, None, false)
    }

    /// Likewise, of another user. The process that calls it must be root's.
    pub(crate) fn start_as(user: u32, names: &[&str]) -> Engine {
        let mut engine = Engine::spawn(names, false);
        engine.begin(&format!("begin as {user}"), names);
        engine
    }

    /// Likewise in a cgroup, and in a session of its own if that is asked for.
    pub(crate) fn start_in(names: &[&str], group: Option<&GroupPath>, own_session: bool) -> Engine {
        let mut engine = Engine::spawn(names, own_session);
        if let Some(group) = group {
            let folder = Proc::new().expect("/proc").group_folder(group).expect("a mounted cgroup");
            std::fs::write(folder.join("cgroup.procs"), engine.pid().to_string()).expect("a cgroup that takes it");
        }
        engine.begin("begin", names);
        engine
    }

    fn spawn(names: &[&str], own_session: bool) -> Engine {
        let mut command = role("engine::plays_an_engine", &names.join(","));
        if own_session {
            // SAFETY: only setsid is called between fork and exec.
            unsafe {
                command.pre_exec(|| {
                    libc::setsid();
                    Ok(())
                });
            }
        }
        let mut child = command.stdin(Stdio::piped()).spawn().expect("a child process");
        let orders = child.stdin.take();
        Engine { child, orders, threads: BTreeMap::new() }
    }

    fn begin(&mut self, order: &str, names: &[&str]) {
        self.order(order);
        let kernel = Proc::new().expect("/proc");
        for name in names {
            self.await_thread(&kernel, name);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The thread of this name.
    pub(crate) fn thread(&self, name: &str) -> ThreadId {
        self.threads[name]
    }

    /// Lets a thread start another one, named `NAME+`.
    pub(crate) fn start_another(&mut self, name: &str) -> ThreadId {
        self.order(&format!("another {name}"));
        self.await_thread(&Proc::new().expect("/proc"), &format!("{name}+"))
    }

    /// Ends a thread.
    pub(crate) fn end(&mut self, name: &str) {
        let (kernel, thread) = (Proc::new().expect("/proc"), self.thread(name));
        self.order(&format!("end {name}"));
        until("the thread has ended", || (!kernel.is_alive(thread).expect("/proc")).then_some(()));
        self.threads.remove(name);
    }

    fn order(&mut self, line: &str) {
        let orders = self.orders.as_mut().expect("an engine that runs");
        writeln!(orders, "{line}").expect("an engine that reads");
    }

    fn await_thread(&mut self, kernel: &Proc, name: &str) -> ThreadId {
        let pid = self.pid();
        let found = until(&format!("a thread {name}"), || {
            let is_it = |thread: &NamedThread| thread.name == name;
            kernel.threads(pid).expect("/proc").into_iter().find(is_it)
        });
        self.threads.insert(name.to_owned(), found.id);
        found.id
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Its input ends, so it ends; if it was stopped or starved, a kill ends it.
        drop(self.orders.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Polls what announces nothing, for at most a minute.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = look() {
            return found;
        }
        pause(Duration::from_millis(10));
    }
    panic!("a minute has passed without this: {what}");
}

/// Plays an engine if this process was started as one.
#[test]
fn plays_an_engine() {
    let Some(names) = own_role() else { return };
    let mut orders = BufReader::new(std::io::stdin()).lines().map_while(Result::ok);
    // The cgroup was chosen before.
    match orders.next().as_deref().map(|order| order.split_once(" as ")) {
        Some(Some((_, user))) => become_user(user.parse().expect("a number")),
        begin => assert_eq!(begin, Some(None)),
    }
    let mut states = BTreeMap::new();
    for name in names.split(',') {
        states.insert(name.to_owned(), spin(name));
    }
    for order in orders {
        match order.split_once(' ') {
            Some(("another", name)) => states[name].store(START_ANOTHER, Ordering::SeqCst),
            Some(("end", name)) => states[name].store(END, Ordering::SeqCst),
            _ => panic!("an unknown order: {order}"),
        }
    }
    std::process::exit(0);
}

/// A thread that spins on the first core and takes orders.
fn spin(name: &str) -> Arc<AtomicU8> {
    let state = Arc::new(AtomicU8::new(RUN));
    let (orders, another) = (Arc::clone(&state), format!("{name}+"));
    let spinning = move || {
        pin();
        loop {
            match orders.load(Ordering::Relaxed) {
                RUN => std::hint::spin_loop(),
                START_ANOTHER => {
                    drop(spin(&another));
                    orders.store(RUN, Ordering::SeqCst);
                }
                _ => return,
            }
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(spinning).expect("a thread");
    state
}

/// Makes this process one of another user, for good. It must be root's.
pub(crate) fn become_user(user: u32) {
    // SAFETY: neither call takes a pointer. All capabilities of root go with the user.
    let changed = unsafe { libc::setgid(user) == 0 && libc::setuid(user) == 0 };
    assert!(changed, "{}", std::io::Error::last_os_error());
}

/// Keeps the calling thread on the first core that it may use.
fn pin() {
    // SAFETY: the set is ours, of the type and size that the calls take; 0 is the calling thread.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut cores);
        let first = (0..libc::CPU_SETSIZE as usize).find(|core| libc::CPU_ISSET(*core, &cores)).unwrap_or(0);
        libc::CPU_ZERO(&mut cores);
        libc::CPU_SET(first, &mut cores);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cores);
    }
}
