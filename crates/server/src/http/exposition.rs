//! Metrics in the text format of Prometheus, version 0.0.4: base units, one group of lines per metric.

use std::fmt::Write;

use super::jobs::Reading;
use super::metrics::{Family, Kind, Sample, families};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of these jobs and of the process.
pub(super) fn text(jobs: &[(String, Reading)]) -> String {
    let mut text = String::new();
    families(jobs).iter().for_each(|of| family(&mut text, of));
    text
}

/// The lines of a metric.
fn family(text: &mut String, Family { name, kind, help, samples }: &Family) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Summary => "summary",
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for Sample { is_count, labels, value } in samples {
        let suffix = if *is_count { "_count" } else { "" };
        let _ = writeln!(text, "{name}{suffix}{} {value}", braced(labels));
    }
}

fn braced(labels: &[(&str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let labels = [("a", "x\"y\\z\nw".to_owned()), ("b", String::new())];
        assert_eq!(braced(&labels), "{a=\"x\\\"y\\\\z\\nw\",b=\"\"}");
        let mut text = String::new();
        let of = |is_count, value| Sample { is_count, labels: vec![("a", "b".to_owned())], value };
        let samples = vec![of(false, 1.5), of(true, 2.0)];
        family(&mut text, &Family { name: "some", kind: Kind::Summary, help: "one", samples });
        assert_eq!(text, "# HELP some one\n# TYPE some summary\nsome{a=\"b\"} 1.5\nsome_count{a=\"b\"} 2\n");
    }

    #[test]
    fn a_metric_without_samples_is_omitted() {
        let text = text(&[]);
        assert!(text.contains("anabranch_process_threads ") && !text.contains("anabranch_job_ready"), "{text}");
    }
}
