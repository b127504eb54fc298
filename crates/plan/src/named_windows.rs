//! Windows with names: `OVER w` and `OVER (w ORDER BY ts)` with `WINDOW w AS (PARTITION BY k)`. The library knows the first form only, and
//! would forget the name of the second.

use std::convert::Infallible;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut, VisitorMut, WindowSpec,
    WindowType,
};

use crate::place::at;
use crate::walk::{change_expressions, change_syntax};

/// Replaces each name by what it stands for.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    let mut rewriting = Rewriting(Ok(()));
    let _ = change_syntax(query, &mut rewriting);
    rewriting.0
}

struct Rewriting(Result<()>);

/// Inner queries come first: their names are not those of the query around them.
impl VisitorMut for Rewriting {
    type Break = Infallible;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        if self.0.is_ok() {
            self.0 = rewrite_select(select);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if let SetExpr::Select(select) = query.body.as_ref()
            && self.0.is_ok()
        {
            self.0 = replace(&mut query.order_by, &select.named_window);
        }
        forget(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn rewrite_select(select: &mut Select) -> Result<()> {
    let named = &select.named_window;
    for (place, NamedWindowDefinition(name, _)) in named.iter().enumerate() {
        if named[..place].iter().any(|former| former.0.value == name.value) {
            let error = Error::user(format!("two windows have the name '{name}'")).at(at(name.span.start));
            return Err(error.remedy("give each window a name of its own"));
        }
        of_name(name, named, 0)?;
    }
    replace(&mut select.projection, named)?;
    replace(&mut select.qualify, named)
}

/// Nothing refers to the names any more.
fn forget(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => select.named_window.clear(),
        SetExpr::SetOperation { left, right, .. } => {
            forget(left);
            forget(right);
        }
        _ => {}
    }
}

fn replace(tree: &mut impl VisitMut, named: &[NamedWindowDefinition]) -> Result<()> {
    let replaced = change_expressions(tree, &mut |expr| {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let spec = match &function.over {
            Some(WindowType::NamedWindow(name)) => of_name(name, named, 0),
            Some(WindowType::WindowSpec(spec)) => whole(spec, named, 0),
            None => return ControlFlow::Continue(()),
        };
        match spec {
            Ok(spec) => function.over = Some(WindowType::WindowSpec(spec)),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    });
    match replaced {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// What a name stands for; `depth` names were followed so far.
fn of_name(name: &Ident, named: &[NamedWindowDefinition], depth: usize) -> Result<WindowSpec> {
    let refused = |message: String, remedy: &str| Err(Error::user(message).at(at(name.span.start)).remedy(remedy));
    let Some(NamedWindowDefinition(_, window)) = named.iter().find(|window| window.0.value == name.value) else {
        return refused(
            format!("no window has the name '{name}'"),
            "declare it after the conditions: WINDOW w AS (PARTITION BY a ORDER BY ts)",
        );
    };
    if depth > named.len() {
        return refused(format!("the window '{name}' is declared by itself"), "declare one of the windows in full");
    }
    match window {
        NamedWindowExpr::NamedWindow(other) => of_name(other, named, depth + 1),
        NamedWindowExpr::WindowSpec(spec) => whole(spec, named, depth + 1),
    }
}

/// A window with what the name in it stands for.
fn whole(spec: &WindowSpec, named: &[NamedWindowDefinition], depth: usize) -> Result<WindowSpec> {
    let Some(name) = &spec.window_name else { return Ok(spec.clone()) };
    let base = of_name(name, named, depth)?;
    let twice = [
        (!spec.partition_by.is_empty(), "has PARTITION BY"),
        (!spec.order_by.is_empty() && !base.order_by.is_empty(), "has ORDER BY, and so has what it adds to"),
        (base.window_frame.is_some(), "adds to one that has ROWS or RANGE"),
    ];
    if let Some((_, what)) = twice.iter().find(|(applies, _)| *applies) {
        let error = Error::user(format!("a window that begins with the name '{name}' {what}")).at(at(name.span.start));
        return Err(error.remedy("write this window in full: OVER (PARTITION BY a ORDER BY ts ROWS ...)"));
    }
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by,
        order_by: if spec.order_by.is_empty() { base.order_by } else { spec.order_by.clone() },
        window_frame: spec.window_frame.clone(),
    })
}
