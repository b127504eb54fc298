//! Binds expressions. Each name in the parser's tree is replaced by the identity of its column, and each
//! subquery by the column that will have its value. DataFusion then converts the tree: it knows calls, casts
//! and operators, and has no names left to resolve.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use anabranch_model::Error;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result, Span, Spans, TableReference};
use datafusion_expr::{Expr, ExprSchemable};
use datafusion_sql::sqlparser::ast::{
    self as ast, AccessExpr, Function, FunctionArguments, Ident, NamedWindowDefinition, Query, Spanned, VisitorMut,
    WindowType,
};

use super::scope::{Found, Scope};
use super::subquery::{Form, Pending};
use super::windows::whole_window;
use super::{Binder, Env};
use crate::dialect::PARTITIONED;
use crate::place::{at, through};
use crate::rel::{Col, Columns};
use crate::rewrite::with_values;
use crate::spelling;
use crate::walk::{Walk, change_syntax};

/// What names in an expression can mean.
pub(crate) struct Names<'n> {
    pub(crate) scope: &'n Scope<'n>,
    /// The aliases of SELECT, with their expressions.
    pub(crate) results: &'n [(String, Expr)],
    /// Whether an alias shadows a column of the same name.
    pub(crate) results_first: bool,
    /// The columns for the values of subqueries in `results`.
    pub(crate) values: &'n [(Column, FieldRef)],
    /// The windows of the WINDOW clause.
    pub(crate) windows: &'n [NamedWindowDefinition],
}

impl<'n> Names<'n> {
    pub(crate) fn new(scope: &'n Scope<'n>) -> Self {
        Names { scope, results: &[], results_first: false, values: &[], windows: &[] }
    }

    fn result(&self, name: &[Ident]) -> Option<&Expr> {
        let [name] = name else { return None };
        self.results.iter().find(|(result, _)| *result == name.value).map(|(_, expr)| expr)
    }
}

/// The names of an expression, each with the expression that replaces it after DataFusion's conversion.
#[derive(Default)]
struct Resolved {
    fields: Vec<(Option<TableReference>, FieldRef)>,
    replacements: HashMap<String, Expr>,
}

impl Resolved {
    /// Adds a name unless it is known.
    fn add(&mut self, table: &str, name: &str, field: &FieldRef, replacement: Expr) {
        if !self.replacements.contains_key(name) {
            let field = Arc::new(field.as_ref().clone().with_name(name));
            self.fields.push((Some(TableReference::bare(table)), field));
            self.replacements.insert(name.to_owned(), replacement);
        }
    }

    /// The replacement, if the expression is a single column and not a field of one.
    fn column(&self, expr: &ast::Expr) -> Option<Expr> {
        let ast::Expr::CompoundIdentifier(parts) = expr else { return None };
        let ([_, name], Some(replacement)) = (parts.as_slice(), self.replacements.values().next()) else { return None };
        let spans = Spans(Span::try_from_sqlparser_span(name.span).into_iter().collect());
        Some(with_spans(replacement.clone(), &spans))
    }
}

/// Qualifier of names that have no table.
const UNQUALIFIED: &str = "$";

/// A resolved name, at the place where it was written.
fn identity(table: &str, name: &str, span: datafusion_sql::sqlparser::tokenizer::Span) -> [Ident; 2] {
    [table, name].map(|part| Ident { span, ..Ident::with_quote('`', part) })
}

/// Binds the subqueries and the named windows of an expression.
struct SubqueryBinding<'r, 'b> {
    binder: &'r Binder<'b>,
    names: &'r Names<'r>,
    env: &'r Env<'r>,
    resolved: Resolved,
    pending: &'r mut Vec<Pending>,
}

impl VisitorMut for SubqueryBinding<'_, '_> {
    type Break = datafusion_common::DataFusionError;

