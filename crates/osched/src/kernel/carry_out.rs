//! Carries out changes, reads them back, and tells what would undo them.

use std::io;
use std::path::Path;
use std::time::Duration;

use anabranch_model::{Error, Result, pause};
use anabranch_schedule::ThreadId;

use super::cgroup::members_file;
use super::{
    Change, GroupPath, GroupValue, Hierarchy, Proc, Quota, Scheduling, ThreadValue, if_there, is_gone, system_calls,
    unreadable,
};

/// How often threads are moved out of a group until none is left: their siblings start new ones meanwhile.
const EMPTYING_TRIES: usize = 50;
const EMPTYING_PAUSE: Duration = Duration::from_millis(2);

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It holds, as reading back has shown.
    Done,
    /// Its thread has ended, or the number belongs to another one now. Nothing was written.
    Gone,
    /// The kernel took the write, and yet has another value.
    Differs(Change),
}

impl Proc {
    /// Carries out a change and reads it back once.
    pub fn carry_out(&self, change: &Change) -> Result<Carried> {
        match change {
            Change::Thread { thread, value } => {
                if !self.is_alive(*thread)? {
                    return Ok(Carried::Gone);
                }
                if self.write_thread(*thread, value)?.is_none() {
                    return Ok(Carried::Gone);
                }
            }
            Change::Group { group, value } => self.write_group(group, *value)?,
            Change::Create { group } => self.create(group)?,
            Change::Remove { group } => return self.remove(group).map(|()| Carried::Done),
        }
        Ok(match self.present(change)? {
            None => Carried::Gone,
            Some(present) if present == *change => Carried::Done,
            Some(present) => Carried::Differs(present),
        })
    }

    /// The same change with the value that its subject has now: carrying that out later restores it. For a
    /// group that is to be made it is the removal, if it does not exist yet. `None` if the thread has ended
    /// or there is nothing to restore.
    pub fn present(&self, change: &Change) -> Result<Option<Change>> {
        match change {
            Change::Thread { thread, value } => {
                let value = self.present_of_thread(*thread, value)?;
                Ok(value.map(|value| Change::Thread { thread: *thread, value }))
            }
            Change::Group { group, value } => {
                let value = self.present_of_group(group, *value)?;
                Ok(value.map(|value| Change::Group { group: group.clone(), value }))
            }
            Change::Create { group } | Change::Remove { group } => {
                let group = group.clone();
                Ok(Some(if self.has_group(&group) { Change::Create { group } } else { Change::Remove { group } }))
            }
        }
    }

    fn present_of_thread(&self, thread: ThreadId, like: &ThreadValue) -> Result<Option<ThreadValue>> {
        Ok(match like {
            ThreadValue::Nice(_) => self.nice(thread)?.map(ThreadValue::Nice),
            ThreadValue::Class(_) => self.scheduling(thread)?.map(|now| ThreadValue::Class(now.class)),
            ThreadValue::SliceNs(_) => self.scheduling(thread)?.and_then(|now| now.slice_ns).map(ThreadValue::SliceNs),
            ThreadValue::Group(group) => self.thread_group(thread, group.hierarchy)?.map(ThreadValue::Group),
        })
    }

