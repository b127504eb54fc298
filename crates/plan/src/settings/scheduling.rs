//! The option `scheduling`.

use anabranch_dataflow::Scheduling;
use anabranch_model::{Error, Result, nearest};

/// The system alone decides which thread runs.
pub(super) const OFF: &str = "off";

/// `off`, or the name of a policy.
pub(super) fn parse(text: &str) -> Result<Option<Scheduling>> {
    let name = text.trim().to_lowercase();
    if name == OFF {
        return Ok(None);
    }
    let found = Scheduling::ALL.into_iter().find(|policy| policy.name() == name);
    found.map(Some).ok_or_else(|| {
        let names = || std::iter::once(OFF).chain(Scheduling::ALL.map(Scheduling::name));
        let near = nearest(&name, names()).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
        let all = names().collect::<Vec<_>>().join(", ");
        Error::user(format!("'{text}' is not a scheduling policy")).remedy(format!("{near}Use one of: {all}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_known_by_name() {
        assert_eq!(parse("off").expect("known"), None);
        for policy in Scheduling::ALL {
            assert_eq!(parse(&policy.name().to_uppercase()).expect("known"), Some(policy));
        }
        let error = parse("queue-sise").expect_err("unknown").to_string();
        assert!(error.contains("did you mean 'queue-size'?"), "{error}");
    }
}
