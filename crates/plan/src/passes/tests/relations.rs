//! Naive execution of logical plans over rows.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::DataType;
use datafusion_common::{Column, JoinType, NullEquality};
use datafusion_expr::{Expr, ExprSchemable};

use super::values::{Result, Value, cast, literal, order, unknown, value};
use crate::rel::{Aggregate, Columns, Distinct, Join, Rel, joined_columns};

pub(super) type Rows = Vec<Vec<Value>>;
/// The rows of the tables, by their names.
pub(super) type Tables = BTreeMap<&'static str, Rows>;

/// A row, and the outer rows.
pub(super) struct Env<'a> {
    schema: &'a Columns,
    row: &'a [Value],
    pub(super) outer: Option<&'a Env<'a>>,
}

impl<'a> Env<'a> {
    pub(super) fn column(&self, column: &Column) -> Result<Value> {
        place(self.schema, column).map_or_else(|| unknown(column), |place| Ok(self.row[place].clone()))
    }

    pub(super) fn nearest(&self, column: &Column) -> Result<Value> {
        match (place(self.schema, column), self.outer) {
            (Some(place), _) => Ok(self.row[place].clone()),
            (None, Some(outer)) => outer.nearest(column),
            (None, None) => unknown(column),
        }
    }

    pub(super) fn type_of(&self, expr: &Expr) -> Result<DataType> {
        expr.get_type(self.schema).or_else(|error| unknown(error.to_string()))
    }
}

fn place(schema: &Columns, column: &Column) -> Option<usize> {
    schema.find(column)
}

/// The rows of a plan.
pub(super) fn rows(plan: &Rel, outer: Option<&Env>, tables: &Tables) -> Result<Rows> {
    let of = |plan: &Rel| rows(plan, outer, tables);
    let project = |exprs: &[Expr], schema: &Columns, row: &[Value]| {
        let env = Env { schema, row, outer };
        exprs.iter().map(|expr| value(expr, &env, tables)).collect::<Result<Vec<_>>>()
    };
    match plan {
        Rel::Get(scan) => {
            let Some(rows) = tables.get(scan.name.as_str()) else { return unknown(scan.name.clone()) };
            let chosen = |row: &Vec<Value>| match &scan.projection {
                Some(places) => places.iter().map(|place| row[*place].clone()).collect(),
                None => row.clone(),
            };
            Ok(rows.iter().map(chosen).collect())
        }
        Rel::Project(of_rows) => {
            of(&of_rows.input)?.iter().map(|row| project(&of_rows.exprs, of_rows.input.columns(), row)).collect()
        }
        Rel::Filter(filter) => {
            let mut kept = Vec::new();
            for row in of(&filter.input)? {
                let env = Env { schema: filter.input.columns(), row: &row, outer };
                if value(&filter.predicate, &env, tables)? == Value::Truth(true) {
                    kept.push(row);
                }
            }
            Ok(kept)
        }
        Rel::Sort(sort) => of(&sort.input),
        Rel::Values(values) => values.rows.iter().map(|exprs| project(exprs, &Columns::default(), &[])).collect(),
        Rel::Distinct(Distinct { input }) => Ok(distinct(of(input)?)),
        Rel::Union(union) => {
            let mut all = Vec::new();
            for input in &union.inputs {
                for row in of(input)? {
                    let typed = row.into_iter().enumerate();
                    let typed = typed.map(|(place, value)| match value {
                        Value::Exact(..) => cast(value, super::values::field(&union.columns, place), false),
                        value => Ok(value),
                    });
                    all.push(typed.collect::<Result<Vec<_>>>()?);
                }
            }
            Ok(all)
        }
        Rel::Join(join) => joined(join, outer, tables),
        Rel::Aggregate(aggregate) => aggregated(aggregate, outer, tables),
        other => unknown(other.to_string()),
    }
}

pub(super) fn key(row: &[Value]) -> Vec<String> {
    row.iter().map(Value::key).collect()
}

fn distinct(rows: Rows) -> Rows {
    let mut seen = std::collections::HashSet::new();
    rows.into_iter().filter(|row| seen.insert(key(row))).collect()
}

