//! Cgroups with the cpu controller: version 1 (`cpu.shares`) or version 2 (`cpu.weight`). A machine has the
//! controller in one of both.

use std::fmt;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};
use anabranch_schedule::ThreadId;
use serde::{Deserialize, Serialize};

use super::{Proc, if_there, system_calls, unreadable};

/// A tree of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hierarchy {
    /// That of the cpu controller of version 1.
    V1,
    /// The one tree of version 2.
    V2,
}

impl fmt::Display for Hierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hierarchy::V1 => "v1",
            Hierarchy::V2 => "v2",
        })
    }
}

/// A cgroup, by its path from the root of its tree as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupPath {
    /// Its tree.
    pub hierarchy: Hierarchy,
    /// Begins with `/` and does not end with it, except for the root.
    pub path: String,
}

impl GroupPath {
    /// The group in which it lies; the root lies in itself.
    #[must_use]
    pub fn parent(&self) -> GroupPath {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let path = if parent.is_empty() { "/" } else { parent };
        GroupPath { hierarchy: self.hierarchy, path: path.to_owned() }
    }

    /// A group in it. The name must not contain `/`.
    #[must_use]
    pub fn child(&self, name: &str) -> GroupPath {
        let path = format!("{}/{name}", self.path.trim_end_matches('/'));
        GroupPath { hierarchy: self.hierarchy, path }
    }

    /// Whether the osched that calls its groups `label` has made it.
    #[must_use]
    pub fn is_of(&self, label: &str) -> bool {
        self.name().strip_prefix(label).is_some_and(|rest| rest.starts_with('.'))
    }

    /// The group in which a thread was before that osched moved it here.
    #[must_use]
    pub fn home(&self, label: &str) -> GroupPath {
        let mut home = self.clone();
        while home.is_of(label) {
            home = home.parent();
        }
        home
    }

    /// Its last part, empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for GroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cgroup {} ({})", self.path, self.hierarchy)
    }
}

/// Where the trees of cgroups are mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    v1: Option<Mount>,
    v2: Option<Mount>,
    cpuset_v1: Option<Mount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    folder: PathBuf,
    /// The group that is visible at the folder: not `/` in a container whose cgroups are mounted from its
    /// host.
    root: String,
    is_writable: bool,
}

impl Cgroups {
    /// From the text of `/proc/self/mountinfo`.
    pub fn of_mounts(mounts: &str) -> Cgroups {
        let mut cgroups = Cgroups::default();
        for line in mounts.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let before: Vec<&str> = before.split(' ').collect();
            let after: Vec<&str> = after.split(' ').collect();
            let ([_, _, _, root, folder, options, ..], [kind, _, super_options]) = (&before[..], &after[..]) else {
                continue;
            };
            let has = |options: &str, name: &str| options.split(',').any(|option| option == name);
            let mount = Mount {
                folder: PathBuf::from(unescaped(folder)),
                root: unescaped(root),
                is_writable: has(options, "rw") && has(super_options, "rw"),
            };
            match *kind {
                "cgroup2" => drop(cgroups.v2.get_or_insert(mount)),
                "cgroup" if has(super_options, "cpu") => {
                    if has(super_options, "cpuset") {
                        cgroups.cpuset_v1.get_or_insert(mount.clone());
                    }
                    cgroups.v1.get_or_insert(mount);
                }
                "cgroup" if has(super_options, "cpuset") => drop(cgroups.cpuset_v1.get_or_insert(mount)),
                _ => {}
            }
        }
        cgroups
    }

    /// The tree that has the cpu controller: v1 where that is mounted, else v2 if its root has the
    /// controller.
    pub fn with_cpu(&self) -> Option<Hierarchy> {
        if self.v1.is_some() {
            return Some(Hierarchy::V1);
        }
        has_cpu_controller(&self.v2.as_ref()?.folder).then_some(Hierarchy::V2)
    }

    /// Whether a tree is mounted, and whether it may be written as far as the mount tells.
    pub fn is_writable(&self, hierarchy: Hierarchy) -> Option<bool> {
        self.mount(hierarchy).map(|mount| mount.is_writable)
    }

    fn mount(&self, hierarchy: Hierarchy) -> Option<&Mount> {
        match hierarchy {
            Hierarchy::V1 => self.v1.as_ref(),
            Hierarchy::V2 => self.v2.as_ref(),
        }
    }
}

