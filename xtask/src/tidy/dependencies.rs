//! Direction of dependencies between the workspace's crates, from the arrows in ARCHITECTURE.md: a crate may
//! depend on the crates to which its arrow leads, directly or through others, and on no other crate of the
//! workspace. Tests may use any crate. In addition, some families of libraries are reserved for a few crates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ARCHITECTURE, Problem};

/// Where the arrows begin in ARCHITECTURE.md.
const HEADING: &str = "Direction of dependencies";
const PREFIX: &str = "anabranch-";
/// Programs for development: they may use every crate, and no crate may use them.
const DEVELOPMENT: [&str; 2] = ["bench", "sim"];

/// Libraries that only some crates may use: start of the name, the crates, the reason.
const RESERVED: [(&str, &[&str], &str); 4] = [
    ("tracing", &["runtime", "server", "cli"], "only shells report events"),
    ("datafusion-sql", &["plan"], "only `plan` knows SQL"),
    ("datafusion-optimizer", &["plan"], "only `plan` knows DataFusion's planner"),
    (
        "datafusion",
        &["plan", "functions", "operators"],
        "only `plan` plans with DataFusion and only `functions` and `operators` evaluate with it",
    ),
];

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Compares `cargo metadata` with the arrows.
pub(crate) fn check(architecture: &str, metadata: &Value) -> Result<Vec<Problem>, String> {
    let allowed = closure(&arrows(architecture)?);
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let mut problems = Vec::new();
    for package in packages {
        let name = package["name"].as_str().ok_or("a package without a name")?;
        let dependencies: Vec<&str> = package["dependencies"]
            .as_array()
            .map(|list| list.iter().filter(|d| d["kind"] != "dev").filter_map(|d| d["name"].as_str()).collect())
            .unwrap_or_default();
        check_package(name, &dependencies, &allowed, &mut problems);
    }
    Ok(problems)
}

fn check_package(name: &str, dependencies: &[&str], allowed: &Arrows, problems: &mut Vec<Problem>) {
    let own = name.strip_prefix(PREFIX);
    let place = own.map_or_else(|| name.to_owned(), |short| format!("crates/{short}/Cargo.toml"));
    let mut report = |message: String| problems.push(Problem::new(place.clone(), message));
    let development = own.is_some_and(|n| DEVELOPMENT.contains(&n));
    let reach = own.and_then(|n| allowed.get(n));
    if own.is_some() && reach.is_none() && !development {
        report(format!("'{name}' has no arrow in {ARCHITECTURE}; add it under '{HEADING}'"));
    }
    for dependency in dependencies {
        match dependency.strip_prefix(PREFIX) {
            Some(target) if DEVELOPMENT.contains(&target) => {
                report(format!("depends on '{dependency}', which is for development only"));
            }
            Some(_) if development => {}
            Some(target) if !reach.is_some_and(|r| r.contains(target)) => {
                report(format!(
                    "depends on '{dependency}' against the direction in {ARCHITECTURE}; move what is needed to a \
                     crate that both may use"
                ));
            }
            Some(_) => {}
            None => {
                // Its messages have a form in which they are written.
                if own == Some("protocol") && *dependency != "serde" {
                    report(format!("depends on '{dependency}'; 'protocol' decides by itself and uses only 'model'"));
                }
                let rule = RESERVED.iter().find(|(start, ..)| dependency.starts_with(start));
                if let Some((_, crates, why)) = rule
                    && !development
                    && !own.is_some_and(|n| crates.contains(&n))
                {
                    report(format!("depends on '{dependency}': {why}"));
                }
            }
        }
    }
}

