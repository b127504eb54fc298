//! Constructors of operators. They derive the types of columns from the expressions and the inputs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::Error;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Column, DFSchema, JoinType, NullEquality, Result, ScalarValue, TableReference};
use datafusion_expr::expr::{GroupingSet, Sort as SortKey, intersect_metadata_for_union};
use datafusion_expr::type_coercion::binary::type_union_resolution;
use datafusion_expr::utils::{conjunction, enumerate_grouping_sets, grouping_set_to_exprlist};
use datafusion_expr::{Expr, ExprSchemable, WindowFunctionDefinition};

use super::{
    Aggregate, Col, Columns, Distinct, Filter, GROUPING_ID, Join, Limit, Over, Project, Rel, Sort, Union, Values,
    fresh, name_of, without_numbers,
};
use crate::copies::Copies;
use crate::logical_text::with_plain_constants;
use crate::origin::first_span;
use crate::place::{at_span, through};
use crate::walk::Walk;
use crate::window_assign::EVENT_TIME;

/// An output column, and its value.
pub(crate) type Output = (Column, Expr);

/// A new column for a value.
pub(crate) fn computed(name: &str, value: Expr) -> Output {
    (fresh(name), value)
}

/// A column of the input, passed on.
pub(crate) fn kept(column: Column) -> Output {
    (column.clone(), Expr::Column(column))
}

/// A value with a name. A column that already has this name keeps its identity.
pub(crate) fn named(name: &str, value: Expr) -> Output {
    match &value {
        Expr::Column(column) if name_of(column) == name => (column.clone(), value),
        _ => computed(name, value),
    }
}

/// A new column for a call, named after its text.
pub(crate) fn call(call: Expr, columns: &Columns) -> Result<Output> {
    let name = columns.as_written(&call)?.schema_name().to_string();
    Ok(computed(&name, call))
}

