//! Relational algebra: a query is a tree of operators, which are plain data.
//!
//! A column is identified by a number, [`ColId`], which never changes its meaning. A column that is passed on
//! keeps its number, a computed column gets a new one. Expressions refer to a column by a [`Column`] with the
//! number. Columns of a relation may have the same name: only [`bind`](crate::bind) resolves names.
//!
//! `build` makes operators and finds their columns, `columns` finds a column by number, `instance` renumbers
//! the columns of a copy, `over` chains window functions, `walk` visits and changes trees, `show` prints them
//! for `EXPLAIN`.

mod build;
mod columns;
mod instance;
mod over;
mod show;
mod walk;

use std::sync::Arc;

use anabranch_dataflow::Place;
use datafusion_common::{Column, JoinType, NullEquality, ScalarValue};
use datafusion_expr::Expr;
use datafusion_expr::expr::Sort as SortKey;
use datafusion_sql::sqlparser::tokenizer::Location;

pub(crate) use self::build::{
    Output, aggregate, aggregate_as, call, computed, joined_columns, kept, named, not_boolean, project, union_as,
    values_as,
};
pub(crate) use self::columns::{Col, ColId, Columns, fresh, name_of, without_numbers};
pub(crate) use self::walk::Change;
use crate::copies::Copies;
use crate::origin::place_of;
use crate::table::Table;
use crate::temporal_join::TemporalJoin;
use crate::unnest::Unnest;
use crate::window_assign::WindowAssign;

/// The column with the number of a row's grouping set.
pub(crate) const GROUPING_ID: &str = "__grouping_id";

/// A relational operator.
#[derive(Clone, Debug)]
pub(crate) enum Rel {
    Get(Get),
    Values(Values),
    Project(Project),
    Filter(Filter),
    Join(Join),
    Aggregate(Aggregate),
    Over(Over),
    Sort(Sort),
    Limit(Limit),
    Distinct(Distinct),
    Union(Union),
    Assign(WindowAssign),
    Unnest(Unnest),
    Temporal(TemporalJoin),
    Copies(Copies),
}

/// The rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Get {
    pub(crate) name: String,
    /// `None`: only declares columns for the expressions of a declaration, such as parameters of a function.
    pub(crate) table: Option<Arc<Table>>,
    /// Where a statement names the table.
    pub(crate) start: Option<Location>,
    /// The indexes of the columns in the table. `None`: all.
    pub(crate) projection: Option<Vec<usize>>,
    pub(crate) columns: Arc<Columns>,
}

impl Get {
    /// Where a statement names the table.
    pub(crate) fn place(&self) -> Option<Place> {
        self.start.and_then(place_of)
    }
}

/// Rows of constants. Without rows it is the empty relation.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) rows: Vec<Vec<Expr>>,
    pub(crate) columns: Arc<Columns>,
}

/// Computes expressions on each row.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) input: Arc<Rel>,
    /// The event time of a declared table, if this projection computes the table's columns.
    pub(crate) event_time: Option<Column>,
    pub(crate) columns: Arc<Columns>,
}

/// The rows for which a condition is TRUE.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) predicate: Expr,
    pub(crate) input: Arc<Rel>,
}

/// Pairs of rows.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) left: Arc<Rel>,
    pub(crate) right: Arc<Rel>,
    /// Keys: a value of the left side and an equal value of the right side.
    pub(crate) on: Vec<(Expr, Expr)>,
    /// A condition over the columns of both sides.
    pub(crate) filter: Option<Expr>,
    pub(crate) join_type: JoinType,
    /// Whether NULL is equal to NULL in keys.
    pub(crate) null_equality: NullEquality,
    pub(crate) columns: Arc<Columns>,
}

/// One row for each group.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    /// The keys, or one [`Expr::GroupingSet`].
    pub(crate) group_expr: Vec<Expr>,
    pub(crate) aggr_expr: Vec<Expr>,
    pub(crate) input: Arc<Rel>,
    pub(crate) columns: Arc<Columns>,
}

