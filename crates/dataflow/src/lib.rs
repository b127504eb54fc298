//! The plan of a job as plain, versioned data: the interface between languages and execution. `plan` and
//! other front ends produce it, `runtime` and `operators` execute it, and neither side knows the other.

mod decimal;
mod deduplicate;
mod equal_stages;
mod expr;
mod fingerprint;
mod group_aggregate;
mod identity;
mod joins_at_once;
mod kept;
mod literal;
mod lookup_join;
mod multi_join;
mod options;
mod origin;
mod over;
mod pairing;
mod part_key;
mod plan;
mod rank;
mod readable;
mod rows;
mod shared_source;
mod sort;
mod source;
mod spec;
mod sql_name;
mod stateful;
mod stream_join;
mod table;
mod type_name;
mod window_ends;

pub use decimal::{DECIMAL_DIGITS_MAX, as_decimal, decimal_result, exact_aggregate};
pub use deduplicate::DeduplicateSpec;
pub use expr::{BinaryOp, Expr, NamedExpr};
pub use group_aggregate::{EmissionSpec, GroupAggregateSpec, WEIGHT, weight_field};
pub use identity::{Identities, Part, PartSpec, static_stages};
pub use joins_at_once::{JoinedAtOnce, join_at_once};
pub use kept::{KeptPart, Lineage};
pub use literal::{Digits, Float, Literal, Scalar};
pub use lookup_join::{LookupCache, LookupJoinSpec, LookupKey, PartialCache};
pub use multi_join::{ChainSide, JoinChain, JoinCondition, JoinInputSpec, MultiJoinSpec};
pub use options::{
    AutoscaleOptions, CheckpointOptions, GroupOptions, JobOptions, Scheduling, StateBackendKind, Thresholds,
};
pub use origin::{Place, PlannedText, StageOrigin, add_places};
pub use over::{Frame, LAG, OverSpec};
pub use pairing::{Matching, pair};
pub use part_key::{Groups, KeyColumn, KeyFunction, KeyInput, KeySide, PartKey};
pub use plan::{Assignment, Exchange, ExchangeKind, PLAN_FORMAT, Plan, Port, Stage};
pub use rank::{Ordering, RankSpec};
pub use readable::{duration_text, instant_text};
pub use rows::{ExpandSpec, Grouping, ORDINALITY, RepeatSpec, UnnestSpec, ValuesSpec};
pub use shared_source::report_once;
pub use sort::{LimitSpec, SortSpec};
pub use source::{
    AlignmentSpec, CURRENT_WATERMARK, Lateness, OnLate, OnMalformed, PROCESSING_TIME, SourceSpec, WatermarkSpec,
    current_watermark_field, processing_time_field,
};
pub use spec::{
    AggregatePhase, AggregateSpec, JoinKind, NotNullSpec, OperatorSpec, SinkSpec, StaticJoinSpec, Window,
    WindowAggregateSpec, WindowAssignSpec,
};
pub use sql_name::{fraction_digits, sql_name, sql_names};
pub use stateful::{Growth, StateBound, Stateful};
pub(crate) use stream_join::JOIN_REMEDY;
pub use stream_join::{ExpirySpec, StreamJoinKind, StreamJoinSpec, StreamSideSpec};
pub use table::{Changes, ConnectorSpec, Lookups, ONE_ROW, TableTraits, Updates, Versions};
pub use type_name::TypeName;
pub use window_ends::WindowEnds;
