//! Whether a query is the one that wrote a checkpoint.

use anabranch_dataflow::{KeptPart, Lineage};
use anabranch_model::{Error, KeyGroups, Result};
use anabranch_state::Manifest;

/// Checks that the parts are the same, in the same order.
pub(crate) fn check(then: &[KeptPart], now: &[KeptPart]) -> Result<()> {
    check_same(then, now)?;
    check_order(then, now)
}

/// Checks that the number of key groups is unchanged: each state file covers a range of them.
pub(crate) fn check_key_groups(manifest: &Manifest, groups: KeyGroups) -> Result<()> {
    let then = manifest.key_groups;
    if then == groups {
        return Ok(());
    }
    Err(Error::user(format!(
        "the state was written with {} key groups, but the job would have {}: their number is fixed at a job's first start",
        then.0, groups.0
    ))
    .remedy(format!(
        "SET 'max-parallelism' = '{}'; or give the job a new place for its checkpoints, and it starts over",
        then.0
    )))
}

fn check_same(then: &[KeptPart], now: &[KeptPart]) -> Result<()> {
    let matches = |a: &KeptPart, b: &KeptPart| (a.id.kind, &a.key) == (b.id.kind, &b.key);
    if then.len() == now.len() && then.iter().zip(now).all(|(then, now)| matches(then, now)) {
        return Ok(());
    }
    // A part may occur several times.
    let missing = |a: &[KeptPart], b: &[KeptPart]| {
        let mut others: Vec<&KeptPart> = b.iter().collect();
        let mut missing = Vec::new();
        for part in a {
            match others.iter().position(|other| matches(part, other)) {
                Some(index) => _ = others.swap_remove(index),
                None => missing.push(part.title()),
            }
        }
        missing.join("; ")
    };
    let (lost, new) = (missing(then, now), missing(now, then));
    let what = match lost.is_empty() && new.is_empty() {
        true => "the statements of the query are in another order than those of the checkpoint".to_owned(),
        false => {
            format!("the checkpoint is of another query: it has state of [{lost}], the query has [{new}] instead")
        }
    };
    Err(Error::user(what).remedy(
        "use the query that wrote it, give the job a new place for its checkpoints, or keep what still fits: \
         anabranch savepoint CHECKPOINT-DIRECTORY PATH, then anabranch run FILE --from PATH",
    ))
}

/// Statements that differ only in their expressions are identified by their order, which must be the same.
fn check_order(then: &[KeptPart], now: &[KeptPart]) -> Result<()> {
    let moved = |(index, part): &(usize, &KeptPart)| {
        let was = &part.lineage;
        // Parts may be identical. If the counterpart is identical as well, nothing was moved.
        let is_elsewhere = |other: usize| {
            lineage_at(now, other).is_some_and(|is| is_same(was, is)) && lineage_at(then, other) != Some(was)
        };
        let stayed = lineage_at(now, *index).is_some_and(|is| is_same(was, is));
        !was.how.is_empty() && !stayed && (0..now.len()).any(is_elsewhere)
    };
    match then.iter().enumerate().find(moved) {
        None => Ok(()),
        Some((_, part)) => Err(Error::user(format!(
            "statements that write the same tables have changed places: '{}' would get the state of another one",
            part.title()
        ))
        .remedy(
            "restore their order, or keep their state with a savepoint: anabranch savepoint CHECKPOINT-DIRECTORY PATH, \
             then anabranch run FILE --from PATH",
        )),
    }
}

fn lineage_at(parts: &[KeptPart], index: usize) -> Option<&Lineage> {
    parts.get(index).map(|part| &part.lineage)
}

/// Whether two parts are between the same tables and states, and may belong to the same query.
fn is_same(was: &Lineage, is: &Lineage) -> bool {
    was.from == is.from && was.to == is.to && was.through == is.through && !was.differs(is)
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::PartKey;
    use anabranch_model::{OperatorId, OperatorKind};

    use super::*;

    #[test]
    fn what_differs_is_named_and_another_order_is_said_to_be_one() {
        let part = |number: u32, table: &str| {
            let id = OperatorId { kind: OperatorKind::State, number };
            let key = PartKey::Table { table: table.into(), connector: "x".into() };
            KeptPart { id, key, lineage: Lineage::default() }
        };
        let parts = |texts: &[&str]| (0..).zip(texts).map(|(number, text)| part(number, text)).collect::<Vec<_>>();
        let message = |then: &[&str], now: &[&str]| check(&parts(then), &parts(now)).map_err(|error| error.to_string());
        message(&["sum", "count"], &["sum", "count"]).expect("the same");
        let error = message(&["sum", "count"], &["sum", "max"]).expect_err("another query");
        assert!(error.contains("state of [state count (x)], the query has [state max (x)]"), "{error}");
        let error = message(&["sum", "sum"], &["sum"]).expect_err("one is missing");
        assert!(error.contains("state of [state sum (x)], the query has []"), "{error}");
        let error = message(&["sum", "count"], &["count", "sum"]).expect_err("in another order");
        assert!(error.contains("in another order"), "{error}");
    }

    #[test]
    fn parts_that_have_changed_places_are_recognized() {
        let part = |through: &[&str], how: &str| Lineage {
            from: vec!["orders".into()],
            through: through.iter().map(|line| (*line).to_owned()).collect(),
            to: vec!["results".into()],
            how: how.into(),
        };
        let check_order = |then: &[Lineage], now: &[Lineage]| {
            let parts = |lineage: &[Lineage]| -> Vec<KeptPart> {
                let id = |number| OperatorId { kind: OperatorKind::Source, number };
                let part = |(number, lineage): (u32, &Lineage)| KeptPart {
                    id: id(number),
                    key: PartKey::Table { table: "t".into(), connector: "x".into() },
                    lineage: lineage.clone(),
                };
                (0..).zip(lineage).map(part).collect()
            };
            super::check_order(&parts(then), &parts(now))
        };
        let sums = ["sum"];
        let then = [part(&[], "1-a"), part(&sums, "1-b")];
        check_order(&then, &[part(&[], "2-c"), part(&sums, "2-d")]).expect("in order");
        let error = check_order(&then, &[part(&sums, "2-d"), part(&[], "2-c")]).expect_err("moved");
        assert!(error.to_string().contains("have changed places: 'source t (x)'"), "{error}");
        let then = [part(&[], "1-a"), part(&[], "1-b")];
        check_order(&then, &[part(&[], "1-a"), part(&[], "1-b")]).expect("in order");
        check_order(&then, &[part(&[], "1-a"), part(&[], "1-c")]).expect("changed in place");
        check_order(&then, &[part(&[], "1-b"), part(&[], "1-a")]).expect_err("moved");
    }
}
