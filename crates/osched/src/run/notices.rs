//! What the loop tells its user beside the figures.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::Result;

use super::watched::Watched;
use super::{NOTICES, Osched};
use crate::config::Property;
use crate::kernel::{Subject, separate_sessions};
use crate::translator::Write;

impl Osched {
    /// With autogroups, nice values have no effect between processes of different sessions.
    pub(super) fn tell_of_sessions(&mut self) -> Result<()> {
        let uses_nice = |name: &String| {
            let mut policies = self.policies.iter().filter(|policy| policy.config.targets.contains(name));
            policies.any(|policy| policy.properties().contains(&Property::Nice))
        };
        let targets = self.targets.iter().filter(|watched| uses_nice(&watched.name));
        let pids: BTreeSet<u32> = targets.flat_map(Watched::processes).collect();
        let sessions = separate_sessions(&self.kernel, &pids)?;
        if sessions.len() > 1 {
            let pids: Vec<String> = sessions.values().flatten().map(ToString::to_string).collect();
            self.notice(format!(
                "the kernel's autogroup is on: nice values have no effect between the processes {}, which are in different sessions; add a \
                 policy with group = \"query\"",
                pids.join(", ")
            ));
        }
        Ok(())
    }

    /// Says once what drivers leave alone.
    pub(super) fn tell_left_alone(&mut self) {
        let of = |watched: &Watched| {
            let of_target = |text: &String| format!("target '{}': {text}", watched.name);
            watched.left_alone.iter().map(of_target).collect::<Vec<_>>()
        };
        for text in self.targets.iter().flat_map(of).collect::<Vec<_>>() {
            if self.told.insert(text.clone()) {
                self.notice(text);
            }
        }
    }

    /// Says once for each process and reason what is not written.
    pub(super) fn tell_refused(&mut self, refused: &[(Write, String)]) {
        let mut of_reasons: BTreeMap<String, Vec<&Write>> = BTreeMap::new();
        for (write, why) in refused {
            let of = match write.change.subject() {
                Subject::Thread(thread, ..) => format!("process {} {why}", thread.pid),
                subject => format!("{subject:?} {why}"),
            };
            if !self.told.contains(&of) {
                of_reasons.entry(of).or_default().push(write);
            }
        }
        for (of, writes) in of_reasons {
            let others = match writes.len() {
                1 => String::new(),
                count => format!(", and {} more like this", count - 1),
            };
            let why = refused.iter().find(|(write, _)| std::ptr::eq(write, writes[0])).map_or("", |(_, why)| why);
            self.notice(format!("left out: {}{others}: {why}", writes[0]));
            self.told.insert(of);
        }
    }

    pub(super) fn notice(&self, text: String) {
        let mut status = self.lock();
        if status.notices.last() != Some(&text) {
            status.notices.push(text);
            status.notices_total += 1;
            let surplus = status.notices.len().saturating_sub(NOTICES);
            status.notices.drain(..surplus);
        }
    }
}