    /// Extracts subqueries before their contents are visited.
    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Self::Break> {
        let done = match expr {
            ast::Expr::CompoundFieldAccess { .. } => {
                join_names(expr);
                Ok(())
            }
            ast::Expr::Function(call) => check_name(call).and_then(|()| self.window(call)),
            _ => match Form::extract(expr) {
                Some((form, query)) => self.subquery(expr, form, query),
                None => Ok(()),
            },
        };
        done.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

impl SubqueryBinding<'_, '_> {
    fn window(&self, call: &mut Function) -> Result<()> {
        if let Some(window) = &call.over {
            call.over = Some(WindowType::WindowSpec(whole_window(window, self.names.windows).map_err(through)?));
        }
        Ok(())
    }

    fn subquery(&mut self, expr: &mut ast::Expr, form: Form<ast::Expr>, query: Box<Query>) -> Result<()> {
        let span = expr.span();
        let bound = form.map(&mut |left| self.binder.operand(left, self.names, self.env, self.pending))?;
        let pending = self.binder.subquery(bound, *query, self.names.scope, self.env, span.start)?;
        let column = &pending.column;
        *expr = ast::Expr::CompoundIdentifier(identity(UNQUALIFIED, &column.name, span).into());
        self.resolved.add(UNQUALIFIED, &column.name, &pending.field, Expr::Column(column.clone()));
        self.pending.push(pending);
        Ok(())
    }

    /// Replaces a name by the identity of its column.
    fn name(&mut self, expr: &mut ast::Expr) -> Result<()> {
        let parts = match expr {
            ast::Expr::Identifier(name) => vec![name.clone()],
            ast::Expr::CompoundIdentifier(parts) if !self.is_resolved(parts) => std::mem::take(parts),
            _ => return Ok(()),
        };
        let names = self.names;
        if names.results_first
            && let Some(result) = names.result(&parts)
        {
            return self.result(expr, &parts, result);
        }
        let found = match names.scope.own(&parts)? {
            Some(found) => Some(found),
            None => match names.result(&parts) {
                Some(result) => return self.result(expr, &parts, result),
                None => names.scope.find(&parts)?,
            },
        };
        let Some(Found { item, parts: used, outer }) = found else {
            return Err(through(names.scope.unknown(&parts)));
        };
        let replacement = match (outer, &item.value) {
            (false, _) => item.expr(),
            (true, None) => Expr::OuterReferenceColumn(Arc::clone(&item.field), item.column.clone()),
            (true, Some(value)) => as_outer(value.clone(), &|column| names.scope.field_of(column))?,
        };
        // A column of USING has several tables, so its identity must differ from the columns of these tables.
        let name = match &item.value {
            Some(_) => Cow::Owned(format!("shared {}", item.column.name)),
            None => Cow::Borrowed(item.column.name.as_str()),
        };
        let table = item.table.as_ref().filter(|_| item.value.is_none()).map_or(UNQUALIFIED, |table| &table.own);
        self.resolved.add(table, &name, &item.field, replacement);
        let identity = identity(table, &name, expr_span(&parts));
        *expr = ast::Expr::CompoundIdentifier(identity.into_iter().chain(parts.into_iter().skip(used)).collect());
        Ok(())
    }

    fn result(&mut self, expr: &mut ast::Expr, parts: &[Ident], result: &Expr) -> Result<()> {
        let (data_type, nullable) = type_of(result, self.names)?;
        let name = format!("result {}", self.resolved.fields.len());
        self.resolved.add(UNQUALIFIED, &name, &Arc::new(Field::new(&name, data_type, nullable)), result.clone());
        *expr = ast::Expr::CompoundIdentifier(identity(UNQUALIFIED, &name, expr_span(parts)).into());
        Ok(())
    }

    /// Whether a name is the identity of a subquery's value.
    fn is_resolved(&self, parts: &[Ident]) -> bool {
        let [qualifier, name] = parts else { return false };
        qualifier.value == UNQUALIFIED && self.pending.iter().any(|pending| pending.column.name == name.value)
    }
}

/// Refuses quoted names of the planner's own functions, which the planner calls without quotes.
fn check_name(call: &Function) -> Result<()> {
    let is_own = |part: &&Ident| part.quote_style.is_some() && part.value.starts_with('$') && part.value != PARTITIONED;
    match call.name.0.iter().filter_map(|part| part.as_ident()).find(is_own) {
        Some(name) => {
            let error = Error::user(format!("unknown function {}", name.value)).at(at(name.span.start));
            Err(through(error.remedy("names of functions begin with a letter")))
        }
        None => Ok(()),
    }
}

/// Resolves names after all calls have their plain forms. Every name left is a column.
struct NameResolution<'r, 's, 'b>(&'r mut SubqueryBinding<'s, 'b>);

impl VisitorMut for NameResolution<'_, '_, '_> {
    type Break = datafusion_common::DataFusionError;

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Self::Break> {
        self.0.name(expr).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

fn expr_span(parts: &[Ident]) -> datafusion_sql::sqlparser::tokenizer::Span {
    parts
        .iter()
        .map(|part| part.span)
        .reduce(|all, next| all.union(&next))
        .unwrap_or_else(datafusion_sql::sqlparser::tokenizer::Span::empty)
}

/// Joins the names before the first bracket of `t.rows[1].field` into one name.
fn join_names(expr: &mut ast::Expr) {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut name = match root.as_ref() {
        ast::Expr::Identifier(first) => vec![first.clone()],
        ast::Expr::CompoundIdentifier(parts) => parts.clone(),
        _ => return,
    };
    let is_name = |access: &AccessExpr| matches!(access, AccessExpr::Dot(ast::Expr::Identifier(_)));
    let names = access_chain.iter().take_while(|access| is_name(access)).count();
    for access in access_chain.drain(..names) {
        if let AccessExpr::Dot(ast::Expr::Identifier(part)) = access {
            name.push(part);
        }
    }
    **root = if name.len() > 1 { ast::Expr::CompoundIdentifier(name) } else { ast::Expr::Identifier(name.remove(0)) };
}

/// Turns each column for which `field_of` returns a field into an outer reference.
pub(super) fn as_outer(expr: Expr, field_of: &dyn Fn(&Column) -> Option<FieldRef>) -> Result<Expr> {
    with_values(expr, &|column| Some(Expr::OuterReferenceColumn(field_of(column)?, column.clone())))
}

impl Binder<'_> {
    /// Binds an expression. Its subqueries become columns, which the caller joins by `pending`.
    pub(crate) fn expr(
        &self,
        mut expr: ast::Expr,
        names: &Names<'_>,
        env: &Env<'_>,
        pending: &mut Vec<Pending>,
    ) -> Result<Expr> {
        let mut binding = SubqueryBinding { binder: self, names, env, resolved: Resolved::default(), pending };
        if matches!(expr, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)) {
            let mut name = expr.clone();
            binding.name(&mut name)?;
            if let Some(column) = std::mem::take(&mut binding.resolved).column(&name) {
                return Ok(column);
            }
        }
        change_syntax(&mut expr, &mut binding)?;
        spelling::rewrite(&mut expr).map_err(through)?;
        change_syntax(&mut expr, &mut NameResolution(&mut binding))?;
        let Resolved { fields, replacements, .. } = binding.resolved;
        let schema = DFSchema::new_with_metadata(fields, HashMap::new())?;
        let expr = self.planner.written(expr, &schema)?;
        let replaced = expr.walk_up(&mut |expr| match &expr {
            Expr::Column(column) => Ok(match replacements.get(&column.name) {
                Some(replacement) => Transformed::yes(with_spans(replacement.clone(), &column.spans)),
                None => Transformed::no(expr),
            }),
            _ => Ok(Transformed::no(expr)),
        })?;
        Ok(replaced.data)
    }

