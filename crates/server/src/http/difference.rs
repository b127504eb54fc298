//! The difference of two documents as a JSON merge patch (RFC 7396): members that changed, and null for those
//! that are gone.

use serde_json::{Map, Value};

/// The patch that turns `before` into `now`; `None` if they are equal. A patch cannot set a member to null.
/// So a member that is null in one document must be null, or missing, in the other one.
pub(super) fn difference(before: &Value, now: &Value) -> Option<Value> {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            let gone = before.keys().filter(|name| !now.contains_key(*name)).map(|name| (name.clone(), Value::Null));
            let changed = now.iter().filter_map(|(name, value)| {
                let patch = match before.get(name) {
                    Some(before) => difference(before, value)?,
                    // A new member is sent as a whole: null within it would be lost.
                    None => value.clone(),
                };
                Some((name.clone(), patch))
            });
            let patch: Map<String, Value> = gone.chain(changed).collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (before != now).then(|| now.clone()),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;
    use serde_json::json;

    use super::*;

    /// RFC 7396, section 2.
    fn patched(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut target = if let Value::Object(members) = target { members } else { Map::new() };
        for (name, value) in patch {
            match value {
                Value::Null => drop(target.remove(name)),
                value => {
                    let before = target.remove(name).unwrap_or_default();
                    target.insert(name.clone(), patched(before, value));
                }
            }
        }
        Value::Object(target)
    }

    /// Without null: a patch takes a member that becomes null away.
    fn without_null(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let kept = members.into_iter().filter(|(_, value)| !value.is_null());
                Value::Object(kept.map(|(name, value)| (name, without_null(value))).collect())
            }
            other => other,
        }
    }

    fn drawn(rng: &mut Rng, depth: u32) -> Value {
        match rng.below(if depth == 0 { 4 } else { 6 }) {
            0 => Value::Null,
            1 => json!(rng.below(3)),
            2 => json!(["a", "b"][rng.below(2) as usize]),
            3 => json!([rng.below(2), null]),
            _ => {
                let member =
                    |rng: &mut Rng| (["x", "y", "z", "w"][rng.below(4) as usize].to_owned(), drawn(rng, depth - 1));
                Value::Object((0..rng.below(4)).map(|_| member(rng)).collect())
            }
        }
    }

    #[test]
    fn a_patched_document_is_the_next_one() {
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let (before, now) = (json!({ "a": drawn(&mut rng, 3) }), json!({ "a": drawn(&mut rng, 3) }));
            match difference(&before, &now) {
                None => assert_eq!(before, now),
                Some(patch) => {
                    assert_eq!(
                        without_null(patched(before.clone(), &patch)),
                        without_null(now.clone()),
                        "{before} {now}"
                    );
                }
            }
        }
    }

    #[test]
    fn only_what_changed_is_sent() {
        let (before, now) =
            (json!({ "a": 1, "b": { "c": 2, "d": 3 }, "e": 4 }), json!({ "a": 1, "b": { "c": 5, "d": 3 } }));
        assert_eq!(difference(&before, &now), Some(json!({ "b": { "c": 5 }, "e": null })));
        assert_eq!(difference(&now, &now), None);
    }
}
