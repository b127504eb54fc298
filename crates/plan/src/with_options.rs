//! Options of `WITH` that apply to tables of every connector.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_dataflow::{AlignmentSpec, ConnectorSpec, Lateness, TableTraits};
use anabranch_model::{Error, Result, is_secret};

use crate::databases::Databases;
use crate::lookup_options::LookupOptions;
use crate::settings::{parse_duration, parse_parallelism};

/// The options for the engine.
#[derive(Debug, Default)]
pub(crate) struct TableOptions {
    pub(crate) idle_timeout_ms: Option<u64>,
    pub(crate) lateness: Lateness,
    /// The table for rows that are late in their partition.
    pub(crate) late_table: Option<String>,
    pub(crate) alignment: Option<AlignmentSpec>,
    pub(crate) malformed: Malformed,
    pub(crate) sink_parallelism: Option<u32>,
    pub(crate) scan_parallelism: Option<u32>,
    pub(crate) lookup: LookupOptions,
}

/// `on-malformed`.
#[derive(Debug, Default)]
pub(crate) enum Malformed {
    #[default]
    Fail,
    Skip,
    DeadLetter(String),
}

impl TableOptions {
    /// Resolves the names of tables in the present database.
    pub(crate) fn resolve_names(&mut self, databases: &Databases) -> Result<()> {
        let label = |name: &mut String, option: &str| -> Result<()> {
            *name = databases.path(name).map_err(|error| error.at(format!("option '{option}'")))?.label();
            Ok(())
        };
        if let Malformed::DeadLetter(name) = &mut self.malformed {
            label(name, "dead-letter.table")?;
        }
        self.late_table.iter_mut().try_for_each(|name| label(name, LATE_TABLE))
    }

    /// Checks that the connector and the table support the options.
    pub(crate) fn check(&self, traits: &TableTraits, spec: &ConnectorSpec, has_event_time: bool) -> Result<()> {
        self.lookup.check(traits.lookups, spec)?;
        let needs = [(LATE_TABLE, self.late_table.is_some()), (ALIGNMENT_GROUP, self.alignment.is_some())];
        if let Some((option, _)) = needs.into_iter().find(|(_, is_set)| *is_set && !has_event_time) {
            return Err(Error::user("the table has no event time")
                .at(format!("option '{option}'"))
                .remedy("declare one: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, or omit the option"));
        }
        if self.lateness == Lateness::Partition && (traits.changes.is_some() || traits.versions.is_some()) {
            let what = format!(
                "rows of connector '{spec}' cannot be dropped as late: a row may retract or replace another one"
            );
            return Err(Error::user(what)
                .at("option 'scan.watermark.lateness'")
                .remedy("omit the option: windows drop late rows"));
        }
        if self.late_table.is_some() && traits.versions.is_some() {
            let what =
                format!("rows of connector '{spec}' are versions, so late ones cannot be written to another table");
            return Err(Error::user(what).at(format!("option '{LATE_TABLE}'")).remedy("omit the option"));
        }
        Ok(())
    }
}

