//! A strict reader of the text format of Prometheus, version 0.0.4.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a sample, in their order.
pub(crate) type Labels = Vec<(String, String)>;

/// A metric.
#[derive(Debug, Default)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    /// Name, with its suffix, labels and value of each sample.
    pub(crate) samples: Vec<(String, Labels, f64)>,
}

/// Reads a text; panics at its first error.
pub(crate) fn parse(text: &str) -> BTreeMap<String, Metric> {
    assert!(text.ends_with('\n'), "the last line must end");
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    let (mut described, mut seen) = (None::<String>, BTreeSet::new());
    let mut current = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a description");
            assert!(is_name(name) && !help.trim().is_empty(), "{line}");
            described = Some(name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert_eq!(described.take().as_deref(), Some(name), "HELP comes right before TYPE");
            assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            let metric = Metric { kind: kind.to_owned(), samples: Vec::new() };
            assert!(metrics.insert(name.to_owned(), metric).is_none(), "{name} has two groups");
            current = name.to_owned();
        } else {
            assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
            let (name, labels, value) = sample(line);
            let metric = metrics.get_mut(&current).expect("a type comes first");
            let suffixes: &[&str] = if metric.kind == "summary" { &["", "_count", "_sum"] } else { &[""] };
            let suffix =
                name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{name} is in the group of {current}"));
            assert!(suffixes.contains(&suffix), "{line}");
            let quantile = labels.iter().any(|(label, _)| label == "quantile");
            assert_eq!(quantile, metric.kind == "summary" && suffix.is_empty(), "{line}");
            assert!(metric.kind != "counter" || value >= 0.0, "{line}");
            assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
            metric.samples.push((name, labels, value));
        }
    }
    for (name, metric) in &metrics {
        assert!(!metric.samples.is_empty(), "{name} has no samples");
    }
    metrics
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a value");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, quoted) = rest.split_once("=\"").expect("a label");
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let (value, after) = unquoted(quoted);
            assert!(labels.iter().all(|(known, _)| known != label), "{line}");
            labels.push((label.to_owned(), value));
            match after.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("one space before the value");
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("{line}")))
}

/// A value up to its closing quote, and what follows that.
fn unquoted(quoted: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, c @ ('"' | '\\'))) => c,
                other => panic!("escape {other:?} in {quoted}"),
            }),
            c => value.push(c),
        }
    }
    panic!("no closing quote: {quoted}")
}

fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}
