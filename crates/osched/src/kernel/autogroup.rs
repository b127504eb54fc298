//! Autogroups: with `sched_autogroup_enabled` the kernel gives each session a share of its own, so that nice
//! has no effect between threads of different sessions. Only threads in the root of the cpu controller are in
//! one.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::Result;

use super::{Hierarchy, Proc};

impl Proc {
    /// Whether the kernel puts sessions into autogroups.
    pub fn has_autogroups(&self) -> bool {
        self.text("sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
    }

    /// The autogroup in which a process competes, as the kernel names it: `/autogroup-42`. `None` if there is
    /// none, if a cgroup with a share takes its place, or if the process has ended.
    pub fn autogroup(&self, pid: u32) -> Result<Option<String>> {
        if !self.has_autogroups() || self.has_cpu_group(pid)? {
            return Ok(None);
        }
        Ok(self.text_if_alive(&format!("{pid}/autogroup")).ok().flatten().and_then(|text| parse(&text)))
    }

    /// Whether a cgroup below the root gives the process its share of the processor.
    fn has_cpu_group(&self, pid: u32) -> Result<bool> {
        if let Some(group) = self.process_group(pid, Hierarchy::V1)? {
            return Ok(group.path != "/");
        }
        let Some(mut group) = self.process_group(pid, Hierarchy::V2)? else { return Ok(false) };
        // The file exists in the groups that have a share. Those below belong to the nearest group above that
        // has one.
        while group.path != "/" {
            if self.group_folder(&group).is_ok_and(|folder| folder.join("cpu.weight").exists()) {
                return Ok(true);
            }
            group = group.parent();
        }
        Ok(false)
    }
}

/// Reads `/autogroup-42 nice -5`.
fn parse(text: &str) -> Option<String> {
    let (name, nice) = text.trim().split_once(" nice ")?;
    nice.parse::<i32>().is_ok().then(|| name.to_owned())
}

/// Which of these processes nice cannot weigh against each other, since autogroups separate them: the
/// processes of each autogroup. Empty if nice works between all of them.
pub fn separate_sessions(kernel: &Proc, pids: &BTreeSet<u32>) -> Result<BTreeMap<String, BTreeSet<u32>>> {
    let mut sessions: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for pid in pids {
        let name = kernel.autogroup(*pid)?.unwrap_or_default();
        sessions.entry(name).or_default().insert(*pid);
    }
    if sessions.len() < 2 || sessions.keys().all(String::is_empty) {
        sessions.clear();
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_kernel_is_read() {
        assert_eq!(parse("/autogroup-2842 nice -5\n").as_deref(), Some("/autogroup-2842"));
        assert_eq!((parse(""), parse("/autogroup-1 nice x")), (None, None));
    }
}
