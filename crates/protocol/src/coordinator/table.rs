//! The machines of a coordinator, and their document.

use crate::table::Machine;

/// The machines of a coordinator by name, with what each is for and its transitions.
pub const MACHINES: &[Machine] = &[
    ("life", "the job from its start to its end, over all incarnations", super::life::TABLE),
    ("log", "the durable log: put-if-absent of numbered entries; also the fence", super::log::TABLE),
    ("grants", "groups of epochs, within one incarnation", super::grants::TABLE),
    ("quiet", "whether the next group is wanted", super::quiet::TABLE),
    ("group size", "the number of epochs of the next group", super::group_size::TABLE),
    ("checkpoints", "each checkpoint on its own, within one incarnation", super::checkpoints::TABLE),
];

/// The machines as a document: for each a diagram of its states and the table.
#[must_use]
pub fn document() -> String {
    crate::table::document(HEAD, MACHINES)
}

const HEAD: &str = "\
# The coordinator

Generated from the transition tables in `crates/protocol/src/coordinator/`; `UPDATE_GOLDEN=1 cargo test -p
anabranch-protocol` writes it anew. The machines are composed in `crates/protocol/src/coordinator.rs`: a report of a
task passes the fence (its incarnation must be the present one) and then reaches every machine that it concerns.
";