/// The columns of a join. A padded side is nullable.
pub(crate) fn joined_columns(left: &Columns, right: &Columns, kind: JoinType) -> Result<Arc<Columns>> {
    let side = |columns: &Columns, padded: bool| {
        let mut columns = columns.to_vec();
        for col in columns.iter_mut().filter(|col| padded && !col.field.is_nullable()) {
            col.field = nullable(&col.field);
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

fn nullable(field: &Field) -> FieldRef {
    Arc::new(field.clone().with_nullable(true))
}

/// The columns of expressions.
fn outputs<'e>(outputs: impl IntoIterator<Item = (Column, &'e Expr)>, input: &Columns) -> Result<Vec<Col>> {
    let output = |(id, expr): (Column, &Expr)| {
        let source = expr.try_as_col().and_then(|column| input.iter().nth(input.find(column)?));
        match source {
            Some(col) if col.id == id => Ok(col.clone()),
            _ => {
                let field = expr.to_field(input)?.1;
                let field = Arc::new(field.as_ref().clone().with_name(name_of(&id)));
                Ok(Col::new(id, field))
            }
        }
    };
    outputs.into_iter().map(output).collect()
}

/// Refuses aggregates and window functions within aggregates, and window functions within window functions.
fn check_nesting<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Result<()> {
    let is_call = |expr: &Expr| matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_));
    let nested = |outer: &Expr, inner: &Expr| match (outer, inner) {
        (Expr::AggregateFunction(_), Expr::AggregateFunction(_)) => {
            Some("an aggregate cannot contain another aggregate")
        }
        (Expr::AggregateFunction(_), Expr::WindowFunction(_)) => Some("an aggregate cannot contain a window function"),
        (Expr::WindowFunction(_), Expr::WindowFunction(_)) => {
            Some("a window function cannot contain another window function")
        }
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

/// Refuses FILTER of a window function that is no aggregate.
fn check_filter(call: &Expr) -> Result<()> {
    let Expr::WindowFunction(of) = call else { return Ok(()) };
    match (&of.fun, &of.params.filter) {
        (WindowFunctionDefinition::WindowUDF(function), Some(filter)) => {
            let name = function.name().to_uppercase();
            let error = Error::user(format!("FILTER needs an aggregate and does not apply to {name}"));
            let error = error.remedy("write the condition in WHERE of a subquery in FROM");
            Err(through(at_span(error, first_span(filter))))
        }
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

    /// Rows of constants. The values of each column are coerced to one type.
    pub(crate) fn values(rows: Vec<Vec<Expr>>) -> Result<Rel> {
        let width = rows.first().map_or(0, Vec::len);
        values_as(rows, (1..=width).map(|number| fresh(&format!("column{number}"))).collect())
    }

    /// The values of expressions for each row.
    pub(crate) fn project(self, outputs: impl IntoIterator<Item = Output>) -> Result<Rel> {
        project(self, outputs)
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

    /// The relation with the name that a query gives it.
    pub(crate) fn called(self, name: &str) -> Result<Rel> {
        let project = match self {
            Rel::Project(project) if project.columns.called().is_none() => project,
            other => {
                let ids = other.ids();
                let exprs = ids.iter().cloned().map(Expr::Column).collect();
                let input = Arc::new(other);
                Project { exprs, input, event_time: None, columns: Arc::default() }.with_ids(ids)?
            }
        };
        let columns = project.columns.called_as(&TableReference::bare(name));
        Ok(Rel::Project(Project { columns, ..project }))
    }

    /// Pairs of rows for which all conditions are TRUE.
    pub(crate) fn join(self, right: Rel, kind: JoinType, conditions: impl IntoIterator<Item = Expr>) -> Result<Rel> {
        let sides = [self.columns(), right.columns()];
        let join = Join {
            columns: joined_columns(sides[0], sides[1], kind)?,
            left: Arc::new(self),
            right: Arc::new(right),
            on: Vec::new(),
            filter: conjunction(conditions),
            join_type: kind,
            null_equality: NullEquality::NullEqualsNothing,
        };
        Ok(Rel::Join(join))
    }

    /// All pairs of rows.
    pub(crate) fn cross_join(self, right: Rel) -> Result<Rel> {
        self.join(right, JoinType::Inner, [])
    }

    /// The distinct rows that `right` has, or does not have. NULL equals NULL.
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

    /// One row for each group. Without keys there is one group of all rows.
    pub(crate) fn aggregate(
        self,
        keys: impl IntoIterator<Item = Expr>,
        calls: impl IntoIterator<Item = Output>,
    ) -> Result<Rel> {
        aggregate(self, keys, calls).map(Rel::Aggregate)
    }

    /// Adds the values of window functions with one partition and one order.
    pub(crate) fn over(self, calls: impl IntoIterator<Item = Output>) -> Result<Rel> {
        over(self, calls).map(Rel::Over)
    }

    pub(crate) fn sort(self, keys: impl IntoIterator<Item = SortKey>) -> Rel {
        Rel::Sort(Sort { keys: keys.into_iter().collect(), input: Arc::new(self) })
    }

    pub(crate) fn limit(self, skip: Option<Expr>, fetch: Option<Expr>) -> Rel {
        Rel::Limit(Limit { skip, fetch, input: Arc::new(self) })
    }

    pub(crate) fn distinct(self) -> Rel {
        Rel::Distinct(Distinct { input: Arc::new(self) })
    }

    /// The rows of all inputs, which have the same number of columns, in new columns. Until type coercion,
    /// the names and types are those of the first input.
    pub(crate) fn union(inputs: Vec<Arc<Rel>>) -> Result<Rel> {
        let first = inputs.first().map(|first| first.ids()).unwrap_or_default();
        union_as(inputs, first.iter().map(|column| fresh(name_of(column))).collect())
    }

    /// Derives the operator's types again.
    pub(crate) fn with_types(self) -> Result<Rel> {
        Ok(match self {
            Rel::Project(project) => Rel::Project(project.with_columns()?),
            Rel::Filter(Filter { predicate, input }) => filter(input, predicate)?,
            Rel::Aggregate(aggregate) => with_unique_keys(aggregate)?,
            Rel::Over(Over { window_expr, input, columns }) => {
                let ids = columns.ids().into_iter().skip(columns.len() - window_expr.len());
                Rel::Over(over(input, ids.zip(window_expr))?)
            }
            Rel::Join(join) => {
                let columns = joined_columns(join.left.columns(), join.right.columns(), join.join_type)?;
                Rel::Join(Join { columns, ..join })
            }
            Rel::Assign(assign) => Rel::Assign(assign.with_columns()?),
            Rel::Unnest(unnest) => Rel::Unnest(unnest.with_columns()?),
            Rel::Temporal(join) => Rel::Temporal(join.with_columns()?),
            Rel::Copies(copies) => Rel::Copies(Copies::new(copies.input)),
            node @ (Rel::Get(_) | Rel::Values(_) | Rel::Union(_) | Rel::Sort(_) | Rel::Limit(_) | Rel::Distinct(_)) => {
                node
            }
        })
    }
}

/// Rows of constants in these columns. The values of each column are coerced to one type.
pub(crate) fn values_as(mut rows: Vec<Vec<Expr>>, ids: Vec<Column>) -> Result<Rel> {
    let none = DFSchema::empty();
    let mut cols = Vec::with_capacity(ids.len());
    for (column, id) in ids.into_iter().enumerate() {
        let (mut common, mut nullable) = (DataType::Null, false);
        for row in &rows {
            nullable |= row[column].nullable(&none)?;
            let own = row[column].get_type(&none)?;
            common = match (&common, &own) {
                (_, DataType::Null) => common,
                (DataType::Null, _) => own,
                _ => type_union_resolution(&[common.clone(), own.clone()])
                    .ok_or_else(|| through(Error::user(format!("a column of VALUES has both {common} and {own}"))))?,
            };
        }
        for row in &mut rows {
            row[column] = match std::mem::take(&mut row[column]) {
                Expr::Literal(ScalarValue::Null, metadata) => Expr::Literal(ScalarValue::try_from(&common)?, metadata),
                value => value.cast_to(&common, &none)?,
            };
        }
        let nullable = nullable || common.is_null();
        let field = Field::new(name_of(&id), common, nullable);
        cols.push(Col::new(id, Arc::new(field)));
    }
    Ok(Rel::Values(Values { rows, columns: Columns::new(cols)? }))
}

/// The values of expressions for each row.
pub(crate) fn project(input: impl Into<Arc<Rel>>, outputs: impl IntoIterator<Item = Output>) -> Result<Rel> {
    Project { exprs: Vec::new(), input: input.into(), event_time: None, columns: Arc::default() }.with_outputs(outputs)
}

impl Project {
    /// The projection with other outputs.
    pub(crate) fn with_outputs(self, outputs: impl IntoIterator<Item = Output>) -> Result<Rel> {
        let outputs = outputs.into_iter().map(|(id, expr)| (id, expr.unalias()));
        let (ids, exprs): (Vec<Column>, Vec<Expr>) = outputs.unzip();
        Project { exprs, ..self }.with_ids(ids).map(Rel::Project)
    }

    fn with_columns(self) -> Result<Self> {
        let ids = self.columns.ids();
        self.with_ids(ids)
    }

    fn with_ids(mut self, ids: Vec<Column>) -> Result<Self> {
        let mut cols = outputs(ids.into_iter().zip(&self.exprs), self.input.columns())?;
        for col in cols.iter_mut().filter(|col| self.event_time.as_ref() == Some(&col.id)) {
            let mut metadata = col.field.metadata().clone();
            metadata.insert(EVENT_TIME.to_owned(), "true".to_owned());
            col.field = Arc::new(col.field.as_ref().clone().with_metadata(metadata));
        }
        let columns = Columns::new(cols)?;
        self.columns = self.columns.called().map_or_else(|| Arc::clone(&columns), |table| columns.called_as(table));
        Ok(self)
    }
}

/// The error for a condition of another type.
pub(crate) fn not_boolean(data_type: &DataType) -> Error {
    Error::user(format!("the condition is {}, not BOOLEAN", sql_name(data_type))).remedy("compare it: x = ...")
}

/// The rows for which a condition is TRUE.
///
/// # Errors
/// The expression is of another type than BOOLEAN.
pub(crate) fn filter(input: impl Into<Arc<Rel>>, predicate: Expr) -> Result<Rel> {
    let input = input.into();
    let predicate = predicate.unalias_nested().data;
    // An outer column has no type here.
    if let Ok(data_type) = predicate.get_type(input.columns())
        && !matches!(data_type, DataType::Boolean | DataType::Null)
    {
        return Err(through(at_span(not_boolean(&data_type), first_span(&predicate))));
    }
    Ok(Rel::Filter(Filter { predicate, input }))
}

/// One row for each group. A key that is a column keeps its identity. Other keys are named after their text.
pub(crate) fn aggregate(
    input: impl Into<Arc<Rel>>,
    keys: impl IntoIterator<Item = Expr>,
    calls: impl IntoIterator<Item = Output>,
) -> Result<Aggregate> {
    let input = input.into();
    let mut unique: Vec<Expr> = Vec::new();
    for key in keys.into_iter().map(Expr::unalias) {
        if !unique.contains(&key) {
            unique.push(key);
        }
    }
    let group_expr = enumerate_grouping_sets(unique)?;
    let mut ids = key_columns(&group_expr, input.columns())?;
    let (of_calls, aggr_expr): (Vec<Column>, Vec<Expr>) = calls.into_iter().unzip();
    ids.extend(of_calls);
    aggregate_as(input, group_expr, aggr_expr, ids)
}

/// The columns of the keys, and of the number of the grouping set. Checkpoints identify state by the keys'
/// names, so these do not depend on the names of tables.
fn key_columns(group_expr: &[Expr], input: &Columns) -> Result<Vec<Column>> {
    let are_sets = matches!(group_expr, [Expr::GroupingSet(_)]);
    let mut names: HashSet<String> = HashSet::new();
    let mut ids = Vec::new();
    for key in grouping_set_to_exprlist(group_expr)? {
        if let Expr::Column(column) = key {
            ids.push(column.clone());
            continue;
        }
        let plain = match are_sets {
            true => input.as_written(key)?.schema_name().to_string(),
            false => with_plain_constants(&without_numbers(&key.to_string())),
        };
        let (mut name, mut number) = (plain.clone(), 1);
        while !names.insert(name.clone()) {
            number += 1;
            name = format!("{plain}_{number}");
        }
        ids.push(fresh(&name));
    }
    ids.extend(are_sets.then(|| fresh(GROUPING_ID)));
    Ok(ids)
}

/// Derives the types of an aggregation. If a pass has made keys equal, one of them is kept, and a projection
/// copies its column for the others.
fn with_unique_keys(aggregate: Aggregate) -> Result<Rel> {
    let Aggregate { group_expr, aggr_expr, input, columns } = aggregate;
    let has_sets = group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    let first_of = |key: &Expr| group_expr.iter().position(|other| other == key);
    let places: Vec<usize> = group_expr.iter().filter_map(first_of).collect();
    if has_sets || places.iter().copied().eq(0..group_expr.len()) {
        return Ok(Rel::Aggregate(aggregate_as(input, group_expr, aggr_expr, columns.ids())?));
    }
    let ids = columns.ids();
    let is_first = |place: usize| places.get(place).is_none_or(|first| *first == place);
    let kept_ids = ids.iter().enumerate().filter(|(place, _)| is_first(*place)).map(|(_, id)| id.clone()).collect();
    let keys = group_expr.iter().enumerate().filter(|(place, _)| is_first(*place)).map(|(_, key)| key.clone());
    let rows = Rel::Aggregate(aggregate_as(input, keys.collect(), aggr_expr, kept_ids)?);
    let outputs = ids.iter().enumerate().map(|(place, id)| {
        let source = places.get(place).map_or(id, |first| &ids[*first]);
        (id.clone(), Expr::Column(source.clone()))
    });
    rows.project(outputs.collect::<Vec<_>>())
}

/// One row for each group, in these columns: the keys, the number of the grouping set, if there are sets, and
/// the calls.
pub(crate) fn aggregate_as(
    input: Arc<Rel>,
    group_expr: Vec<Expr>,
    aggr_expr: Vec<Expr>,
    ids: Vec<Column>,
) -> Result<Aggregate> {
    check_nesting(group_expr.iter().chain(&aggr_expr))?;
    let below = input.columns();
    let keys = grouping_set_to_exprlist(&group_expr)?;
    let of_sets = usize::from(matches!(group_expr.as_slice(), [Expr::GroupingSet(_)]));
    if keys.len() + of_sets + aggr_expr.len() != ids.len() {
        return Err(through(Error::internal("two keys of an aggregation are equal")));
    }
    let (count, mut ids) = (keys.len(), ids.into_iter());
    let mut cols = outputs(ids.by_ref().take(count).zip(keys), below)?;
    if let [Expr::GroupingSet(sets)] = group_expr.as_slice() {
        cols.iter_mut().for_each(|col| col.field = nullable(&col.field));
        let field = Field::new(GROUPING_ID, grouping_id_type(sets, count), false);
        cols.extend(ids.next().map(|id| Col::new(id, Arc::new(field))));
    }
    cols.extend(outputs(ids.zip(&aggr_expr), below)?);
    let columns = Columns::new(cols)?;
    Ok(Aggregate { group_expr, aggr_expr, input, columns })
}

/// The smallest type with a bit for each key, and bits above them that number equal sets.
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

/// Adds the values of window functions.
fn over(input: impl Into<Arc<Rel>>, calls: impl IntoIterator<Item = Output>) -> Result<Over> {
    let input = input.into();
    let (ids, window_expr): (Vec<Column>, Vec<Expr>) = calls.into_iter().unzip();
    check_nesting(&window_expr)?;
    window_expr.iter().try_for_each(check_filter)?;
    let added = outputs(ids.into_iter().zip(&window_expr), input.columns())?;
    let columns = input.columns().with(added)?;
    Ok(Over { window_expr, input, columns })
}

/// The rows of all inputs in these columns. The types are those of the first input. A column is nullable if
/// it is so in one input.
pub(crate) fn union_as(inputs: Vec<Arc<Rel>>, ids: Vec<Column>) -> Result<Rel> {
    let col = |(place, id): (usize, Column)| {
        let all = || inputs.iter().map(|input| input.columns().field(place));
        let nullable = all().any(|field| field.is_nullable());
        let data_type = all().next().map_or(DataType::Null, |first| first.data_type().clone());
        let metadata = intersect_metadata_for_union(all().map(|field| field.metadata()));
        let field = Field::new(name_of(&id), data_type, nullable).with_metadata(metadata);
        Col::new(id, Arc::new(field))
    };
    let columns = Columns::new(ids.into_iter().enumerate().map(col).collect())?;
    Ok(Rel::Union(Union { inputs, columns }))
}
