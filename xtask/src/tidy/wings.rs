//! Direction of imports between the wings of `crates/runtime`: a module imports from its own wing and from
//! lower ones. Tests follow the same rule.

use super::source::{is_word, mask, word_at, words};
use super::{File, Problem};

const SOURCE: &str = "crates/runtime/src/";
/// The wings, lowest first. Each is a file and a folder of this name.
const WINGS: [&str; 5] = ["task", "network", "change", "durable", "shell"];

/// Checks every module. The crate's root may name all of them.
pub(crate) fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut found = [false; WINGS.len()];
    for file in files.iter().filter(|f| f.is_rust()) {
        let Some(path) = file.path.strip_prefix(SOURCE).and_then(|path| path.strip_suffix(".rs")) else { continue };
        let modules: Vec<&str> = path.split('/').collect();
        match floor(modules[0]) {
            _ if path == "lib" => {}
            Some(own) => {
                found[own] = true;
                check_module(file, own, modules.len(), &mut problems);
            }
            None => problems.push(Problem::new(
                file.path.as_str(),
                format!("the module belongs to no wing: move it into one of {}", WINGS.join(", ")),
            )),
        }
    }
    let missing = WINGS.iter().zip(found).filter(|(_, found)| !found);
    problems.extend(missing.map(|(wing, _)| Problem::new(SOURCE, format!("there is no wing `{wing}`"))));
    problems
}

fn floor(name: &str) -> Option<usize> {
    WINGS.iter().position(|wing| *wing == name)
}

/// Checks a file of the wing `own` whose module is so deep below the crate's root.
fn check_module(file: &File, own: usize, depth: usize, problems: &mut Vec<Problem>) {
    let masked = mask(&file.text);
    for (at, name) in roots(&masked) {
        let message = match floor(name) {
            Some(other) if other <= own => continue,
            Some(_) => {
                format!("`{}` imports from `{name}`, a wing above it: move what is needed to a lower one", WINGS[own])
            }
            None => format!("`crate::{name}` is in no wing: name the module that has it"),
        };
        problems.push(file.problem(at, message));
    }
    // Shorter ones stay in the wing.
    let climb = vec!["super"; depth].join("::");
    for (at, _) in masked.match_indices(&climb).filter(|(at, _)| is_start(&masked, *at)) {
        let message = format!("`{climb}` leaves the wing: write `crate::` and the name of the wing");
        problems.push(file.problem(at, message));
    }
}

/// What follows `crate` in the paths of a masked text, with the positions. Of a group, that is the first word
/// of each path.
fn roots(masked: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in words(masked, "crate") {
        let Some(rest) = masked[at..].strip_prefix("crate::") else { continue };
        let from = masked.len() - rest.trim_start().len();
        match word_at(masked, from) {
            Some(name) => found.push((from, name)),
            None => found.extend(firsts(masked, from)),
        }
    }
    found
}

/// The first word of each path in the group that opens at `open`.
fn firsts(masked: &str, open: usize) -> Vec<(usize, &str)> {
    let (mut depth, mut found) = (0, Vec::new());
    for (at, byte) in masked.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(byte, b'{' | b',') {
            found.extend(word_at(masked, at + 1).map(|name| (at + 1, name)));
        }
    }
    found
}

/// Whether no path goes on before this position.
fn is_start(masked: &str, at: usize) -> bool {
    masked.as_bytes()[..at].last().is_none_or(|before| !is_word(*before) && *before != b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of these modules, beside wings that are fine.
    fn problems_of(modules: &[(&str, &str)]) -> Vec<String> {
        let wings = WINGS.map(|wing| File::new(&format!("{SOURCE}{wing}.rs"), "mod a;\n"));
        let modules = modules.iter().map(|(name, text)| File::new(&format!("{SOURCE}{name}.rs"), text));
        let lib = File::new(&format!("{SOURCE}lib.rs"), "mod task;\npub use shell::job::Job;\n");
        let files: Vec<File> = wings.into_iter().chain(modules).chain([lib]).collect();
        check(&files).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_module_imports_from_its_own_wing_and_lower_ones() {
        let shell = "use crate::task::mail::Mail;\nuse crate::{network, shell::job};\nuse super::*;\n";
        let task = "// crate::shell\nuse crate::task::sync;\nconst PLACE: &str = \"crate::shell\";\n\
                    pub(crate) fn f() {}\nmod tests {\n    use super::super::sync;\n}\n";
        assert_eq!(problems_of(&[("shell/worker", shell), ("task/chain/tests", task)]), [""; 0]);
        let elsewhere = File::new("crates/server/src/a.rs", "use crate::shell::b;\n");
        assert!(check(&[elsewhere]).iter().all(|problem| problem.message.starts_with("there is no wing")));
    }

    #[test]
    fn an_import_from_a_higher_wing_is_refused_wherever_it_is() {
        let cases = [
            "use crate::shell::worker::FromThread;",
            "fn f(of: &crate::shell::Job) {}",
            "use crate::{task::sync, shell::{job, worker}};",
            "use crate::{\n    shell::job,\n    task::sync,\n};",
            "#[cfg(test)]\nmod tests {\n    use crate::shell::job;\n}",
        ];
        for text in cases {
            let found = problems_of(&[("durable/scribe", text)]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("`durable` imports from `shell`"), "{}", found[0]);
        }
        let found = problems_of(&[("task/inbox", "use std::fmt;\n\nuse crate::network::Permit;\n")]);
        assert!(found.len() == 1 && found[0].starts_with("crates/runtime/src/task/inbox.rs:3: "), "{found:?}");
    }

    #[test]
    fn a_path_that_hides_its_wing_is_refused() {
        let root = problems_of(&[("task/inbox", "use crate::Origin;\n")]);
        assert!(root.len() == 1 && root[0].contains("`crate::Origin` is in no wing"), "{root:?}");
        let climbs = problems_of(&[("task/inbox", "use super::super::shell::job;\n")]);
        assert!(climbs.len() == 1 && climbs[0].contains("leaves the wing"), "{climbs:?}");
    }

    #[test]
    fn every_module_has_a_wing_and_every_wing_a_module() {
        let stray = problems_of(&[("stray", "")]);
        assert!(stray.len() == 1 && stray[0].contains("belongs to no wing"), "{stray:?}");
        let missing = check(&[File::new(&format!("{SOURCE}task.rs"), "")]);
        assert_eq!(missing.len(), WINGS.len() - 1);
    }
}
