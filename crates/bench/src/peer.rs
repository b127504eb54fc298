//! Peers: the same workloads in another stream processor, written as its users would write them.

pub(crate) mod fjall;
pub(crate) mod timely;