impl Mount {
    /// The folder of a group, `None` if it is not visible below this mount.
    fn folder_of(&self, path: &str) -> Option<PathBuf> {
        let below = if self.root == "/" { path } else { path.strip_prefix(self.root.as_str())? };
        let below = below.trim_start_matches('/');
        let is_inside = !below.split('/').any(|part| part == "..") && !below.contains('\0');
        is_inside.then(|| self.folder.join(below))
    }
}

impl Proc {
    /// The group of a process (of its first thread), `None` if the process or the tree does not exist.
    pub fn process_group(&self, pid: u32, hierarchy: Hierarchy) -> Result<Option<GroupPath>> {
        Ok(self.text_if_alive(&format!("{pid}/cgroup"))?.and_then(|text| group_in(&text, hierarchy)))
    }

    /// The group of a thread, `None` if the thread or the tree does not exist. The times of the thread are
    /// not compared.
    pub fn thread_group(&self, thread: ThreadId, hierarchy: Hierarchy) -> Result<Option<GroupPath>> {
        let path = format!("{}/task/{}/cgroup", thread.pid, thread.tid);
        Ok(self.text_if_alive(&path)?.and_then(|text| group_in(&text, hierarchy)))
    }

    /// The cores that the cpuset of a process lets it use, as the kernel lists them (`0-3,7`). `None` if
    /// there are no cpusets.
    pub fn cpuset(&self, pid: u32) -> Result<Option<String>> {
        let Some(text) = self.text_if_alive(&format!("{pid}/cgroup"))? else { return Ok(None) };
        if let Some(mount) = &self.cgroups.cpuset_v1 {
            let path = group_of_controller(&text, "cpuset");
            let folder = path.and_then(|path| mount.folder_of(path));
            return Ok(folder.and_then(|folder| first_text(&folder, &["cpuset.effective_cpus", "cpuset.cpus"])));
        }
        let mut group = group_in(&text, Hierarchy::V2);
        while let Some(path) = group {
            let folder = self.group_folder(&path).ok();
            if let Some(cores) = folder.and_then(|folder| first_text(&folder, &["cpuset.cpus.effective"])) {
                return Ok(Some(cores));
            }
            group = (path.path != "/").then(|| path.parent());
        }
        Ok(None)
    }

    /// The folder of a group.
    pub fn group_folder(&self, group: &GroupPath) -> Result<PathBuf> {
        let mount = self.cgroups.mount(group.hierarchy).ok_or_else(|| {
            Error::outside(format!("cgroups {} are not mounted", group.hierarchy))
                .remedy("use the translator 'nice', or mount /sys/fs/cgroup")
        })?;
        mount.folder_of(&group.path).ok_or_else(|| {
            Error::outside(format!("{group} is outside of what is mounted at {}", mount.folder.display()))
                .remedy("run osched outside of the container, or in the cgroup namespace of the engines")
        })
    }

    /// Whether a group exists.
    pub fn has_group(&self, group: &GroupPath) -> bool {
        self.group_folder(group).is_ok_and(|folder| folder.is_dir())
    }

    /// The names of the groups in a group, in order.
    pub fn children(&self, group: &GroupPath) -> Result<Vec<GroupPath>> {
        let folder = self.group_folder(group)?;
        let entries = if_there(std::fs::read_dir(&folder)).map_err(|error| unreadable(&folder, &error))?;
        let folders = entries
            .into_iter()
            .flatten()
            .map_while(|e| e.ok())
            .filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut children: Vec<GroupPath> =
            folders.filter_map(|entry| Some(group.child(entry.file_name().to_str()?))).collect();
        children.sort_unstable();
        Ok(children)
    }

