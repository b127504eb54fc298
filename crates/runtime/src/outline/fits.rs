//! Whether a query is the one that wrote a checkpoint.

use anabranch_model::{Error, Result};
use anabranch_state::Lineage;

use super::{Part, differ};

/// The parts must be the same, in the same order.
pub(crate) fn check(then: &[Part], now: &[Part]) -> Result<()> {
    check_same(then, now)?;
    check_order(then, now)
}

fn check_same(then: &[Part], now: &[Part]) -> Result<()> {
    let is = |a: &Part, b: &Part| (a.id.kind, &a.description) == (b.id.kind, &b.description);
    if then.len() == now.len() && then.iter().zip(now).all(|(then, now)| is(then, now)) {
        return Ok(());
    }
    let missing = |a: &[Part], b: &[Part]| {
        let missing = a.iter().filter(|part| !b.iter().any(|other| is(part, other)));
        missing.map(Part::line).collect::<Vec<_>>().join("; ")
    };
    let (lost, new) = (missing(then, now), missing(now, then));
    Err(Error::user(format!(
        "the checkpoint is of another query: it has state of [{lost}], the query has [{new}] instead"
    ))
    .remedy(
        "use the query that wrote it, give the job a new place for its checkpoints, or keep what still fits: \
         anabranch savepoint CHECKPOINT-DIRECTORY PATH, then anabranch run FILE --from PATH",
    ))
}

/// Statements that differ only in their expressions are identified by their order, which must be the same.
fn check_order(then: &[Part], now: &[Part]) -> Result<()> {
    let moved = |(place, part): &(usize, &Part)| {
        let Some(was) = &part.lineage else { return false };
        let at = |parts: &[Part], place: usize| parts.get(place).and_then(|part| part.lineage.clone());
        // Some may be identical: then an identical one has always been there.
        let is_elsewhere =
            |place: usize| at(now, place).is_some_and(|is| is_same(was, &is)) && at(then, place).as_ref() != Some(was);
        let stayed = at(now, *place).is_some_and(|is| is_same(was, &is));
        !was.how.is_empty() && !stayed && (0..now.len()).any(is_elsewhere)
    };
    match then.iter().enumerate().find(moved) {
        None => Ok(()),
        Some((_, part)) => Err(Error::user(format!(
            "statements that write the same tables have changed places: '{}' would get the state of another one",
            part.line()
        ))
        .remedy(
            "restore their order, or keep their state with a savepoint: anabranch savepoint CHECKPOINT-DIRECTORY PATH, \
             then anabranch run FILE --from PATH",
        )),
    }
}

/// Whether two parts are between the same tables and states, and not certainly of different queries.
fn is_same(was: &Lineage, is: &Lineage) -> bool {
    was.from == is.from && was.to == is.to && was.through == is.through && !differ(&was.how, &is.how)
}

#[cfg(test)]
mod tests {
    use anabranch_model::{OperatorId, OperatorKind};

    use super::*;
    use crate::outline::former;

    #[test]
    fn parts_that_have_changed_places_are_recognized_whatever_version_wrote_the_checkpoint() {
        let part = |through: &[&str], how: &str| Lineage {
            from: vec!["orders".into()],
            through: through.iter().map(|line| (*line).to_owned()).collect(),
            to: vec!["results".into()],
            how: how.into(),
        };
        let check_order = |then: &[Lineage], now: &[Lineage]| {
            let parts = |lineage: &[Lineage]| -> Vec<Part> {
                let id = |number| OperatorId { kind: OperatorKind::Source, number };
                let part = |(number, lineage): (u32, &Lineage)| Part {
                    id: id(number),
                    description: "t".into(),
                    lineage: Some(lineage.clone()),
                };
                (0..).zip(lineage).map(part).collect()
            };
            let (mut then, now) = (parts(then), parts(now));
            // Its description appears among those of this version.
            let sums = Part { description: "[sum() Decimal128(38, 2)]".into(), ..now[0].clone() };
            former::convert(&mut then, &[sums, now[0].clone()]);
            super::check_order(&then, &now)
        };
        let sums = ["[sum() Decimal128(20, 2)]", "[sum() Decimal128(38, 2)]"];
        let then = [part(&[], "1-a"), part(&sums[..1], "1-b")];
        check_order(&then, &[part(&[], "2-c"), part(&sums[1..], "2-d")]).expect("in order");
        let error = check_order(&then, &[part(&sums[1..], "2-d"), part(&[], "2-c")]).expect_err("moved");
        assert!(error.to_string().contains("have changed places: 'source 0: t'"), "{error}");
        let then = [part(&[], "1-a"), part(&[], "1-b")];
        check_order(&then, &[part(&[], "1-a"), part(&[], "1-b")]).expect("in order");
        check_order(&then, &[part(&[], "1-a"), part(&[], "1-c")]).expect("changed in place");
        check_order(&then, &[part(&[], "1-b"), part(&[], "1-a")]).expect_err("moved");
    }
}
