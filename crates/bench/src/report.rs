//! Results as Markdown: readable on a terminal and kept in a file.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, Result};

use crate::measure::{Comparison, Measurement};
use crate::pingpong::Latency;

/// The results of a run of the program: on standard output, and in a file if there is one. A run takes long:
/// each section is written when it is measured.
#[derive(Debug)]
pub(crate) struct Report {
    file: Option<(PathBuf, File)>,
}

/// A table with a title.
#[derive(Debug)]
pub(crate) struct Section {
    /// Title.
    pub(crate) title: String,
    /// What the table shows, and what to consider when reading it.
    pub(crate) note: String,
    /// The table.
    pub(crate) table: Table,
}

/// Rows of a section.
#[derive(Debug)]
pub(crate) enum Table {
    /// Contestants; the others are compared with the first `limits` of them.
    Contestants { comparison: Comparison, limits: usize },
    /// Single values: name, and value with its unit.
    Values(Vec<(String, String)>),
    /// Latencies.
    Latencies(Vec<Latency>),
    /// Values with bounds.
    Bounds(Vec<Bounded>),
}

/// A value, and the largest one that is good enough, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Bounded {
    name: String,
    value: String,
    bound: Option<(String, bool)>,
}

impl Bounded {
    /// A number of a unit that is at most `bound`.
    pub(crate) fn new(name: impl Into<String>, value: f64, bound: f64, unit: &str) -> Bounded {
        let shown = |number: f64| format!("{} {unit}", shown(number)).trim_end().to_owned();
        Bounded { name: name.into(), value: shown(value), bound: Some((shown(bound), value <= bound)) }
    }

    /// A value without a bound.
    pub(crate) fn plain(name: impl Into<String>, value: impl Into<String>) -> Bounded {
        Bounded { name: name.into(), value: value.into(), bound: None }
    }

    /// `name 1.20, bound 1.35: met`.
    pub(crate) fn sentence(&self) -> String {
        let bound = self.bound.as_ref().map(|(bound, met)| format!(", bound {bound}: {}", is_met(*met)));
        format!("{} {}{}", self.name, self.value, bound.unwrap_or_default())
    }
}

fn is_met(met: bool) -> &'static str {
    if met { "met" } else { "NOT met" }
}

