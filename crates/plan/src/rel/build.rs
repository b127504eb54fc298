//! Making operators. The columns of each follow from its expressions and from what is below.

use std::collections::HashMap;
use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::Error;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, JoinType, NullEquality, Result, ScalarValue, TableReference};
use datafusion_expr::expr::{GroupingSet, Sort as SortKey, intersect_metadata_for_union};
use datafusion_expr::type_coercion::binary::type_union_resolution;
use datafusion_expr::utils::{conjunction, enumerate_grouping_sets, grouping_set_to_exprlist};
use datafusion_expr::{Expr, ExprSchemable, WindowFunctionDefinition};

use super::{
    Aggregate, Columns, Distinct, Filter, GROUPING_ID, Join, Limit, Over, Project, Rel, Rename, Sort, Union, Values,
};
use crate::copies::Copies;
use crate::origin::first_span;
use crate::place::{at_span, through};
use crate::walk::Walk;

/// The columns of pairs of rows. A side whose rows may be missing can be NULL.
pub(crate) fn joined_columns(left: &Columns, right: &Columns, kind: JoinType) -> Result<Arc<Columns>> {
    let side = |columns: &Columns, padded: bool| {
        let mut columns = columns.to_vec();
        for (_, field) in columns.iter_mut().filter(|(_, field)| padded && !field.is_nullable()) {
            *field = Arc::new(field.as_ref().clone().with_nullable(true));
        }
        columns
    };
    let columns = match kind {
        JoinType::LeftSemi | JoinType::LeftAnti => side(left, false),
        JoinType::RightSemi | JoinType::RightAnti => side(right, false),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            let mut columns = side(left, matches!(kind, JoinType::Right | JoinType::Full));
            columns.extend(side(right, matches!(kind, JoinType::Left | JoinType::Full)));
            columns
        }
        JoinType::LeftMark | JoinType::RightMark => {
            return Err(through(Error::internal(format!("{kind} is no join of this algebra"))));
        }
    };
    Columns::new(columns)
}

/// The expression with whole identities in the place of names without a relation.
fn exact(expr: Expr, inputs: &[&Columns]) -> Result<Expr> {
    let whole = |column: &Column| {
        let found = |columns: &&Columns| columns.find(column).map(|place| columns.id(place));
        column.relation.is_none().then(|| inputs.iter().find_map(found)).flatten().filter(|id| id.relation.is_some())
    };
    if !expr.has(&|expr| Ok(matches!(expr, Expr::Column(column) if whole(column).is_some())))? {
        return Ok(expr);
    }
    let changed = expr.walk_up(&mut |expr| {
        Ok(match expr {
            Expr::Column(column) => match whole(&column) {
                Some(id) => Transformed::yes(Expr::Column(Column { spans: column.spans, ..id })),
                None => Transformed::no(Expr::Column(column)),
            },
            expr => Transformed::no(expr),
        })
    });
    changed.map(|expr| expr.data)
}

fn all_exact(exprs: impl IntoIterator<Item = Expr>, input: &Columns) -> Result<Vec<Expr>> {
    exprs.into_iter().map(|expr| exact(expr, &[input])).collect()
}

/// The columns that expressions give.
fn fields_of<'e>(
    exprs: impl IntoIterator<Item = &'e Expr>,
    input: &Columns,
) -> Result<Vec<(Option<TableReference>, FieldRef)>> {
    exprs.into_iter().map(|expr| expr.to_field(input)).collect()
}

