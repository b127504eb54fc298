//! Walks over expressions and syntax trees of other crates. The visiting function is passed as `dyn`, so that
//! each walk is compiled once.
//!
//! The crates' own walks are generic, so the compiler copies them for each closure and visitor. The copies
//! were a third of this crate's machine code.

use std::ops::ControlFlow;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{
    Expr as Written, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};

/// Changes an owned node.
pub(crate) type Change<'a, T> = &'a mut dyn FnMut(T) -> Result<Transformed<T>>;
/// Visits a node, and decides how the walk continues.
pub(crate) type See<'a, T> = &'a mut dyn FnMut(&T) -> Result<TreeNodeRecursion>;

/// Walks over expressions.
pub(crate) trait Walk: TreeNode {
    /// Changes every node, children first.
    fn walk_up(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_up(change)
    }

    /// Changes every node, parents first.
    fn walk_down(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.transform_down(change)
    }

    /// Changes the children.
    fn walk_children(self, change: Change<'_, Self>) -> Result<Transformed<Self>> {
        self.map_children(change)
    }

    /// Visits every node, parents first.
    fn see(&self, see: See<'_, Self>) -> Result<TreeNodeRecursion> {
        self.apply(see)
    }

    /// Visits the children.
    fn see_children(&self, see: See<'_, Self>) -> Result<TreeNodeRecursion> {
        self.apply_children(see)
    }

    /// Whether `is` is true of a node.
    fn has(&self, is: &dyn Fn(&Self) -> Result<bool>) -> Result<bool> {
        self.exists(is)
    }
}

impl Walk for Expr {}

/// Changes a syntax tree by a visitor. Its break is the error.
pub(crate) fn change_syntax<E>(tree: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = E>) -> Result<(), E> {
    outcome(tree.visit(&mut Changing(visitor)))
}

fn outcome<E>(flow: ControlFlow<E>) -> Result<(), E> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Changes every expression of a syntax tree, operands first.
pub(crate) fn change_expressions<E>(
    tree: &mut impl VisitMut,
    change: &mut dyn FnMut(&mut Written) -> Result<(), E>,
) -> Result<(), E> {
    change_syntax(tree, &mut Expressions(change))
}

/// Visits a syntax tree. The visitor's break is the error.
pub(crate) fn see_syntax<E>(tree: &impl Visit, visitor: &mut dyn Visitor<Break = E>) -> Result<(), E> {
    outcome(tree.visit(&mut Seeing(visitor)))
}

struct Expressions<'a, E>(&'a mut dyn FnMut(&mut Written) -> Result<(), E>);

impl<E> VisitorMut for Expressions<'_, E> {
    type Break = E;

    fn post_visit_expr(&mut self, expr: &mut Written) -> ControlFlow<E> {
        (self.0)(expr).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

/// The only two visitors for which the walks over syntax trees are compiled.
struct Changing<'a, B>(&'a mut dyn VisitorMut<Break = B>);
struct Seeing<'a, B>(&'a mut dyn Visitor<Break = B>);

macro_rules! passed_on {
    ($($method:ident($node:ty)),* $(,)?) => {
        impl<B> VisitorMut for Changing<'_, B> {
            type Break = B;

            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<B> {
                self.0.$method(node)
            })*
        }

        impl<B> Visitor for Seeing<'_, B> {
            type Break = B;

            $(fn $method(&mut self, node: &$node) -> ControlFlow<B> {
                self.0.$method(node)
            })*
        }
    };
}

passed_on! {
    pre_visit_query(Query),
    post_visit_query(Query),
    pre_visit_select(Select),
    post_visit_select(Select),
    pre_visit_relation(ObjectName),
    post_visit_relation(ObjectName),
    pre_visit_table_factor(TableFactor),
    post_visit_table_factor(TableFactor),
    pre_visit_expr(Written),
    post_visit_expr(Written),
    pre_visit_statement(Statement),
    post_visit_statement(Statement),
    pre_visit_value(ValueWithSpan),
    post_visit_value(ValueWithSpan),
}
