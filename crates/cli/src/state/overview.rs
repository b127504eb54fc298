//! An overview of a place: its checkpoints, and the contents of the newest one.

use anabranch_model::{Error, OperatorKind, Result};
use anabranch_server::{instant_text, watermark_ms};
use anabranch_state::{Contents, KeptPart, Manifest, SourceState, Stored};
use serde_json::{Value, json};

use super::{size, size_of};
use crate::view::text::{bytes, grouped, millis};

/// For people.
pub(super) fn text(place: &str, contents: &Contents, now_ms: i64) -> Result<String> {
    let newest = contents.newest()?;
    let mut text = match &contents.savepoint_from {
        Some(from) => format!("{place}: savepoint of job {}, whose checkpoints lay at {from}\n\n", newest.manifest.job),
        None => format!("{place}: checkpoints of job {}\n\n", newest.manifest.job),
    };
    let header = ["number", "epoch", "written", "state", "files", "tasks"].map(str::to_owned);
    let rows = contents.checkpoints.iter().map(|checkpoint| line(checkpoint, now_ms));
    text.push_str(&aligned(&std::iter::once(header).chain(rows).collect::<Vec<_>>()));
    for (_, error) in &contents.damaged {
        text.push_str(&format!("damaged: {error}\n"));
    }
    text.push_str(&format!("\nAt the end of epoch {}:\n", newest.manifest.epoch.0));
    for part in &newest.manifest.parts {
        text.push_str(&format!("  {}: {}\n", part.id, part.key));
        details(&newest.manifest, part).iter().for_each(|detail| text.push_str(&format!("    {detail}\n")));
    }
    Ok(text)
}

fn line(checkpoint: &Stored, now_ms: i64) -> [String; 6] {
    let manifest = &checkpoint.manifest;
    let size = size(manifest);
    [
        checkpoint.number.map_or_else(|| "-".to_owned(), |number| number.to_string()),
        manifest.epoch.0.to_string(),
        format!("{} ago", millis((now_ms - checkpoint.written_ms).max(0))),
        bytes(size.bytes),
        size.files.to_string(),
        manifest.tasks.len().to_string(),
    ]
}

/// Columns as wide as they need to be, right-aligned.
fn aligned(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| format!("{cell:>width$}", width = width(column)));
        text.push_str(&format!("{}\n", cells.collect::<Vec<_>>().join("  ")));
    }
    text
}

/// The contents of a part.
fn details(manifest: &Manifest, part: &KeptPart) -> Vec<String> {
    let number = part.id.number;
    match part.id.kind {
        OperatorKind::Source => {
            let positions = sources(manifest, number).flat_map(|source| &source.positions);
            let mut lines: Vec<String> =
                positions.map(|(partition, position)| format!("{partition} at {position}")).collect();
            lines.sort();
            lines
        }
        OperatorKind::State => {
            let size = size_of(manifest, |operator| operator == number);
            let at = watermark_ms(manifest, number)
                .map_or_else(String::new, |ms| format!(", event time {}", instant_text(ms)));
            vec![format!("{} rows in {} files, {}{at}", grouped(size.rows), size.files, bytes(size.bytes))]
        }
        OperatorKind::Sink => {
            let sinks = manifest.tasks.iter().filter_map(|task| task.sink.as_ref()).filter(|s| s.number == number);
            let prepared: Vec<u64> =
                sinks.flat_map(|sink| &sink.prepared).map(|prepared| prepared.blob.bytes).collect();
            match prepared.is_empty() {
                true => Vec::new(),
                false => vec![format!("{} parts ready, {}", prepared.len(), bytes(prepared.iter().sum()))],
            }
        }
    }
}

fn sources(manifest: &Manifest, number: u32) -> impl Iterator<Item = &SourceState> {
    manifest.tasks.iter().filter_map(|task| task.source.as_ref()).filter(move |source| source.number == number)
}

/// For programs.
pub(super) fn json(place: &str, contents: &Contents) -> Result<String> {
    let checkpoint = |stored: &Stored| {
        let size = size(&stored.manifest);
        json!({
            "number": stored.number,
            "epoch": stored.manifest.epoch,
            "written_ms": stored.written_ms,
            "rows": size.rows,
            "bytes": size.bytes,
            "files": size.files,
            "tasks": stored.manifest.tasks.len(),
        })
    };
    let manifest = &contents.newest()?.manifest;
    let part = |kept: &KeptPart| {
        let (kind, number) = (kept.id.kind, kept.id.number);
        let mut part = json!({ "kind": kind.to_string(), "number": number, "description": kept.key.to_string() });
        match kind {
            OperatorKind::Source => {
                let positions = sources(manifest, number).flat_map(|source| source.positions.clone());
                part["positions"] = positions.map(|(name, at)| (name, Value::from(at))).collect();
            }
            OperatorKind::State => {
                let size = size_of(manifest, |operator| operator == number);
                (part["rows"], part["bytes"]) = (size.rows.into(), size.bytes.into());
                (part["files"], part["watermark_ms"]) = (size.files.into(), watermark_ms(manifest, number).into());
            }
            OperatorKind::Sink => {}
        }
        part
    };
    let value = json!({
        "place": place,
        "job": manifest.job,
        "savepoint_from": contents.savepoint_from,
        "checkpoints": contents.checkpoints.iter().map(checkpoint).collect::<Vec<_>>(),
        "damaged": contents.damaged.iter().map(|(_, error)| error.to_string()).collect::<Vec<_>>(),
        "parts": manifest.parts.iter().map(part).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&value).map_err(|error| Error::internal(format!("JSON: {error}")))
}
