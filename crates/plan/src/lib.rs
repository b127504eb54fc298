//! SQL in, [`anabranch_dataflow::Plan`] out.
//!
//! The only crate that knows SQL. It uses DataFusion's parser, type coercion and functions. A script passes
//! these steps:
//!
//! 1. [`split_statements`] divides the text. `statement` parses each statement with DataFusion's parser in
//!    our own dialect. It parses CREATE TABLE by hand, because Flink's grammar has watermarks, computed
//!    columns and other types.
//! 2. `catalog` holds tables, views, functions and options. A table is a small plan: its columns over its
//!    physical columns. A function (`sql_function`) is an expression over its parameters.
//! 3. `bind` resolves names and builds a tree of relational operators (`rel`). `apply` turns subqueries into
//!    joins.
//! 4. `passes` coerce types and optimize the tree.
//! 5. `lower` converts it to stages.
//!
//! Every error names the line and the column in the user's file, and the correction.

mod apply;
mod approximate;
mod bind;
mod catalog;
mod changes;
mod compared_rows;
mod compared_times;
mod copies;
mod creation;
mod current_watermark;
mod databases;
mod dialect;
mod element;
mod event_time;
mod exact;
mod function_changes;
mod functions;
mod hints;
mod in_statement;
mod insert;
mod intervals;
mod like;
mod logical_text;
mod lookup_options;
mod lower;
mod maps;
mod metadata;
mod origin;
mod parts;
mod passes;
mod place;
mod present;
mod processing_time;
mod query;
mod rel;
mod rewrite;
mod script;
mod settings;
mod show;
mod spelling;
mod sql_function;
mod stamps;
mod statement;
mod steps;
mod table;
mod temporal_join;
mod text;
mod type_of;
mod types;
mod unnest;
mod varying;
mod versions;
mod walk;
mod window_assign;
mod window_table;
mod with_options;
mod zones;

use std::collections::BTreeMap;

use anabranch_dataflow::{ConnectorSpec, TableTraits};
use arrow::datatypes::SchemaRef;

pub use anabranch_functions::{FunctionDoc, catalog as function_catalog, describe as describe_function};
pub use catalog::Catalog;
pub use function_changes::FunctionChanges;
pub use parts::{TextPart, TextParts};
pub use present::{fitted, fitted_to};
pub use script::{COLLECT, LogicalPlans, Outcome, QueryPlan, execute};
pub use settings::{autoscale_options, autoscale_settings, options_page, share_setting, stage_setting};
pub use sql_function::CalledFunction;
pub use steps::{JobStep, Planned, QueryStep, Step, Steps, plan_script, plan_steps};
pub use text::{Ending, StatementText, ending, split_statements};
pub use window_table::window_functions;

/// The planner's interface to connectors, implemented by the crate that has them.
pub trait TableResolver: Sync {
    /// Checks the options of a table and returns the table's abilities. `columns` are the declared physical
    /// columns, empty if the declaration has none.
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> anabranch_model::Result<TableTraits>;

    /// The names of all connectors, each with a description of its tables.
    fn connectors(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Settings of a plan besides its SQL.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Number of tasks of parallel stages; overrides `SET 'parallelism'`.
    pub parallelism: Option<u32>,
    /// Number of tasks if neither SQL nor the caller sets one.
    pub default_parallelism: u32,
    /// Number of key groups if neither SQL nor the caller sets `max-parallelism`.
    pub key_groups: u16,
    /// Options by table that override those of the table's `WITH` clause.
    pub table_options: BTreeMap<String, BTreeMap<String, String>>,
}

impl PlanOptions {
    /// The options given for a table. The parser of an option `db.t.path` does not know databases: it takes
    /// `t.path` for an option of a table `db`.
    fn options_of(&self, table: &str) -> BTreeMap<String, String> {
        let mut options = self.table_options.get(table).cloned().unwrap_or_default();
        for (dot, _) in table.match_indices('.') {
            let (database, rest) = (&table[..dot], &table[dot + 1..]);
            let own = |name: &str| Some(name.strip_prefix(rest)?.strip_prefix('.')?.to_owned());
            let given = self.table_options.get(database).into_iter().flatten();
            options.extend(given.filter_map(|(name, value)| Some((own(name)?, value.clone()))));
        }
        options
    }
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions { parallelism: None, default_parallelism: 1, key_groups: 128, table_options: BTreeMap::new() }
    }
}
