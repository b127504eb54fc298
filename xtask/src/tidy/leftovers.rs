//! Leftovers: notes to oneself, paths of one machine, output of libraries to the terminal, tabs, and white
//! space at the end of lines.

use super::source::{mask, without_tests, words};
use super::{File, Problem};

// In pieces, so that the check does not find this file.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED: [&str; 2] = [concat!("unimple", "mented!"), concat!("to", "do!")];
const MACHINE_FOLDERS: [&str; 3] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];
const OUTPUT: [&str; 4] = ["println!", "print!", "eprintln!", "eprint!"];

/// Checks every file.
pub(crate) fn check(files: &[File]) -> Vec<Problem> {
    let programs: Vec<&str> = files.iter().filter_map(|f| f.path.strip_suffix("main.rs")).collect();
    let mut problems = Vec::new();
    for file in files {
        notes(file, &mut problems);
        machine_folders(file, &mut problems);
        if file.is_rust() || file.path.ends_with(".md") {
            white_space(file, &mut problems);
        }
        let is_library = file.is_rust() && !programs.iter().any(|folder| file.path.starts_with(folder));
        if file.is_rust() {
            code(file, is_library, &mut problems);
        }
    }
    problems
}

fn notes(file: &File, problems: &mut Vec<Problem>) {
    for note in NOTES {
        for at in words(&file.text, note) {
            problems.push(file.problem(at, format!("'{note}' left behind: do it, or say in words what is missing")));
        }
    }
}

/// A folder counts only at the beginning of an absolute path: not after a name, `.`, `~` or another path.
fn machine_folders(file: &File, problems: &mut Vec<Problem>) {
    for folder in MACHINE_FOLDERS {
        for (at, _) in file.text.match_indices(folder) {
            let before = file.text[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && !"._-}/*~".contains(c)) {
                problems.push(file.problem(at, format!("a path under '{folder}' exists on one machine only")));
            }
        }
    }
}

fn white_space(file: &File, problems: &mut Vec<Problem>) {
    for (index, line) in file.text.lines().enumerate() {
        if line.contains('\t') {
            problems.push(Problem::new(file.place(index + 1), "a tab: use spaces"));
        }
        if line.ends_with([' ', '\t']) {
            problems.push(Problem::new(file.place(index + 1), "white space at the end of the line"));
        }
    }
}

fn code(file: &File, is_library: bool, problems: &mut Vec<Problem>) {
    let masked = mask(&file.text);
    for unfinished in UNFINISHED {
        for at in words(&masked, unfinished) {
            problems.push(file.problem(at, format!("'{unfinished}' left behind")));
        }
    }
    let in_source = file.path.starts_with("crates/") && file.path.contains("/src/");
    if !is_library || !in_source || file.is_test() {
        return;
    }
    let program = without_tests(&masked);
    for output in OUTPUT {
        for at in words(&program, output) {
            let message = "in a library: return the value, or write to a `Write` that the caller gives";
            problems.push(file.problem(at, format!("'{output}' {message}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&[File::new(path, text)]).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn clean_files_pass() {
        let clean =
            "//! Words like methodology and todos are fine.\nfn f(out: &mut dyn Write) {\n    writeln!(out)\n}\n";
        assert_eq!(messages("crates/plan/src/a.rs", clean), [""; 0]);
        assert_eq!(messages("docs/a.md", "See crates/work/x, ~/home/x and https://example.org/home/x.\n"), [""; 0]);
        assert_eq!(messages("Makefile", "all:\n\tmake it \n"), [""; 0]);
    }

    #[test]
    fn every_kind_of_leftover_is_found_with_its_line() {
        let cases = [
            ("crates/plan/src/a.rs", format!("\n// {}: later", NOTES[0]), "left behind"),
            ("docs/a.md", format!("\n{} this", NOTES[1]), "left behind"),
            ("Makefile", format!("\n# {}", NOTES[2]), "left behind"),
            ("crates/plan/src/a.rs", format!("\nfn f() {{ {}(); }}", UNFINISHED[0]), "left behind"),
            ("crates/plan/src/a.rs", format!("\nconst P: &str = \"{}me\";", MACHINE_FOLDERS[0]), "one machine"),
            ("examples/a.sql", format!("\n'path' = '{}me'", MACHINE_FOLDERS[1]), "one machine"),
            ("tests/a.sh", format!("\ncd {}main", MACHINE_FOLDERS[2]), "one machine"),
            ("crates/plan/src/a.rs", "\nfn f() { println!(\"x\"); }".into(), "in a library"),
            ("crates/plan/src/a.rs", "\n\tlet x = 1;".into(), "a tab"),
            ("docs/a.md", "\nline ".into(), "white space"),
        ];
        for (path, text, expected) in cases {
            let found = messages(path, &text);
            assert_eq!(found.len(), 1, "{path} {text:?}: {found:?}");
            assert!(found[0].starts_with(&format!("{path}:2: ")) && found[0].contains(expected), "{}", found[0]);
        }
    }

    #[test]
    fn programs_tests_and_strings_may_print() {
        let print = "fn f() { println!(); }\n";
        assert_eq!(messages("crates/plan/tests/golden.rs", print), [""; 0]);
        assert_eq!(messages("crates/plan/src/lower/tests.rs", print), [""; 0]);
        assert_eq!(messages("crates/plan/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{print}}}\n")), [""; 0]);
        assert_eq!(messages("crates/plan/src/a.rs", "const S: &str = \"println!\"; // println!\n"), [""; 0]);
        let cli = [File::new("crates/cli/src/main.rs", print), File::new("crates/cli/src/view/plain.rs", print)];
        assert_eq!(check(&cli), []);
    }
}
