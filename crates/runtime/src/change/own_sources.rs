//! Sources that a plan reads once for several statements, while what the job resumes from has positions for each of them.
//!
//! Statements that read a table in different ways have a source each, and each source has its own positions. If the new
//! statements read it in the same way, no source can stand for the others: rows would be lost or read twice. So the job
//! continues with the sources that it had.

use anabranch_dataflow::{KeptPart, Lineage, PartKey, Plan, SourceSpec, Stage, pair};
use anabranch_model::OperatorKind;

use crate::change::former_joins::with_former_joins;

/// The plan with as many sources of each table, and as many joins, as these parts need to go on. What its stages have in common they do once.
pub(crate) fn as_before(plan: &Plan, then: &[KeptPart]) -> Plan {
    let mut plan = with_former_joins(plan, then);
    let mut tables: Vec<PartKey> = Vec::new();
    for table in plan.shared_sources().filter_map(key) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    for table in tables {
        let is_it = |part: &KeptPart| part.id.kind == OperatorKind::Source && part.key == table;
        if then.iter().filter(|part| is_it(part)).count() < 2 {
            continue;
        }
        let shared = plan.shared_sources().filter(|stage| key(stage).as_ref() == Some(&table));
        let divided = plan.with_own_sources(&shared.map(|stage| stage.id).collect());
        // A plan may also have several sources of a table because they read it in different ways, so what counts first is how many sources
        // have the surroundings that they had.
        let fit = |plan: &Plan| {
            let now = plan.kept_parts();
            let matching = pair(then, &now);
            let kept =
                then.iter().enumerate().filter(|(place, part)| is_it(part) && matching.pairs.contains_key(place));
            let surroundings = |parts: &[KeptPart]| -> Vec<Lineage> {
                let of = |part: &KeptPart| Lineage { how: String::new(), ..part.lineage.clone() };
                parts.iter().filter(|part| is_it(part)).map(of).collect()
            };
            let mut free = surroundings(&now);
            let same = surroundings(then).into_iter().filter(|then| {
                let place = free.iter().position(|now| now == then);
                place.map(|place| free.swap_remove(place)).is_some()
            });
            (same.count(), kept.count())
        };
        if fit(&divided) > fit(&plan) {
            plan = divided;
        }
    }
    plan.with_equal_stages_once()
}

fn key(stage: &Stage) -> Option<PartKey> {
    stage.source.as_ref().map(SourceSpec::key)
}
