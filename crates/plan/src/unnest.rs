//! `UNNEST(array)` in FROM, over the columns of the tables before it. The operator adds the columns of an
//! element to its input.

use std::sync::Arc;

use anabranch_dataflow::{ORDINALITY, sql_name};
use anabranch_model::Error;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::{DataFusionError, Result, TableReference, internal_err};
use datafusion_expr::{Expr, ExprSchemable};
use datafusion_sql::sqlparser::ast::{Join, JoinConstraint, JoinOperator, Spanned, TableFactor};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::bind::{Binder, Env, Names, Rows, Scope, TableName, is_true};
use crate::place::{at, counted, through};
use crate::rel::{Col, Columns, Rel, fresh};

/// The column's name for elements without names.
const ELEMENT: &str = "f0";

/// The operator; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Unnest {
    /// An array or a map.
    pub(crate) value: Expr,
    pub(crate) ordinality: bool,
    /// A row without elements appears once, with NULL for them.
    pub(crate) outer: bool,
    pub(crate) input: Arc<Rel>,
    /// The number of the columns of an element.
    added: usize,
    pub(crate) columns: Arc<Columns>,
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
    fn new(value: Expr, ordinality: bool, outer: bool, input: Rel, added: Vec<Col>) -> Result<Self> {
        let (input, count) = (Arc::new(input), added.len());
        let columns = input.columns().with(added)?;
        Ok(Unnest { value, ordinality, outer, input, added: count, columns })
    }

    /// Derives the columns: those of the input and of an element. Their types are those of the value as it is
    /// now: the coercion of a union or a CASE below changes them.
    pub(crate) fn with_columns(mut self) -> Result<Self> {
        let mut added: Vec<Col> = self.columns.iter().skip(self.columns.len() - self.added).cloned().collect();
        let elements = element_fields(&self.value.get_type(self.input.columns())?).unwrap_or_default();
        for (col, element) in added.iter_mut().zip(&elements) {
            let nullable = col.field.is_nullable() || element.is_nullable();
            let field = col.field.as_ref().clone().with_data_type(element.data_type().clone());
            col.field = Arc::new(field.with_nullable(nullable));
        }
        self.columns = self.input.columns().with(added)?;
        Ok(self)
    }
}

pub(crate) fn is_unnest(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::UNNEST { with_offset: false, .. })
}

fn refused(what: impl Into<String>, place: Location, remedy: &str) -> DataFusionError {
    through(Error::user(what.into()).at(at(place)).remedy(remedy))
}

/// Joins each row with the elements of its value.
pub(crate) fn plan_unnest(rows: Rows, join: &Join, binder: &Binder<'_>, env: &Env<'_>) -> Result<Rows> {
    use JoinConstraint::{None as Always, On};
    let place = join.relation.span().start;
    let (outer, condition) = match &join.join_operator {
        JoinOperator::CrossJoin(Always) | JoinOperator::Inner(Always) | JoinOperator::Join(Always) => (false, None),
        JoinOperator::Inner(On(condition)) | JoinOperator::Join(On(condition)) => (false, Some(condition)),
        JoinOperator::Left(On(condition)) | JoinOperator::LeftOuter(On(condition)) => (true, Some(condition)),
        _ => {
            return Err(refused(
                "UNNEST(...) does not support this kind of join",
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
    let condition = binder.plain(condition.clone(), &Names::new(&scope), env, "the condition of UNNEST")?;
    let plan = rows.plan.filter(condition)?;
    Ok(Rows { plan, items: scope.items })
}

/// The operator over these rows.
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
    let value = binder.plain(value.clone(), &Names::new(&scope), env, "UNNEST")?;
    let data_type = value.get_type(input.columns())?;
    let Some(element) = element_fields(&data_type) else {
        let what = format!("UNNEST takes an array or a map, and this is {}", sql_name(&data_type));
        return Err(refused(what, place, "give it an ARRAY or a MAP"));
    };
    let number = ordinality.then(|| Arc::new(Field::new(ORDINALITY, DataType::Int32, false)));
    let mut fields: Vec<FieldRef> = element.iter().cloned().chain(number).collect();
    let names = alias.as_ref().map_or(&[][..], |alias| alias.columns.as_slice());
    if !names.is_empty() && names.len() != fields.len() {
        let (columns, given) = (counted(fields.len(), "column"), counted(names.len(), "name"));
        let what = format!("an element has {columns}, but the alias has {given}");
        return Err(refused(what, place, &format!("give it {}, or none", counted(fields.len(), "name"))));
    }
    // Elements without names of their own get the table's alias.
    if let (Some(alias), [], Some(field)) = (alias, names, fields.first_mut().filter(|field| field.name() == ELEMENT)) {
        *field = Arc::new(field.as_ref().clone().with_name(&alias.name.value));
    }
    for (field, name) in fields.iter_mut().zip(names) {
        *field = Arc::new(field.as_ref().clone().with_name(&name.name.value));
    }
    let table = alias.as_ref().map(|alias| TableName::alias(&alias.name.value));
    let of = table.as_ref().map(|table| TableReference::bare(table.own.as_str()));
    let nullable = |field: FieldRef| if outer { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field };
    let col = |field: FieldRef| Col { table: of.clone(), ..Col::new(fresh(field.name()), nullable(field)) };
    let added = fields.into_iter().map(col).collect();
    let node = Unnest::new(value, *ordinality, outer, input, added)?;
    let inputs = node.input.width();
    let plan = Rel::Unnest(node);
    let added = Scope::items_of(&plan, table.as_ref()).into_iter().skip(inputs);
    let items = scope.items.into_iter().chain(added).collect();
    Ok(Rows { plan, items })
}