    /// Why this user can make no groups with a weight in a group, `None` if it can.
    pub fn takes_no_groups(&self, group: &GroupPath) -> Option<&'static str> {
        let Ok(folder) = self.group_folder(group) else { return Some("its cgroup is not visible here") };
        if group.hierarchy == Hierarchy::V2 && !has_cpu_controller(&folder) {
            return Some("its cgroup has no cpu controller (systemd: CPUWeight= of the unit switches it on)");
        }
        let may_write = system_calls::may_write(&folder);
        (!may_write).then_some("this user may not write its cgroup (systemd: Delegate=cpu of the unit)")
    }

    /// The threads of all processes in a group, without those of the groups in it. None if the group does not
    /// exist.
    pub(super) fn members(&self, group: &GroupPath) -> Result<Vec<u32>> {
        let path = self.group_folder(group)?.join(members_file(group.hierarchy));
        let text = if_there(std::fs::read_to_string(&path)).map_err(|error| unreadable(&path, &error))?;
        Ok(text.unwrap_or_default().lines().filter_map(|line| line.trim().parse().ok()).collect())
    }
}

/// Whether the cgroup of version 2 in a folder has the cpu controller.
pub(crate) fn has_cpu_controller(folder: &Path) -> bool {
    let text = std::fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    text.split_ascii_whitespace().any(|name| name == "cpu")
}

/// The file that lists the threads of a group, and takes further ones.
pub(super) fn members_file(hierarchy: Hierarchy) -> &'static str {
    match hierarchy {
        Hierarchy::V1 => "tasks",
        Hierarchy::V2 => "cgroup.threads",
    }
}

fn first_text(folder: &Path, names: &[&str]) -> Option<String> {
    let text = names.iter().find_map(|name| std::fs::read_to_string(folder.join(name)).ok())?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// From the lines `ID:CONTROLLERS:PATH` of `/proc/PID/cgroup`.
fn group_in(text: &str, hierarchy: Hierarchy) -> Option<GroupPath> {
    let path = match hierarchy {
        Hierarchy::V1 => group_of_controller(text, "cpu")?,
        Hierarchy::V2 => text.lines().find_map(|line| line.strip_prefix("0::"))?,
    };
    Some(GroupPath { hierarchy, path: path.to_owned() })
}

fn group_of_controller<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// The kernel writes spaces, tabs, line ends and backslashes of paths as octal numbers.
fn unescaped(path: &str) -> String {
    let mut text = path.to_owned();
    for (escape, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        text = text.replace(escape, character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(path: &str) -> GroupPath {
        GroupPath { hierarchy: Hierarchy::V1, path: path.into() }
    }

    #[test]
    fn paths_have_parents_and_children() {
        assert_eq!((v1("/a/b").parent(), v1("/a").parent(), v1("/").parent()), (v1("/a"), v1("/"), v1("/")));
        assert_eq!((v1("/").child("x"), v1("/a").child("x")), (v1("/x"), v1("/a/x")));
        assert_eq!((v1("/a/b").name(), v1("/").name()), ("b", ""));
    }

    #[test]
    fn mounts_of_both_versions_are_found() {
        let hybrid = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified\\040two ro,relatime - cgroup2 cgroup2 rw,nsdelegate";
        let found = Cgroups::of_mounts(hybrid);
        assert_eq!((found.is_writable(Hierarchy::V1), found.is_writable(Hierarchy::V2)), (Some(true), Some(false)));
        assert_eq!(found.with_cpu(), Some(Hierarchy::V1));
        assert_eq!(found.v2.map(|mount| mount.folder), Some(PathBuf::from("/sys/fs/cgroup/unified two")));
        assert!(found.cpuset_v1.is_some());
        assert_eq!(Cgroups::of_mounts("\nx y - z\n").with_cpu(), None);
    }

    #[test]
    fn a_group_is_found_below_the_root_of_a_container() {
        let mount = Mount { folder: "/sys/fs/cgroup/cpu".into(), root: "/docker/abc".into(), is_writable: true };
        assert_eq!(mount.folder_of("/docker/abc/x"), Some(PathBuf::from("/sys/fs/cgroup/cpu/x")));
        assert_eq!((mount.folder_of("/other"), mount.folder_of("/docker/abc/../x")), (None, None));
    }

    #[test]
    fn the_group_of_a_process_is_that_of_the_controller() {
        let text = "9:name=systemd:/\n4:memory:/m\n2:cpuacct,cpu:/a/b\n0::/u\n";
        assert_eq!(group_in(text, Hierarchy::V1), Some(v1("/a/b")));
        assert_eq!(group_in(text, Hierarchy::V2).map(|group| group.path), Some("/u".into()));
        assert_eq!((group_in("0::/u", Hierarchy::V1), group_in("", Hierarchy::V2)), (None, None));
    }
}
