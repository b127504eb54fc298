//! Bugs that are planted on purpose, outside of the product, which knows nothing of them.

/// A bug that is planted on purpose, to verify that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An acknowledgement of a checkpoint counts for every task.
    CommitBeforeAllAcknowledged,
    /// On a channel, a marker passes the rows before it.
    MarkerOvertakes,
    /// A change of an operator's state is not written.
    DeltaLost,
    /// A change of an operator's state is written twice.
    DeltaTwice,
    /// A run of an operator's state on disk is not written.
    RunLost,
    /// The store accepts an entry of the log that arrives late, although there is another one by then.
    LateWriteAccepted,
    /// A source saves the positions that it had one batch before.
    PositionOneBatchLate,
    /// A sink that restores a checkpoint forgets what was prepared under it.
    PreparedForgotten,
    /// A sink does not write that rows are taken back.
    TakenBackForgotten,
    /// A sink reports an epoch as written although it was not.
    HandedOverTooSoon,
    /// A source skips rows that are older, by the wall clock, than those that it has read.
    NewerByWallClock,
    /// A receiver returns credit twice.
    CreditTwice,
    /// A frame with rows arrives twice.
    FrameTwice,
    /// On a connection between workers, a marker passes the rows before it.
    FrameOvertaken,
    /// A worker takes what an older incarnation was told for its own.
    OlderOrderTaken,
    /// The coordinator takes what a worker has reported of an older incarnation for its own.
    OlderReportTaken,
    /// The last snapshots of a worker's tasks are lost, and their receipt is acknowledged.
    SummaryLost,
    /// Two workers start the same task.
    ClaimedTwice,
    /// What workers have reported to a coordinator counts as known to the one that adopts their tasks.
    AdoptionUnreported,
    /// A worker takes the orders of a coordinator whose tasks another one has adopted.
    OlderTermTaken,
    /// A task hands its state over to the next version of the plan before the last rows of a channel.
    StateBeforeLastRows,
    /// After the plan has changed, a worker takes other key groups than the others believe.
    KeyGroupsTwice,
    /// When a change is undone, a channel between workers still has rows of the plan that was refused.
    ChannelLeft,
    /// A sink makes visible again what is visible already.
    CommittedTwice,
    /// The store writes an entry of the log under a number whose entry was removed.
    FreedNumberTaken,
    /// A request for a checkpoint is lost.
    RequestForgotten,
    /// A worker's driver gives grants to its tasks as they arrive.
    GrantsUnordered,
    /// A worker's tasks continue for a while when its lease is over.
    LeaseIgnored,
    /// When the plan changes, the sources of a worker end one epoch after the one that was granted.
    SwitchLate,
}
