//! Words of the project's own where the field has a standard term: each costs a reader a guess.

use super::source::words;
use super::{File, Problem};

/// Words, and what to write instead. In pieces, so that the check does not find this file.
const TERMS: [(&str, &str); 12] = [
    (concat!("who", "ever"), "name the actor: the source, the coordinator, the user"),
    (concat!("wi", "sh"), "write 'request'"),
    (concat!("wi", "shes"), "write 'requests'"),
    (concat!("wi", "shed"), "write 'requested'"),
    (concat!("look ", "around"), "write 'poll' or 'check'"),
    (concat!("looks ", "around"), "write 'polls' or 'checks'"),
    (concat!("looked ", "around"), "write 'polled' or 'checked'"),
    (concat!("looking ", "around"), "write 'polling' or 'checking'"),
    (concat!("tell ", "apart"), "write 'distinguish'"),
    (concat!("tells ", "apart"), "write 'distinguishes'"),
    (concat!("told ", "apart"), "write 'distinguished'"),
    (concat!("goes ", "before our"), "write 'overrides our'"),
];
/// Entries of this document are not rewritten.
const HISTORY: &str = "CHANGELOG.md";

/// Checks code, comments, messages and documents.
pub(crate) fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path != HISTORY) {
        let text = file.text.to_ascii_lowercase();
        for (term, instead) in TERMS {
            for at in words(&text, term) {
                problems.push(file.problem(at, format!("'{term}' is not a term of the field: {instead}")));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&[File::new(path, text)]).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn every_term_is_found_with_its_line_in_any_case() {
        for (term, instead) in TERMS {
            for text in [format!("/// First.\n/// {term} is here"), format!("# Title\n{}", term.to_ascii_uppercase())] {
                let found = messages("crates/plan/src/a.rs", &text);
                assert_eq!(found.len(), 1, "{text:?}: {found:?}");
                assert!(
                    found[0].starts_with("crates/plan/src/a.rs:2: ") && found[0].ends_with(instead),
                    "{}",
                    found[0]
                );
            }
        }
    }

    #[test]
    fn other_words_and_the_history_pass() {
        assert_eq!(messages("docs/a.md", "Wishful, however; look at it. It goes before the others."), [""; 0]);
        assert_eq!(messages(HISTORY, TERMS[0].0), [""; 0]);
    }
}
