//! What the loop tells its user beside the figures.

use std::collections::BTreeSet;

use anabranch_model::Result;

use super::watched::Watched;
use super::{NOTICES, Osched};
use crate::config::Property;
use crate::kernel::separate_sessions;

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
        let left_alone: Vec<String> = self.targets.iter().flat_map(Watched::left_alone).collect();
        for text in left_alone {
            if self.told.insert(text.clone()) {
                self.notice(text);
            }
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
