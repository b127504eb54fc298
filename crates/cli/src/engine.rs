//! The embedded engine as the commands use it.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::PrintConnector;
use anabranch_model::{Error, Notice, Result, TaskMetrics};
use anabranch_server::{Engine, Job, Settings};

use crate::arguments;
use crate::results::Results;
use crate::watch::Watched;

/// An engine with the connectors that ship. Print tables write to `output`.
pub(crate) fn engine(output: impl Write + Clone + Send + Sync + 'static) -> Engine {
    engine_with(PrintConnector::to(move |_| Box::new(output.clone())))
}

/// An engine whose print tables write to the live view.
pub(crate) fn engine_of_view(results: &Results) -> Engine {
    let results = results.clone();
    engine_with(PrintConnector::to(move |printed| Box::new(results.writer(printed))))
}

fn engine_with(print: PrintConnector) -> Engine {
    let mut engine = Engine::default();
    engine.register("print", Arc::new(print));
    engine
}

/// The settings of a command line.
pub(crate) fn settings(given: &arguments::Settings, tables: &arguments::TableOptions) -> Settings {
    let arguments::Settings { parallelism, set } = given.clone();
    Settings { parallelism, set, table_options: tables.options.clone() }
}

/// The statements of a file.
pub(crate) fn read(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|e| {
        Error::user(format!("cannot read {}: {e}", file.display())).remedy("give a file of SQL statements")
    })?;
    Ok(without_byte_order_mark(&text).to_owned())
}

/// Some editors begin every file with this mark, which does not belong to its first statement.
pub(crate) fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

impl Watched for Job {
    fn metrics(&self) -> Vec<TaskMetrics> {
        Job::metrics(self)
    }

    fn why(&self) -> Option<String> {
        Some(Job::why(self).text).filter(|text| !text.is_empty())
    }

    fn stop(&self) {
        Job::stop(self);
    }

    fn is_finished(&self) -> bool {
        self.wait_timeout(Duration::ZERO)
    }

    fn notices(&self, number: u64) -> Vec<Notice> {
        Job::notices(self).after(number)
    }
}
