//! Naive execution: plans over rows of whole numbers, and dependent joins as nested loops. TRUE is 1, FALSE
//! is 0.

use std::collections::BTreeMap;

use datafusion_common::{Column, JoinType, NullEquality, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, Operator};

use crate::rel::{Aggregate, Distinct, Join, Over, Rel};

pub(super) type Row = Vec<Option<i64>>;
/// The rows of the tables, by their names.
pub(super) type Tables = BTreeMap<String, Vec<Row>>;

/// A row with its columns, and the rows of the outer queries.
#[derive(Clone, Copy)]
struct Env<'a> {
    columns: &'a [Column],
    row: &'a [Option<i64>],
    outer: &'a [(Column, Option<i64>)],
}

fn value(expr: &Expr, env: Env) -> Option<i64> {
    let of = |expr: &Expr| value(expr, env);
    match expr {
        Expr::Column(column) => {
            let place = env.columns.iter().position(|own| own == column);
            env.row[place.unwrap_or_else(|| panic!("{column} in {:?}", env.columns))]
        }
        Expr::OuterReferenceColumn(_, column) => {
            let found = env.outer.iter().find(|(of, _)| of == column);
            found.unwrap_or_else(|| panic!("{column} of {:?}", env.outer)).1
        }
        Expr::Literal(value, _) => match value {
            ScalarValue::Boolean(truth) => truth.map(i64::from),
            ScalarValue::Int32(number) => number.map(i64::from),
            ScalarValue::Int64(number) => *number,
            ScalarValue::Null => None,
            other => panic!("{other:?}"),
        },
        Expr::Not(inner) => of(inner).map(|truth| 1 - truth),
        Expr::IsNull(inner) => Some(of(inner).is_none().into()),
        Expr::IsNotNull(inner) => Some(of(inner).is_some().into()),
        Expr::IsNotTrue(inner) => Some((of(inner) != Some(1)).into()),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => operation(of(left), *op, of(right)),
        Expr::Case(case) => {
            let operand = case.expr.as_deref().map(of);
            let mut whens = case.when_then_expr.iter();
            let found = whens.find(|(when, _)| match operand {
                Some(operand) => operand.is_some() && operand == of(when),
                None => of(when) == Some(1),
            });
            found.map_or_else(|| case.else_expr.as_deref().and_then(of), |(_, then)| of(then))
        }
        other => panic!("{other}"),
    }
}

fn operation(left: Option<i64>, op: Operator, right: Option<i64>) -> Option<i64> {
    match op {
        Operator::IsNotDistinctFrom => return Some((left == right).into()),
        Operator::And if left == Some(0) || right == Some(0) => return Some(0),
        Operator::Or if left == Some(1) || right == Some(1) => return Some(1),
        _ => {}
    }
    let (left, right) = (left?, right?);
    Some(match op {
        Operator::Eq => (left == right).into(),
        Operator::NotEq => (left != right).into(),
        Operator::Lt => (left < right).into(),
        Operator::LtEq => (left <= right).into(),
        Operator::Gt => (left > right).into(),
        Operator::GtEq => (left >= right).into(),
        Operator::And => left & right,
        Operator::Or => left | right,
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Multiply => left.wrapping_mul(right),
        other => panic!("{other}"),
    })
}

/// The rows of a plan within outer rows with these values.
pub(super) fn rows(plan: &Rel, tables: &Tables, outer: &[(Column, Option<i64>)]) -> Vec<Row> {
    let of = |plan: &Rel| rows(plan, tables, outer);
    match plan {
        Rel::Get(scan) => tables[&scan.name].clone(),
        Rel::Sort(sort) => of(&sort.input),
        Rel::Values(values) => {
            let env = Env { columns: &[], row: &[], outer };
            values.rows.iter().map(|row| row.iter().map(|expr| value(expr, env)).collect()).collect()
        }
        Rel::Project(projection) => {
            let columns = projection.input.ids();
            let project = |row: Row| {
                let env = Env { columns: &columns, row: &row, outer };
                projection.exprs.iter().map(|expr| value(expr, env)).collect()
            };
            of(&projection.input).into_iter().map(project).collect()
        }
        Rel::Filter(filter) => {
            let columns = filter.input.ids();
            let passes = |row: &Row| value(&filter.predicate, Env { columns: &columns, row, outer }) == Some(1);
            of(&filter.input).into_iter().filter(passes).collect()
        }
        Rel::Limit(limit) => {
            let mut input = of(&limit.input);
            let bound = |expr: &Option<Expr>| {
                let env = Env { columns: &[], row: &[], outer };
                expr.as_ref().and_then(|expr| value(expr, env)).map(|rows| usize::try_from(rows).expect("rows"))
            };
            // The order is by all columns.
            input.sort();
            let fetch = bound(&limit.fetch).unwrap_or(usize::MAX);
            input.into_iter().skip(bound(&limit.skip).unwrap_or(0)).take(fetch).collect()
        }
        Rel::Distinct(Distinct { input }) => {
            let mut all = of(input);
            all.sort();
            all.dedup();
            all
        }
        Rel::Union(union) => union.inputs.iter().flat_map(|input| of(input)).collect(),
        Rel::Join(join) => joined(join, tables, outer),
        Rel::Aggregate(aggregate) => aggregated(aggregate, of(&aggregate.input), outer),
        Rel::Over(window) => windowed(window, of(&window.input), outer),
        Rel::Copies(copies) => {
            let repeat = |mut row: Row| {
                let times = usize::try_from(row.pop().flatten().unwrap_or(0)).unwrap_or(0);
                vec![row; times]
            };
            of(&copies.input).into_iter().flat_map(repeat).collect()
        }
        other => panic!("{other}"),
    }
}

