//! Options of Flink that scripts may set but that have no effect here.

use std::collections::BTreeMap;

use anabranch_model::{Error, Result};

/// The names, and the reasons.
const OPTIONS: &[(&str, &str)] = &[
    ("client.timeout", AWAITED),
    ("execution.attached", AWAITED),
    ("execution.batch-shuffle-mode", "tasks exchange rows in memory"),
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
    ("pipeline.auto-watermark-interval", "watermarks follow each batch"),
    ("pipeline.jars", JARS),
    ("pipeline.object-reuse", "batches are shared and never changed"),
    ("pipeline.operator-chaining", CHAINS),
    ("pipeline.operator-chaining.enabled", CHAINS),
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
    ("state.backend.local-recovery", LOCAL),
    ("state.backend.rocksdb.localdir", LOCAL),
    ("state.checkpoint-storage", PLACE),
    ("state.checkpoints.num-retained", KEPT),
    ("state.savepoints.dir", SAVEPOINTS),
    ("table.display.max-column-width", SHELL),
    ("table.dml-sync", AWAITED),
    ("table.exec.async-lookup.buffer-capacity", LOOKED_UP),
    ("table.exec.async-lookup.output-mode", LOOKED_UP),
    ("table.exec.async-lookup.timeout", LOOKED_UP),
    ("table.exec.deduplicate.insert-update-after-sensitive-enabled", WRITTEN),
    ("table.exec.deduplicate.mini-batch.compact-changes-enabled", WRITTEN),
    ("table.exec.rank.topn-cache-size", MEMORY),
    ("table.exec.sink.keyed-shuffle", UPSERTS),
    ("table.exec.sink.upsert-materialize", UPSERTS),
    ("table.exec.spill-compression.block-size", COMPRESSED),
    ("table.exec.spill-compression.enabled", COMPRESSED),
    ("table.exec.uid.generation", "stages are recognized by what they compute"),
    ("table.exec.window-agg.buffer-size-limit", MEMORY),
    ("table.optimizer.agg-phase-strategy", "windows are aggregated in two phases where that is cheaper"),
    ("table.optimizer.distinct-agg.split.bucket-num", DISTINCT),
    ("table.optimizer.distinct-agg.split.enabled", DISTINCT),
    ("table.optimizer.incremental-agg-enabled", DISTINCT),
    (
        "table.optimizer.join-reorder-enabled",
        "joins keep the order in which they are written, unless an inner join would have no key",
    ),
    ("table.optimizer.multiple-input-enabled", CHAINS),
    ("table.optimizer.reuse-source-enabled", SHARED),
    ("table.optimizer.reuse-sub-plan-enabled", SHARED),
    ("table.planner", "there is one planner"),
    ("taskmanager.numberOfTaskSlots", "tasks are threads, and workers have '--slots'"),
];

/// Prefixes of groups of options.
const GROUPS: &[(&str, &str)] = &[
    ("akka.", CLUSTER),
    ("blob.", CLUSTER),
    ("classloader.", JARS),
    ("env.", CLUSTER),
    ("fs.", STORES),
    ("high-availability", CLUSTER),
    ("historyserver.", CLUSTER),
    ("jobmanager.", CLUSTER),
    ("kubernetes.", CLUSTER),
    ("metrics.", "metrics are at '/metrics' of '--listen'"),
    ("pekko.", CLUSTER),
    ("python.", "functions are declared by CREATE FUNCTION"),
    ("rest.", CLUSTER),
    ("s3.", STORES),
    ("state.backend.rocksdb.", MEMORY),
    ("taskmanager.memory.", MEMORY),
    ("taskmanager.network.", CLUSTER),
    ("web.", CLUSTER),
    ("yarn.", CLUSTER),
];

const LOOKED_UP: &str = "the options of the table say how it is looked up";
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
const COMPRESSED: &str = "state on disk is not compressed, but its whole numbers take no more bytes than they need";
const JARS: &str = "connectors and formats are part of the program";
const STORES: &str = "object stores are reached as the environment says: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and so on";
const KEPT: &str = "the newest checkpoints are kept";
const LOCAL: &str = "local copies are kept in 'state-directory'";
const MEMORY: &str = "memory is bounded by 'state-bytes' and 'channel-bytes'";
const ONE: &str = "a job takes one checkpoint at a time";
const RESTARTS: &str = "a job with checkpoints restarts itself 'restart-attempts' times";
const SHORT: &str = "channels are short, so checkpoints wait only for the few rows in them";
const UPSERTS: &str = "rows of one key come to one task in their order";

/// The reason why an option of Flink has no effect.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let of_group = || GROUPS.iter().find(|(group, _)| name.starts_with(group));
    OPTIONS.iter().find(|(known, _)| *known == name).or_else(of_group).map(|(_, reason)| *reason)
}

/// An option with only one supported value, which describes the actual behaviour.
pub(super) struct Fixed {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    remedy: &'static str,
}

/// The alternative to setting a job's start in its script.
const ORIGIN: &str = "start the job with its savepoint: anabranch run FILE.sql --from DIRECTORY";

pub(super) const FIXED: &[Fixed] = &[
    Fixed {
        name: "execution.checkpointing.mode",
        value: "EXACTLY_ONCE",
        remedy: "leave the option out: each table says in docs/connectors.md how often it is written",
    },
    Fixed {
        name: "table.exec.legacy-cast-behaviour",
        value: "DISABLED",
        remedy: "leave the option out, and use TRY_CAST where a cast may fail",
    },
    Fixed {
        name: "table.exec.sink.type-length-enforcer",
        value: "IGNORE",
        remedy: "leave the option out, and cut texts in the query: LEFT(name, 10)",
    },
    Fixed {
        name: "execution.target",
        value: "local",
        remedy: "leave the option out, and give the job to workers: anabranch submit",
    },
    Fixed {
        name: "table.exec.source.cdc-events-duplicate",
        value: "false",
        remedy: "leave the option out: a change that comes twice counts twice",
    },
    Fixed {
        name: "table.exec.sink.require-on-conflict",
        value: "false",
        remedy: "leave the option out: without ON CONFLICT, a table has the latest row of each key",
    },
    Fixed {
        name: "table.sql-dialect",
        value: "default",
        remedy: "leave the option out: there is one dialect, Flink's",
    },
    Fixed {
        name: "table.dynamic-table-options.enabled",
        value: "true",
        remedy: "leave the option out, and the hints too",
    },
];

/// Checks the value of an option of Flink without effect. `None`: it is no such option.
pub(super) fn check(name: &str, value: &str) -> Option<Result<()>> {
    if matches!(name, "execution.savepoint.path" | "execution.state-recovery.path") {
        return Some(Err(Error::user("a script cannot set the savepoint of its job").remedy(ORIGIN)));
    }
    let Some(fixed) = FIXED.iter().find(|fixed| fixed.name == name) else { return reason(name).map(|_| Ok(())) };
    Some(match value.trim().eq_ignore_ascii_case(fixed.value) {
        true => Ok(()),
        false => Err(Error::user(format!("'{name}' can only be '{}'", fixed.value)).remedy(fixed.remedy)),
    })
}

/// The options that have no effect, by the reason.
pub(super) fn by_reason() -> BTreeMap<&'static str, Vec<String>> {
    let mut reasons: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let groups = GROUPS.iter().map(|(name, reason)| (format!("{name}*"), *reason));
    for (name, reason) in OPTIONS.iter().map(|(name, reason)| ((*name).to_owned(), *reason)).chain(groups) {
        reasons.entry(reason).or_default().push(name);
    }
    reasons
}
