//! A partitioned table: a folder for each combination of values, `dt=2024-01-01/hm=10%3A05`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_operators::Zone;
use chrono::{NaiveDate, NaiveDateTime};

use super::entries;
use crate::Options;

/// The columns that partition a table, and when a folder is declared complete.
#[derive(Clone, Debug)]
pub(super) struct Partitions {
    /// Names of the columns, the outermost folder first.
    pub(super) keys: Vec<String>,
    /// Stands for NULL and the empty string in the name of a folder.
    default_name: String,
    /// Text that becomes a folder's time when `$column` is replaced by the column's value.
    time_pattern: Option<String>,
    /// The time zone of the folders' times. `None`: UTC.
    zone: Option<Zone>,
    pub(super) trigger: Trigger,
    pub(super) delay: Duration,
    /// Name of the file that declares a folder complete; `None`: none does.
    pub(super) success: Option<String>,
}

/// When a folder is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// When the delay has passed since the folder was first written.
    ProcessTime,
    /// When the watermark has passed the folder's time by the delay.
    PartitionTime,
}

impl Partitions {
    /// Reads the options of a partitioned table; `None` if it is not partitioned. The planner writes the
    /// columns of PARTITIONED BY to the option `partition-keys`.
    pub(super) fn read(options: &mut Options<'_>) -> Result<Option<Partitions>> {
        let keys = options.string("partition-keys").map(|keys| keys.split(',').map(str::to_owned).collect::<Vec<_>>());
        let triggers = [("process-time", Trigger::ProcessTime), ("partition-time", Trigger::PartitionTime)];
        let trigger = options.choice("sink.partition-commit.trigger", &triggers)?;
        let delay = options.duration("sink.partition-commit.delay")?;
        let zone = options.string("sink.partition-commit.watermark-time-zone");
        let policy = options.choice("sink.partition-commit.policy.kind", &[("success-file", ())])?;
        let success = options.string("sink.partition-commit.success-file.name");
        let time_pattern = options.string("partition.time-extractor.timestamp-pattern");
        options.choice("partition.time-extractor.kind", &[("default", ())])?;
        let default_name = options.string("partition.default-name");
        let zone = zone.filter(|zone| !matches!(*zone, "UTC" | "default")).map(parse_zone).transpose()?;
        let given = policy.is_some() || trigger.is_some() || time_pattern.is_some() || zone.is_some();
        let Some(keys) = keys else {
            return match given {
                true => Err(Error::user("options of partitions are given, but the table is not divided into any")
                    .remedy("add PARTITIONED BY (column, ...) before WITH")),
                false => Ok(None),
            };
        };
        Ok(Some(Partitions {
            keys,
            default_name: default_name.unwrap_or("__DEFAULT_PARTITION__").to_owned(),
            time_pattern: time_pattern.map(str::to_owned),
            zone,
            trigger: trigger.unwrap_or(Trigger::ProcessTime),
            delay: delay.unwrap_or(Duration::ZERO),
            success: policy.map(|()| success.unwrap_or("_SUCCESS").to_owned()),
        }))
    }

    /// The folder of these values, relative to the table's folder.
    pub(super) fn folder<'a>(&self, values: impl Iterator<Item = &'a str>) -> PathBuf {
        let name = |(key, value): (&String, &str)| {
            let value = if value.is_empty() { &self.default_name } else { value };
            format!("{}={}", escaped(key), escaped(value))
        };
        self.keys.iter().zip(values).map(name).collect()
    }

    /// The existing folders of partitions within `base`.
    pub(super) fn existing(&self, base: &Path) -> Result<Vec<PathBuf>> {
        let mut found = vec![base.to_owned()];
        for key in &self.keys {
            let begin = format!("{}=", escaped(key));
            let mut inner = Vec::new();
            for folder in found {
                for entry in entries(&folder)? {
                    let is_of_key = entry.file_name().to_str().is_some_and(|name| name.starts_with(&begin));
                    if is_of_key && entry.path().is_dir() {
                        inner.push(entry.path());
                    }
                }
            }
            found = inner;
        }
        Ok(found)
    }

    /// Whether a value of a folder was NULL or empty.
    pub(super) fn has_default(&self, folder: &Path) -> bool {
        let names = folder.iter().rev().take(self.keys.len()).filter_map(|name| name.to_str()?.split_once('='));
        names.map(|(_, value)| unescaped(value)).any(|value| value == self.default_name)
    }

    /// The time of a folder, in milliseconds since 1970.
    pub(super) fn time_ms(&self, folder: &Path) -> Result<i64> {
        let names = folder.iter().rev().take(self.keys.len()).filter_map(|name| name.to_str()?.split_once('='));
        let mut values: Vec<(String, String)> = names.map(|(key, value)| (unescaped(key), unescaped(value))).collect();
        let mut text = match &self.time_pattern {
            Some(pattern) => pattern.clone(),
            None => values.last().map(|(_, value)| value.clone()).unwrap_or_default(),
        };
        // The name of one column may be a prefix of another's.
        values.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
        for (key, value) in &values {
            text = text.replace(&format!("${key}"), value);
        }
        let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S").ok();
        let time = time.or_else(|| NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0));
        let time = time.map(|time| time.and_utc().timestamp_millis());
        time.map(|local| self.zone.map_or(local, |zone| zone.instant_ms(local))).ok_or_else(|| {
            Error::user(format!("the partition {} has the time '{text}', which cannot be read", folder.display()))
                .at("option 'partition.time-extractor.timestamp-pattern'")
                .remedy("give a pattern that becomes a time such as 2024-01-01 10:05:00, for example '$dt $hm:00'")
        })
    }
}

