//! Prints trees of operators: a line for each operator, with its inputs indented below. Columns are written
//! as users write them. Columns with the same text are numbered in the order of their appearance.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use datafusion_common::{Column, JoinType, NullEquality, TableReference};
use datafusion_expr::Expr;
use datafusion_expr::expr::Sort as SortKey;

use super::columns::{DIGITS, MARK, with_columns};
use super::{Aggregate, Col, Columns, Join, Rel, Values, name_of};
use crate::temporal_join::VersionTimes;

/// The number of rows of constants that are shown.
const ROWS_MAX: usize = 5;
/// Begins a column's name in a text whose columns are not numbered yet.
const BEGIN: char = '\u{1e}';

impl Display for Rel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        tree(self, 0, &mut text);
        f.write_str(&counted(&text))
    }
}

/// Replaces columns by their names, with numbers where names are equal.
fn counted(text: &str) -> String {
    let mut alike: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, (number, _)) in text.split(BEGIN).skip(1).filter_map(column) {
        let of_name = alike.entry(name).or_default();
        if !of_name.contains(&number) {
            of_name.push(number);
        }
    }
    let mut parts = text.split(BEGIN);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for (name, (number, rest)) in parts.filter_map(column) {
        shown.push_str(name);
        let of_name = alike.get(name).map_or(&[][..], Vec::as_slice);
        if let (Some(place), true) = (of_name.iter().position(|of| *of == number), of_name.len() > 1) {
            shown.push_str(&format!("#{}", place + 1));
        }
        shown.push_str(rest);
    }
    shown
}

/// The name of a column, its number, and the following text.
fn column(part: &str) -> Option<(&str, (&str, &str))> {
    let (name, rest) = part.split_once(MARK)?;
    Some((name, rest.split_at_checked(DIGITS)?))
}

fn tree(rel: &Rel, depth: usize, text: &mut String) {
    if depth > 0 {
        text.push_str(&format!("\n{:width$}", "", width = 2 * depth));
    }
    let inputs = rel.inputs();
    let line = Line(inputs.iter().map(|input| input.columns()).collect());
    text.push_str(&line.text(rel));
    inputs.into_iter().for_each(|input| tree(input, depth + 1, text));
}

/// A column with its table, to be numbered.
fn marked(id: &Column, table: Option<&TableReference>) -> String {
    let table = table.map(|table| format!("{table}.")).unwrap_or_default();
    format!("{BEGIN}{table}{}", id.name)
}

/// Prints an operator over these columns.
struct Line<'a>(Vec<&'a Columns>);

