//! Writes the documentation of the options.

use std::fmt::Write;

use super::option::Opt;
use super::{SUBJECTS, Settings, without_effect};

/// The options of `SET` in Markdown: a table for each subject, and Flink's options without effect.
#[must_use]
pub fn options_page() -> String {
    let defaults = Settings::default();
    let mut page = String::new();
    for subject in SUBJECTS {
        let _ = write!(page, "\n## {}\n\n| name | meaning | default |\n|---|---|---|\n", subject.title);
        for Opt { name, flink, help, default, get, .. } in subject.options {
            let also = if flink.is_empty() { String::new() } else { format!(". Flink's name: {}", code(flink)) };
            let default = if default.is_empty() { code(&[&get(&defaults)]) } else { (*default).to_owned() };
            let _ = writeln!(page, "| `{name}` | {help}{also} | {default} |");
        }
    }
    page += "\n## Options of Flink without effect\n\nThese are accepted. `run` and `explain` say the reason on standard \
             error, except with `--quiet`.\n\n| reason | options |\n|---|---|\n";
    for (reason, names) in without_effect::by_reason() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = writeln!(page, "| {reason} | {} |", code(&names));
    }
    page += "\nThese can have one value only:\n\n| option | value |\n|---|---|\n";
    for fixed in without_effect::FIXED {
        let _ = writeln!(page, "| `{}` | `{}` |", fixed.name, fixed.value);
    }
    page + "\n"
}

/// Names as code.
fn code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