fn joined(join: &Join, tables: &Tables, outer: &[(Column, Option<i64>)]) -> Vec<Row> {
    let [left, right] = [&join.left, &join.right].map(|side| rows(side, tables, outer));
    let columns = [&join.left, &join.right].map(|side| side.ids());
    let both = columns.concat();
    let matches = |a: &Row, b: &Row| {
        let keys = join.on.iter().all(|(of_left, of_right)| {
            let of_left = value(of_left, Env { columns: &columns[0], row: a, outer });
            let of_right = value(of_right, Env { columns: &columns[1], row: b, outer });
            of_left == of_right && (of_left.is_some() || join.null_equality == NullEquality::NullEqualsNull)
        });
        let row = [a.as_slice(), b].concat();
        let passes = |filter: &Expr| value(filter, Env { columns: &both, row: &row, outer }) == Some(1);
        keys && join.filter.as_ref().is_none_or(passes)
    };
    use JoinType::{Full, Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
    let padding = columns.each_ref().map(|columns| vec![None; columns.len()]);
    let mut all = Vec::new();
    for a in &left {
        let found: Vec<&Row> = right.iter().filter(|b| matches(a, b)).collect();
        match join.join_type {
            Inner | Left | Right | Full => all.extend(found.iter().map(|b| [a.as_slice(), b].concat())),
            LeftSemi if !found.is_empty() => all.push(a.clone()),
            LeftAnti if found.is_empty() => all.push(a.clone()),
            _ => {}
        }
        if found.is_empty() && matches!(join.join_type, Left | Full) {
            all.push([a.as_slice(), &padding[1]].concat());
        }
    }
    for b in &right {
        let is_found = left.iter().any(|a| matches(a, b));
        match join.join_type {
            Right | Full if !is_found => all.push([padding[0].as_slice(), b].concat()),
            RightSemi if is_found => all.push(b.clone()),
            RightAnti if !is_found => all.push(b.clone()),
            _ => {}
        }
    }
    all
}

fn called(call: &Expr, members: &[Row], columns: &[Column], outer: &[(Column, Option<i64>)]) -> Option<i64> {
    let Expr::AggregateFunction(call) = call else { panic!("{call}") };
    let argument = |row: &Row| call.params.args.first().and_then(|arg| value(arg, Env { columns, row, outer }));
    let values: Vec<i64> = members.iter().filter_map(argument).collect();
    match call.func.name() {
        "count" => i64::try_from(values.len()).ok(),
        "max" => values.into_iter().max(),
        "sum" => values.into_iter().reduce(i64::wrapping_add),
        other => panic!("{other}"),
    }
}

fn aggregated(aggregate: &Aggregate, input: Vec<Row>, outer: &[(Column, Option<i64>)]) -> Vec<Row> {
    let columns = aggregate.input.ids();
    let mut groups: BTreeMap<Row, Vec<Row>> = BTreeMap::new();
    if aggregate.group_expr.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in input {
        let env = Env { columns: &columns, row: &row, outer };
        let keys = aggregate.group_expr.iter().map(|key| value(key, env)).collect();
        groups.entry(keys).or_default().push(row);
    }
    let with_calls = |(keys, members): (Row, Vec<Row>)| {
        let calls = aggregate.aggr_expr.iter().map(|call| called(call, &members, &columns, outer));
        keys.into_iter().chain(calls).collect()
    };
    groups.into_iter().map(with_calls).collect()
}

fn windowed(window: &Over, mut input: Vec<Row>, outer: &[(Column, Option<i64>)]) -> Vec<Row> {
    let columns = window.input.ids();
    for call in &window.window_expr {
        let Expr::WindowFunction(call) = call else { panic!("{call}") };
        let of = |expr: &Expr, row: &Row| value(expr, Env { columns: &columns, row, outer });
        input.sort_by_key(|row| {
            let order: Row = call.params.order_by.iter().map(|sort| of(&sort.expr, row)).collect();
            (order, row.clone())
        });
        let mut numbers: BTreeMap<Row, i64> = BTreeMap::new();
        for row in &mut input {
            let keys: Row = call.params.partition_by.iter().map(|key| of(key, row)).collect();
            let number = numbers.entry(keys).or_default();
            *number += 1;
            row.push(Some(*number));
        }
    }
    input
}

/// A dependent join as nested loops.
pub(super) fn nested_loops((left, right): (&Rel, &Rel), kind: JoinType, on: &[Expr], tables: &Tables) -> Vec<Row> {
    let own = left.ids();
    let both: Vec<Column> = own.iter().cloned().chain(right.ids()).collect();
    let mut all = Vec::new();
    for row in rows(left, tables, &[]) {
        let outer: Vec<(Column, Option<i64>)> = own.iter().cloned().zip(row.iter().copied()).collect();
        let with: Vec<Row> = rows(right, tables, &outer).iter().map(|of| [row.as_slice(), of].concat()).collect();
        let passes = |row: &&Row| on.iter().all(|on| value(on, Env { columns: &both, row, outer: &[] }) == Some(1));
        let found: Vec<&Row> = with.iter().filter(passes).collect();
        match kind {
            JoinType::LeftSemi => all.extend((!found.is_empty()).then_some(row)),
            JoinType::LeftAnti => all.extend(found.is_empty().then_some(row)),
            JoinType::Left if found.is_empty() => {
                all.push(row.into_iter().chain(vec![None; right.width()]).collect());
            }
            _ => all.extend(found.into_iter().cloned()),
        }
    }
    all
}
