//! Trees of operators as text: a line for each operator, those below indented.

use std::fmt::{self, Display, Formatter};

use datafusion_common::JoinType;
use datafusion_expr::Expr;

use super::{Aggregate, Get, Join, Rel, Values};
use crate::temporal_join::VersionTimes;

/// The rows of constants that are shown.
const ROWS_MAX: usize = 5;

impl Display for Rel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        tree(self, 0, f)
    }
}

fn tree(rel: &Rel, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
    if depth > 0 {
        write!(f, "\n{:width$}", "", width = 2 * depth)?;
    }
    line(rel, f)?;
    rel.inputs().into_iter().try_for_each(|input| tree(input, depth + 1, f))
}

fn line(rel: &Rel, f: &mut Formatter<'_>) -> fmt::Result {
    match rel {
        Rel::Get(get) => table(get, f),
        Rel::Values(values) => rows(values, f),
        Rel::Project(project) => write!(f, "Project: {}", list(&project.exprs)),
        Rel::Filter(filter) => write!(f, "Filter: {}", filter.predicate),
        Rel::Rename(rename) => write!(f, "Rename: {}", rename.name),
        Rel::Join(join) => pairs(join, f),
        Rel::Aggregate(Aggregate { group_expr, aggr_expr, .. }) => {
            write!(f, "Aggregate: groupBy=[[{}]], aggr=[[{}]]", list(group_expr), list(aggr_expr))
        }
        Rel::Over(over) => write!(f, "Over: {}", list(&over.window_expr)),
        Rel::Sort(sort) => write!(f, "Sort: {}", list(&sort.keys)),
        Rel::Limit(limit) => {
            let bound = |bound: &Option<Expr>, none: &str| bound.as_ref().map_or(none.to_owned(), Expr::to_string);
            match limit.bounds() {
                Some(bounds) => {
                    let fetch = bounds.fetch.map_or("None".to_owned(), |fetch| fetch.to_string());
                    write!(f, "Limit: skip={}, fetch={fetch}", bounds.skip)
                }
                None => write!(f, "Limit: skip={}, fetch={}", bound(&limit.skip, "0"), bound(&limit.fetch, "None")),
            }
        }
        Rel::Distinct(_) => f.write_str("Distinct"),
        Rel::Union(_) => f.write_str("Union"),
        Rel::Copies(_) => f.write_str("Copies"),
        Rel::Unnest(unnest) => {
            let outer = if unnest.outer { " outer" } else { "" };
            let ordinality = if unnest.ordinality { " with ordinality" } else { "" };
            write!(f, "Unnest: {}{outer}{ordinality}", unnest.value)
        }
        Rel::Temporal(join) => {
            let outer = if join.outer { "left " } else { "" };
            match &join.times {
                Some(VersionTimes { time, valid_from }) => {
                    write!(f, "TemporalJoin: {outer}on {} at {time} from {valid_from} on", join.condition)
                }
                None => write!(f, "TemporalJoin: {outer}on {} when a row comes", join.condition),
            }
        }
        Rel::Assign(assign) => {
            write!(f, "WindowAssign: {} over {}", assign.window, assign.time)?;
            if !assign.partition.is_empty() {
                write!(f, " by {}", list(&assign.partition))?;
            }
            assign.zone.iter().try_for_each(|zone| write!(f, " in {zone}"))
        }
    }
}

fn list<T: Display>(of: &[T]) -> String {
    of.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn table(get: &Get, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "Get: {}", get.name)?;
    if get.projection.is_some() {
        let names: Vec<&str> = get.columns.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, " [{}]", names.join(", "))?;
    }
    Ok(())
}

fn rows(values: &Values, f: &mut Formatter<'_>) -> fmt::Result {
    if values.rows.is_empty() {
        return f.write_str("Values: no rows");
    }
    let rows: Vec<String> = values.rows.iter().take(ROWS_MAX).map(|row| format!("({})", list(row))).collect();
    let more = if values.rows.len() > ROWS_MAX { ", ..." } else { "" };
    write!(f, "Values: {}{more}", rows.join(", "))
}

fn pairs(join: &Join, f: &mut Formatter<'_>) -> fmt::Result {
    let is_cross = join.on.is_empty() && join.filter.is_none() && join.join_type == JoinType::Inner;
    let kind = if is_cross { "Cross".to_owned() } else { join.join_type.to_string() };
    write!(f, "{kind} Join:")?;
    if !join.on.is_empty() {
        let keys: Vec<String> = join.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        write!(f, " {}", keys.join(", "))?;
    }
    join.filter.iter().try_for_each(|filter| write!(f, " Filter: {filter}"))
}