impl Line<'_> {
    fn text(&self, rel: &Rel) -> String {
        match rel {
            Rel::Get(get) => {
                let names: Vec<&str> = get.columns.fields().iter().map(|field| field.name().as_str()).collect();
                let names = get.projection.as_ref().map(|_| format!(" [{}]", names.join(", "))).unwrap_or_default();
                format!("Get: {}{names}", get.name)
            }
            Rel::Values(values) => self.rows(values),
            Rel::Project(project) => {
                let called = project.columns.called().map(|name| format!(" as {name}")).unwrap_or_default();
                format!("Project{called}: {}", self.outputs(&project.columns, &project.exprs, called.is_empty()))
            }
            Rel::Filter(filter) => format!("Filter: {}", self.expr(&filter.predicate)),
            Rel::Join(join) => self.pairs(join),
            Rel::Aggregate(Aggregate { group_expr, aggr_expr, columns, .. }) => {
                let (keys, calls) = (self.list(group_expr), self.outputs(columns, aggr_expr, true));
                format!("Aggregate: groupBy=[[{keys}]], aggr=[[{calls}]]")
            }
            Rel::Over(over) => format!("Over: {}", self.outputs(&over.columns, &over.window_expr, true)),
            Rel::Sort(sort) => {
                let key = |key: &SortKey| SortKey { expr: self.with_names(&key.expr), ..key.clone() }.to_string();
                format!("Sort: {}", sort.keys.iter().map(key).collect::<Vec<_>>().join(", "))
            }
            Rel::Limit(limit) => {
                let bound = |bound: &Option<Expr>, none: &str| bound.as_ref().map_or(none.to_owned(), Expr::to_string);
                match limit.bounds() {
                    Some(bounds) => {
                        let fetch = bounds.fetch.map_or("None".to_owned(), |fetch| fetch.to_string());
                        format!("Limit: skip={}, fetch={fetch}", bounds.skip)
                    }
                    None => format!("Limit: skip={}, fetch={}", bound(&limit.skip, "0"), bound(&limit.fetch, "None")),
                }
            }
            Rel::Distinct(_) => "Distinct".to_owned(),
            Rel::Union(union) => {
                let columns = union.columns.iter().map(|col| marked(&col.id, None));
                format!("Union: {}", columns.collect::<Vec<_>>().join(", "))
            }
            Rel::Copies(_) => "Copies".to_owned(),
            Rel::Unnest(unnest) => {
                let outer = if unnest.outer { " outer" } else { "" };
                let ordinality = if unnest.ordinality { " with ordinality" } else { "" };
                format!("Unnest: {}{outer}{ordinality}", self.expr(&unnest.value))
            }
            Rel::Temporal(join) => {
                let outer = if join.outer { "left " } else { "" };
                let condition = self.expr(&join.condition);
                match &join.times {
                    Some(VersionTimes { time, valid_from }) => {
                        let (time, valid_from) = (self.expr(time), self.expr(valid_from));
                        format!("TemporalJoin: {outer}on {condition} at {time} from {valid_from} on")
                    }
                    None => format!("TemporalJoin: {outer}on {condition} when a row comes"),
                }
            }
            Rel::Assign(assign) => {
                let by = match assign.partition.is_empty() {
                    true => String::new(),
                    false => format!(" by {}", self.list(&assign.partition)),
                };
                let zone = assign.zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
                format!("WindowAssign: {} over {}{by}{zone}", assign.window, self.expr(&assign.time))
            }
        }
    }

    fn with_names(&self, expr: &Expr) -> Expr {
        let named = |column: &Column| {
            let table = self.0.iter().find_map(|of| of.iter().nth(of.find(column)?)).and_then(|col| col.table.as_ref());
            Column::new_unqualified(marked(column, table))
        };
        with_columns(expr.clone(), &|column| Some(named(column))).unwrap_or_else(|_| expr.clone())
    }

    fn expr(&self, expr: &Expr) -> String {
        self.with_names(expr).to_string()
    }

    fn list(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|expr| self.expr(expr)).collect::<Vec<_>>().join(", ")
    }

    /// The computed expressions with their columns, which are the last ones. `by_text`: a column named after
    /// its expression is not shown.
    fn outputs(&self, columns: &Columns, exprs: &[Expr], by_text: bool) -> String {
        let text = |expr: &Expr| self.0.first().and_then(|of| of.as_written(expr).ok());
        let output = |(col, expr): (&Col, &Expr)| {
            let (shown, source) = (self.expr(expr), expr.try_as_col());
            let is_text = || text(expr).is_some_and(|expr| expr.schema_name().to_string() == name_of(&col.id));
            match source == Some(&col.id) || source.is_none() && by_text && is_text() {
                true => shown,
                false => format!("{shown} AS {}", marked(&col.id, None)),
            }
        };
        let last = columns.iter().skip(columns.len() - exprs.len());
        last.zip(exprs).map(output).collect::<Vec<_>>().join(", ")
    }

    fn rows(&self, values: &Values) -> String {
        if values.rows.is_empty() {
            return "Values: no rows".to_owned();
        }
        let rows: Vec<String> = values.rows.iter().take(ROWS_MAX).map(|row| format!("({})", self.list(row))).collect();
        let more = if values.rows.len() > ROWS_MAX { ", ..." } else { "" };
        format!("Values: {}{more}", rows.join(", "))
    }

    fn pairs(&self, join: &Join) -> String {
        let is_cross = join.on.is_empty() && join.filter.is_none() && join.join_type == JoinType::Inner;
        let kind = if is_cross { "Cross".to_owned() } else { join.join_type.to_string() };
        let equal = match join.null_equality {
            NullEquality::NullEqualsNull => "IS NOT DISTINCT FROM",
            NullEquality::NullEqualsNothing => "=",
        };
        let key = |(left, right): &(Expr, Expr)| format!("{} {equal} {}", self.expr(left), self.expr(right));
        let keys: Vec<String> = join.on.iter().map(key).collect();
        let keys = if keys.is_empty() { String::new() } else { format!(" {}", keys.join(", ")) };
        let filter = join.filter.as_ref().map(|filter| format!(" Filter: {}", self.expr(filter))).unwrap_or_default();
        format!("{kind} Join:{keys}{filter}")
    }
}
