//! Rows that count several times: each row of the input as often as its last column says, without that
//! column.

use std::sync::Arc;

use crate::rel::{Columns, Rel};

/// The node; see the module.
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

    /// The place of the last column of the input.
    pub(crate) fn number(&self) -> usize {
        self.columns.len()
    }
}