/// A number with three significant digits or more.
fn shown(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

impl Report {
    /// Begins a report with what it is and where it was measured. Replaces the file.
    pub(crate) fn begin(file: Option<&Path>) -> Result<Report> {
        let create = |path: &Path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(error) => Err(cannot_write(path, &error)),
        };
        let mut report = Report { file: file.map(create).transpose()? };
        let command = "Written by `make bench`, or `anabranch-bench all --repetitions 7 --markdown FILE` for more rounds. \
                       `make bench-flight` prints Arrow Flight beside the limit of the sections on the exchange.";
        report.write(&format!("# Benchmark results\n\n{command}\n\n{}\n", machine()))?;
        Ok(report)
    }

    /// Adds a section.
    pub(crate) fn add(&mut self, section: &Section) -> Result<()> {
        self.write(&format!("\n{section}"))
    }

    fn write(&mut self, text: &str) -> Result<()> {
        print!("{text}");
        match &mut self.file {
            Some((path, file)) => file.write_all(text.as_bytes()).map_err(|error| cannot_write(path, &error)),
            None => Ok(()),
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::outside(format!("cannot write: {error}"))
        .at(path.display().to_string())
        .remedy("give --markdown a file in a directory that exists and can be written")
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n\n{}\n", self.title, self.note)?;
        match &self.table {
            Table::Contestants { comparison, limits } => contestants(f, comparison, *limits),
            Table::Values(values) => {
                table(f, &["", "value"], values.iter().map(|(name, value)| vec![name.clone(), value.clone()]))
            }
            Table::Bounds(values) => table(
                f,
                &["", "value", "bound", ""],
                values.iter().map(|value| {
                    let (bound, met) = match &value.bound {
                        Some((bound, met)) => (bound.clone(), is_met(*met).to_owned()),
                        None => ("-".to_owned(), String::new()),
                    };
                    vec![value.name.clone(), value.value.clone(), bound, met]
                }),
            ),
            Table::Latencies(latencies) => table(
                f,
                &["latency", "samples", "p50 µs", "p99 µs", "p99.9 µs", "max µs"],
                latencies.iter().map(|latency| {
                    let quantiles = [0.5, 0.99, 0.999, 1.0].map(|share| format!("{:.1}", latency.quantile_us(share)));
                    [latency.name.clone(), latency.samples().to_string()].into_iter().chain(quantiles).collect()
                }),
            ),
        }
    }
}

fn contestants(f: &mut fmt::Formatter<'_>, comparison: &Comparison, limits: usize) -> fmt::Result {
    let measurements = &comparison.measurements;
    let by_median =
        |a: &&Measurement, b: &&Measurement| a.cpu_s_per_million_median().total_cmp(&b.cpu_s_per_million_median());
    let limit = measurements.iter().take(limits).min_by(by_median);
    let rows = measurements.iter().map(|m| {
        vec![
            m.name.clone(),
            format!("{:.4}", m.cpu_s_per_million_median()),
            format!("{:.4}", m.cpu_s_per_million_min()),
            grouped(m.events_per_s()),
            limit.map_or_else(|| "-".into(), |limit| format!("{:.2}", m.cpu_ratio_median(limit))),
            m.result.result_hash.map_or_else(|| "-".into(), |hash| format!("`{hash:016x}`")),
        ]
    });
    let columns = ["program", "CPU-s per million", "best", "records/s (wall)", "CPU / limit", "answer"];
    table(f, &columns, rows)?;
    writeln!(
        f,
        "\nFixed work took {:.2} times as long in the slowest round as in the fastest.",
        comparison.machine_spread
    )
}

fn table(f: &mut fmt::Formatter<'_>, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> fmt::Result {
    let head: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::from("|");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(line, " {cell:<width$} |")?,
                _ => write!(line, " {cell:>width$} |")?,
            }
        }
        writeln!(f, "{line}")?;
        if number == 0 {
            let rule = |(column, width): (usize, &usize)| match column {
                0 => format!("|{}", "-".repeat(width + 2)),
                _ => format!("|{}:", "-".repeat(width + 1)),
            };
            writeln!(f, "{}|", widths.iter().enumerate().map(rule).collect::<String>())?;
        }
    }
    Ok(())
}

/// A whole number with separated thousands: `1,234,567`.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One line on the machine and the build.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    let build = match (cfg!(debug_assertions), cfg!(target_feature = "avx2")) {
        (true, _) => "dev build, **not for comparison**",
        (false, true) => "release build with AVX2",
        (false, false) => "release build for baseline x86-64",
    };
    format!(
        "{} processors ({}), Linux {}, {build}. CPU time is that of all threads. \
         Programs took turns; a value is the median of the runs, a ratio that of the ratios within each round.",
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        model.map_or("unknown model", |(_, model)| model),
        read("/proc/sys/kernel/osrelease").trim(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::RunResult;

    #[test]
    fn tables_are_aligned_and_ratios_refer_to_the_fastest_limit() {
        let of = |name, result_hash, cpu_s: &[f64]| {
            Measurement::of(name, RunResult { events: 2_000_000, result_hash }, cpu_s)
        };
        let measurements = vec![
            of("slow limit", Some(0xab), &[0.8, 0.9, 1.8]),
            of("limit", Some(0xab), &[0.4, 0.4, 0.8]),
            of("floor", None, &[0.1, 0.1, 0.2]),
            of("engine", Some(0xab), &[0.6, 0.7, 1.2]),
        ];
        let table = Table::Contestants { comparison: Comparison { measurements, machine_spread: 2.0 }, limits: 2 };
        let section = Section { title: "T".into(), note: "N".into(), table };
        let expected = "\
## T

N

| program    | CPU-s per million |   best | records/s (wall) | CPU / limit |             answer |
|------------|------------------:|-------:|-----------------:|------------:|-------------------:|
| slow limit |            0.4500 | 0.4000 |        2,222,222 |        2.25 | `00000000000000ab` |
| limit      |            0.2000 | 0.2000 |        5,000,000 |        1.00 | `00000000000000ab` |
| floor      |            0.0500 | 0.0500 |       20,000,000 |        0.25 |                  - |
| engine     |            0.3500 | 0.3000 |        2,857,143 |        1.50 | `00000000000000ab` |

Fixed work took 2.00 times as long in the slowest round as in the fastest.
";
        assert_eq!(section.to_string(), expected);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0.0, 999.0, 1000.4, 1_234_567.0].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
