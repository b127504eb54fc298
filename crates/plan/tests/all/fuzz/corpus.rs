//! What is changed: golden queries, examples, plans and errors, and the queries and expressions that are
//! compared with Flink.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::mutate::{Rng, change, words};

/// How a text is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A file for `run`.
    Script,
    /// Statements in a shell.
    Statements,
}

/// A text, and where it is from.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// It is no example of what is refused.
    pub(crate) is_valid: bool,
    /// It begins with so many bytes of declarations that are seldom changed.
    declared: usize,
    pub(crate) text: String,
}

/// See the module.
pub(crate) struct Corpus {
    pub(crate) samples: Vec<Sample>,
    /// Expressions over the table of the expressions.
    expressions: Vec<String>,
    /// Declares it.
    input: String,
    /// Words of all texts.
    words: Vec<String>,
}

/// What is refused on purpose.
const ERRORS: &str = "crates/plan/tests/errors";

const FOLDERS: [&str; 5] = ["tests/golden", "examples", "examples/nexmark", "crates/plan/tests/plans", ERRORS];

fn root() -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("the folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned()
}

impl Corpus {
    pub(crate) fn read() -> Corpus {
        let mut samples = Vec::new();
        for folder in FOLDERS {
            for path in files(folder) {
                let (name, text) = (name(&path), fs::read_to_string(&path).expect("readable"));
                let is_valid = folder != ERRORS && !name.starts_with("error_");
                samples.push(Sample { name, form: Form::Script, is_valid, declared: 0, text });
            }
        }
        let connected = |statement: &str| format!("{statement} WITH ('connector' = 'filesystem');\n");
        let tables = read("tests/flink/queries/tables.sql");
        let tables = tables.split(";\n").filter_map(|part| Some(&part[part.find("CREATE TABLE")?..]));
        let tables: String = tables.map(connected).collect();
        for path in files("tests/flink/queries").iter().filter(|path| !path.ends_with("tables.sql")) {
            for section in fs::read_to_string(path).expect("readable").split("\n--- ").skip(1) {
                let (name, section) = section.split_once('\n').expect("a query");
                let lines = section.lines().filter(|line| !line.starts_with("--"));
                let query: String = lines.map(|line| format!("{line}\n")).collect();
                let (declared, text) = (tables.len(), tables.clone() + &query);
                let is_valid = !section.contains("\n--! refused");
                samples.push(Sample { name: name.to_owned(), form: Form::Statements, is_valid, declared, text });
            }
        }
        let lines = read("tests/flink/corpus.sql");
        let lines = lines.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
        let input = connected(read("tests/flink/input.sql").trim());
        let mut corpus = Corpus { samples, expressions: lines.map(str::to_owned).collect(), input, words: Vec::new() };
        let texts = corpus.samples.iter().map(|sample| &sample.text).chain(&corpus.expressions);
        let all: BTreeSet<String> = texts.flat_map(|text| words(text)).collect();
        corpus.words = all.into_iter().collect();
        corpus
    }

    /// One of the texts, changed.
    pub(crate) fn changed(&self, rng: &mut Rng) -> Sample {
        let mut sample = match rng.below(3) {
            0 => self.of_expressions(rng),
            _ => {
                // Mostly what is planned as it is.
                let first = rng.choose(&self.samples);
                if first.is_valid { first } else { rng.choose(&self.samples) }.clone()
            }
        };
        let start = if rng.below(10) == 0 { 0 } else { sample.declared };
        let other = match rng.below(2) {
            0 => sample.text.clone(),
            _ => rng.choose(&self.samples).text.clone(),
        };
        let changed = change(&sample.text[start..], &other, &self.words, rng);
        sample.text.truncate(start);
        sample.text += &changed;
        sample
    }

    /// Some expressions in a query.
    fn of_expressions(&self, rng: &mut Rng) -> Sample {
        let count = 1 + rng.below(2);
        let columns: Vec<String> =
            (0..count).map(|place| format!("{} AS c{place}", rng.choose(&self.expressions))).collect();
        let query = format!("SELECT {} FROM input", columns.join(", "));
        let query = match rng.below(4) {
            0 => format!("{query} WHERE ({}) IS NOT NULL", rng.choose(&self.expressions)),
            1 => format!("SELECT COUNT(c0), MAX(c0) FROM ({query}) GROUP BY c0"),
            _ => query,
        };
        let (declared, text) = (self.input.len(), format!("{}{query};\n", self.input));
        Sample { name: "expressions".to_owned(), form: Form::Statements, is_valid: true, declared, text }
    }
}
