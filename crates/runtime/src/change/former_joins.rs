//! Joins that a plan carries out at once, while what the job resumes from has the state of some of them alone.
//!
//! A query may have had fewer joins than it has now, or an option that divides them. The pairs of rows that a join of two
//! streams keeps do not follow from anything else in the checkpoint. So the job continues with the joins that it had.

use anabranch_dataflow::{KeptPart, Lineage, Plan, pair};
use anabranch_model::OperatorKind;

/// The plan with as many joins of two streams as these parts need to go on. Of statements with equal joins, those come first that have
/// the tables that the parts had; what is left goes to any.
pub(crate) fn with_former_joins(plan: &Plan, then: &[KeptPart]) -> Plan {
    let mut plan = plan.clone();
    for by_tables in [true, false] {
        // Stages before one that is divided keep their places.
        for id in plan.stages.iter().rev().map(|stage| stage.id).collect::<Vec<_>>() {
            let Some(spec) = plan.stage(id).multi_join() else { continue };
            // All of them last: then each is a join of two. Of those that keep as much, the one with the fewest joins.
            let candidates = (1..spec.chain.sides.len()).map(|last| plan.with_last_joins_of_two(id, last));
            let (mut most, mut best) = (kept(&plan, then), None);
            for candidate in candidates {
                let of = kept(&candidate, then);
                if if by_tables { of.0 > most.0 } else { of > most } {
                    (most, best) = (of, Some(candidate));
                }
            }
            plan = best.unwrap_or(plan);
        }
    }
    plan
}

/// How many states of the parts a plan has that have the tables before and after them that they had, those before them, and how many it
/// goes on with in all. A join of what another one gives may have the columns of that one.
fn kept(plan: &Plan, then: &[KeptPart]) -> (usize, usize, usize) {
    let now = plan.kept_parts();
    let is_state = |part: &&KeptPart| part.id.kind == OperatorKind::State;
    let same = |around: fn(&Lineage) -> (&[String], &[String])| {
        let of = |part: &KeptPart| {
            let (from, to) = around(&part.lineage);
            (part.key.clone(), from.to_vec(), to.to_vec())
        };
        let mut free: Vec<_> = now.iter().filter(is_state).map(of).collect();
        let same = then.iter().filter(is_state).map(of).filter(|then| {
            let place = free.iter().position(|now| now == then);
            place.map(|place| free.swap_remove(place)).is_some()
        });
        same.count()
    };
    let matching = pair(then, &now);
    let all = then.iter().enumerate().filter(|(place, part)| is_state(part) && matching.pairs.contains_key(place));
    (same(|of| (&of.from, &of.to)), same(|of| (&of.from, &[])), all.count())
}
