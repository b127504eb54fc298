//! One server of a kind for all tests of a run, also where each test is a process: the first test that needs
//! it starts it, and it ends with the program that runs the tests. Needs nothing but the standard library.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The folder of the run's server of this kind, and the address that `start` gave for it. `start` is given
/// the folder and the process with which the server has to end; it is called once per run.
pub(crate) fn server_of_run(kind: &str, start: impl FnOnce(&Path, u32) -> String) -> (PathBuf, String) {
    let runner = std::os::unix::process::parent_id();
    let dir = std::env::temp_dir().join(format!("anabranch-{kind}-of-{runner}"));
    let (lock, address) = (dir.with_extension("lock"), dir.with_extension("address"));
    let lock = File::create(&lock).unwrap_or_else(|error| panic!("{}: {error}", lock.display()));
    lock.lock().expect("a lock of the server's file");
    // A server's folder is removed when its run has ended. Without the folder the address is of an earlier
    // run with the same number.
    let known = fs::read_to_string(&address).ok().filter(|_| dir.exists());
    let started = known.unwrap_or_else(|| {
        let started = start(&dir, runner);
        fs::write(&address, &started).unwrap_or_else(|error| panic!("{}: {error}", address.display()));
        started
    });
    (dir, started)
}
