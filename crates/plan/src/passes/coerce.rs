//! Coerces the types of operands and arguments by DataFusion's rules for expressions.

use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::Error;
use arrow::datatypes::{DataType, Field};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::type_coercion::binary::type_union_coercion;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use crate::place::through;
use crate::rel::{Col, Columns, Join, Limit, Output, Rel, Union, computed, kept, name_of, not_boolean};
use crate::rewrite::{change_expressions, rewrite_nodes};

pub(super) fn coerce(plan: Rel) -> Result<Rel> {
    rewrite_nodes(plan, &coerce_node).map(|plan| plan.data)
}

/// Coerces the expressions of a node, and types that its inputs must share.
fn coerce_node(node: Rel) -> Result<Transformed<Rel>> {
    let exprs = node.expressions();
    let columns = match node.inputs().as_slice() {
        [] => DFSchema::empty(),
        [input] => input.columns().schema_of(&exprs)?,
        [left, right] if matches!(node, Rel::Join(_) | Rel::Temporal(_)) => {
            Columns::merged(&[Arc::clone(left.shared_columns()), Arc::clone(right.shared_columns())])
                .schema_of(&exprs)?
        }
        _ => DFSchema::empty(),
    };
    let mut coercion = TypeCoercionRewriter::new(&columns);
    let coerced = match node {
        Rel::Filter(mut filter) => {
            filter.predicate = boolean(filter.predicate, &columns)?;
            Transformed::yes(Rel::Filter(filter))
        }
        Rel::Limit(limit) => Transformed::yes(Rel::Limit(coerce_limit(limit)?)),
        Rel::Union(union) => Transformed::yes(Rel::Union(coerce_union(union)?)),
        Rel::Join(join) => return coerce_join(join, &columns, &mut coercion),
        node => Transformed::no(node),
    };
    coerced.transform_data(|node| change_expressions(node, &mut |expr| expr.rewrite(&mut coercion)))
}

/// Coerces a condition to BOOLEAN.
fn boolean(condition: Expr, columns: &DFSchema) -> Result<Expr> {
    match condition.get_type(columns)? {
        DataType::Boolean => Ok(condition),
        DataType::Null => condition.cast_to(&DataType::Boolean, columns),
        other => Err(through(not_boolean(&other))),
    }
}

/// Coerces the two sides of each key to one type, and the condition to BOOLEAN.
fn coerce_join(join: Join, columns: &DFSchema, coercion: &mut TypeCoercionRewriter<'_>) -> Result<Transformed<Rel>> {
    let mut coerced = |expr: Expr| expr.rewrite(coercion).map(|expr| expr.data);
    let mut on = Vec::with_capacity(join.on.len());
    for (left, right) in join.on {
        let equal = BinaryExpr::new(Box::new(left), Operator::Eq, Box::new(right));
        match coerced(Expr::BinaryExpr(equal))? {
            Expr::BinaryExpr(equal) => on.push((*equal.left, *equal.right)),
            other => return Err(through(Error::internal(format!("the key of a join has become {other}")))),
        }
    }
    let filter = join.filter.map(|filter| coerced(filter).and_then(|filter| boolean(filter, columns))).transpose()?;
    Ok(Transformed::yes(Rel::Join(Join { on, filter, ..join })))
}

fn coerce_limit(limit: Limit) -> Result<Limit> {
    let none = DFSchema::empty();
    let bound = |bound: Option<Expr>, name: &str| match bound {
        None => Ok(None),
        Some(bound) => match bound.get_type(&none)? {
            of if of.is_integer() || of.is_null() => bound.cast_to(&DataType::Int64, &none).map(Some),
            of => {
                let error = Error::user(format!("{name} is {}, not a whole number", sql_name(&of)));
                Err(through(error.remedy(format!("write a number: {name} 10"))))
            }
        },
    };
    Ok(Limit { skip: bound(limit.skip, "OFFSET")?, fetch: bound(limit.fetch, "LIMIT")?, input: limit.input })
}

/// Coerces the columns of all inputs to common types.
fn coerce_union(union: Union) -> Result<Union> {
    let mut columns = union.columns.to_vec();
    for (place, Col { field, .. }) in columns.iter_mut().enumerate() {
        let (mut common, mut nullable) = (field.data_type().clone(), field.is_nullable());
        let mut metadata = field.metadata().clone();
        for input in &union.inputs {
            let own = input.columns().field(place);
            common = type_union_coercion(&common, own.data_type()).ok_or_else(|| incompatible(&common, own))?;
            nullable |= own.is_nullable();
            metadata.extend(own.metadata().clone());
        }
        *field = Arc::new(Field::new(field.name(), common, nullable).with_metadata(metadata));
    }
    let columns = Columns::new(columns)?;
    let inputs = union.inputs.into_iter().map(|input| with_types_of(input, &columns)).collect::<Result<_>>()?;
    Ok(Union { inputs, columns })
}

fn incompatible(common: &DataType, own: &Field) -> datafusion_common::DataFusionError {
    let (first, second) = (sql_name(common), sql_name(own.data_type()));
    let error =
        Error::user(format!("column '{}' of a union is {first} in one query and {second} in another", own.name()));
    through(error.remedy("convert one of them: CAST(x AS type)"))
}

/// Casts an input of a union to the union's types.
fn with_types_of(input: Arc<Rel>, columns: &Columns) -> Result<Arc<Rel>> {
    let is_same = |(own, of): (&Arc<Field>, &Arc<Field>)| own.data_type() == of.data_type();
    if input.columns().fields().iter().zip(columns.fields()).all(is_same) {
        return Ok(input);
    }
    let cast = |(id, expr): Output, field: &Field, below: &Columns| {
        if expr.get_type(below)? == *field.data_type() {
            return Ok((id, expr));
        }
        Ok(computed(name_of(&id), expr.cast_to(field.data_type(), below)?))
    };
    let all = |outputs: Vec<Output>, below: &Columns| {
        let outputs = outputs.into_iter().zip(columns.fields());
        outputs.map(|(output, field)| cast(output, field, below)).collect::<Result<Vec<_>>>()
    };
    match Arc::unwrap_or_clone(input) {
        Rel::Project(inner) => {
            let outputs =
                all(inner.columns.ids().into_iter().zip(inner.exprs.clone()).collect(), inner.input.columns())?;
            inner.with_outputs(outputs).map(Arc::new)
        }
        plan => {
            let outputs = all(plan.ids().into_iter().map(kept).collect(), plan.columns())?;
            plan.project(outputs).map(Arc::new)
        }
    }
}