/// Refuses a call of an aggregate within one, and a function over rows within either.
fn check_nesting<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Result<()> {
    let is_call = |expr: &Expr| matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_));
    let nested = |outer: &Expr, inner: &Expr| match (outer, inner) {
        (Expr::AggregateFunction(_), Expr::AggregateFunction(_)) => Some("an aggregate cannot contain another one"),
        (Expr::AggregateFunction(_), Expr::WindowFunction(_)) => {
            Some("an aggregate cannot contain a function over rows")
        }
        (Expr::WindowFunction(_), Expr::WindowFunction(_)) => Some("a function over rows cannot contain another one"),
        _ => None,
    };
    for expr in exprs {
        expr.see(&mut |outer| {
            if is_call(outer) {
                outer.see_children(&mut |child| {
                    child.see(&mut |inner| match nested(outer, inner) {
                        Some(what) => {
                            let error = Error::user(what).remedy("compute the inner one in a subquery of FROM");
                            Err(through(at_span(error, first_span(inner))))
                        }
                        None => Ok(TreeNodeRecursion::Continue),
                    })
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(())
}

/// Refuses FILTER of a function that is no aggregate.
fn check_filter(call: &Expr) -> Result<()> {
    match call {
        Expr::Alias(alias) => check_filter(&alias.expr),
        Expr::WindowFunction(of) => match (&of.fun, &of.params.filter) {
            (WindowFunctionDefinition::WindowUDF(function), Some(filter)) => {
                let error =
                    Error::user(format!("FILTER goes with an aggregate, not with {}", function.name().to_uppercase()));
                let error = error.remedy("write the condition in WHERE of a subquery in FROM");
                Err(through(at_span(error, first_span(filter))))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

impl Rel {
    /// No rows of these columns.
    pub(crate) fn nothing(columns: Arc<Columns>) -> Rel {
        Rel::Values(Values { rows: Vec::new(), columns })
    }

    /// One row without columns.
    pub(crate) fn one_row() -> Rel {
        Rel::Values(Values { rows: vec![Vec::new()], columns: Arc::default() })
    }

    /// Rows of constants. The values of a column get one type.
    pub(crate) fn values(mut rows: Vec<Vec<Expr>>) -> Result<Rel> {
        let none = DFSchema::empty();
        let width = rows.first().map_or(0, Vec::len);
        let mut fields = Vec::with_capacity(width);
        for column in 0..width {
            let (mut common, mut nullable) = (DataType::Null, false);
            for row in &rows {
                nullable |= row[column].nullable(&none)?;
                let own = row[column].get_type(&none)?;
                common = match (&common, &own) {
                    (_, DataType::Null) => common,
                    (DataType::Null, _) => own,
                    _ => type_union_resolution(&[common.clone(), own.clone()]).ok_or_else(|| {
                        through(Error::user(format!("a column of VALUES has both {common} and {own}")))
                    })?,
                };
            }
            let name = format!("column{}", column + 1);
            for row in &mut rows {
                row[column] = match std::mem::take(&mut row[column]) {
                    Expr::Literal(ScalarValue::Null, metadata) => {
                        Expr::Literal(ScalarValue::try_from(&common)?, metadata)
                    }
                    value => value.cast_to(&common, &none)?,
                };
            }
            let nullable = nullable || common.is_null();
            fields.push((None, Arc::new(Field::new(name, common, nullable))));
        }
        Ok(Rel::Values(Values { rows, columns: Columns::new(fields)? }))
    }

    /// The values of expressions for each row.
    pub(crate) fn project(self, exprs: impl IntoIterator<Item = Expr>) -> Result<Rel> {
        project(self, exprs)
    }

    /// The rows for which a condition is TRUE.
    pub(crate) fn filter(self, predicate: Expr) -> Result<Rel> {
        filter(self, predicate)
    }

    /// The rows for which all conditions are TRUE.
    pub(crate) fn filter_all(self, conditions: impl IntoIterator<Item = Expr>) -> Result<Rel> {
        match conjunction(conditions) {
            Some(predicate) => self.filter(predicate),
            None => Ok(self),
        }
    }

    /// The same rows as a relation of this name.
    pub(crate) fn rename(self, name: impl Into<String>) -> Result<Rel> {
        let (name, input) = (name.into(), Arc::new(self));
        let columns = Columns::of_relation(&name, input.columns().fields().iter().cloned())?;
        Ok(Rel::Rename(Rename { name, input, columns }))
    }

    /// Pairs of rows for which all conditions are TRUE.
    pub(crate) fn join(self, right: Rel, kind: JoinType, conditions: impl IntoIterator<Item = Expr>) -> Result<Rel> {
        let sides = [self.columns(), right.columns()];
        let filter = conjunction(conditions).map(|filter| exact(filter, &sides)).transpose()?;
        let join = Join {
            columns: joined_columns(sides[0], sides[1], kind)?,
            left: Arc::new(self),
            right: Arc::new(right),
            on: Vec::new(),
            filter,
            join_type: kind,
            null_equality: NullEquality::NullEqualsNothing,
        };
        Ok(Rel::Join(join))
    }

    /// All pairs of rows.
    pub(crate) fn cross_join(self, right: Rel) -> Result<Rel> {
        self.join(right, JoinType::Inner, [])
    }

    /// The rows that differ and that `right` has too, or has not. NULL is the same as NULL.
    ///
    /// `kind`: a semi or an anti join of the left side.
    pub(crate) fn matched(self, right: Rel, kind: JoinType) -> Result<Rel> {
        let key = |(left, right)| (Expr::Column(left), Expr::Column(right));
        let on = self.ids().into_iter().zip(right.ids()).map(key).collect();
        match self.distinct().join(right, kind, [])? {
            Rel::Join(join) => Ok(Rel::Join(Join { on, null_equality: NullEquality::NullEqualsNull, ..join })),
            other => Ok(other),
        }
    }

    /// One row for each group. Without keys it is one row for all.
    pub(crate) fn aggregate(
        self,
        keys: impl IntoIterator<Item = Expr>,
        calls: impl IntoIterator<Item = Expr>,
    ) -> Result<Rel> {
        aggregate(self, keys, calls).map(Rel::Aggregate)
    }

    /// Rows with the values of functions over other rows, which have one partition and one order.
    pub(crate) fn over(self, calls: impl IntoIterator<Item = Expr>) -> Result<Rel> {
        over(self, calls).map(Rel::Over)
    }

    pub(crate) fn sort(self, keys: impl IntoIterator<Item = SortKey>) -> Result<Rel> {
        let whole = |key: SortKey| Ok(SortKey { expr: exact(key.expr, &[self.columns()])?, ..key });
        let keys = keys.into_iter().map(whole).collect::<Result<_>>()?;
        Ok(Rel::Sort(Sort { keys, input: Arc::new(self) }))
    }

    pub(crate) fn limit(self, skip: Option<Expr>, fetch: Option<Expr>) -> Rel {
        Rel::Limit(Limit { skip, fetch, input: Arc::new(self) })
    }

    pub(crate) fn distinct(self) -> Rel {
        Rel::Distinct(Distinct { input: Arc::new(self) })
    }

    /// The rows of all inputs, which have the same number of columns. Their types are those of the first one until
    /// they are coerced.
    pub(crate) fn union(inputs: Vec<Arc<Rel>>) -> Result<Rel> {
        let columns = Columns::new(union_columns(&inputs))?;
        Ok(Rel::Union(Union { inputs, columns }))
    }

    /// The same operator with the columns that its expressions and what is below give.
    pub(crate) fn with_types(self) -> Result<Rel> {
        Ok(match self {
            Rel::Project(Project { exprs, input, .. }) => project(input, exprs)?,
            Rel::Filter(Filter { predicate, input }) => filter(input, predicate)?,
            Rel::Rename(Rename { name, input, .. }) => Arc::unwrap_or_clone(input).rename(name)?,
            Rel::Aggregate(Aggregate { group_expr, aggr_expr, input, .. }) => {
                Rel::Aggregate(aggregate(input, group_expr, aggr_expr)?)
            }
            Rel::Over(Over { window_expr, input, .. }) => Rel::Over(over(input, window_expr)?),
            Rel::Join(join) => {
                let columns = joined_columns(join.left.columns(), join.right.columns(), join.join_type)?;
                Rel::Join(Join { columns, ..join })
            }
            Rel::Union(union) if union.inputs.iter().any(|input| input.width() != union.columns.len()) => {
                Rel::union(union.inputs)?
            }
            Rel::Assign(assign) => Rel::Assign(assign.with_columns()?),
            Rel::Unnest(unnest) => Rel::Unnest(unnest.with_columns()?),
            Rel::Temporal(join) => Rel::Temporal(join.with_columns()?),
            Rel::Copies(copies) => Rel::Copies(Copies::new(copies.input)?),
            node @ (Rel::Get(_) | Rel::Values(_) | Rel::Union(_) | Rel::Sort(_) | Rel::Limit(_) | Rel::Distinct(_)) => {
                node
            }
        })
    }
}

/// The values of expressions for each row.
pub(crate) fn project(input: impl Into<Arc<Rel>>, exprs: impl IntoIterator<Item = Expr>) -> Result<Rel> {
    let input = input.into();
    let exprs = all_exact(exprs, input.columns())?;
    let columns = Columns::new(fields_of(&exprs, input.columns())?)?;
    Ok(Rel::Project(Project { exprs, input, columns }))
}

/// The rows for which a condition is TRUE.
///
/// # Errors
/// The expression is of another type than BOOLEAN.
pub(crate) fn filter(input: impl Into<Arc<Rel>>, predicate: Expr) -> Result<Rel> {
    let input = input.into();
    let predicate = exact(predicate, &[input.columns()])?.unalias_nested().data;
    // A column of a query around this one has no type here.
    if let Ok(data_type) = predicate.get_type(input.columns())
        && !matches!(data_type, DataType::Boolean | DataType::Null)
    {
        let error = Error::user(format!("the condition is {}, not BOOLEAN", sql_name(&data_type)));
        return Err(through(at_span(error.remedy("compare it: x = ..."), first_span(&predicate))));
    }
    Ok(Rel::Filter(Filter { predicate, input }))
}

/// One row for each group.
pub(crate) fn aggregate(
    input: impl Into<Arc<Rel>>,
    keys: impl IntoIterator<Item = Expr>,
    calls: impl IntoIterator<Item = Expr>,
) -> Result<Aggregate> {
    let input = input.into();
    let below = input.columns();
    let (keys, aggr_expr) = (all_exact(keys, below)?, all_exact(calls, below)?);
    check_nesting(keys.iter().chain(&aggr_expr))?;
    let group_expr = enumerate_grouping_sets(keys)?;
    let listed = grouping_set_to_exprlist(&group_expr)?;
    let mut columns = fields_of(listed.iter().copied(), below)?;
    if let [Expr::GroupingSet(sets)] = group_expr.as_slice() {
        for (_, field) in &mut columns {
            *field = Arc::new(field.as_ref().clone().with_nullable(true));
        }
        columns.push((None, Arc::new(Field::new(GROUPING_ID, grouping_id_type(sets, columns.len()), false))));
    }
    columns.extend(fields_of(&aggr_expr, below)?);
    let columns = Columns::new(columns)?;
    Ok(Aggregate { group_expr, aggr_expr, input, columns })
}

/// The smallest type with a bit for each key, and bits that number equal sets above these.
fn grouping_id_type(sets: &GroupingSet, keys: usize) -> DataType {
    let mut counts: HashMap<&[Expr], usize> = HashMap::new();
    if let GroupingSet::GroupingSets(sets) = sets {
        sets.iter().for_each(|set| *counts.entry(set).or_default() += 1);
    }
    let equal = counts.into_values().max().map_or(0, |count| count - 1);
    match keys + (usize::BITS - equal.leading_zeros()) as usize {
        0..=8 => DataType::UInt8,
        9..=16 => DataType::UInt16,
        17..=32 => DataType::UInt32,
        _ => DataType::UInt64,
    }
}

/// Rows with the values of functions over other rows.
fn over(input: impl Into<Arc<Rel>>, calls: impl IntoIterator<Item = Expr>) -> Result<Over> {
    let input = input.into();
    let window_expr = all_exact(calls, input.columns())?;
    check_nesting(&window_expr)?;
    window_expr.iter().try_for_each(check_filter)?;
    let columns = input.columns().with(fields_of(&window_expr, input.columns())?)?;
    Ok(Over { window_expr, input, columns })
}

/// The columns of a union: the names and types of the first input, nullable if one is.
fn union_columns(inputs: &[Arc<Rel>]) -> Vec<(Option<TableReference>, FieldRef)> {
    let Some(first) = inputs.first() else { return Vec::new() };
    let fields = first.columns().fields();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut columns = Vec::with_capacity(fields.len());
    for (place, field) in fields.iter().enumerate() {
        let all = || inputs.iter().map(|input| input.columns().field(place));
        let count = seen.entry(field.name()).and_modify(|count| *count += 1).or_default();
        let name = if *count == 0 { field.name().clone() } else { format!("{}_{count}", field.name()) };
        let nullable = all().any(|field| field.is_nullable());
        let metadata = intersect_metadata_for_union(all().map(|field| field.metadata()));
        let field = Field::new(name, field.data_type().clone(), nullable).with_metadata(metadata);
        columns.push((None, Arc::new(field)));
    }
    columns
}
