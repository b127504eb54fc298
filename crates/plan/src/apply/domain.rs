//! The rows of a subquery for all outer values that it reads.
//!
//! The domain is the set of distinct values of the outer columns that the subquery reads. The subquery's plan
//! gets a copy of the domain where it first reads these columns. Every node above keeps the rows of each
//! domain value separate.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::expr::GroupingSet;
use datafusion_expr::utils::enumerate_grouping_sets;
use datafusion_expr::{Expr, JoinType};

use super::joined::with_marker;
use super::lift::{Lifted, is_by_row, with_first_input, with_number_last};
use super::lift_group::{interest_in_input, partitioned, values_without_rows};
use super::numbered::{has_one_row, lets_pass, numbered};
use super::repeated::is_repeatable;
use super::source::source_of;
use super::{DependentJoin, Interest};
use crate::rel::{Aggregate, Distinct, Limit, Output, Over, Project, Rel, Union, aggregate_as, fresh, kept, union_as};

/// The subquery's rows for all values of the domain. The plan has the subquery's columns and the domain's
/// columns.
pub(super) struct DomainRows {
    pub(super) plan: Rel,
    /// The domain's columns, in the order of [`DependentJoin::read`].
    pub(super) domain: Vec<Column>,
}

impl DependentJoin<'_> {
    pub(super) fn domain(&self, plan: &Rel, interest: Interest) -> Result<DomainRows> {
        if let Some(lifted) = self.lift(plan, interest)?
            && lifted.empty.is_none()
        {
            return self.domain_of_lifted(plan, lifted);
        }
        match plan {
            Rel::Filter(filter) => {
                let mut rows = self.domain(&filter.input, interest.in_filtered_input())?;
                let predicate = self.over_domain(filter.predicate.clone(), &rows.domain)?;
                rows.plan = rows.plan.filter(predicate)?;
                Ok(rows)
            }
            Rel::Project(projection) => self.domain_of_columns(projection, interest),
            Rel::Sort(sort) => self.domain(&sort.input, interest),
            Rel::Limit(limit) => self.domain_of_limit(limit, interest),
            Rel::Distinct(Distinct { input }) => {
                let mut rows = self.domain(input, interest.max(Interest::Values))?;
                rows.plan = rows.plan.distinct();
                Ok(rows)
            }
            Rel::Join(join) => self.domain_of_join(join, interest),
            Rel::Aggregate(aggregate) => self.domain_of_aggregate(aggregate),
            Rel::Over(window) => self.domain_of_window(window),
            Rel::Union(union) => self.domain_of_union(union, interest),
            Rel::Assign(_) | Rel::Unnest(_) | Rel::Copies(_) | Rel::Temporal(_) => {
                self.domain_of_by_row(plan, interest)
            }
            _ => Err(self.unsupported()),
        }
    }

    /// A new copy of the domain, with new columns.
    pub(super) fn domain_copy(&self) -> Result<DomainRows> {
        let read = self.read.iter().cloned().collect();
        let source = source_of(&self.outer, &read)?;
        if !is_repeatable(&source, &read)? {
            let why =
                "this subquery reads columns whose values differ at each evaluation, but they must be evaluated twice";
            return Err(self.refused(why));
        }
        let values = self.columns_for("$").into_iter().zip(self.read.iter().cloned().map(Expr::Column));
        let plan = source.project(values)?.distinct().instance()?;
        Ok(DomainRows { domain: plan.ids(), plan })
    }

    /// New columns for the values of the domain.
    pub(super) fn domain_columns(&self) -> Vec<Column> {
        self.columns_for("$domain.")
    }

    /// A new column for each outer column that the subquery reads, named after that column and its table.
    fn columns_for(&self, begin: &str) -> Vec<Column> {
        let columns = self.outer.columns();
        let name = |column: &Column| columns.written(column).map(|column| column.flat_name()).unwrap_or_default();
        self.read.iter().map(|column| fresh(&format!("{begin}{}", name(column)))).collect()
    }

    /// Replaces outer columns by columns of the domain.
    pub(super) fn over_domain(&self, expr: Expr, domain: &[Column]) -> Result<Expr> {
        self.replace_outer(expr, &|column| {
            let found = self.read.iter().zip(domain).find(|(read, _)| *read == column);
            found.map_or_else(|| column.clone(), |(_, of_domain)| of_domain.clone())
        })
    }

    pub(super) fn all_over_domain(&self, exprs: Vec<Expr>, domain: &[Column]) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|expr| self.over_domain(expr, domain)).collect()
    }

    /// The conditions that two copies of the domain have equal values.
    pub(super) fn equal_domains(&self, left: &[Column], right: &[Column]) -> Result<Vec<Expr>> {
        self.all_over_domain(self.same_values(right)?, left)
    }

    /// Joins the domain with rows whose conditions read it.
    fn domain_of_lifted(&self, plan: &Rel, lifted: Lifted) -> Result<DomainRows> {
        let DomainRows { plan: copy, domain } = self.domain_copy()?;
        let conditions = self.all_over_domain(lifted.conditions, &domain)?;
        let joined = copy.join(lifted.plan, JoinType::Inner, conditions)?;
        let mut outputs = Vec::new();
        for column in plan.ids() {
            let deferred = lifted.deferred.iter().find(|(known, _)| *known == column);
            let expr = deferred.map_or_else(|| Expr::Column(column.clone()), |(_, expr)| expr.clone());
            outputs.push((column, self.over_domain(expr, &domain)?));
        }
        outputs.extend(domain.iter().cloned().map(kept));
        let is_same = outputs.len() == joined.width() && lifted.deferred.is_empty();
        let plan = if is_same { joined } else { joined.project(outputs)? };
        Ok(DomainRows { plan, domain })
    }

    fn domain_of_columns(&self, projection: &Project, interest: Interest) -> Result<DomainRows> {
        let DomainRows { plan, domain } = self.domain(&projection.input, interest)?;
        let own = projection.columns.ids().into_iter().zip(self.all_over_domain(projection.exprs.clone(), &domain)?);
        Ok(DomainRows { plan: plan.project(own.chain(domain.iter().cloned().map(kept)))?, domain })
    }

    fn domain_of_limit(&self, limit: &Limit, interest: Interest) -> Result<DomainRows> {
        let Some(bounds) = limit.bounds() else { return Err(self.unsupported()) };
        if lets_pass(bounds, interest == Interest::Existence || has_one_row(&limit.input)) {
            return self.domain(&limit.input, interest);
        }
        self.domain(&numbered(&limit.input, bounds, self.functions)?, interest)
    }

    fn domain_of_aggregate(&self, aggregate: &Aggregate) -> Result<DomainRows> {
        let grouped = self.grouped(aggregate)?;
        if aggregate.group_expr.is_empty() { self.with_all_of_domain(aggregate, grouped) } else { Ok(grouped) }
    }

    /// The aggregate with the columns of the domain as additional keys.
    pub(super) fn grouped(&self, aggregate: &Aggregate) -> Result<DomainRows> {
        for set in &aggregate.group_expr {
            let Expr::GroupingSet(sets) = set else { continue };
            // A grouping set without keys has a row even if the input is empty.
            let is_filled = matches!(sets, GroupingSet::GroupingSets(sets) if sets.iter().all(|set| !set.is_empty()));
            if !is_filled || self.reads_outer(set)? {
                return Err(self.unsupported());
            }
        }
        let DomainRows { plan, domain } = self.domain(&aggregate.input, interest_in_input(aggregate))?;
        let mut ids = aggregate.columns.ids();
        let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
        let behind_keys = ids.split_off(ids.len() - aggregate.aggr_expr.len() - usize::from(has_sets));
        let mut keys = self.all_over_domain(aggregate.group_expr.clone(), &domain)?;
        // A key that is a column of the domain already is not repeated.
        let is_domain_column = |key: &Expr| key.try_as_col().is_some_and(|column| domain.contains(column));
        let mut same: Vec<Output> = Vec::new();
        while let Some(index) = keys.iter().position(is_domain_column) {
            same.push((ids.remove(index), keys.remove(index)));
        }
        let domain_keys = || domain.iter().cloned().map(Expr::Column);
        match has_sets {
            // Prepended columns become the first keys of every grouping set.
            true => {
                keys.splice(0..0, domain_keys());
                ids.splice(0..0, domain.iter().cloned());
            }
            false => {
                keys.extend(domain_keys());
                ids.extend(domain.iter().cloned());
            }
        }
        ids.extend(behind_keys);
        let calls = self.all_over_domain(aggregate.aggr_expr.clone(), &domain)?;
        let plan = Rel::Aggregate(aggregate_as(Arc::new(plan), enumerate_grouping_sets(keys)?, calls, ids)?);
        let plan = match same.is_empty() {
            true => plan,
            false => {
                let columns = plan.ids().into_iter().map(kept);
                plan.project(columns.chain(same))?
            }
        };
        Ok(DomainRows { plan, domain })
    }

    /// All values of the domain, each with the row of an aggregate without keys. Such an aggregate has a row
    /// for every value.
    fn with_all_of_domain(&self, aggregate: &Aggregate, grouped: DomainRows) -> Result<DomainRows> {
        let Some(defaults) = values_without_rows(aggregate)? else { return Err(self.unsupported()) };
        let DomainRows { plan: copy, domain } = self.domain_copy()?;
        let (mut marker, mut outputs) = (None, Vec::new());
        for (column, default) in defaults {
            let value = Expr::Column(column.clone());
            let value = self.or_default(value, default, grouped.plan.columns(), &mut marker)?;
            outputs.push((column, value));
        }
        let mut conditions = self.equal_domains(&domain, &grouped.domain)?;
        let values = outputs.iter_mut().map(|(_, value)| value);
        let grouped = with_marker(grouped.plan, marker, conditions.iter_mut().chain(values))?;
        outputs.extend(domain.iter().cloned().map(kept));
        let joined = copy.join(grouped, JoinType::Left, conditions)?;
        Ok(DomainRows { plan: joined.project(outputs)?, domain })
    }

    fn domain_of_window(&self, window: &Over) -> Result<DomainRows> {
        let DomainRows { plan, domain } = self.domain(&window.input, Interest::Rows)?;
        let calls = self.all_over_domain(window.window_expr.clone(), &domain)?;
        let keys: Vec<Expr> = domain.iter().cloned().map(Expr::Column).collect();
        Ok(DomainRows { plan: partitioned(window, calls, plan, &keys)?, domain })
    }

    fn domain_of_union(&self, union: &Union, interest: Interest) -> Result<DomainRows> {
        let domain = self.domain_columns();
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let rows = self.domain(input, interest)?;
            inputs.push(Arc::new(rows.plan.project(input.ids().into_iter().chain(rows.domain).map(kept))?));
        }
        let columns = union.columns.ids().into_iter().chain(domain.iter().cloned());
        Ok(DomainRows { plan: union_as(inputs, columns.collect())?, domain })
    }

    fn domain_of_by_row(&self, node: &Rel, interest: Interest) -> Result<DomainRows> {
        let inputs = node.inputs();
        let is_assign = matches!(node, Rel::Assign(_));
        let Some((first, others)) = inputs.split_first().filter(|_| is_assign || is_by_row(node)) else {
            return Err(self.unsupported());
        };
        for other in others {
            if self.is_correlated(other)? {
                return Err(self.unsupported());
            }
        }
        let DomainRows { plan, domain } = self.domain(first, interest.in_filtered_input())?;
        let plan = match node {
            Rel::Copies(_) => match with_number_last(&plan, &first.ids())? {
                Some(plan) => plan,
                None => return Err(self.unsupported()),
            },
            _ => plan,
        };
        let node = with_first_input(node, plan)?;
        let mut node = node.walk_expressions(&mut |expr| self.over_domain(expr, &domain).map(Transformed::yes))?.data;
        if let Rel::Assign(assign) = &mut node
            && assign.window.follows_rows()
        {
            // The rows of each domain value have sessions of their own.
            assign.partition.extend(domain.iter().cloned().map(Expr::Column));
        }
        Ok(DomainRows { plan: node.with_types()?, domain })
    }
}