fn joined(join: &Join, outer: Option<&Env>, tables: &Tables) -> Result<Rows> {
    let (left, right) = (rows(&join.left, outer, tables)?, rows(&join.right, outer, tables)?);
    let (of_left, of_right) = (join.left.columns(), join.right.columns());
    let Ok(both) = joined_columns(of_left, of_right, JoinType::Inner) else { return unknown("columns of both sides") };
    let matches = |left: &[Value], right: &[Value]| -> Result<bool> {
        for (a, b) in &join.on {
            let a = value(a, &Env { schema: of_left, row: left, outer }, tables)?;
            let b = value(b, &Env { schema: of_right, row: right, outer }, tables)?;
            let nulls = a == Value::Null && b == Value::Null && join.null_equality == NullEquality::NullEqualsNull;
            if !nulls && order(&a, &b)? != Some(std::cmp::Ordering::Equal) {
                return Ok(false);
            }
        }
        let row = [left, right].concat();
        match &join.filter {
            Some(filter) => Ok(value(filter, &Env { schema: &both, row: &row, outer }, tables)? == Value::Truth(true)),
            None => Ok(true),
        }
    };
    let mut found = vec![Vec::new(); left.len()];
    let mut matched = vec![false; right.len()];
    for (place, row) in left.iter().enumerate() {
        for (other, with) in right.iter().enumerate() {
            if matches(row, with)? {
                found[place].push(other);
                matched[other] = true;
            }
        }
    }
    let padding = |schema: &Columns| vec![Value::Null; schema.fields().len()];
    let mut all = Vec::new();
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightSemi};
    for (row, found) in left.iter().zip(&found) {
        match join.join_type {
            Inner | Left | Right | Full => {
                all.extend(found.iter().map(|other| [row.as_slice(), &right[*other]].concat()));
                if found.is_empty() && matches!(join.join_type, Left | Full) {
                    all.push([row.as_slice(), &padding(of_right)].concat());
                }
            }
            LeftSemi if !found.is_empty() => all.push(row.clone()),
            LeftAnti if found.is_empty() => all.push(row.clone()),
            LeftMark => all.push([row.as_slice(), &[Value::Truth(!found.is_empty())]].concat()),
            _ => {}
        }
    }
    for (row, matched) in right.iter().zip(matched) {
        match join.join_type {
            Right | Full if !matched => all.push([padding(of_left).as_slice(), row].concat()),
            RightSemi if matched => all.push(row.clone()),
            RightAnti if !matched => all.push(row.clone()),
            _ => {}
        }
    }
    Ok(all)
}

fn aggregated(aggregate: &Aggregate, outer: Option<&Env>, tables: &Tables) -> Result<Rows> {
    let schema = aggregate.input.columns();
    let mut groups: Vec<(Vec<Value>, Rows)> = Vec::new();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    if aggregate.group_expr.is_empty() {
        groups.push((Vec::new(), Vec::new()));
        places.insert(Vec::new(), 0);
    }
    for row in rows(&aggregate.input, outer, tables)? {
        let env = Env { schema, row: &row, outer };
        let keys = aggregate.group_expr.iter().map(|key| value(key, &env, tables)).collect::<Result<Vec<_>>>()?;
        let place = *places.entry(key(&keys)).or_insert_with(|| {
            groups.push((keys, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(row);
    }
    let first = aggregate.group_expr.len();
    let result = |(mut keys, members): (Vec<Value>, Rows)| {
        for (place, call) in aggregate.aggr_expr.iter().enumerate() {
            let to = super::values::field(&aggregate.columns, first + place);
            keys.push(called(call, &members, schema, to, outer, tables)?);
        }
        Ok(keys)
    };
    groups.into_iter().map(result).collect()
}

/// An aggregate of rows.
fn called(
    call: &Expr,
    members: &Rows,
    schema: &Columns,
    to: &DataType,
    outer: Option<&Env>,
    tables: &Tables,
) -> Result<Value> {
    let Expr::AggregateFunction(call) = call.clone().unalias() else { return unknown(call) };
    let mut values = Vec::new();
    for row in members {
        let env = Env { schema, row, outer };
        let passes = match &call.params.filter {
            Some(filter) => value(filter, &env, tables)? == Value::Truth(true),
            None => true,
        };
        if passes {
            values.push(call.params.args.iter().map(|arg| value(arg, &env, tables)).collect::<Result<Vec<_>>>()?);
        }
    }
    values.retain(|args| !args.contains(&Value::Null));
    let values = if call.params.distinct { distinct(values) } else { values };
    let values = values.into_iter().map(|mut args| args.pop().unwrap_or(Value::Null));
    Ok(match call.func.name() {
        "count" => Value::Exact(i128::try_from(values.count()).unwrap_or(0), 0),
        "sum" => {
            let mut sum = None;
            for value in values {
                let (Value::Exact(number, scale), Some((total, _))) = (&value, sum.or(Some((0, 0)))) else {
                    return unknown(value);
                };
                sum = Some((total + number, *scale));
            }
            sum.map_or(Ok(Value::Null), |(total, scale)| cast(Value::Exact(total, scale), to, false))?
        }
        name @ ("min" | "max") => {
            let wanted = if name == "min" { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
            let mut best = literal(&datafusion_common::ScalarValue::Null)?;
            for value in values {
                if best == Value::Null || order(&value, &best)? == Some(wanted) {
                    best = value;
                }
            }
            best
        }
        other => return unknown(other),
    })
}
