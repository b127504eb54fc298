//! The contents of a checkpoint. A manifest names everything that a restore needs. It is written after all of
//! that, so a checkpoint exists as a whole or not at all.

use std::collections::BTreeMap;

use anabranch_dataflow::KeptPart;
use anabranch_model::{Epoch, Error, Incarnation, KeyGroupRange, KeyGroups, Result, TaskId};
use serde::{Deserialize, Serialize};

use crate::Blob;

/// Version of the format. A reader refuses versions that it does not know.
pub const FORMAT: u32 = 1;

/// All of a job's snapshots at one epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// Identifies the job among all that ever wrote here: stays the same while the job resumes from its own
    /// checkpoints.
    pub job: String,
    /// [`Savepoint::id`](crate::Savepoint::id) of the savepoint that the job started from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The parts of the plan that keep something, in the order in which rows reach them. A restore compares
    /// them with those of its plan.
    pub parts: Vec<KeptPart>,
    /// No identity of the job ever had this number or a higher one.
    pub unused: u32,
    /// Number of key groups of the job.
    pub key_groups: KeyGroups,
    /// The epoch at whose end the snapshots were taken.
    pub epoch: Epoch,
    /// The incarnation that wrote it.
    pub incarnation: Incarnation,
    /// One entry per task.
    pub tasks: Vec<TaskState>,
}

/// One task's snapshot. Its parts have the numbers of their [identities](anabranch_model::OperatorId), so
/// that they are found when stages are cut differently, as at another parallelism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskState {
    /// The task.
    pub task: TaskId,
    /// The task had nothing more to do.
    pub finished: bool,
    /// The state of its source, if it read a table.
    pub source: Option<SourceState>,
    /// State of its operators.
    pub operators: Vec<OperatorState>,
    /// The state of its sink, if it wrote a table.
    pub sink: Option<SinkState>,
}

/// The state of a reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceState {
    /// Number of the source's identity.
    pub number: u32,
    /// Positions of the partitions.
    pub positions: BTreeMap<String, String>,
    /// Event time of these partitions, in milliseconds.
    pub watermarks_ms: BTreeMap<String, i64>,
    /// Identifies the expression of that event time: with another one it does not count. `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<String>,
    /// What the sink of malformed records has prepared and not yet made visible, oldest first.
    pub dead_letters: Vec<Prepared>,
    /// The same of the sink of late rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_rows: Vec<Prepared>,
}

impl TaskState {
    /// What all of the task's sinks have prepared and not yet made visible.
    pub fn prepared(&self) -> impl Iterator<Item = &Prepared> + Clone {
        let of_sink = self.sink.iter().flat_map(|sink| &sink.prepared);
        let of_source = self.source.iter().flat_map(|source| source.dead_letters.iter().chain(&source.late_rows));
        of_sink.chain(of_source)
    }
}

/// State of one operator in one task: all of these files together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorState {
    /// Number of the operator's identity.
    pub number: u32,
    /// Event time that it had reached, in milliseconds.
    pub watermark_ms: i64,
    /// Oldest first.
    pub files: Vec<StateFile>,
}

/// What a sink had prepared and not yet made visible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkState {
    /// Number of the sink's identity.
    pub number: u32,
    /// Oldest first.
    pub prepared: Vec<Prepared>,
}

/// A file of state rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateFile {
    /// The file.
    pub blob: Blob,
    /// Number of rows.
    pub rows: u64,
    /// Start of the latest pane of its rows, in milliseconds; `None` if the state has no panes.
    pub last_pane_ms: Option<i64>,
    /// Its rows of these key groups belong to the state.
    pub key_groups: KeyGroupRange,
    /// It may have rows of other key groups. Other tasks have them, or had. `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
    /// The table of the operator's state that its rows are of; empty for the first one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub table: String,
}

/// How rows of other tasks are recognized in a file of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Others {
    /// The first column of the key.
    pub first_key: usize,
    /// Number of columns of the key.
    pub keys: usize,
}

/// What a sink has prepared, to be made visible once the checkpoint is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// The epoch at whose end it was prepared.
    pub epoch: Epoch,
    /// Index of the task that prepared it.
    pub task: u32,
    /// Its content.
    pub blob: Blob,
}

impl Manifest {
    /// The files of these operators, each once.
    pub fn state_files(&self, wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = &StateFile> {
        let operators = self.tasks.iter().flat_map(|task| &task.operators);
        let files = operators.filter(|operator| wanted(operator.number)).flat_map(|operator| &operator.files);
        files.map(|file| (&file.blob.name, file)).collect::<BTreeMap<_, _>>().into_values()
    }

    /// Names of all objects that belong to the checkpoint, except its manifest.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let of_task = |task: &TaskState| {
            let files = task.operators.iter().flat_map(|operator| &operator.files).map(|file| &file.blob);
            files
                .chain(task.prepared().map(|prepared| &prepared.blob))
                .map(|blob| blob.name.clone())
                .collect::<Vec<_>>()
        };
        self.tasks.iter().flat_map(of_task)
    }
}

