//! The attach protocol of HotSpot: a file in the JVM's `/tmp` and SIGQUIT make it listen at a socket beside
//! the file; a request there is answered with text.
//!
//! A JVM in a container has another `/tmp` and other process ids: the first is reached by `/proc/PID/root`,
//! the second is in `/proc/PID/status`. The client must be root or the JVM's own user.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result, pause};
use rustix::fs::{Mode, OFlags, ResolveFlags, fchown, open, openat, openat2, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid, geteuid, pidfd_open, pidfd_send_signal};

use super::status::{Status, has_library};
use crate::kernel::{Proc, Process};

/// Version of the protocol, the command, and three arguments.
const REQUEST: &[u8] = b"1\0threaddump\0\0\0\0";
/// Pause before the next look whether the JVM listens.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of a refusal that an error quotes.
const QUOTED_BYTES: u64 = 200;

/// Names by thread id, in this process's namespace.
pub(super) fn thread_names(
    proc: &Proc,
    process: &Process,
    limit: Duration,
    clock: &dyn Clock,
) -> Result<BTreeMap<u32, String>> {
    let place = || format!("JVM {}", process.pid);
    let cut = "until then only the first 15 characters of the names of its threads are known";
    let until = clock.now().plus(limit);
    let status = checked(process).map_err(|error| error.at(place()))?;
    let told = listening(proc, process, &status, until, clock).and_then(|stream| ask(stream, until, clock));
    let told = told.map_err(|error| {
        let error = error.at(place());
        error.remedy(format!("run osched as root or as the JVM's user, and check that the JVM is not stuck; {cut}"))
    })?;
    in_our_namespace(proc, process.pid, &status, told)
}

/// Refuses a process that SIGQUIT would end, or would make write its stacks to its log for nothing.
fn checked(process: &Process) -> Result<Status> {
    let status = Status::of(process.pid).ok_or_else(|| Error::outside("it has ended"))?;
    let command = &process.command;
    if command.contains("-XX:+DisableAttachMechanism") {
        let error = Error::user(
            "it was started with -XX:+DisableAttachMechanism: only the first 15 characters of the names of its threads \
             are known",
        );
        return Err(error.remedy("start it without this option"));
    }
    if command.contains("-XX:+UseOpenJ9") || has_library(process.pid, "libj9vm") {
        let error = Error::user("it is OpenJ9: only the first 15 characters of the names of its threads are known");
        return Err(error.remedy("use a JVM with HotSpot, such as OpenJDK's"));
    }
    if !status.catches(Signal::QUIT.as_raw()) {
        let error = Error::user(
            "it does not handle SIGQUIT: only the first 15 characters of the names of its threads are known",
        );
        return Err(error.remedy("start it without -Xrs; if it has just started, osched asks again later"));
    }
    Ok(status)
}

/// A connection to the JVM, which is made to listen if it does not yet.
fn listening(proc: &Proc, process: &Process, status: &Status, until: Nanos, clock: &dyn Clock) -> Result<UnixStream> {
    let folder = folder_of(process.pid).map_err(|error| failed("its /tmp cannot be opened", error))?;
    let socket = format!("/proc/self/fd/{}/.java_pid{}", folder.as_raw_fd(), status.inner_id);
    match reach(&socket, until, clock) {
        Err(Errno::NOENT | Errno::CONNREFUSED) => {}
        reached => return reached.map_err(|error| failed("it does not accept a connection", error)),
    }
    let name = format!(".attach_pid{}", status.inner_id);
    let _file =
        Request::create(&folder, name, status).map_err(|error| failed("no file can be created in its /tmp", error))?;
    signal(proc, process)?;
    loop {
        match reach(&socket, until, clock) {
            Err(Errno::NOENT | Errno::CONNREFUSED) if clock.now() < until => pause(LOOK),
            Err(Errno::NOENT | Errno::CONNREFUSED) => {
                return Err(Error::outside("it did not begin to listen for tools in time"));
            }
            reached => return reached.map_err(|error| failed("it does not accept a connection", error)),
        }
    }
}

fn failed(what: &str, error: Errno) -> Error {
    Error::outside(format!("{what}: {}", std::io::Error::from(error)))
}

