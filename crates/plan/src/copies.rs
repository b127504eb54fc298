//! Repeats rows: the last column of the input is the number of copies. The output does not have this column.

use std::sync::Arc;

use crate::rel::{Columns, Rel};

/// The operator; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    pub(crate) input: Arc<Rel>,
    pub(crate) columns: Arc<Columns>,
}

impl Copies {
    pub(crate) fn new(input: impl Into<Arc<Rel>>) -> Self {
        let input = input.into();
        let kept: Vec<usize> = (0..input.width().saturating_sub(1)).collect();
        let columns = input.columns().selected(&kept);
        Copies { input, columns }
    }

    /// The index of the last column of the input.
    pub(crate) fn number(&self) -> usize {
        self.columns.len()
    }
}