/// A manifest with its checksum in the first line.
pub fn encode_manifest(manifest: &Manifest) -> Result<Vec<u8>> {
    let text = serde_json::to_string_pretty(manifest)
        .map_err(|error| Error::internal(format!("a manifest cannot be encoded: {error}")))?;
    let checksum = crc32fast::hash(text.as_bytes());
    Ok(format!("anabranch checkpoint {} {checksum:08x}\n{text}\n", manifest.format).into_bytes())
}

/// Decodes the output of [`encode_manifest`]. Damage and unknown versions are errors.
pub fn decode_manifest(content: &[u8]) -> Result<Manifest> {
    let damaged = |what: String| {
        Error::damaged(format!("the manifest of a checkpoint is damaged: {what}"))
            .remedy("start from an older checkpoint, or restore the file from a copy")
    };
    let text = std::str::from_utf8(content).map_err(|error| damaged(error.to_string()))?;
    let (head, body) = text.split_once('\n').ok_or_else(|| damaged("it has one line".into()))?;
    let words: Vec<&str> = head.split(' ').collect();
    let ["anabranch", "checkpoint", format, checksum] = words.as_slice() else {
        return Err(damaged(format!("it begins with '{}'", head.chars().take(40).collect::<String>())));
    };
    if *format != FORMAT.to_string() {
        return Err(Error::user(format!("the checkpoint has format {format}; this version reads {FORMAT}"))
            .remedy("start the job with the version of Anabranch that wrote it"));
    }
    let body = body.strip_suffix('\n').ok_or_else(|| damaged("its end is missing".into()))?;
    if u32::from_str_radix(checksum, 16) != Ok(crc32fast::hash(body.as_bytes())) {
        return Err(damaged("its checksum does not match".into()));
    }
    let manifest: Manifest = serde_json::from_str(body).map_err(|error| damaged(error.to_string()))?;
    if manifest.format.to_string() != *format {
        return Err(damaged(format!("its first line says format {format}, the rest {}", manifest.format)));
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::{Lineage, PartKey};
    use anabranch_model::{OperatorId, StageId};

    use super::*;

    fn part(id: &str, table: &str) -> KeptPart {
        let key = PartKey::Table { table: table.into(), connector: "kafka".into() };
        let lineage = Lineage {
            from: vec!["events".into()],
            through: vec!["0011223344556677".into()],
            to: vec!["results".into()],
            how: "1-00112233445566ff".into(),
        };
        KeptPart { id: OperatorId::parse(id).expect("an identity"), key, lineage }
    }

    fn manifest() -> Manifest {
        let blob = Blob { name: "state/1-7-2.0-1.arrow".into(), bytes: 4711, crc32: 0xdead_beef };
        Manifest {
            format: FORMAT,
            job: "ads-1a2b".into(),
            origin: Some("ads-0@2-40:deadbeef".into()),
            parts: vec![part("source 0", "events"), part("state 0", "count"), part("sink 0", "results")],
            unused: 1,
            key_groups: KeyGroups(128),
            epoch: Epoch(7),
            incarnation: Incarnation(1),
            tasks: vec![TaskState {
                task: TaskId { stage: StageId(2), index: 0 },
                finished: false,
                source: Some(SourceState {
                    number: 0,
                    positions: BTreeMap::from([("ads/0".into(), "4711".into())]),
                    watermarks_ms: BTreeMap::from([("ads/0".into(), 1000)]),
                    event_time: Some("1-00112233445566ff".into()),
                    dead_letters: Vec::new(),
                    late_rows: Vec::new(),
                }),
                operators: vec![OperatorState {
                    number: 0,
                    watermark_ms: -5,
                    files: vec![StateFile {
                        blob: blob.clone(),
                        rows: 10,
                        last_pane_ms: Some(20_000),
                        key_groups: KeyGroupRange { first: 0, end: 64 },
                        others: Some(Others { first_key: 1, keys: 2 }),
                        table: "values of count_1".into(),
                    }],
                }],
                sink: Some(SinkState { number: 0, prepared: vec![Prepared { epoch: Epoch(7), task: 0, blob }] }),
            }],
        }
    }

    /// The fixture of a format is written once, by its first version, and never again.
    #[test]
    fn each_format_is_read_forever() {
        let fixture = include_bytes!("../fixtures/manifest-1.txt");
        assert_eq!(decode_manifest(fixture).expect("readable"), manifest());
        assert_eq!(encode_manifest(&manifest()).expect("writable"), fixture);
        for other in [0, 2, 8] {
            let other = format!("checkpoint {other}");
            let text = String::from_utf8_lossy(fixture).replacen("checkpoint 1", &other, 1);
            let error = decode_manifest(text.as_bytes()).expect_err("unknown").to_string();
            assert!(
                error.contains("; this version reads 1") && error.contains("the version of Anabranch that wrote it"),
                "{error}"
            );
        }
    }

    #[test]
    fn any_damage_is_detected() {
        let content = encode_manifest(&manifest()).expect("encoded");
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 1;
            assert!(decode_manifest(&damaged).is_err(), "a changed bit at {at} passes");
            assert!(decode_manifest(&content[..at]).is_err(), "cut at {at} passes");
        }
    }
}
