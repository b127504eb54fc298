//! Named windows: `OVER w` and `OVER (w ORDER BY ts)` with `WINDOW w AS (PARTITION BY k)`.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{Ident, NamedWindowDefinition, NamedWindowExpr, WindowSpec, WindowType};

use crate::place::at;

/// The window with all references to named windows resolved.
pub(super) fn whole_window(window: &WindowType, named: &[NamedWindowDefinition]) -> Result<WindowSpec> {
    match window {
        WindowType::NamedWindow(name) => window_named(name, named, 0),
        WindowType::WindowSpec(spec) => resolved(spec, named, 0),
    }
}

/// Refuses two windows of one name, and references to unknown windows.
pub(super) fn check_windows(named: &[NamedWindowDefinition]) -> Result<()> {
    for (index, NamedWindowDefinition(name, _)) in named.iter().enumerate() {
        if named[..index].iter().any(|former| former.0.value == name.value) {
            let error = Error::user(format!("two windows have the name '{name}'")).at(at(name.span.start));
            return Err(error.remedy("give each window a name of its own"));
        }
        window_named(name, named, 0)?;
    }
    Ok(())
}

/// The window of this name. `depth`: the number of names followed so far.
fn window_named(name: &Ident, named: &[NamedWindowDefinition], depth: usize) -> Result<WindowSpec> {
    let refused = |message: String, remedy: &str| Err(Error::user(message).at(at(name.span.start)).remedy(remedy));
    let Some(NamedWindowDefinition(_, window)) = named.iter().find(|window| window.0.value == name.value) else {
        return refused(
            format!("no window has the name '{name}'"),
            "declare it after WHERE, GROUP BY and HAVING: WINDOW w AS (PARTITION BY a ORDER BY ts)",
        );
    };
    if depth > named.len() {
        return refused(format!("the window '{name}' refers to itself"), "declare one of the windows in full");
    }
    match window {
        NamedWindowExpr::NamedWindow(other) => window_named(other, named, depth + 1),
        NamedWindowExpr::WindowSpec(spec) => resolved(spec, named, depth + 1),
    }
}

/// The window with the clauses of the named window that it extends.
fn resolved(spec: &WindowSpec, named: &[NamedWindowDefinition], depth: usize) -> Result<WindowSpec> {
    let Some(name) = &spec.window_name else { return Ok(spec.clone()) };
    let base = window_named(name, named, depth)?;
    let conflicts = [
        (!spec.partition_by.is_empty(), "has PARTITION BY"),
        (!spec.order_by.is_empty() && !base.order_by.is_empty(), "has ORDER BY, and so has that window"),
        (base.window_frame.is_some(), "cannot be declared, because that window has ROWS or RANGE"),
    ];
    if let Some((_, what)) = conflicts.iter().find(|(applies, _)| *applies) {
        let error = Error::user(format!("a window that extends '{name}' {what}")).at(at(name.span.start));
        return Err(error.remedy("write this window in full: OVER (PARTITION BY a ORDER BY ts ROWS ...)"));
    }
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by,
        order_by: if spec.order_by.is_empty() { base.order_by } else { spec.order_by.clone() },
        window_frame: spec.window_frame.clone(),
    })
}
