//! Options of Flink that scripts set, and that have no effect here.

use anabranch_model::{Error, Result};

/// Their names, and why they have none.
const OPTIONS: [(&str, &str); 29] = [
    ("execution.checkpointing.externalized-checkpoint-retention", KEPT),
    ("execution.checkpointing.incremental", CHANGES),
    ("execution.checkpointing.max-concurrent-checkpoints", ONE),
    ("execution.checkpointing.min-pause", ONE),
    ("execution.checkpointing.tolerable-failed-checkpoints", "a checkpoint that fails is taken again"),
    ("execution.checkpointing.unaligned", SHORT),
    ("execution.checkpointing.unaligned.enabled", SHORT),
    ("jobmanager.memory.process.size", MEMORY),
    ("pipeline.auto-watermark-interval", "watermarks follow each batch"),
    ("pipeline.max-parallelism", "there are 128 key groups"),
    ("pipeline.object-reuse", "batches are shared and never changed"),
    ("pipeline.operator-chaining", CHAINS),
    ("pipeline.operator-chaining.enabled", CHAINS),
    ("restart-strategy", RESTARTS),
    ("restart-strategy.type", RESTARTS),
    ("sql-client.execution.result-mode", "results are shown as they come"),
    ("state.backend.incremental", CHANGES),
    ("state.backend.local-recovery", "local copies are kept in 'state-directory'"),
    ("table.dml-sync", "a file is one job, which is awaited"),
    ("table.exec.sink.keyed-shuffle", UPSERTS),
    ("table.exec.sink.upsert-materialize", UPSERTS),
    ("table.optimizer.agg-phase-strategy", "windows are aggregated in two phases where that is cheaper"),
    ("table.optimizer.distinct-agg.split.bucket-num", DISTINCT),
    ("table.optimizer.distinct-agg.split.enabled", DISTINCT),
    ("table.optimizer.join-reorder-enabled", "joins are carried out as they are written"),
    ("table.optimizer.reuse-source-enabled", SHARED),
    ("table.optimizer.reuse-sub-plan-enabled", SHARED),
    ("taskmanager.memory.process.size", MEMORY),
    ("taskmanager.numberOfTaskSlots", "tasks are threads, and workers have '--slots'"),
];

const SHARED: &str = "a table is read once for all that read it";
const CHAINS: &str = "operators of one parallelism are always one chain";
const CHANGES: &str = "checkpoints contain what has changed";
const DISTINCT: &str = "the distinct values of a key are in one task";
const KEPT: &str = "the newest checkpoints are kept";
const MEMORY: &str = "memory is bounded by 'state-bytes' and 'channel-bytes'";
const ONE: &str = "one checkpoint follows the other";
const RESTARTS: &str = "a job with checkpoints restarts itself 'restart-attempts' times";
const SHORT: &str = "channels are short, and checkpoints wait for no more than is in them";
const UPSERTS: &str = "rows of one key come to one task in their order";

/// Why an option of Flink has no effect.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// Whether a value can be set, if the option is one of these, or one of which a value says what is so anyway.
pub(super) fn check(name: &str, value: &str) -> Option<Result<()>> {
    let (only, remedy) = match name {
        "execution.checkpointing.mode" => {
            ("EXACTLY_ONCE", "leave the option out: each table says in docs/connectors.md how often it is written")
        }
        "table.exec.legacy-cast-behaviour" => {
            ("DISABLED", "leave the option out, and use TRY_CAST where a cast may fail")
        }
        _ => return reason(name).map(|_| Ok(())),
    };
    Some(match value.trim().eq_ignore_ascii_case(only) {
        true => Ok(()),
        false => Err(Error::user(format!("'{name}' can only be '{only}'")).remedy(remedy)),
    })
}