/// The JVM's `/tmp`. A link in there is followed within the JVM's own root.
fn folder_of(pid: u32) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
    match openat2(&root, "tmp", flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        // A kernel, or a filter of system calls, without openat2.
        Err(Errno::NOSYS | Errno::PERM) => openat(&root, "tmp", flags | OFlags::NOFOLLOW, Mode::empty()),
        opened => opened,
    }
}

/// Connects within the time: a JVM that hangs does not accept.
fn reach(socket: &str, until: Nanos, clock: &dyn Clock) -> rustix::io::Result<UnixStream> {
    let rest = until.after(clock.now()).max(Duration::from_millis(1));
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(rest))?;
    connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(stream))
}

/// The file that tells SIGQUIT for this protocol from SIGQUIT for a dump to the log. It is removed when its
/// value is dropped.
struct Request<'a> {
    folder: &'a OwnedFd,
    name: String,
}

impl Request<'_> {
    fn create<'a>(folder: &'a OwnedFd, name: String, status: &Status) -> rustix::io::Result<Request<'a>> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = openat(folder, &name, flags, Mode::from_raw_mode(0o660));
        let request = Request { folder, name };
        match created {
            // Another tool is about to attach, or one has died before it could remove the file.
            Err(Errno::EXIST) => {}
            Err(error) => {
                std::mem::forget(request);
                return Err(error);
            }
            // The JVM ignores a file of another user.
            Ok(file) if geteuid().as_raw() != status.uid => {
                fchown(&file, Some(Uid::from_raw(status.uid)), Some(Gid::from_raw(status.gid)))?;
            }
            Ok(_) => {}
        }
        Ok(request)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        // The JVM does not care whether it stays; it is an empty file.
        let _ = unlinkat(self.folder, &self.name, rustix::fs::AtFlags::empty());
    }
}

/// Sends SIGQUIT to exactly this process: one that got its number since would end by it.
fn signal(proc: &Proc, process: &Process) -> Result<()> {
    let refused = |error| failed("SIGQUIT cannot be sent", error);
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH).map_err(refused)?;
    let held = pidfd_open(pid, PidfdFlags::empty()).map_err(refused)?;
    if !proc.is_process_alive(process.pid, process.start)? {
        return Err(refused(Errno::SRCH));
    }
    pidfd_send_signal(held, Signal::QUIT).map_err(refused)
}

/// Sends the request and reads the answer within the time.
fn ask(mut stream: UnixStream, until: Nanos, clock: &dyn Clock) -> Result<BTreeMap<u32, String>> {
    let broke = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            Error::outside("it did not list its threads in time")
        }
        _ => Error::outside(format!("the connection broke: {error}")),
    };
    stream.write_all(REQUEST).map_err(broke)?;
    let mut answer = Until { stream, until, clock };
    let mut code = [0; 2];
    answer.read_exact(&mut code).map_err(broke)?;
    if &code != b"0\n" {
        let mut why = code.to_vec();
        let _ = answer.take(QUOTED_BYTES).read_to_end(&mut why);
        return Err(Error::outside(format!(
            "it refused to list its threads: {}",
            String::from_utf8_lossy(&why).trim()
        )));
    }
    super::dump::parse(answer).map_err(broke)
}

/// Reads until a moment, however slowly the bytes come.
struct Until<'a> {
    stream: UnixStream,
    until: Nanos,
    clock: &'a dyn Clock,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = self.until.after(self.clock.now());
        if rest.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(rest))?;
        self.stream.read(buffer)
    }
}

/// Thread ids as this process sees them: a JVM in a container counts its own.
fn in_our_namespace(
    proc: &Proc,
    pid: u32,
    status: &Status,
    told: BTreeMap<u32, String>,
) -> Result<BTreeMap<u32, String>> {
    if !status.is_nested {
        return Ok(told);
    }
    let outer = |tid: u32| Some((tid, told.get(&Status::of_thread(pid, tid)?.inner_id)?.clone()));
    Ok(proc.threads(pid)?.iter().filter_map(|thread| outer(thread.id.tid)).collect())
}
