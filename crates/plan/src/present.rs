//! Chooses the form of a plan that keeps most of a job's state.
//!
//! Some plans have several forms with the same rows: joins in one operator or one after the other, one source
//! for several statements or one for each. The forms keep different state, and none can be derived from
//! another. So the parts of a running job, a checkpoint or a savepoint are an input of planning.

use anabranch_dataflow::{KeptPart, Lineage, PartKey, Plan, SourceSpec, Stage, pair};
use anabranch_model::{OperatorKind, Result};

/// The plan in the form that keeps most of `present`, which is only called if there is a choice. Equal stages
/// are merged.
pub fn fitted(plan: &Plan, present: impl FnOnce() -> Result<Vec<KeptPart>>) -> Result<Plan> {
    let has_joins_at_once = plan.stages.iter().any(|stage| stage.multi_join().is_some());
    if !has_joins_at_once && plan.shared_sources().next().is_none() {
        return Ok(plan.with_equal_stages_once());
    }
    let present = present()?;
    Ok(with_own_sources(with_former_joins(plan, &present), &present).with_equal_stages_once())
}

/// [`fitted`] for a job that runs the plan `present`.
pub fn fitted_to(plan: &Plan, present: &Plan) -> Result<Plan> {
    fitted(plan, || Ok(present.kept_parts()))
}

/// Gives each table as many sources as the present parts need to continue. Statements that read a table in
/// different ways have separate sources with separate positions. If the new statements read it in the same
/// way, one source cannot replace the others: rows would be lost or read twice.
fn with_own_sources(mut plan: Plan, present: &[KeptPart]) -> Plan {
    let mut tables: Vec<PartKey> = Vec::new();
    for table in plan.shared_sources().filter_map(key) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    for table in tables {
        let is_source = |part: &KeptPart| part.id.kind == OperatorKind::Source && part.key == table;
        if present.iter().filter(|part| is_source(part)).count() < 2 {
            continue;
        }
        let shared = plan.shared_sources().filter(|stage| key(stage).as_ref() == Some(&table));
        let divided = plan.with_own_sources(&shared.map(|stage| stage.id).collect());
        // Several sources may exist because statements read the table in different ways. So the number of
        // sources with the same neighbouring parts counts first.
        let fit = |plan: &Plan| {
            let now = plan.kept_parts();
            let matching = pair(present, &now);
            let kept = present
                .iter()
                .enumerate()
                .filter(|(place, part)| is_source(part) && matching.pairs.contains_key(place));
            let surroundings = |parts: &[KeptPart]| -> Vec<Lineage> {
                let lineage = |part: &KeptPart| Lineage { how: String::new(), ..part.lineage.clone() };
                parts.iter().filter(|part| is_source(part)).map(lineage).collect()
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

/// How many elements have an equal element in `others`, each of which counts once.
fn in_both<T: PartialEq>(elements: &[T], mut others: Vec<T>) -> usize {
    let found = elements.iter().filter(|element| {
        let place = others.iter().position(|other| other == *element);
        place.map(|place| others.swap_remove(place)).is_some()
    });
    found.count()
}

/// Divides multi-way joins into the joins of two streams that the present parts need to continue. The former
/// query may have had fewer joins, or an option that divides them, and the kept pairs of a two-way join
/// cannot be derived. Of statements with equal joins, those with the same tables as the present parts come
/// first.
fn with_former_joins(plan: &Plan, present: &[KeptPart]) -> Plan {
    let mut plan = plan.clone();
    for by_tables in [true, false] {
        // Stages before a divided one keep their indexes.
        for id in plan.stages.iter().rev().map(|stage| stage.id).collect::<Vec<_>>() {
            let Some(spec) = plan.stage(id).multi_join() else { continue };
            // With all sides last, each join has two inputs. Of candidates that keep the same state, the one
            // with the fewest joins is chosen.
            let candidates = (1..spec.chain.sides.len()).map(|last| plan.with_last_joins_of_two(id, last));
            let (mut most, mut best) = (kept(&plan, present), None);
            for candidate in candidates {
                let states = kept(&candidate, present);
                if if by_tables { states.0 > most.0 } else { states > most } {
                    (most, best) = (states, Some(candidate));
                }
            }
            plan = best.unwrap_or(plan);
        }
    }
    plan
}

/// The numbers of states that the plan continues: with the same tables before and after them, with the same
/// tables before them, and in all. The tables are compared because a join of another join's result may have
/// the same columns as that join.
fn kept(plan: &Plan, present: &[KeptPart]) -> (usize, usize, usize) {
    let now = plan.kept_parts();
    let is_state = |part: &&KeptPart| part.id.kind == OperatorKind::State;
    let same = |around: fn(&Lineage) -> (&[String], &[String])| {
        let of = |part: &KeptPart| {
            let (from, to) = around(&part.lineage);
            (part.key.clone(), from.to_vec(), to.to_vec())
        };
        let former: Vec<_> = present.iter().filter(is_state).map(of).collect();
        in_both(&former, now.iter().filter(is_state).map(of).collect())
    };
    let matching = pair(present, &now);
    let all = present.iter().enumerate().filter(|(place, part)| is_state(part) && matching.pairs.contains_key(place));
    (same(|of| (&of.from, &of.to)), same(|of| (&of.from, &[])), all.count())
}
