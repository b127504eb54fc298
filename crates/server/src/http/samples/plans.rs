//! The plans by which a job has run, as documents, for as long as there are samples of them.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::Plan;
use hyper::body::Bytes;

use super::super::documents::PlanDocument;

/// By their versions.
#[derive(Default)]
pub(super) struct Plans(BTreeMap<u32, Bytes>);

impl Plans {
    /// The job runs by this plan. Others are kept whose versions have samples, the newest ones within a
    /// number of bytes.
    pub(super) fn note(&mut self, plan: &Plan, sampled: impl FnOnce() -> BTreeSet<u32>, bytes_max: usize) {
        let version = plan.version.0;
        if !self.0.contains_key(&version) {
            let document = serde_json::to_string(&PlanDocument::of_job(plan));
            self.0.extend(document.ok().map(|document| (version, Bytes::from(document + "\n"))));
        }
        if self.0.len() > 1 {
            let sampled = sampled();
            self.0.retain(|of, _| *of == version || sampled.contains(of));
        }
        while self.0.len() > 1 && self.bytes() > bytes_max {
            self.0.pop_first();
        }
    }

    fn bytes(&self) -> usize {
        self.0.values().map(Bytes::len).sum()
    }

    pub(super) fn get(&self, version: u32) -> Option<Bytes> {
        self.0.get(&version).cloned()
    }

    /// Those that are kept.
    pub(super) fn versions(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }
}
