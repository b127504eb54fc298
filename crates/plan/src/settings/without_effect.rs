//! Options of Flink that scripts set, and that have no effect here.

use anabranch_model::{Error, Result};

/// Their names, and why they have none.
const OPTIONS: [(&str, &str); 73] = [
    ("execution.attached", AWAITED),
    ("execution.checkpointing.aligned-checkpoint-timeout", SHORT),
    ("execution.checkpointing.alignment-timeout", SHORT),
    ("execution.checkpointing.externalized-checkpoint-retention", KEPT),
    ("execution.checkpointing.incremental", CHANGES),
    ("execution.checkpointing.max-concurrent-checkpoints", ONE),
    ("execution.checkpointing.min-pause", ONE),
    ("execution.checkpointing.num-retained", KEPT),
    ("execution.checkpointing.savepoint-dir", SAVEPOINTS),
    ("execution.checkpointing.storage", PLACE),
    ("execution.checkpointing.tolerable-failed-checkpoints", "a checkpoint that fails is taken again"),
    ("execution.checkpointing.unaligned", SHORT),
    ("execution.checkpointing.unaligned.enabled", SHORT),
    ("jobmanager.memory.process.size", MEMORY),
    ("jobmanager.rpc.address", CLUSTER),
    ("pipeline.auto-watermark-interval", "watermarks follow each batch"),
    ("pipeline.jars", "connectors and formats are part of the program"),
    ("pipeline.max-parallelism", "there are 128 key groups"),
    ("pipeline.object-reuse", "batches are shared and never changed"),
    ("pipeline.operator-chaining", CHAINS),
    ("pipeline.operator-chaining.enabled", CHAINS),
    ("rest.address", CLUSTER),
    ("rest.port", CLUSTER),
    ("restart-strategy", RESTARTS),
    ("restart-strategy.exponential-delay.attempts-before-reset-backoff", RESTARTS),
    ("restart-strategy.exponential-delay.backoff-multiplier", RESTARTS),
    ("restart-strategy.exponential-delay.initial-backoff", RESTARTS),
    ("restart-strategy.exponential-delay.jitter-factor", RESTARTS),
    ("restart-strategy.exponential-delay.max-backoff", RESTARTS),
    ("restart-strategy.exponential-delay.reset-backoff-threshold", RESTARTS),
    ("restart-strategy.failure-rate.delay", RESTARTS),
    ("restart-strategy.failure-rate.failure-rate-interval", RESTARTS),
    ("restart-strategy.failure-rate.max-failures-per-interval", RESTARTS),
    ("restart-strategy.fixed-delay.delay", RESTARTS),
    ("restart-strategy.type", RESTARTS),
    ("sql-client.display.color-schema", SHELL),
    ("sql-client.display.max-column-width", SHELL),
    ("sql-client.display.print-time-cost", SHELL),
    ("sql-client.execution.max-table-result.rows", SHELL),
    ("sql-client.execution.result-mode", "results are shown as they come"),
    ("sql-client.prompt", SHELL),
    ("sql-client.verbose", SHELL),
    ("state.backend.incremental", CHANGES),
    ("state.backend.local-recovery", "local copies are kept in 'state-directory'"),
    ("state.backend.rocksdb.memory.managed", MEMORY),
    ("state.backend.rocksdb.predefined-options", MEMORY),
    ("state.checkpoint-storage", PLACE),
    ("state.checkpoints.num-retained", KEPT),
    ("state.savepoints.dir", SAVEPOINTS),
    ("table.display.max-column-width", SHELL),
    ("table.dml-sync", AWAITED),
    ("table.exec.async-lookup.buffer-capacity", ASKED),
    ("table.exec.async-lookup.output-mode", ASKED),
    ("table.exec.async-lookup.timeout", ASKED),
    ("table.exec.deduplicate.insert-update-after-sensitive-enabled", WRITTEN),
    ("table.exec.deduplicate.mini-batch.compact-changes-enabled", WRITTEN),
    ("table.exec.rank.topn-cache-size", MEMORY),
    ("table.exec.sink.keyed-shuffle", UPSERTS),
    ("table.exec.sink.upsert-materialize", UPSERTS),
    ("table.exec.uid.generation", "stages are recognized by what they compute"),
    ("table.exec.window-agg.buffer-size-limit", MEMORY),
    ("table.optimizer.agg-phase-strategy", "windows are aggregated in two phases where that is cheaper"),
    ("table.optimizer.distinct-agg.split.bucket-num", DISTINCT),
    ("table.optimizer.distinct-agg.split.enabled", DISTINCT),
    ("table.optimizer.incremental-agg-enabled", DISTINCT),
    ("table.optimizer.join-reorder-enabled", "joins are carried out as they are written"),
    ("table.optimizer.reuse-source-enabled", SHARED),
    ("table.optimizer.reuse-sub-plan-enabled", SHARED),
    ("taskmanager.memory.managed.fraction", MEMORY),
    ("taskmanager.memory.managed.size", MEMORY),
    ("taskmanager.memory.process.size", MEMORY),
    ("taskmanager.memory.task.heap.size", MEMORY),
    ("taskmanager.numberOfTaskSlots", "tasks are threads, and workers have '--slots'"),
];

const ASKED: &str = "the options of the table say how it is asked";
const AWAITED: &str = "a file is one job, which is awaited";
const CLUSTER: &str = "the program runs the job itself, or gives it to the workers that it is started with";
const PLACE: &str = "checkpoints are in 'checkpoint-directory'";
const SAVEPOINTS: &str = "a savepoint is where the command that takes it says";
const SHELL: &str = "it is for Flink's shell";
const WRITTEN: &str = "each table gets the changes that it needs";
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
        "table.exec.sink.type-length-enforcer" => {
            ("IGNORE", "leave the option out, and cut texts in the query: LEFT(name, 10)")
        }
        "execution.target" => ("local", "leave the option out, and give the job to workers: anabranch submit"),
        "table.sql-dialect" => ("default", "leave the option out: there is one dialect, Flink's"),
        "table.dynamic-table-options.enabled" => ("true", "leave the option out, and the hints too"),
        _ => return reason(name).map(|_| Ok(())),
    };
    Some(match value.trim().eq_ignore_ascii_case(only) {
        true => Ok(()),
        false => Err(Error::user(format!("'{name}' can only be '{only}'")).remedy(remedy)),
    })
}
