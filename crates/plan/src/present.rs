//! The form of a plan in which a job keeps most of what it has.
//!
//! Some plans have several forms that give the same rows: joins at once or one after the other, a source for
//! several statements or one for each. They keep different things, and none of these follows from the others.
//! So what is present, in a job that runs, a checkpoint or a savepoint, is an input of planning.

use anabranch_dataflow::{KeptPart, Lineage, PartKey, Plan, SourceSpec, Stage, pair};
use anabranch_model::{OperatorKind, Result};

/// The plan in the form that keeps most of what is `present`, which is asked for only if there is a choice.
/// What its stages have in common they do once.
pub fn fitted(plan: &Plan, present: impl FnOnce() -> Result<Vec<KeptPart>>) -> Result<Plan> {
    let has_joins_at_once = plan.stages.iter().any(|stage| stage.multi_join().is_some());
    if !has_joins_at_once && plan.shared_sources().next().is_none() {
        return Ok(plan.with_equal_stages_once());
    }
    let present = present()?;
    Ok(with_own_sources(with_former_joins(plan, &present), &present).with_equal_stages_once())
}

/// The plan in the form for a job that has another plan.
pub fn fitted_to(plan: &Plan, present: &Plan) -> Result<Plan> {
    fitted(plan, || Ok(present.kept_parts()))
}

/// The plan with as many sources of each table as the present parts need to continue. Statements that read a
/// table in different ways have a source each, and each source has its own positions. If the new statements
/// read it in the same way, no source can stand for the others: rows would be lost or read twice.
fn with_own_sources(mut plan: Plan, present: &[KeptPart]) -> Plan {
    let mut tables: Vec<PartKey> = Vec::new();
    for table in plan.shared_sources().filter_map(key) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    for table in tables {
        let is_it = |part: &KeptPart| part.id.kind == OperatorKind::Source && part.key == table;
        if present.iter().filter(|part| is_it(part)).count() < 2 {
            continue;
        }
        let shared = plan.shared_sources().filter(|stage| key(stage).as_ref() == Some(&table));
        let divided = plan.with_own_sources(&shared.map(|stage| stage.id).collect());
        // A plan may also have several sources of a table because they read it in different ways, so what
        // counts first is how many sources have the surroundings that they had.
        let fit = |plan: &Plan| {
            let now = plan.kept_parts();
            let matching = pair(present, &now);
            let kept =
                present.iter().enumerate().filter(|(place, part)| is_it(part) && matching.pairs.contains_key(place));
            let surroundings = |parts: &[KeptPart]| -> Vec<Lineage> {
                let of = |part: &KeptPart| Lineage { how: String::new(), ..part.lineage.clone() };
                parts.iter().filter(|part| is_it(part)).map(of).collect()
            };
            (in_both(&surroundings(present), surroundings(&now)), kept.count())
        };
        if fit(&divided) > fit(&plan) {
            plan = divided;
        }
    }
    plan
}

fn key(stage: &Stage) -> Option<PartKey> {
    stage.source.as_ref().map(SourceSpec::key)
}

/// How many elements have an equal one among others, each of which counts once.
fn in_both<T: PartialEq>(elements: &[T], mut others: Vec<T>) -> usize {
    let found = elements.iter().filter(|element| {
        let place = others.iter().position(|other| other == *element);
        place.map(|place| others.swap_remove(place)).is_some()
    });
    found.count()
}

/// The plan with as many joins of two streams as the present parts need to continue. A query may have had
/// fewer joins than it has now, or an option that divides them, and the pairs of rows that a join of two
/// keeps do not follow from anything else. Of statements with equal joins, those come first that have the
/// tables that the parts had; what is left goes to any.
fn with_former_joins(plan: &Plan, present: &[KeptPart]) -> Plan {
    let mut plan = plan.clone();
    for by_tables in [true, false] {
        // Stages before one that is divided keep their places.
        for id in plan.stages.iter().rev().map(|stage| stage.id).collect::<Vec<_>>() {
            let Some(spec) = plan.stage(id).multi_join() else { continue };
            // All of them last: then each is a join of two. Of those that keep as much, the one with the
            // fewest joins.
            let candidates = (1..spec.chain.sides.len()).map(|last| plan.with_last_joins_of_two(id, last));
            let (mut most, mut best) = (kept(&plan, present), None);
            for candidate in candidates {
                let of = kept(&candidate, present);
                if if by_tables { of.0 > most.0 } else { of > most } {
                    (most, best) = (of, Some(candidate));
                }
            }
            plan = best.unwrap_or(plan);
        }
    }
    plan
}

/// How many states of the parts a plan has that have the tables before and after them that they had, those
/// before them, and how many it continues with in all. A join of what another one gives may have the columns
/// of that one.
fn kept(plan: &Plan, present: &[KeptPart]) -> (usize, usize, usize) {
    let now = plan.kept_parts();
    let is_state = |part: &&KeptPart| part.id.kind == OperatorKind::State;
    let same = |around: fn(&Lineage) -> (&[String], &[String])| {
        let of = |part: &KeptPart| {
            let (from, to) = around(&part.lineage);
            (part.key.clone(), from.to_vec(), to.to_vec())
        };
        let then: Vec<_> = present.iter().filter(is_state).map(of).collect();
        in_both(&then, now.iter().filter(is_state).map(of).collect())
    };
    let matching = pair(present, &now);
    let all = present.iter().enumerate().filter(|(place, part)| is_state(part) && matching.pairs.contains_key(place));
    (same(|of| (&of.from, &of.to)), same(|of| (&of.from, &[])), all.count())
}