fn parse_zone(name: &str) -> Result<Zone> {
    Zone::parse(name).ok_or_else(|| {
        Error::user(format!("there is no time zone '{name}'"))
            .at("option 'sink.partition-commit.watermark-time-zone'")
            .remedy(
                "use a name of the time zone database such as 'Europe/Berlin', an offset such as 'GMT+03:00', or 'UTC'",
            )
    })
}

/// Characters that are escaped in the name of a folder.
fn is_special(c: char) -> bool {
    c.is_ascii_control() || "\"#%'*/:=?\\{}[]^".contains(c)
}

fn escaped(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match is_special(c) {
            true => name.push_str(&format!("%{:02X}", u32::from(c))),
            false => name.push(c),
        }
    }
    // Unescaped, these names mean the folder itself and its parent.
    if name == "." || name == ".." { name.replace('.', "%2E") } else { name }
}

fn unescaped(name: &str) -> String {
    let (mut text, mut rest) = (String::new(), name);
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let code = after.get(..2).and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        rest = match code {
            Some(c) => {
                text.push(c);
                &after[2..]
            }
            None => {
                text.push('%');
                after
            }
        };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(keys: &[&str], pattern: Option<&str>) -> Partitions {
        Partitions {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            default_name: "__DEFAULT_PARTITION__".into(),
            time_pattern: pattern.map(str::to_owned),
            zone: None,
            trigger: Trigger::PartitionTime,
            delay: Duration::ZERO,
            success: None,
        }
    }

    #[test]
    fn folders_are_named_as_flink_names_them() {
        let partitions = by(&["dt", "hm"], Some("$dt $hm:00"));
        let folder = partitions.folder(["2024-01-01", "10:05"].into_iter());
        assert_eq!(folder, Path::new("dt=2024-01-01/hm=10%3A05"));
        assert_eq!(partitions.time_ms(&Path::new("/a/b").join(folder)).unwrap(), 1_704_103_500_000);
        let folder = partitions.folder(["", "../a=%"].into_iter());
        assert_eq!(folder, Path::new("dt=__DEFAULT_PARTITION__/hm=..%2Fa%3D%25"));
        assert_eq!(unescaped("..%2Fa%3D%25"), "../a=%");
        let error = partitions.time_ms(&folder).unwrap_err().to_string();
        assert!(error.contains("'__DEFAULT_PARTITION__ ../a=%:00'"), "{error}");
    }

    #[test]
    fn the_time_of_a_folder_is_one_of_its_zone() {
        let folder = Path::new("day=2024-03-10");
        let zone = Some(parse_zone("America/New_York").unwrap());
        let time_ms = |pattern| Partitions { zone, ..by(&["day"], Some(pattern)) }.time_ms(folder).unwrap();
        assert_eq!(time_ms("$day"), 1_710_046_800_000);
        // A time that a change of the clock skips.
        assert_eq!(time_ms("$day 02:30:00"), time_ms("$day 03:30:00"));
        let error = parse_zone("Mars/Olympus").unwrap_err().to_string();
        assert!(error.contains("no time zone 'Mars/Olympus'") && error.contains("watermark-time-zone"), "{error}");
    }

    #[test]
    fn without_a_pattern_the_first_column_is_the_time() {
        let partitions = by(&["day", "k"], None);
        assert_eq!(partitions.time_ms(Path::new("day=2024-01-01/k=5")).unwrap(), 1_704_067_200_000);
        let partitions = by(&["d", "day"], Some("$day 01:00:00"));
        assert_eq!(partitions.time_ms(Path::new("d=7/day=2024-01-01")).unwrap(), 1_704_070_800_000);
    }
}
