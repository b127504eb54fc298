//! What the loop needs of the process in which it runs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anabranch_model::{Clock, Result};
use anabranch_schedule::Formula;

use crate::driver::Driver;
use crate::kernel::Proc;

/// Compiles an expression over metrics of one node: what SQL means is not known here. Errors: the expression
/// is wrong, or names a metric that does not exist.
pub type Formulas = fn(&str) -> Result<Formula>;

/// What the loop needs of its process.
pub struct Environment {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The kernel.
    pub kernel: Proc,
    /// For policies that are expressions.
    pub formulas: Formulas,
    /// The command of a process that watches over a journal.
    pub guardian: fn(&Path) -> Command,
    /// Drivers of the targets, in the order of the configuration.
    pub drivers: Vec<Box<dyn Driver>>,
    /// Whether nothing is written.
    pub dry_run: bool,
}
