//! What distinguishes a plan from others, wherever it was made.

use anabranch_model::{Error, HASH_SEED, Result, hash_bytes};
use serde_json::Value;

use crate::Plan;

impl Plan {
    /// A hash of the plan's serialized form, with the members of each object in the order of their names: it
    /// depends neither on the process nor on how a library shows the plan. Processes of a release make the
    /// same plan of the same statements.
    pub fn fingerprint(&self) -> Result<u64> {
        let value = serde_json::to_value(self)
            .map_err(|error| Error::internal(format!("a plan cannot be serialized: {error}")))?;
        let mut text = String::new();
        write(&value, &mut text);
        Ok(hash_bytes(HASH_SEED, text.as_bytes()))
    }
}

/// Appends a value without spaces.
fn write(value: &Value, text: &mut String) {
    let list = |text: &mut String, i: usize| text.push_str(if i == 0 { "" } else { "," });
    match value {
        Value::Array(elements) => {
            text.push('[');
            for (i, element) in elements.iter().enumerate() {
                list(text, i);
                write(element, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (i, (name, member)) in members.into_iter().enumerate() {
                list(text, i);
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(member, text);
            }
            text.push('}');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLAN_FORMAT;

    /// If this fails, the serialized form of plans has changed: raise `PLAN_FORMAT` and the version of
    /// messages between processes, and freeze the new form in another file. Tasks that run are adopted by
    /// this number.
    #[test]
    fn the_form_of_plans_and_their_fingerprint_are_frozen() {
        let text = include_str!("../fixtures/plan-2.json");
        let plan: Plan = serde_json::from_str(text).expect("a plan");
        assert_eq!(plan.format, PLAN_FORMAT);
        let (mut written, mut frozen) = (String::new(), String::new());
        write(&serde_json::to_value(&plan).expect("JSON"), &mut written);
        write(&serde_json::from_str(text).expect("JSON"), &mut frozen);
        assert_eq!(written, frozen);
        assert_eq!(format!("{:016x}", plan.fingerprint().expect("a number")), FROZEN);
        let mut other = plan.clone();
        other.options.job_name.push('x');
        assert_ne!(other.fingerprint().expect("a number"), plan.fingerprint().expect("a number"));
    }

    const FROZEN: &str = "162682c1fe31a6e0";

    #[test]
    fn the_order_of_members_does_not_matter() {
        let of = |text: &str| {
            let mut written = String::new();
            write(&serde_json::from_str(text).expect("JSON"), &mut written);
            written
        };
        assert_eq!(of(r#"{"b":[1,{"y":2,"x":null}],"a":"\n"}"#), of(r#"{ "a": "\n", "b": [1, {"x": null, "y": 2}] }"#));
    }
}