    /// [`Binder::expr`] where subqueries are not allowed.
    pub(crate) fn plain(&self, expr: ast::Expr, names: &Names<'_>, env: &Env<'_>, what: &str) -> Result<Expr> {
        let start = expr.span().start;
        let mut pending = Vec::new();
        let expr = self.expr(expr, names, env, &mut pending)?;
        match pending.is_empty() {
            true => Ok(expr),
            false => Err(through(
                Error::user(format!("{what} contains a subquery"))
                    .at(at(start))
                    .remedy("compute its value in a query of FROM"),
            )),
        }
    }

    /// Binds an expression without columns.
    pub(crate) fn constant(&self, expr: ast::Expr, env: &Env<'_>) -> Result<Expr> {
        self.plain(expr, &Names::new(&Scope::default()), env, "a constant")
    }

    /// The left sides of `IN`. A tuple has several.
    fn operand(
        &self,
        left: ast::Expr,
        names: &Names<'_>,
        env: &Env<'_>,
        pending: &mut Vec<Pending>,
    ) -> Result<Vec<Expr>> {
        match left {
            ast::Expr::Tuple(parts) => parts.into_iter().map(|part| self.expr(part, names, env, pending)).collect(),
            ast::Expr::Nested(inner) if matches!(*inner, ast::Expr::Tuple(_)) => {
                self.operand(*inner, names, env, pending)
            }
            left => Ok(vec![self.expr(left, names, env, pending)?]),
        }
    }
}

/// The type of an expression, and whether it can be NULL.
fn type_of(expr: &Expr, names: &Names<'_>) -> Result<(DataType, bool)> {
    let mut cols = Vec::new();
    for column in expr.column_refs() {
        let value = names.values.iter().find(|(value, _)| value == column).map(|(_, field)| Arc::clone(field));
        if let Some(field) = value.or_else(|| names.scope.field_of(column)) {
            cols.push(Col::new(column.clone(), field));
        }
    }
    let columns = Columns::new(cols)?;
    Ok((expr.get_type(columns.as_ref())?, expr.nullable(columns.as_ref())?))
}

/// Gives a column the place of the name that it replaces.
fn with_spans(mut replacement: Expr, spans: &Spans) -> Expr {
    if let Expr::Column(own) | Expr::OuterReferenceColumn(_, own) = &mut replacement {
        own.spans = spans.clone();
    }
    replacement
}

/// The arguments of a call that has parentheses.
pub(super) fn plain_arguments(call: &Function) -> Option<&[ast::FunctionArg]> {
    match &call.args {
        FunctionArguments::List(list) => Some(&list.args),
        _ => None,
    }
}
