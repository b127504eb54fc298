//! The identity of a source's event time: of the expression that computes it. If the expression changes, the
//! watermarks of the source's partitions begin anew, because the former ones say nothing about the new event
//! time. Operators downstream keep their watermarks, because results of fired windows are not retracted. So
//! rows before these watermarks are late.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{PartSpec, Plan, SourceSpec, instant_text};
use anabranch_model::{EventTime, HASH_SEED, OperatorId, Result, StageId, hash_bytes};
use anabranch_state::TaskState;
use serde_json::Value;

/// Version of the text that is hashed. Identities of different versions cannot be compared.
const VERSION: u32 = 1;

/// The identity of a source's event time: a hash of its expression, with the names of columns. `None`: the
/// source has no event time.
pub(crate) fn identity(source: &SourceSpec) -> Result<Option<String>> {
    let Some(watermark) = &source.watermark else { return Ok(None) };
    let decoded = source.decoded()?;
    let mut expr = serde_json::to_value(&watermark.time).unwrap_or_default();
    name_columns(&mut expr, &|index| decoded.fields().get(index).map(|field| field.name().clone()));
    Ok(Some(format!("{VERSION}-{:016x}", hash_bytes(HASH_SEED, expr.to_string().as_bytes()))))
}

/// Replaces the indices of columns in an expression by their names. So the identity does not depend on which
/// columns a connector decodes, nor on their order.
fn name_columns(expr: &mut Value, name: &impl Fn(usize) -> Option<String>) {
    match expr {
        Value::Object(members) => {
            if let Some(column) = members.get_mut("Column")
                && let Some(name) = column.as_u64().and_then(|index| name(usize::try_from(index).ok()?))
            {
                *column = Value::String(name);
            }
            members.values_mut().for_each(|member| name_columns(member, name));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| name_columns(element, name)),
        _ => {}
    }
}

/// Whether a source with the identity `now` continues the event time of the identity `before`. It does not if
/// both are known, of the same version, and different.
pub(crate) fn goes_on(before: Option<&str>, now: Option<&str>) -> bool {
    let version = |identity: &str| identity.split_once('-').map(|(version, _)| version.to_owned());
    match (before, now) {
        (Some(before), Some(now)) => before == now || version(before) != version(now),
        _ => true,
    }
}

/// For each source before a change, by its operator id, the identity of its event time. `None`: it had no
/// event time, or the identity is unknown.
pub(crate) type FormerIdentities = BTreeMap<OperatorId, Option<String>>;

/// The sources whose rows before some event time will be late, with the reason, by their indices in
/// [`Plan::parts`]. Such a source is new, or its event time has changed. An operator that gets its rows and
/// misses late ones has already reached that event time.
///
/// The plan must carry the operator ids of the plan before the change. `tasks` are snapshots of that plan.
pub(crate) fn late_sources(
    plan: &Plan,
    before: &FormerIdentities,
    tasks: &[&TaskState],
) -> Result<BTreeMap<usize, String>> {
    let parts = plan.parts();
    let mut late = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        let PartSpec::Source(source) = part.spec else { continue };
        // By processing time no row is late.
        if source.watermark.as_ref().is_some_and(|watermark| watermark.by_clock) {
            continue;
        }
        let Some(now) = identity(source)? else { continue };
        let why = match before.get(&part.id) {
            Some(then) if goes_on(then.as_deref(), Some(&now)) => continue,
            Some(_) => "its event time has changed",
            None => "it is new",
        };
        let reached = reached_from(plan, part.stage);
        let fired = parts.iter().filter(|part| reached.contains(&part.stage)).filter_map(|part| {
            let PartSpec::State(operator) = part.spec else { return None };
            operator.stateful().filter(|state| state.misses_late_rows())?;
            min_watermark(part.id, tasks)
        });
        if let Some(fired) = fired.max() {
            let fired = instant_text(fired.0);
            late.insert(index, format!("{why}, and event time has passed {fired}: its rows before that are late"));
        }
    }
    Ok(late)
}

/// The minimum watermark of a stateful operator over all tasks. `None`: its event time has not begun, or has
/// ended.
fn min_watermark(id: OperatorId, tasks: &[&TaskState]) -> Option<EventTime> {
    let operators = tasks.iter().flat_map(|task| &task.operators).filter(|operator| operator.number == id.number);
    let watermark = operators.map(|operator| EventTime(operator.watermark_ms)).min();
    watermark.filter(|watermark| *watermark > EventTime::MIN && *watermark < EventTime::MAX)
}

/// The stages that rows of a stage reach, including this stage. Rows of a side input are not followed.
fn reached_from(plan: &Plan, stage: StageId) -> BTreeSet<StageId> {
    let mut reached = BTreeSet::from([stage]);
    for _ in &plan.exchanges {
        for exchange in plan.exchanges.iter().filter(|exchange| !exchange.port.is_side()) {
            if reached.contains(&exchange.from) {
                reached.insert(exchange.to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_by_their_names() {
        let definition = |text: &str, names: &[&str]| {
            let mut expr: Value = serde_json::from_str(text).expect("JSON");
            name_columns(&mut expr, &|index| names.get(index).map(ToString::to_string));
            expr
        };
        let [one, two] = [r#"{"Not":{"Column":1}}"#, r#"{"Not":{"Column":0}}"#];
        assert_eq!(definition(one, &["a", "b"]), definition(two, &["b"]));
        assert_ne!(definition(one, &["a", "b"]), definition(two, &["a", "b"]));
    }

    #[test]
    fn event_time_goes_on_unless_it_is_known_to_be_another() {
        for (before, now, goes) in [
            (Some("1-aa"), Some("1-aa"), true),
            (Some("1-aa"), Some("1-bb"), false),
            (Some("1-aa"), Some("2-bb"), true),
            (None, Some("1-aa"), true),
            (Some("1-aa"), None, true),
        ] {
            assert_eq!(goes_on(before, now), goes, "{before:?} {now:?}");
        }
    }
}