/// The option with the table for late rows.
pub(crate) const LATE_TABLE: &str = "scan.watermark.late-table";
/// The option with the group of tables that are aligned with each other.
const ALIGNMENT_GROUP: &str = "scan.watermark.alignment.group";
/// Flink's default.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Splits WITH into the connector's options and the engine's.
pub(crate) fn split_options(
    mut all: BTreeMap<String, String>,
    key_groups: u16,
) -> Result<(ConnectorSpec, TableOptions)> {
    let Some(connector) = all.remove("connector") else {
        if let Some(old) = all.get("connector.type") {
            return Err(Error::user(format!(
                "the options have the form that Flink had before 1.11: 'connector.type' = '{old}'"
            ))
            .remedy(format!("write WITH ({}), and see whether there are more differences", present_form(&all))));
        }
        return Err(Error::user("the table has no connector").remedy("add WITH ('connector' = '...', ...)"));
    };
    let mut options = TableOptions::default();
    let of = |name: &'static str| move |error: Error| error.at(format!("option '{name}'"));
    options.idle_timeout_ms = idle_timeout_ms(&mut all)?;
    (options.lateness, options.late_table) = lateness(&mut all)?;
    options.alignment = alignment(&mut all)?;
    if let Some(text) = all.remove("sink.parallelism") {
        options.sink_parallelism = Some(parse_parallelism(&text, key_groups).map_err(of("sink.parallelism"))?);
    }
    if let Some(text) = all.remove("scan.parallelism") {
        options.scan_parallelism = Some(parse_parallelism(&text, key_groups).map_err(of("scan.parallelism"))?);
    }
    options.lookup = LookupOptions::extract(&mut all)?;
    options.malformed = malformed(&mut all)?;
    Ok((ConnectorSpec { connector, options: all }, options))
}

/// Converts options of the form before Flink 1.11 to the present form. Secrets are hidden.
fn present_form(old: &BTreeMap<String, String>) -> String {
    let format = old.get("format.type").map_or("json", String::as_str);
    let name = |name: &str| {
        Some(match name {
            "connector.type" => "connector".to_owned(),
            "format.type" => "format".to_owned(),
            // The columns and the query imply these.
            "connector.version"
            | "connector.property-version"
            | "format.property-version"
            | "format.derive-schema"
            | "update-mode" => return None,
            "connector.startup-mode" => "scan.startup.mode".to_owned(),
            "connector.table" => "table-name".to_owned(),
            "connector.write.flush.max-rows" => "sink.buffer-flush.max-rows".to_owned(),
            "connector.write.flush.interval" => "sink.buffer-flush.interval".to_owned(),
            other => match (other.strip_prefix("connector."), other.strip_prefix("format.")) {
                (Some(rest), _) if rest.starts_with("properties.") && rest.ends_with(".key") => return None,
                (Some(rest), _) => rest.to_owned(),
                (_, Some(rest)) => format!("{format}.{rest}"),
                _ => other.to_owned(),
            },
        })
    };
    let value = |name: &str, value: &str| match name {
        _ if is_secret(name) => "...".to_owned(),
        "connector.type" if value == "kafka" && old.get("update-mode").is_some_and(|mode| mode == "upsert") => {
            "upsert-kafka".to_owned()
        }
        _ => value.replace('\'', "''"),
    };
    let options = old.iter().filter_map(|(old, text)| Some(format!("'{}' = '{}'", name(old)?, value(old, text))));
    options.collect::<Vec<_>>().join(", ")
}

/// The idle timeout of a partition, by either name.
fn idle_timeout_ms(all: &mut BTreeMap<String, String>) -> Result<Option<u64>> {
    const NAMES: [&str; 2] = ["scan.idle-timeout", "scan.watermark.idle-timeout"];
    let given = NAMES.map(|name| all.remove(name).map(|text| (name, text)));
    let (name, text) = match given {
        [Some(_), Some(_)] => {
            let [ours, flinks] = NAMES;
            return Err(Error::user(format!("options '{ours}' and '{flinks}' are the same")).remedy("give one of them"));
        }
        [Some(one), None] | [None, Some(one)] => one,
        [None, None] => return Ok(None),
    };
    let timeout = parse_duration(&text).map_err(|error| error.at(format!("option '{name}'")))?;
    Ok(Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)).filter(|ms| *ms > 0))
}