    /// The value of a group that is of the same kind as `like`. `None` if the group does not exist.
    pub(super) fn present_of_group(&self, group: &GroupPath, like: GroupValue) -> Result<Option<GroupValue>> {
        let folder = self.group_folder(group)?;
        let number = |name: &str| Ok::<_, Error>(read(&folder, name)?.and_then(|text| text.parse::<i64>().ok()));
        Ok(match like {
            GroupValue::Shares(_) => number("cpu.shares")?.map(|n| GroupValue::Shares(n.unsigned_abs())),
            GroupValue::Weight(_) => number("cpu.weight")?.map(|n| GroupValue::Weight(n.unsigned_abs())),
            GroupValue::Idle(_) => number("cpu.idle")?.map(|n| GroupValue::Idle(n != 0)),
            GroupValue::CpuControl(_) => read(&folder, "cgroup.subtree_control")?
                .map(|text| GroupValue::CpuControl(text.split(' ').any(|name| name == "cpu"))),
            GroupValue::Quota(_) if group.hierarchy == Hierarchy::V1 => {
                let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
                quota.zip(period).map(|(quota, period)| {
                    GroupValue::Quota(Quota { quota_us: u64::try_from(quota).ok(), period_us: period.unsigned_abs() })
                })
            }
            GroupValue::Quota(_) => read(&folder, "cpu.max")?.and_then(|text| {
                let (quota, period) = text.split_once(' ')?;
                Some(GroupValue::Quota(Quota { quota_us: quota.parse().ok(), period_us: period.parse().ok()? }))
            }),
        })
    }

    /// `None` if the thread has ended.
    fn write_thread(&self, thread: ThreadId, value: &ThreadValue) -> Result<Option<()>> {
        let written = match value {
            ThreadValue::Nice(nice) => if_there(system_calls::set_nice(thread.tid, *nice)),
            ThreadValue::Class(class) => {
                let Some(now) = self.scheduling(thread)? else { return Ok(None) };
                self.set_scheduling(thread, Scheduling { class: *class, ..now })
            }
            ThreadValue::SliceNs(slice) => {
                let Some(now) = self.scheduling(thread)? else { return Ok(None) };
                // Another class has no slice. Its thread gets the default one when it returns to the usual
                // class.
                if now.class.policy.is_foreign() {
                    return Ok(Some(()));
                }
                self.set_scheduling(thread, Scheduling { slice_ns: Some(*slice), ..now })
            }
            ThreadValue::Group(group) => {
                let file = self.group_folder(group)?.join(members_file(group.hierarchy));
                let written = std::fs::write(&file, thread.tid.to_string());
                if let Err(error) = &written
                    && error.raw_os_error() == Some(libc::ENOENT)
                {
                    return Err(refused_group("move a thread to", group, error));
                }
                if_there(written)
            }
        };
        written.map_err(|error| refused(value.kind(), thread, &error))
    }

    fn set_scheduling(&self, thread: ThreadId, mut scheduling: Scheduling) -> io::Result<Option<()>> {
        // The default slice is not written as a number: the thread would keep it if the default changed.
        if scheduling.slice_ns == self.default_slice_ns() {
            scheduling.slice_ns = None;
        }
        if_there(system_calls::set_scheduling(thread.tid, scheduling))
    }

    fn write_group(&self, group: &GroupPath, value: GroupValue) -> Result<()> {
        let folder = self.group_folder(group)?;
        let write = |name: &str, text: String| {
            std::fs::write(folder.join(name), text)
                .map_err(|error| refused_group(&format!("write {name} of"), group, &error))
        };
        match value {
            GroupValue::Shares(shares) => write("cpu.shares", shares.to_string()),
            GroupValue::Weight(weight) => write("cpu.weight", weight.to_string()),
            GroupValue::Idle(is_idle) => write("cpu.idle", u8::from(is_idle).to_string()),
            GroupValue::CpuControl(has) => {
                write("cgroup.subtree_control", if has { "+cpu" } else { "-cpu" }.to_owned())
            }
            GroupValue::Quota(Quota { quota_us, period_us }) if group.hierarchy == Hierarchy::V1 => {
                // Without a quota between both writes: a new period with the former quota may be refused.
                write("cpu.cfs_quota_us", "-1".to_owned())?;
                write("cpu.cfs_period_us", period_us.to_string())?;
                quota_us.map_or(Ok(()), |quota| write("cpu.cfs_quota_us", quota.to_string()))
            }
            GroupValue::Quota(Quota { quota_us, period_us }) => {
                let quota = quota_us.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
                write("cpu.max", format!("{quota} {period_us}"))
            }
        }
    }

