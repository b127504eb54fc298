//! The machines of a worker, and their document.

use crate::table::Machine;

/// The machines of a worker by name, with what each is for and its transitions.
pub const MACHINES: &[Machine] = &[
    ("life", "the tasks of the worker, over all incarnations", super::life::TABLE),
    ("grants", "the order of granted groups, within one incarnation", super::grants::TABLE),
    ("outbox", "the summaries for the coordinator, within one incarnation", super::outbox::TABLE),
];

/// The machines as a document: for each a diagram of its states and the table.
#[must_use]
pub fn document() -> String {
    crate::table::document(HEAD, MACHINES)
}

const HEAD: &str = "\
# The worker

Generated from the transition tables in `crates/protocol/src/worker/`; `UPDATE_GOLDEN=1 cargo test -p
anabranch-protocol` writes it anew. The machines are composed in `crates/protocol/src/worker.rs`.

A worker hosts tasks of a job. Messages between it and the coordinator may be lost, repeated, late and reordered.

* **Fence.** Every message carries a term, an incarnation and a plan version. A message that is older in any of them is refused.
  A message of a newer incarnation ends the tasks of the older one.
* **Orders** state facts, so a repetition changes nothing. A summary shows which orders have arrived; the coordinator repeats the
  others.
* **Summaries** contain what all tasks together have done, so the newest one replaces all before it. Snapshots are
  in every summary until the coordinator has acknowledged one with them.
* **One message for a group.** The worker sends a summary when all its sources have cut the turn of the newest group. Without
  sources, it sends one when all its sinks have ended the turn. One more follows when all its tasks have acknowledged a checkpoint.
  Anything else that the coordinator waits for is sent at once: the tasks have started, finished, failed or gone. Other
  changes wait for the next summary, but at most for a configured time.
* **Adoption.** A message of a newer term with the same incarnation comes from a coordinator that adopts the tasks as they run. It
  has received nothing: the worker sends all that its tasks have done, and all snapshots that no committed checkpoint covers.
* **Lease.** The coordinator's process answers the heartbeats of this process, once for all jobs that it has. An answer, and each message of
  the coordinator, contains the time at which this process sent the newest heartbeat that has arrived. When the newest such time is too long
  ago, the worker cancels its tasks. The coordinator declares a worker lost when no heartbeat has
  arrived for at least as long. Then the tasks have ended: the lease began when the heartbeat was sent, and the silence when it
  arrived. A start whose own time is too old is refused, because the coordinator may have declared the worker lost
  since; it repeats the start if it has not. The clocks need not agree; each measures only its own times. A driver that was suspended must handle the
  time before its tasks continue.
";