/// The kind of lateness, and the table for late rows.
fn lateness(all: &mut BTreeMap<String, String>) -> Result<(Lateness, Option<String>)> {
    let lateness = match all.remove("scan.watermark.lateness").as_deref() {
        None | Some("job") => Lateness::Job,
        Some("partition") => Lateness::Partition,
        Some(other) => {
            return Err(Error::user(format!("unknown value '{other}' of option 'scan.watermark.lateness'"))
                .remedy("use 'job' or 'partition'"));
        }
    };
    let table = all.remove(LATE_TABLE);
    if table.is_some() && lateness == Lateness::Job {
        return Err(Error::user(format!("option '{LATE_TABLE}' needs rows that are late in their partition"))
            .remedy("add 'scan.watermark.lateness' = 'partition', or omit it"));
    }
    Ok((lateness, table))
}

/// How far partitions may be ahead of others. As in Flink, the group and the drift must be given together.
fn alignment(all: &mut BTreeMap<String, String>) -> Result<Option<AlignmentSpec>> {
    const DRIFT: &str = "scan.watermark.alignment.max-drift";
    const INTERVAL: &str = "scan.watermark.alignment.update-interval";
    let (group, drift, interval) = (all.remove(ALIGNMENT_GROUP), all.remove(DRIFT), all.remove(INTERVAL));
    let duration = |name: &str, text: &str| parse_duration(text).map_err(|error| error.at(format!("option '{name}'")));
    let (group, drift) = match (group, drift) {
        (Some(group), Some(drift)) => (group, drift),
        (None, None) if interval.is_none() => return Ok(None),
        (None, _) => {
            return Err(Error::user(format!(
                "options of watermark alignment are given, but '{ALIGNMENT_GROUP}' is missing"
            ))
            .remedy(format!("add '{ALIGNMENT_GROUP}' = 'name', the same for all tables that are aligned")));
        }
        (Some(_), None) => {
            return Err(Error::user(format!("option '{ALIGNMENT_GROUP}' needs option '{DRIFT}'"))
                .remedy(format!("add for example '{DRIFT}' = '1 min'")));
        }
    };
    if group.trim().is_empty() {
        return Err(Error::user(format!("option '{ALIGNMENT_GROUP}' is empty")).remedy("give the group a name"));
    }
    let interval = interval.map_or(Ok(UPDATE_INTERVAL), |text| duration(INTERVAL, &text))?;
    if interval.is_zero() {
        return Err(Error::user("the interval must be positive")
            .at(format!("option '{INTERVAL}'"))
            .remedy("use for example '1 s'"));
    }
    Ok(Some(AlignmentSpec {
        group,
        max_drift_ms: i64::try_from(duration(DRIFT, &drift)?.as_millis()).unwrap_or(i64::MAX),
        update_interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1),
    }))
}

/// The treatment of records that cannot be decoded.
fn malformed(all: &mut BTreeMap<String, String>) -> Result<Malformed> {
    let dead_letter = all.remove("dead-letter.table");
    // Flink's option `ignore-parse-errors` also skips such records. It stays, because the connector reads it.
    let ignored = |(name, value): (&String, &String)| {
        name.ends_with("ignore-parse-errors") && !name.starts_with("key.") && value.trim().eq_ignore_ascii_case("true")
    };
    let ignores_errors = all.iter().any(ignored);
    Ok(match (all.remove("on-malformed").as_deref(), dead_letter) {
        (None, None) if ignores_errors => Malformed::Skip,
        (None | Some("fail"), None) => Malformed::Fail,
        (Some("skip"), None) => Malformed::Skip,
        (Some("dead-letter"), Some(table)) => Malformed::DeadLetter(table),
        (Some("dead-letter"), None) => {
            return Err(Error::user("'on-malformed' = 'dead-letter' needs the table to write to")
                .remedy("add 'dead-letter.table' = 'name of a declared table'"));
        }
        (_, Some(_)) => {
            return Err(Error::user("'dead-letter.table' has no effect here")
                .remedy("add 'on-malformed' = 'dead-letter', or omit it"));
        }
        (Some(other), None) => {
            return Err(Error::user(format!("unknown value '{other}' of option 'on-malformed'"))
                .remedy("use 'fail', 'skip' or 'dead-letter'"));
        }
    })
}