    fn create(&self, group: &GroupPath) -> Result<()> {
        let folder = self.group_folder(group)?;
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(refused_group("make", group, &error));
            }
            _ => {}
        }
        if group.hierarchy == Hierarchy::V2 && read(&folder, "cgroup.type")?.as_deref() != Some("threaded") {
            std::fs::write(folder.join("cgroup.type"), "threaded")
                .map_err(|error| refused_group("write cgroup.type of", group, &error))?;
        }
        Ok(())
    }

    /// Removing a group that does not exist is no error.
    fn remove(&self, group: &GroupPath) -> Result<()> {
        let folder = self.group_folder(group)?;
        let parent = self.group_folder(&group.parent())?.join(members_file(group.hierarchy));
        let mut refusal = None;
        for _ in 0..EMPTYING_TRIES {
            for tid in self.members(group)? {
                // A thread that ended meanwhile needs no move. Other refusals show when the group is removed.
                refusal = std::fs::write(&parent, tid.to_string()).err().filter(|e| !is_gone(e)).or(refusal);
            }
            match if_there(std::fs::remove_dir(&folder)) {
                Ok(_) => return Ok(()),
                // A thread was started in it, or one that has ended is still counted.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    refusal = refusal.or(Some(error));
                }
                Err(error) => return Err(refused_group("remove", group, &error)),
            }
            pause(EMPTYING_PAUSE);
        }
        let refusal = refusal.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EBUSY));
        Err(refused_group("remove", group, &refusal))
    }
}

/// The text of a file of a group without its line end. `None` if the group or the file does not exist.
fn read(folder: &Path, name: &str) -> Result<Option<String>> {
    let path = folder.join(name);
    let text = if_there(std::fs::read_to_string(&path)).map_err(|error| unreadable(&path, &error))?;
    Ok(text.map(|text| text.trim_end().to_owned()))
}

/// The kernel refused to read or write a value of a thread.
pub(super) fn refused(kind: &str, thread: ThreadId, error: &io::Error) -> Error {
    let remedy = match (error.raw_os_error(), kind) {
        (Some(libc::EACCES | libc::EPERM), "group") => {
            "run osched as root, or let this user write the cgroup (Delegate=cpu)"
        }
        (Some(libc::EACCES | libc::EPERM), _) => {
            "run osched as root or with CAP_SYS_NICE; for nice of this user's own engines, RLIMIT_NICE is enough"
        }
        (Some(libc::EOPNOTSUPP), "group") => "use the translator 'nice': this cgroup cannot hold single threads",
        _ => "choose another translator; 'anabranch osched check' lists what works here",
    };
    Error::outside(format!("cannot change the {kind}: {error}"))
        .at(format!("thread {} of process {}", thread.tid, thread.pid))
        .remedy(remedy)
}

fn refused_group(action: &str, group: &GroupPath, error: &io::Error) -> Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EROFS) => "mount the cgroups writable: in a container, run it privileged or osched outside of it",
        Some(libc::EACCES | libc::EPERM) => {
            "run osched as root, or let this user write the cgroup (systemd: Delegate=cpu; v1 has no delegation)"
        }
        Some(libc::EOPNOTSUPP | libc::EBUSY) if group.hierarchy == Hierarchy::V2 => {
            "another manager uses this cgroup: its processes and controllers exclude threaded groups; use 'nice'"
        }
        Some(libc::EBUSY) => "its threads cannot be moved; 'anabranch osched restore' tries again",
        Some(libc::ENOENT) => {
            "the cgroup or its cpu controller is missing (systemd: CPUWeight= of the unit switches it on); use 'nice'"
        }
        Some(libc::EINVAL) => "the value does not fit into what the groups above allow, such as their quota",
        _ => "choose the translator 'nice'; 'anabranch osched check' lists what works here",
    };
    Error::outside(format!("cannot {action} it: {error}")).at(group.to_string()).remedy(remedy)
}
