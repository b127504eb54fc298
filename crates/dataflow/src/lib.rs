//! The plan of a job as plain, versioned data: the interface between languages and execution. `plan` and
//! other front ends produce it, `runtime` and `operators` execute it, and neither side knows the other.

mod decimal;
mod equal_stages;
mod expr;
mod fingerprint;
mod identity;
mod joins_at_once;
mod kept;
mod list;
mod literal;
mod options;
mod origin;
mod pairing;
mod plan;
mod readable;
mod shared_source;
mod source;
mod spec;
mod sql_name;
mod stateful;
mod table;
mod type_name;
mod window_ends;

pub use decimal::{DECIMAL_DIGITS_MAX, as_decimal, decimal_result, exact_aggregate};
pub use expr::{BinaryOp, Expr, NamedExpr};
pub use identity::{Identities, Part, PartSpec, static_stages};
pub use joins_at_once::{JoinedAtOnce, join_at_once};
pub use kept::{KeptPart, Lineage};
pub use literal::{Digits, Float, Literal, Scalar};
pub use options::{
    AutoscaleOptions, CheckpointOptions, GroupOptions, JobOptions, Scheduling, StateBackendKind, Thresholds,
};
pub use origin::{Place, PlannedText, StageOrigin, add_places};
pub use pairing::{Matching, pair};
pub use plan::{Assignment, Exchange, ExchangeKind, PLAN_FORMAT, Plan, Port, Stage};
pub(crate) use readable::duration_text;
pub use readable::instant_text;
pub use shared_source::report_once;
pub use source::{
    AlignmentSpec, CURRENT_WATERMARK, Lateness, OnLate, OnMalformed, PROCESSING_TIME, SourceSpec, WatermarkSpec,
    current_watermark_field, processing_time_field,
};
pub use spec::*;
pub use sql_name::{fraction_digits, sql_name, sql_names};
pub use stateful::{Growth, StateBound, Stateful};
pub use table::{Changes, ConnectorSpec, Lookups, ONE_ROW, TableTraits, Updates, Versions, Visibility};
pub use type_name::TypeName;
pub use window_ends::WindowEnds;