/// Adds the values of window functions (`OVER`).
#[derive(Clone, Debug)]
pub(crate) struct Over {
    pub(crate) window_expr: Vec<Expr>,
    pub(crate) input: Arc<Rel>,
    pub(crate) columns: Arc<Columns>,
}

/// Rows in an order.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) keys: Vec<SortKey>,
    pub(crate) input: Arc<Rel>,
}

/// The first rows.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) skip: Option<Expr>,
    pub(crate) fetch: Option<Expr>,
    pub(crate) input: Arc<Rel>,
}

/// Numbers of rows: to skip, and then to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) skip: usize,
    /// `None`: all.
    pub(crate) fetch: Option<usize>,
}

impl Limit {
    /// `None`: the bounds are not constants.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        // NULL is no bound.
        let number = |bound: &Option<Expr>| match bound.as_ref().map(Expr::as_literal) {
            None | Some(Some(ScalarValue::Int64(None) | ScalarValue::Null)) => Some(None),
            Some(Some(ScalarValue::Int64(Some(rows)))) => usize::try_from(*rows).ok().map(Some),
            Some(_) => None,
        };
        Some(Bounds { skip: number(&self.skip)?.unwrap_or_default(), fetch: number(&self.fetch)? })
    }
}

/// Removes duplicates.
#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    pub(crate) input: Arc<Rel>,
}

/// The rows of all inputs. Columns correspond by position.
#[derive(Clone, Debug)]
pub(crate) struct Union {
    pub(crate) inputs: Vec<Arc<Rel>>,
    pub(crate) columns: Arc<Columns>,
}

impl Rel {
    /// The columns of its rows.
    pub(crate) fn columns(&self) -> &Columns {
        self.shared_columns()
    }

    /// The same, shared.
    pub(crate) fn shared_columns(&self) -> &Arc<Columns> {
        match self {
            Rel::Get(node) => &node.columns,
            Rel::Values(node) => &node.columns,
            Rel::Project(node) => &node.columns,
            Rel::Join(node) => &node.columns,
            Rel::Aggregate(node) => &node.columns,
            Rel::Over(node) => &node.columns,
            Rel::Union(node) => &node.columns,
            Rel::Assign(node) => &node.columns,
            Rel::Unnest(node) => &node.columns,
            Rel::Temporal(node) => &node.columns,
            Rel::Copies(node) => &node.columns,
            Rel::Filter(Filter { input, .. })
            | Rel::Sort(Sort { input, .. })
            | Rel::Limit(Limit { input, .. })
            | Rel::Distinct(Distinct { input }) => input.shared_columns(),
        }
    }

    /// The number of its columns.
    pub(crate) fn width(&self) -> usize {
        self.columns().len()
    }

    /// Its columns, as expressions name them.
    pub(crate) fn ids(&self) -> Vec<Column> {
        self.shared_columns().ids()
    }

    /// The operators below.
    pub(crate) fn inputs(&self) -> Vec<&Rel> {
        match self {
            Rel::Get(_) | Rel::Values(_) => Vec::new(),
            Rel::Project(Project { input, .. })
            | Rel::Filter(Filter { input, .. })
            | Rel::Aggregate(Aggregate { input, .. })
            | Rel::Over(Over { input, .. })
            | Rel::Sort(Sort { input, .. })
            | Rel::Limit(Limit { input, .. })
            | Rel::Distinct(Distinct { input })
            | Rel::Assign(WindowAssign { input, .. })
            | Rel::Unnest(Unnest { input, .. })
            | Rel::Copies(Copies { input, .. }) => vec![input],
            Rel::Join(Join { left, right, .. }) | Rel::Temporal(TemporalJoin { left, right, .. }) => vec![left, right],
            Rel::Union(node) => node.inputs.iter().map(AsRef::as_ref).collect(),
        }
    }
}
