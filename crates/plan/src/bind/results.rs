//! Binds the items of SELECT.

use anabranch_model::Error;
use datafusion_common::{Result, Span};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{
    self as ast, ExcludeSelectItem, Ident, SelectItem, SelectItemQualifiedWildcardKind, Spanned,
    WildcardAdditionalOptions,
};

use super::expr::Names;
use super::from::distinct_names;
use super::subquery::Pending;
use super::{Binder, Env, Item};
use crate::origin::span_of;
use crate::place::{at, through};
use crate::window_assign::GROUP_WINDOW_COLUMNS;

/// The name and the expression of each result.
pub(super) type Results = Vec<(String, Expr)>;

/// The place of each result. `None`: a name, which has its own place.
pub(super) type ResultSpans = Vec<Option<Span>>;

impl Binder<'_> {
    /// The results of SELECT, with unique names.
    pub(super) fn results(
        &self,
        projection: Vec<SelectItem>,
        names: &Names<'_>,
        env: &Env<'_>,
        pending: &mut Vec<Pending>,
        has_tables: bool,
    ) -> Result<(Results, ResultSpans)> {
        let mut results: Results = Vec::with_capacity(projection.len());
        let mut spans: ResultSpans = Vec::with_capacity(projection.len());
        for item in projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let name = name_of(&expr);
                    spans.push(span_of(&expr));
                    results.push((name, self.expr(expr, names, env, pending)?));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    spans.push(span_of(&expr));
                    results.push((alias.value, self.expr(expr, names, env, pending)?));
                }
                SelectItem::ExprWithAliases { expr, .. } => {
                    let error = Error::user("an expression has several names").at(at(expr.span().start));
                    return Err(through(error.remedy("give it one: AS name")));
                }
                SelectItem::Wildcard(options) => {
                    if !has_tables {
                        return Err(through(Error::user("SELECT * without FROM has no columns").remedy("add FROM")));
                    }
                    let is_shown = |item: &&Item| !item.hidden && !GROUP_WINDOW_COLUMNS.contains(&item.name.as_str());
                    let all = names.scope.items.iter().filter(is_shown);
                    let all = all.map(|item| (item.name.clone(), item.expr())).collect();
                    results.extend(self.all(all, options, names, env, pending)?);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                    let of_table = names.scope.of_table(&parts);
                    let all = match of_table.is_empty() {
                        false => of_table.into_iter().map(|item| (item.name.clone(), item.expr())).collect(),
                        true => self.fields(&parts, names, env)?,
                    };
                    results.extend(self.all(all, options, names, env, pending)?);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => {
                    let error = Error::user("all fields of an expression cannot be selected").at(at(expr.span().start));
                    return Err(through(
                        error.remedy("select it in a query of FROM first, and its fields by its name: r.*"),
                    ));
                }
            }
            spans.resize(results.len(), None);
        }
        let given: Vec<&str> = results.iter().map(|(name, _)| name.as_str()).collect();
        let distinct = distinct_names(&given);
        let results = distinct.into_iter().zip(results).map(|(name, (_, expr))| (name, expr)).collect();
        Ok((results, spans))
    }

    /// Expands `row.*`.
    fn fields(&self, parts: &[Ident], names: &Names<'_>, env: &Env<'_>) -> Result<Results> {
        let Some(fields) = names.scope.fields(parts)? else {
            return Err(through(names.scope.no_table(parts)));
        };
        let field = |name: String| {
            let path = parts.iter().cloned().chain([Ident::with_quote('`', name.clone())]).collect();
            let expr = self.plain(ast::Expr::CompoundIdentifier(path), names, env, "a field")?;
            Ok((name, expr))
        };
        fields.into_iter().map(field).collect()
    }

    /// Applies EXCEPT, EXCLUDE and REPLACE to the columns of `*`.
    fn all(
        &self,
        all: Results,
        options: WildcardAdditionalOptions,
        names: &Names<'_>,
        env: &Env<'_>,
        pending: &mut Vec<Pending>,
    ) -> Result<Results> {
        let WildcardAdditionalOptions {
            opt_exclude, opt_except, opt_replace, opt_rename, opt_ilike, opt_alias, ..
        } = options;
        if opt_rename.is_some() || opt_ilike.is_some() || opt_alias.is_some() {
            let error = Error::user("* takes EXCEPT, EXCLUDE and REPLACE here");
            return Err(through(error.remedy("select the columns by their names")));
        }
        let mut excluded: Vec<Ident> = Vec::new();
        match opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => excluded.extend(last_part(&name)),
            Some(ExcludeSelectItem::Multiple(columns)) => excluded.extend(columns.iter().filter_map(last_part)),
            None => {}
        }
        if let Some(except) = opt_except {
            excluded.push(except.first_element);
            excluded.extend(except.additional_elements);
        }
        for name in &excluded {
            if !all.iter().any(|(column, _)| *column == name.value) {
                return Err(through(names.scope.unknown(std::slice::from_ref(name))));
            }
        }
        let is_left = |(name, _): &(String, Expr)| !excluded.iter().any(|column| column.value == *name);
        let mut all: Results = all.into_iter().filter(is_left).collect();
        for item in opt_replace.into_iter().flat_map(|replace| replace.items) {
            let Some(index) = all.iter().position(|(name, _)| *name == item.column_name.value) else {
                return Err(through(names.scope.unknown(std::slice::from_ref(&item.column_name))));
            };
            all[index].1 = self.expr(item.expr, names, env, pending)?;
        }
        if all.is_empty() {
            return Err(through(Error::user("EXCEPT removes all columns").remedy("keep at least one")));
        }
        Ok(all)
    }
}

fn last_part(name: &ast::ObjectName) -> Option<Ident> {
    name.0.last().and_then(|part| part.as_ident().cloned())
}

/// The name of a result without an alias: the name of the column or field, or the text of the expression.
fn name_of(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Nested(inner) if is_name(inner) => name_of(inner),
        ast::Expr::Identifier(name) => name.value.clone(),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(|last| last.value.clone()).unwrap_or_default(),
        other => other.to_string(),
    }
}

fn is_name(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) => is_name(inner),
        other => matches!(other, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)),
    }
}
