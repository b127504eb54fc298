//! Tables as the plan sees them: a connector and its options, and the connector's description of the table.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_model::Shown;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

/// The connector of a table that nobody declares: one row of one BOOLEAN column. `VALUES` and `SELECT`
/// without `FROM` read it.
pub const ONE_ROW: &str = "one_row";

/// A connector by name, with the options of `WITH (...)`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectorSpec {
    /// Name: `kafka`, `filesystem`, `ad_events`, ...
    pub connector: String,
    /// Options without `connector` itself, as written.
    pub options: BTreeMap<String, String>,
}

impl ConnectorSpec {
    /// The connector of this name, with these options.
    #[must_use]
    pub fn new(connector: &str, options: &[(&str, &str)]) -> ConnectorSpec {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ConnectorSpec { connector: connector.to_owned(), options }
    }
}

/// A connector's description of a declared table.
#[derive(Clone, Debug, Default)]
pub struct TableTraits {
    /// The table ends: it can be joined as a static table and aggregated without a window.
    pub bounded: bool,
    /// The table can be read.
    pub readable: bool,
    /// The table can be written.
    pub writable: bool,
    /// Largest number of readers that the table can keep busy, if known.
    pub max_readers: Option<u32>,
    /// Columns, for connectors that know them; a declaration without columns takes these.
    pub schema: Option<SchemaRef>,
    /// What records have beside their content, by the connector's keys. `None`: nothing that columns can
    /// hold.
    pub metadata: Option<SchemaRef>,
    /// Which of these its writer writes.
    pub written_metadata: &'static [&'static str],
    /// Its records are versions of rows: of those with the same primary key the latest counts.
    pub versions: Option<Versions>,
    /// Its records are changes of rows. With `versions`, a reader that gives the columns of the key gets
    /// versions instead.
    pub changes: Option<Changes>,
    /// What its writer does with updating rows.
    pub updates: Updates,
    /// Its reader gives a field of a ROW column alone, as a column `row.field`.
    pub row_fields: bool,
    /// How a running job can ask it for rows.
    pub lookups: Lookups,
    /// When rows that are written can be seen.
    pub visibility: Visibility,
}

/// When rows that were given to a sink can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Visibility {
    /// At the end of their epoch, or before.
    #[default]
    ByEpoch,
    /// Never: the sink drops them.
    Never,
    /// Once a checkpoint covers them. Without checkpoints the connector decides.
    ByCheckpoint,
}

impl Visibility {
    /// Whether this is what holds for a field that is left out.
    pub(crate) fn is_by_epoch(&self) -> bool {
        *self == Visibility::ByEpoch
    }
}

/// How a running job can ask a table for rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookups {
    /// Not at all.
    #[default]
    None,
    /// It reads the whole table again and again.
    Whole,
    /// By keys.
    ByKey,
}

/// Which records of a table are later ones of the same key, and which say that there is no row any more: the
/// keys of metadata with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// A whole number that grows.
    pub order: &'static str,
    /// A truth value.
    pub deleted: &'static str,
}

/// Which records of a table bring a row, and which take one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The key of metadata with the weight of each row, a whole number.
    pub weight: &'static str,
    /// The keys of metadata that a record which takes a row back has in common with the one that brought it.
    pub kept: &'static [&'static str],
    /// The option because of which reading begins after the first change: a record may take back a row that
    /// never came.
    pub begins_later: Option<&'static str>,
}

/// What the writer of a table does with rows that have weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Updates {
    /// It takes no such rows: what it has written stays.
    #[default]
    Refused,
    /// It writes them as they are, with their weights.
    Written,
    /// It writes them as they are, and nothing reads them again: a row that is taken back may differ from the
    /// one that came.
    Shown,
    /// It keeps the latest row of each primary key.
    Upserted,
    /// It keeps the latest row of each primary key if the table has one, and refuses them if not.
    UpsertedByKey,
}

impl Updates {
    /// What it does for a table with or without a primary key.
    #[must_use]
    pub fn of_table(self, has_key: bool) -> Updates {
        match self {
            Updates::UpsertedByKey if has_key => Updates::Upserted,
            Updates::UpsertedByKey => Updates::Refused,
            other => other,
        }
    }
}

impl fmt::Debug for ConnectorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = Shown(&self.options);
        f.debug_struct("ConnectorSpec").field("connector", &self.connector).field("options", &options).finish()
    }
}

impl fmt::Display for ConnectorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.connector)
    }
}
