//! Tables in FROM that depend on columns of those before them: `UNNEST(t.items)`, `t FOR SYSTEM_TIME AS OF o.ts`. The planner plans what is
//! in parentheses as a whole, and there knows the columns of all of it.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    self, Join, JoinConstraint, JoinOperator, Query, Select, TableFactor, TableVersion, TableWithJoins, VisitorMut,
};

use crate::unnest::is_unnest;
use crate::walk::change_syntax;

fn depends(relation: &TableFactor) -> bool {
    is_unnest(relation) || is_version(relation)
}

/// Whether it is a table `FOR SYSTEM_TIME AS OF` a time.
pub(crate) fn is_version(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(_)), .. })
}

/// Puts each such table into parentheses with those before it: `a, b, UNNEST(x)` becomes `((a CROSS JOIN b) CROSS JOIN UNNEST(x))`.
pub(crate) fn nest(query: &mut Query) {
    let _: ControlFlow<()> = change_syntax(query, &mut Nesting);
}

struct Nesting;

impl VisitorMut for Nesting {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.from.iter().skip(1).any(|table| depends(&table.relation)) {
            let all = std::mem::take(&mut select.from).into_iter().reduce(|mut all, mut next| {
                // Its joins are its own.
                if !depends(&next.relation) && !next.joins.is_empty() {
                    nest_joins(&mut next);
                    enclose(&mut next);
                }
                let join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
                all.joins.push(Join { relation: next.relation, global: false, join_operator });
                all.joins.extend(next.joins);
                all
            });
            select.from.extend(all);
        }
        select.from.iter_mut().for_each(nest_joins);
        ControlFlow::Continue(())
    }
}

fn nest_joins(table: &mut TableWithJoins) {
    let relations = std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation));
    for relation in relations {
        if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
            nest_joins(table_with_joins);
        }
    }
    if !table.joins.iter().any(|join| depends(&join.relation)) {
        return;
    }
    for join in std::mem::take(&mut table.joins) {
        let nests = depends(&join.relation);
        if nests && !table.joins.is_empty() {
            enclose(table);
        }
        table.joins.push(join);
        if nests {
            enclose(table);
        }
    }
}

/// Puts the tables into parentheses.
fn enclose(table: &mut TableWithJoins) {
    let none = TableFactor::TableFunction { expr: ast::Expr::value(ast::Value::Null), alias: None };
    let relation = std::mem::replace(&mut table.relation, none);
    let joined = TableWithJoins { relation, joins: std::mem::take(&mut table.joins) };
    table.relation = TableFactor::NestedJoin { table_with_joins: Box::new(joined), alias: None };
}
