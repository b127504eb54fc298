//! `UNNEST(array)` in FROM: after other tables, over their columns. The logical node has the columns of its input and those of an element.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use anabranch_dataflow::{ORDINALITY, sql_name};
use anabranch_model::Error;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::{DFSchema, DFSchemaRef, DataFusionError, Result, TableReference, internal_err};
use datafusion_expr::{Expr, ExprSchemable, Extension, Filter, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion_sql::sqlparser::ast::{Join, JoinConstraint, JoinOperator, Spanned, TableFactor};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::bind::{Binder, Env, Names, Rows, Scope, TableName, UNNAMED, is_true};
use crate::place::{at, through};

/// Name of the column of elements that have no names.
const ELEMENT: &str = "f0";

/// The node; see the module.
#[derive(Debug)]
pub(crate) struct Unnest {
    /// An array or a map, over the input.
    pub(crate) value: Expr,
    pub(crate) ordinality: bool,
    /// A row without elements appears once, with NULL for them.
    pub(crate) outer: bool,
    pub(crate) input: Arc<LogicalPlan>,
    added: Vec<(Option<TableReference>, FieldRef)>,
    schema: DFSchemaRef,
}

/// The columns of an element.
pub(crate) fn element_fields(value: &DataType) -> Option<Fields> {
    match value {
        DataType::List(item) => Some(match item.data_type() {
            DataType::Struct(fields) => {
                fields.iter().map(|f| f.as_ref().clone().with_nullable(f.is_nullable() || item.is_nullable())).collect()
            }
            other => vec![Field::new(ELEMENT, other.clone(), item.is_nullable())].into(),
        }),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => Some(fields.clone()),
            _ => None,
        },
        _ => None,
    }
}

impl Unnest {
    fn new(
        value: Expr,
        ordinality: bool,
        outer: bool,
        input: LogicalPlan,
        added: Vec<(Option<TableReference>, FieldRef)>,
    ) -> Result<Self> {
        let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let fields = fields.chain(added.iter().cloned()).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(Unnest { value, ordinality, outer, input: Arc::new(input), added, schema })
    }

    fn text(&self) -> String {
        let ordinality = if self.ordinality { " with ordinality" } else { "" };
        format!("{}{}{ordinality}", self.value, if self.outer { " outer" } else { "" })
    }
}

pub(crate) fn is_unnest(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::UNNEST { with_offset: false, .. })
}

fn refused(what: impl Into<String>, place: Location, remedy: &str) -> DataFusionError {
    through(Error::user(what.into()).at(at(place)).remedy(remedy))
}

/// Each row with the elements of its value.
pub(crate) fn plan_unnest(rows: Rows, join: &Join, binder: &Binder<'_>, env: &Env<'_>) -> Result<Rows> {
    use JoinConstraint::{None as Always, On};
    let place = join.relation.span().start;
    let (outer, condition) = match &join.join_operator {
        JoinOperator::CrossJoin(Always) | JoinOperator::Inner(Always) | JoinOperator::Join(Always) => (false, None),
        JoinOperator::Inner(On(condition)) | JoinOperator::Join(On(condition)) => (false, Some(condition)),
        JoinOperator::Left(On(condition)) | JoinOperator::LeftOuter(On(condition)) => (true, Some(condition)),
        _ => {
            return Err(refused(
                "UNNEST(...) cannot be joined in this way",
                place,
                "use CROSS JOIN, or LEFT JOIN ... ON TRUE",
            ));
        }
    };
    let condition = condition.filter(|condition| !is_true(condition));
    if outer && condition.is_some() {
        let what = "LEFT JOIN UNNEST(...) takes no condition";
        return Err(refused(what, place, "write ON TRUE, and conditions of the elements in WHERE"));
    }
    let rows = over(rows, &join.relation, outer, binder, env)?;
    let Some(condition) = condition else { return Ok(rows) };
    let scope = env.scope(rows.items);
    let condition = binder.plain(condition.clone(), &Names::of(&scope), env, "the condition of UNNEST")?;
    let plan = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows.plan))?);
    Ok(Rows { plan, items: scope.items })
}

/// The node over these rows.
fn over(rows: Rows, unnest: &TableFactor, outer: bool, binder: &Binder<'_>, env: &Env<'_>) -> Result<Rows> {
    let place = unnest.span().start;
    let TableFactor::UNNEST { alias, array_exprs, with_ordinality: ordinality, .. } = unnest else {
        return internal_err!("this is no UNNEST");
    };
    let [value] = array_exprs.as_slice() else {
        let what = "UNNEST of several values is not supported";
        return Err(refused(what, place, "write an UNNEST for each of them"));
    };
    let Rows { plan: input, items } = rows;
    let scope = env.scope(items);
    let value = binder.plain(value.clone(), &Names::of(&scope), env, "UNNEST")?;
    let data_type = value.get_type(input.schema())?;
    let Some(element) = element_fields(&data_type) else {
        let what = format!("UNNEST takes an array or a map, and this is {}", sql_name(&data_type));
        return Err(refused(what, place, "give it an ARRAY or a MAP"));
    };
    let number = ordinality.then(|| Arc::new(Field::new(ORDINALITY, DataType::Int32, false)));
    let mut fields: Vec<FieldRef> = element.iter().cloned().chain(number).collect();
    let names = alias.as_ref().map_or(&[][..], |alias| alias.columns.as_slice());
    if !names.is_empty() && names.len() != fields.len() {
        let what = format!("columns of an element: {}; names: {}", fields.len(), names.len());
        return Err(refused(what, place, "name each of them"));
    }
    // Elements without names of their own have that of the table.
    if let (Some(alias), [], Some(field)) = (alias, names, fields.first_mut().filter(|field| field.name() == ELEMENT)) {
        *field = Arc::new(field.as_ref().clone().with_name(&alias.name.value));
    }
    for (field, name) in fields.iter_mut().zip(names) {
        *field = Arc::new(field.as_ref().clone().with_name(&name.name.value));
    }
    let table = alias.as_ref().map(|alias| TableName::alias(&alias.name.value));
    let qualifier = binder.bare(table.as_ref().map_or(UNNAMED, |table| &table.own));
    let nullable = |field: FieldRef| if outer { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field };
    let added = fields.into_iter().map(|field| (Some(qualifier.clone()), nullable(field))).collect();
    let node = Unnest::new(value, *ordinality, outer, input, added)?;
    let inputs = node.input.schema().fields().len();
    let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    let added = Scope::items_of(&plan, table.as_ref()).into_iter().skip(inputs);
    let items = scope.items.into_iter().chain(added).collect();
    Ok(Rows { plan, items })
}

impl PartialEq for Unnest {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() && self.added == other.added && self.input == other.input
    }
}

impl Eq for Unnest {}

impl PartialOrd for Unnest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        self.text().partial_cmp(&other.text()).filter(|order| *order != Ordering::Equal)
    }
}

impl Hash for Unnest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for Unnest {
    fn name(&self) -> &str {
        "Unnest"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.value.clone()]
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.added.iter().map(|(_, field)| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Unnest: {}", self.text())
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (exprs.pop(), <[LogicalPlan; 1]>::try_from(inputs)) {
            (Some(value), Ok([input])) => Unnest::new(value, self.ordinality, self.outer, input, self.added.clone()),
            _ => internal_err!("Unnest has a value and one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // The columns of the value are among `expressions`.
        let inputs = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|index| *index < inputs).collect()])
    }
}
