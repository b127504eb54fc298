use std::collections::BTreeSet;

use serde_json::Value;

use crate::PartKey;

/// A key of each kind: as manifests have it, and below that as people see it. A line of a format of manifests
/// is written once, and never again: a key that is written differently is that of another part, whose state
/// begins empty.
const FIXTURE: &str = include_str!("../../../fixtures/part-keys-1.txt");

/// The keys of the fixture, each with its two lines.
fn keys() -> Vec<(PartKey, &'static str, &'static str)> {
    let lines: Vec<&str> = FIXTURE.lines().collect();
    let key = |of: &[&'static str]| (serde_json::from_str(of[0]).expect("a key that is not known"), of[0], of[1]);
    lines.chunks_exact(2).map(key).collect()
}

#[test]
fn the_form_of_keys_is_frozen() {
    for (key, written, shown) in keys() {
        assert_eq!(serde_json::to_string(&key).expect("JSON"), written);
        assert_eq!(key.to_string(), shown);
    }
    let unknown = r#"{"kind":"limit","skip":7,"fetch":1}"#;
    assert!(serde_json::from_str::<PartKey>(unknown).is_err(), "what is not known must not be left out");
}

#[test]
fn the_fixture_has_a_key_of_each_kind() {
    // The message lists them.
    let error = serde_json::from_str::<PartKey>(r#"{"kind":"?"}"#).expect_err("no such kind").to_string();
    let kinds: BTreeSet<String> = error.split('`').skip(3).step_by(2).map(ToOwned::to_owned).collect();
    let kind = |(_, written, _): &(PartKey, &str, &str)| {
        let key: Value = serde_json::from_str(written).expect("JSON");
        key["kind"].as_str().expect("a kind").to_owned()
    };
    assert!(kinds.contains("table"), "{error}");
    assert_eq!(keys().iter().map(kind).collect::<BTreeSet<String>>(), kinds);
}

#[test]
fn different_keys_have_different_digests() {
    let digests: BTreeSet<String> = keys().iter().map(|(key, ..)| key.digest()).collect();
    assert_eq!(digests.len(), keys().len());
    let limit = keys().into_iter().find(|(key, ..)| matches!(key, PartKey::Limit(_)));
    assert_eq!(limit.map(|(key, ..)| key.digest()).as_deref(), Some("13d254614ada667f"));
}
