//! What `anabranch osched check` prints about this user and this machine: one line for each mechanism.

use std::fmt;
use std::path::Path;

use crate::kernel::{GroupPath, Hierarchy, Machine, NICE_RANGE, Proc};

use super::{Abilities, Ability, user};

/// The mechanisms and what limits them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In a fixed order.
    pub lines: Vec<Line>,
}

/// One mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its name, as translators have it.
    pub mechanism: &'static str,
    /// Whether it works.
    pub works: bool,
    /// How far, or why not.
    pub detail: String,
    /// What would make it work; empty if nothing is missing.
    pub remedy: String,
}

impl Report {
    /// From what was found by trying.
    pub fn new(kernel: &Proc, machine: &Machine, abilities: &Abilities) -> Report {
        let mut lines = vec![nice(abilities)];
        let groups = |hierarchy| match hierarchy {
            Hierarchy::V1 => ("shares", &abilities.v1, "cgroup v1: cpu.shares, quota and idle groups"),
            Hierarchy::V2 => ("weight", &abilities.v2, "cgroup v2 in place: cpu.weight, quota and idle groups"),
        };
        for hierarchy in [Hierarchy::V1, Hierarchy::V2] {
            let (mechanism, ability, detail) = groups(hierarchy);
            lines.push(line(mechanism, ability, detail));
        }
        lines.push(line("class (batch)", &abilities.batch, "for each thread"));
        lines.push(line("class (idle)", &abilities.idle, "for each thread, and back"));
        lines.push(line("slice", &abilities.slice, &slice_detail(machine)));
        lines.push(real_time(machine, abilities));
        lines.push(pressure(kernel));
        lines.extend(autogroup(kernel));
        lines.extend(manager(kernel));
        Report { lines }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Line { mechanism, works, detail, remedy } in &self.lines {
            writeln!(f, "{mechanism:<14} {:<4} {detail}", if *works { "yes" } else { "no" })?;
            if !remedy.is_empty() {
                writeln!(f, "{:<14}      help: {remedy}", "")?;
            }
        }
        Ok(())
    }
}

fn line(mechanism: &'static str, ability: &Ability, detail: &str) -> Line {
    match ability {
        Ability::Yes => Line { mechanism, works: true, detail: detail.to_owned(), remedy: String::new() },
        Ability::No { why, remedy } => Line { mechanism, works: false, detail: why.clone(), remedy: remedy.clone() },
    }
}

fn nice(abilities: &Abilities) -> Line {
    let (worst, best) = NICE_RANGE;
    let (works, detail) = match abilities.best_nice {
        nice if nice == best => (true, format!("{worst} to {best}, and back")),
        nice if nice <= 0 => (true, format!("{worst} to {nice}, and back")),
        nice => {
            (false, format!("user {} may raise it and not lower it below {nice} again, so it is not raised", user()))
        }
    };
    let remedy = "run osched as root or with CAP_SYS_NICE, or raise RLIMIT_NICE to 20 or more (ulimit -e, LimitNICE=)";
    let remedy = if abilities.best_nice == best { "" } else { remedy };
    Line { mechanism: "nice", works, detail, remedy: remedy.to_owned() }
}

fn slice_detail(machine: &Machine) -> String {
    let default_ms = machine.default_slice_ns.unwrap_or(0) as f64 / 1e6;
    format!("0.1 to 100 ms for each thread, by default {default_ms:.1} ms")
}

fn real_time(machine: &Machine, abilities: &Abilities) -> Line {
    let share = machine.real_time_share;
    let mut line =
        line("real-time", &abilities.real_time, &format!("the kernel's bound is {:.0} % of a core", share * 100.0));
    if line.works && (share.is_nan() || share > 0.95) {
        line.works = false;
        line.detail = "the kernel sets no bound to real-time threads".to_owned();
        line.remedy = "run 'sysctl kernel.sched_rt_runtime_us=950000'".to_owned();
    }
    line
}

fn pressure(kernel: &Proc) -> Line {
    let mechanism = "pressure";
    let Ok(Some(_)) = kernel.cpu_pressure_us() else {
        let detail = "this kernel does not account it: conditions on pressure never hold".to_owned();
        return Line { mechanism, works: false, detail, remedy: "boot with psi=1".to_owned() };
    };
    let window = std::time::Duration::from_millis(500);
    let (detail, remedy) = match kernel.trigger(0.1, window) {
        Ok(trigger) if trigger.window == window => ("with triggers".to_owned(), ""),
        Ok(trigger) => {
            let seconds = trigger.window.as_secs();
            (format!("with triggers of {seconds} s"), "CAP_SYS_RESOURCE allows triggers of 0.5 s")
        }
        Err(_) => {
            ("without triggers: it is read each period".to_owned(), "osched needs to write /proc/pressure/cpu for them")
        }
    };
    Line { mechanism, works: true, detail, remedy: remedy.to_owned() }
}

fn autogroup(kernel: &Proc) -> Option<Line> {
    let own = kernel.autogroup(std::process::id()).ok().flatten();
    (kernel.has_autogroups()).then(|| Line {
        mechanism: "autogroup",
        works: true,
        detail: match own {
            Some(group) => format!("on: nice has no effect between sessions (osched is in {group})"),
            None => "on, except in cgroups with a share: nice has no effect between sessions".to_owned(),
        },
        remedy:
            "for engines of several sessions use 'groups' or 'both', or run 'sysctl kernel.sched_autogroup_enabled=0'"
                .to_owned(),
    })
}

/// Another program that manages the cgroup of this process.
fn manager(kernel: &Proc) -> Option<Line> {
    let group = [Hierarchy::V2, Hierarchy::V1].into_iter().find_map(|hierarchy| {
        kernel.process_group(std::process::id(), hierarchy).ok().flatten().filter(|group| group.path != "/")
    })?;
    let name = manager_of(&group)?;
    Some(Line {
        mechanism: "manager",
        works: true,
        detail: format!("{name} manages {group}, and may remove groups in it"),
        remedy: match name {
            "systemd" => "give the engines' unit Delegate=cpu".to_owned(),
            _ => "run osched outside of containers, where it sees their cgroups".to_owned(),
        },
    })
}

pub(super) fn manager_of(group: &GroupPath) -> Option<&'static str> {
    let has = |part: &str| group.path.contains(part);
    if has("docker") || has("containerd") || has("kubepods") || has("libpod") || has("/lxc") {
        return Some("a container manager");
    }
    if [".service", ".scope", ".slice"].iter().any(|end| group.path.split('/').any(|part| part.ends_with(end))) {
        return Some("systemd");
    }
    let files = ["/.dockerenv", "/run/.containerenv"];
    files.iter().any(|file| Path::new(file).exists()).then_some("a container manager")
}
