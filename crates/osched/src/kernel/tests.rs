//! Folders of the form of `/proc` and of cgroups, where no real one serves: machines with version 2, files
//! that vanish.

use std::fs;
use std::path::Path;

use anabranch_schedule::ThreadId;

use super::*;

fn v2(path: &str) -> GroupPath {
    GroupPath { hierarchy: Hierarchy::V2, path: path.into() }
}

/// A folder in the place of a mounted cgroup of version 2, and a process 42 with a thread 43 in the group
/// `/a/b`.
fn pretended(folder: &Path) -> Proc {
    let (proc, groups) = (folder.join("proc"), folder.join("cgroup"));
    fs::create_dir_all(proc.join("42/task/43")).expect("a folder");
    fs::create_dir_all(groups.join("a/b")).expect("a folder");
    let write = |path: &str, text: &str| fs::write(folder.join(path), text).expect("a file");
    let stat = |number: u32, start: u32| format!("{number} (x y) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {start} 0 0");
    write("proc/42/stat", &stat(42, 700));
    write("proc/42/status", "Name:\tx\nUid:\t5\t6\t7\t8\n");
    write("proc/42/cmdline", "java\0-cp\0a b\0");
    write("proc/42/cgroup", "0::/a/b\n");
    write("proc/42/task/43/stat", &stat(43, 800));
    write("proc/42/task/43/cgroup", "0::/a/b\n");
    write("cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    write("cgroup/cpuset.cpus.effective", "0-3\n");
    write("cgroup/a/cpu.weight", "100\n");
    write("cgroup/a/b/cpu.weight", "300\n");
    write("cgroup/a/b/cpu.max", "50000 100000\n");
    write("cgroup/a/b/cpu.idle", "0\n");
    write("cgroup/a/b/cgroup.subtree_control", "memory cpu\n");
    let mounts = format!("1 1 0:1 / {} rw - cgroup2 cgroup2 rw", groups.display());
    Proc::at(proc, Cgroups::of_mounts(&mounts))
}

#[test]
fn a_machine_of_version_2_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = pretended(folder.path());
    assert_eq!(kernel.cgroups().with_cpu(), Some(Hierarchy::V2));
    let process = kernel.process(42).expect("files").expect("a process");
    assert_eq!((process.uid, process.start, &*process.command), (6, 700, "java -cp a b"));
    let id = ThreadId { pid: 42, process_start: 700, tid: 43, start: 800 };
    assert_eq!(kernel.threads(42).expect("files"), [NamedThread { id, name: "x y".into() }]);
    assert!(kernel.is_alive(id).expect("files"));
    for other in [ThreadId { start: 801, ..id }, ThreadId { process_start: 1, ..id }, ThreadId { tid: 44, ..id }] {
        assert!(!kernel.is_alive(other).expect("files"), "{other:?}");
    }
    assert_eq!(kernel.thread_group(id, Hierarchy::V2).expect("files"), Some(v2("/a/b")));
    assert_eq!(kernel.thread_group(id, Hierarchy::V1).expect("files"), None);
    assert_eq!(kernel.cpuset(42).expect("files").as_deref(), Some("0-3"), "of the root, as no group has its own");
    let value = |like| kernel.present_of_group(&v2("/a/b"), like).expect("files");
    assert_eq!(value(GroupValue::Weight(0)), Some(GroupValue::Weight(300)));
    let quota = Quota { quota_us: Some(50_000), period_us: 100_000 };
    assert_eq!(value(GroupValue::Quota(Quota { quota_us: None, period_us: 0 })), Some(GroupValue::Quota(quota)));
    assert_eq!(value(GroupValue::Idle(true)), Some(GroupValue::Idle(false)));
    assert_eq!(value(GroupValue::CpuControl(false)), Some(GroupValue::CpuControl(true)));
    assert_eq!(value(GroupValue::Shares(0)), None);
}

#[test]
fn a_group_in_use_elsewhere_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = pretended(folder.path());
    let missing = kernel.carry_out(&Change::Group { group: v2("/a/none"), value: GroupValue::Weight(5) });
    let error = missing.expect_err("there is no such group");
    assert!(error.to_string().starts_with("cgroup /a/none (v2): cannot write cpu.weight of it"), "{error}");
    let outside = kernel.group_folder(&v2("/../other")).expect_err("outside of the mount");
    assert!(outside.help().is_some_and(|help| help.contains("namespace")), "{outside}");
    let v1 = GroupPath { hierarchy: Hierarchy::V1, path: "/".into() };
    let error = kernel.group_folder(&v1).expect_err("not mounted");
    assert!(error.to_string().contains("cgroups v1 are not mounted"), "{error}");
    // Removing what is not there is no error: an undo may come twice.
    assert_eq!(kernel.carry_out(&Change::Remove { group: v2("/a/none") }).expect("nothing"), Carried::Done);
}

#[test]
fn this_machine_tells_its_boot_and_its_time() {
    let kernel = Proc::new().expect("/proc");
    assert!(kernel.boot().expect("/proc").len() >= 32 && kernel.cores() >= 1);
    let started = kernel.process(std::process::id()).expect("/proc").expect("this process").start;
    let ticks = kernel.ticks().expect("/proc");
    assert!(ticks + 1 >= started, "{ticks}, {started}");
    let share = kernel.real_time_share();
    assert!(share.is_nan() || (0.0..=1.0).contains(&share), "{share}");
}

#[test]
fn one_thread_of_this_process_changes_and_the_others_do_not() {
    let kernel = Proc::new().expect("/proc");
    let own = system_calls::scheduling(0).expect("own");
    let batch = Scheduling { class: Class { policy: Policy::Batch, ..own.class }, ..own };
    let changed = std::thread::Builder::new().spawn(move || {
        system_calls::set_scheduling(0, batch).expect("any user may");
        system_calls::scheduling(0).expect("own")
    });
    assert_eq!(changed.expect("a thread").join().expect("no panic"), batch);
    assert_eq!(system_calls::scheduling(0).expect("own"), own);
    assert_eq!(kernel.default_slice_ns().is_some(), own.slice_ns.is_some());
}
