//! Changing a running job: one function for jobs of this process and for those of a cluster.

use anabranch_dataflow::Plan;
use anabranch_model::PlanVersion;
use anabranch_runtime::{Moves, Reconfigure, Reconfigured};

use super::embedded::EmbeddedJob;
use super::jobs::Refusal;
use super::reconfigure::ReconfigureOrder;

/// Is told the version that a job's plan will have.
pub(crate) type Note<'a> = &'a mut dyn FnMut(PlanVersion) -> Result<(), Refusal>;

/// Lets a job continue by the plan of an order, or says what that would do. The plan gets the form in which
/// the job keeps most of what it has. If `note` is given, it is called before anything is changed.
pub(crate) fn alter(
    job: &EmbeddedJob,
    order: &ReconfigureOrder,
    plan: &Plan,
    moves: &Moves,
    note: Option<Note<'_>>,
) -> Result<Reconfigured, Refusal> {
    let ReconfigureOrder { allow_lost_state, allow_late, dry_run, .. } = *order;
    let request =
        |dry_run| Reconfigure { plan: plan.clone(), moves: moves.clone(), allow_lost_state, allow_late, dry_run };
    if let Some(note) = note.filter(|_| !dry_run) {
        note(job.change(request(true))?.next)?;
    }
    job.change(request(dry_run))
}