/// The arrows written as `` `a, b -> c, d` `` in the paragraph that starts with [`HEADING`].
fn arrows(architecture: &str) -> Result<Arrows, String> {
    let start = architecture.find(HEADING).ok_or_else(|| format!("{ARCHITECTURE} has no '{HEADING}'"))?;
    let paragraph = architecture[start..].split("\n\n").next().unwrap_or_default();
    let mut arrows = Arrows::new();
    for (from, to) in paragraph.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("->")) {
        let names = |list: &str| list.split(',').map(|n| n.trim().to_owned()).collect::<Vec<_>>();
        for source in names(from) {
            arrows.entry(source).or_default().extend(names(to));
        }
        for target in names(to) {
            arrows.entry(target).or_default();
        }
    }
    if arrows.is_empty() {
        return Err(format!("{ARCHITECTURE} has no arrows like `plan -> dataflow` under '{HEADING}'"));
    }
    Ok(arrows)
}

/// Everything that can be reached along the arrows.
fn closure(arrows: &Arrows) -> Arrows {
    let mut reached = arrows.clone();
    loop {
        let mut grown = false;
        for from in arrows.keys() {
            let further: BTreeSet<String> =
                reached[from].iter().filter_map(|to| reached.get(to)).flatten().cloned().collect();
            if let Some(set) = reached.get_mut(from) {
                let before = set.len();
                set.extend(further);
                grown |= set.len() > before;
            }
        }
        if !grown {
            return reached;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ARROWS: &str = "* Direction of dependencies (checked by a tool): `protocol, dataflow -> model`; `plan -> \
                          dataflow`; `operators -> dataflow`;\n  `runtime -> operators, protocol`; `cli -> runtime`.\n\n`x -> y`";

    fn problems_of(name: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
        let list: Vec<Value> = dependencies.iter().map(|(n, kind)| json!({"name": n, "kind": kind})).collect();
        let metadata = json!({"packages": [{"name": name, "dependencies": list}]});
        check(ARROWS, &metadata).expect("runs").iter().map(Problem::to_string).collect()
    }

    #[test]
    fn accepts_the_direction_and_indirect_dependencies() {
        let runtime = ["anabranch-operators", "anabranch-protocol", "anabranch-dataflow", "anabranch-model", "arrow"];
        assert_eq!(problems_of("anabranch-runtime", &runtime.map(|n| (n, None))), [""; 0]);
        assert_eq!(problems_of("anabranch-model", &[("arrow", None)]), [""; 0]);
        assert_eq!(problems_of("anabranch-plan", &[("datafusion-sql", None)]), [""; 0]);
        assert_eq!(problems_of("anabranch-bench", &[("anabranch-cli", None), ("timely", None)]), [""; 0]);
        assert_eq!(problems_of("xtask", &[("serde_json", None)]), [""; 0]);
    }

    #[test]
    fn refuses_what_goes_against_it() {
        let cases = [
            ("anabranch-operators", "anabranch-runtime", "against the direction"),
            ("anabranch-model", "anabranch-dataflow", "against the direction"),
            ("anabranch-plan", "anabranch-operators", "against the direction"),
            ("anabranch-runtime", "datafusion-expr", "only `plan` plans"),
            ("anabranch-operators", "datafusion-sql", "only `plan` knows SQL"),
            ("anabranch-operators", "datafusion-optimizer", "DataFusion's planner"),
            ("anabranch-protocol", "tokio", "uses only 'model'"),
            ("anabranch-cli", "anabranch-bench", "development only"),
            ("anabranch-osched", "anabranch-model", "no arrow"),
            ("xtask", "anabranch-model", "against the direction"),
        ];
        for (name, dependency, expected) in cases {
            let problems = problems_of(name, &[(dependency, None)]);
            assert!(problems.iter().any(|p| p.contains(expected)), "{name} -> {dependency}: {problems:?}");
            let as_build = problems_of(name, &[(dependency, Some("build"))]);
            assert_eq!(as_build, problems, "build dependencies count like normal ones");
        }
    }

    #[test]
    fn tests_may_use_any_crate() {
        assert_eq!(problems_of("anabranch-model", &[("anabranch-cli", Some("dev"))]), [""; 0]);
    }

    #[test]
    fn a_document_without_arrows_is_an_error() {
        let metadata = json!({"packages": []});
        assert!(check("nothing", &metadata).is_err());
        assert!(check("Direction of dependencies: none.", &metadata).is_err());
    }
}
