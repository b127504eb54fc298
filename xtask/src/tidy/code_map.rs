//! The documents for newcomers are complete: every crate has a row in ARCHITECTURE.md's code map and every
//! row a crate; every connector is described in the guide.

use super::source::{block_after, mask, words};
use super::{ARCHITECTURE, CONNECTORS_GUIDE, CONNECTORS_SOURCE, Problem};

/// Compares the code map with the crates.
pub(crate) fn check_crates(architecture: &str, crates: &[String]) -> Vec<Problem> {
    let start = architecture.find("## Code map").map_or(architecture.len(), |at| at + 1);
    let section = architecture[start.min(architecture.len())..].split("\n## ").next().unwrap_or_default();
    let mapped: Vec<&str> =
        section.lines().filter_map(|l| l.strip_prefix("| `crates/")?.split_once('`').map(|(name, _)| name)).collect();
    let missing = crates.iter().filter(|name| !mapped.contains(&name.as_str()));
    let mut problems: Vec<Problem> = missing
        .map(|name| Problem::new(ARCHITECTURE, format!("the code map has no row for `crates/{name}`: add it")))
        .collect();
    let gone = mapped.iter().filter(|name| !crates.iter().any(|c| c == *name));
    problems.extend(
        gone.map(|name| Problem::new(ARCHITECTURE, format!("the code map has `crates/{name}`, which does not exist"))),
    );
    problems
}

/// Compares the connectors registered by `standard()` with the guide.
pub(crate) fn check_connectors(source: &str, guide: &str) -> Vec<Problem> {
    let masked = mask(source);
    let standard = words(&masked, "standard").find(|at| masked[..*at].trim_end().ends_with("fn"));
    let Some(body) = standard.and_then(|at| block_after(&masked, at)) else {
        return vec![Problem::new(CONNECTORS_SOURCE, "there is no function `standard` that registers the connectors")];
    };
    let registered: Vec<&str> = words(&masked[body.clone()], "register")
        .filter_map(|at| source[body.start + at..body.end].split('"').nth(1))
        .collect();
    if registered.is_empty() {
        return vec![Problem::new(CONNECTORS_SOURCE, "`standard` registers no connector by a name in quotes")];
    }
    let headings: Vec<&str> = guide.lines().filter(|l| l.starts_with('#')).collect();
    registered
        .iter()
        .filter(|name| !headings.iter().any(|h| h.contains(&format!("`{name}`"))))
        .map(|name| {
            Problem::new(
                CONNECTORS_GUIDE,
                format!("no heading for the connector `{name}`: describe it and its options"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "# A\n\n## Code map\n\n| place | holds |\n|---|---|\n| `crates/model` | words |\n\n## Next\n| `crates/plan` |\n";
    const SOURCE: &str = "/// standard() registers(\"no\").\npub fn standard() -> Connectors {\n    let mut all = Connectors::default();\n    \
                          all.register(\"kafka\", Arc::new(Kafka));\n    all.register(\n        \"print\",\n        Arc::new(Print),\n    );\n    all\n}\n";

    fn messages(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn crates_and_code_map_agree() {
        assert_eq!(check_crates(MAP, &["model".into()]), []);
        let missing = messages(&check_crates(MAP, &["model".into(), "plan".into()]));
        assert!(missing.len() == 1 && missing[0].contains("no row for `crates/plan`"), "{missing:?}");
        let gone = messages(&check_crates(MAP, &[]));
        assert!(gone.len() == 1 && gone[0].contains("`crates/model`, which does not exist"), "{gone:?}");
        assert_eq!(check_crates("no map", &["model".into()]).len(), 1);
    }

    #[test]
    fn connectors_and_guide_agree() {
        assert_eq!(check_connectors(SOURCE, "## `kafka`\n## `print`\n"), []);
        let missing = messages(&check_connectors(SOURCE, "## `kafka`\nand `print`\n"));
        assert!(missing.len() == 1 && missing[0].contains("`print`"), "{missing:?}");
        assert_eq!(check_connectors("fn other() {}", "## `kafka`").len(), 1);
        assert_eq!(check_connectors("fn standard() {}", "## `kafka`").len(), 1);
    }
}
