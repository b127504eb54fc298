//! Peers: the same workloads in other systems, written as their users would write them.

pub(crate) mod fjall;
pub(crate) mod timely;
