//! `t.r.*` and `r.*`: all fields of a row, as columns with the names of the fields.

use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;
use datafusion_common::DFSchema;
use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    Cte, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, VisitorMut,
    WildcardAdditionalOptions, With,
};

use crate::naming::tables_of;
use crate::spelling::number_columns;
use crate::walk::change_syntax;

/// Writes the fields out. `schema_of` gives the columns of a query.
pub(crate) fn expand(query: &mut Query, schema_of: &dyn Fn(Query) -> Result<DFSchema>) -> Result<()> {
    match change_syntax(query, &mut Expanding { schema_of, queries: Vec::new(), known: Vec::new() }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Expanding<'a> {
    schema_of: &'a dyn Fn(Query) -> Result<DFSchema>,
    /// The queries around, the outermost first.
    queries: Vec<Around>,
    /// What `WITH` has named so far.
    known: Vec<Cte>,
}

/// A query that is visited. The queries that its `WITH` names come before its body.
struct Around {
    names: Vec<Cte>,
    visited: usize,
    known_before: usize,
}

impl VisitorMut for Expanding<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let names = query.with.as_ref().map(|with| with.cte_tables.clone()).unwrap_or_default();
        self.queries.push(Around { names, visited: 0, known_before: self.known.len() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(around) = self.queries.pop() {
            self.known.truncate(around.known_before);
        }
        if let Some(around) = self.queries.last_mut()
            && let Some(named) = around.names.get(around.visited)
        {
            around.visited += 1;
            self.known.push(Cte { query: Box::new(query.clone()), ..named.clone() });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.expand(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// The parts of a name before `.*` that may be a row.
fn row_of<'a>(item: &'a SelectItem, tables: &[String]) -> Option<Vec<&'a Ident>> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else { return None };
    let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
    parts.filter(|parts| parts.len() > 1 || !parts.iter().any(|only| tables.contains(&only.value)))
}

impl Expanding<'_> {
    fn expand(&self, select: &mut Select) -> Result<()> {
        let tables: Vec<String> = select.from.iter().flat_map(tables_of).collect();
        if !select.projection.iter().any(|item| row_of(item, &tables).is_some()) {
            return Ok(());
        }
        let schema = (self.schema_of)(self.all_columns(select))?;
        let mut expanded = Vec::new();
        for item in select.projection.drain(..) {
            let row = row_of(&item, &tables);
            let fields = row.as_ref().and_then(|parts| Some((parts, fields(parts, &schema)?)));
            let Some((parts, fields)) = fields else {
                expanded.push(item);
                continue;
            };
            expanded.extend(fields.into_iter().map(|field| {
                let alias = Ident::with_quote('`', field);
                let path = parts.iter().map(|part| (*part).clone()).chain([alias.clone()]);
                SelectItem::ExprWithAlias { expr: Expr::CompoundIdentifier(path.collect()), alias }
            }));
        }
        select.projection = expanded;
        number_columns(select);
        Ok(())
    }

    /// All columns of the tables of a SELECT.
    fn all_columns(&self, select: &Select) -> Query {
        let all = Select {
            projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
            distinct: None,
            selection: None,
            group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
            having: None,
            named_window: Vec::new(),
            qualify: None,
            ..select.clone()
        };
        let with = With { with_token: AttachedToken::empty(), recursive: false, cte_tables: self.known.clone() };
        let with = Some(with).filter(|with| !with.cte_tables.is_empty());
        Query {
            with,
            body: Box::new(SetExpr::Select(Box::new(all))),
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        }
    }
}

/// The names of the fields of a row. `None`: it is no row.
fn fields(parts: &[&Ident], schema: &DFSchema) -> Option<Vec<String>> {
    let of_table = |qualifier: &str, name: &str| {
        let mut columns = schema.iter();
        columns.find(|(of, field)| of.is_some_and(|of| of.table() == qualifier) && field.name() == name)
    };
    let named = |name: &str| schema.iter().find(|(_, field)| field.name() == name);
    let qualified = match parts {
        [table, column, rest @ ..] => of_table(&table.value, &column.value).map(|column| (column, rest)),
        _ => None,
    };
    let ((_, field), rest) = match (qualified, parts) {
        (Some(found), _) => found,
        (None, [column, rest @ ..]) => (named(&column.value)?, rest),
        _ => return None,
    };
    let mut data_type = field.data_type();
    for part in rest {
        let DataType::Struct(fields) = data_type else { return None };
        data_type = fields.iter().find(|field| *field.name() == part.value)?.data_type();
    }
    let DataType::Struct(fields) = data_type else { return None };
    Some(fields.iter().map(|field| field.name().clone()).collect())
}
