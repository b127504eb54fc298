//! A table of the database, and the statements that write it.

use anabranch_model::Error;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::session::{Bounds, Session};

/// Rows to write to a table with a primary key. The columns are `place`, the order of the rows, `gone`,
/// whether they are deletions, and `c0`, `c1`, ...
const STAGING: &str = "pg_temp.anabranch_rows";

const FIND_TABLE: &str = "SELECT quote_ident(n.nspname), quote_ident(c.relname), c.oid FROM pg_class c \
     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)";
const FIND_COLUMNS: &str = "SELECT attname::text, quote_ident(attname) FROM pg_attribute \
     WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

const FIND_TYPE: &str = "SELECT format_type(a.atttypid, NULL), t.typcategory = 'S' FROM pg_attribute a \
     JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = to_regclass($1) AND quote_ident(a.attname) = $2";

/// The table to write, and its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TargetTable {
    /// The table's name in the user's spelling.
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    /// The indexes of the primary key's columns; without a primary key, all rows are inserted.
    pub(super) key: Vec<usize>,
}

/// A table that was found in the database.
pub(super) struct Target {
    layout: TargetTable,
    /// The schema's name, quoted for SQL.
    schema: String,
    /// The table's name with its schema, quoted for SQL.
    name: String,
    /// The columns' names, quoted for SQL.
    columns: Vec<String>,
}

impl Target {
    /// Looks a table up, and prepares the connection for writing it.
    pub(super) fn open(session: &Session, layout: &TargetTable, bounds: &Bounds<'_>) -> Result<Target, Failure> {
        let found = session.run(bounds, async {
            let statement = session.client.prepare_typed(FIND_TABLE, &[Type::TEXT]).await?;
            let Some(table) = session.client.query_opt(&statement, &[&layout.table]).await? else { return Ok(None) };
            let columns = session.client.query(FIND_COLUMNS, &[&table.get::<_, u32>(2)]).await?;
            let columns: Vec<(String, String)> = columns.iter().map(|row| (row.get(0), row.get(1))).collect();
            Ok(Some((table.get::<_, String>(0), table.get::<_, String>(1), columns)))
        })?;
        let Some((schema, name, known)) = found else {
            return Err(Error::user(format!("there is no table '{}' in the database", layout.table))
                .remedy("create it there: the job does not; or name its schema, 'table-name' = 'schema.table'")
                .into());
        };
        let columns = layout.columns.iter().map(|column| find(column, &known)).collect::<Result<Vec<_>, Failure>>()?;
        let target = Target { layout: layout.clone(), name: format!("{schema}.{name}"), schema, columns };
        if !layout.key.is_empty() {
            session.execute(&target.staging(), bounds)?;
            // Fails if the table has no such key.
            session.execute(&format!("EXPLAIN {}", target.upsert()), bounds)?;
        }
        Ok(target)
    }

    pub(super) fn layout(&self) -> &TargetTable {
        &self.layout
    }

    /// The table that records commits of this one, in the syntax of SQL. It is in the same schema, so that
    /// both are found or neither.
    pub(super) fn commits(&self) -> String {
        format!("{}.anabranch_commits", self.schema)
    }

    /// A column as [select](Target::select) writes it.
    pub(super) fn column(&self, index: usize) -> String {
        format!("t.{}", self.columns[index])
    }

    /// The type of a column in the database, and whether it is text.
    pub(super) fn type_of(
        &self,
        index: usize,
        session: &Session,
        bounds: &Bounds<'_>,
    ) -> Result<(String, bool), Failure> {
        let row = session.run(bounds, async {
            let statement = session.client.prepare_typed(FIND_TYPE, &[Type::TEXT, Type::TEXT]).await?;
            Ok(session.client.query_one(&statement, &[&self.layout.table, &self.columns[index]]).await?)
        })?;
        Ok((row.get(0), row.get(1)))
    }

    /// Selects the columns as JSON objects with the declared names, from the rows that satisfy a condition.
    pub(super) fn select(&self, condition: &str, column: impl Fn(usize, &str) -> String) -> String {
        let named = |(index, name): (usize, &String)| {
            let quoted = self.layout.columns[index].replace('"', "\"\"");
            format!("{} AS \"{quoted}\"", column(index, &format!("t.{name}")))
        };
        let columns: Vec<String> = self.columns.iter().enumerate().map(named).collect();
        match columns.is_empty() {
            true => format!("SELECT ''::text FROM {} t {condition}", self.name),
            false => {
                let columns = columns.join(", ");
                format!("SELECT row_to_json(r)::text FROM (SELECT {columns} FROM {} t {condition}) r", self.name)
            }
        }
    }

    /// The `COPY` statement that receives the rows.
    pub(super) fn copy(&self) -> String {
        if self.layout.key.is_empty() {
            return format!("COPY {} ({}) FROM STDIN", self.name, self.columns.join(", "));
        }
        let staged: Vec<String> = (0..self.columns.len()).map(|column| format!("c{column}")).collect();
        format!("COPY {STAGING} (place, gone, {}) FROM STDIN", staged.join(", "))
    }

    fn staging(&self) -> String {
        let columns: Vec<String> =
            self.columns.iter().enumerate().map(|(index, column)| format!("t.{column} AS c{index}")).collect();
        format!(
            "DROP TABLE IF EXISTS {STAGING}; CREATE TEMP TABLE {} ON COMMIT DELETE ROWS AS \
             SELECT 0::bigint AS place, false AS gone, {} FROM {} t WITH NO DATA",
            STAGING.trim_start_matches("pg_temp."),
            columns.join(", "),
            self.name
        )
    }

    /// The latest row of each key.
    fn latest(&self) -> String {
        let keys = self.staged_keys();
        format!("(SELECT DISTINCT ON ({keys}) * FROM {STAGING} ORDER BY {keys}, place DESC) s")
    }

    fn staged_keys(&self) -> String {
        self.layout.key.iter().map(|key| format!("c{key}")).collect::<Vec<_>>().join(", ")
    }

    /// Deletes the keys whose latest row is a deletion.
    pub(super) fn delete(&self) -> String {
        let same: Vec<String> =
            self.layout.key.iter().map(|key| format!("t.{} = s.c{key}", self.columns[*key])).collect();
        format!("DELETE FROM {} t USING {} WHERE s.gone AND {}", self.name, self.latest(), same.join(" AND "))
    }

    /// Inserts or updates the other keys.
    pub(super) fn upsert(&self) -> String {
        let staged: Vec<String> = (0..self.columns.len()).map(|column| format!("s.c{column}")).collect();
        let key: Vec<&str> = self.layout.key.iter().map(|key| self.columns[*key].as_str()).collect();
        let others = self.columns.iter().enumerate().filter(|(column, _)| !self.layout.key.contains(column));
        let set: Vec<String> = others.map(|(_, column)| format!("{column} = EXCLUDED.{column}")).collect();
        let action = if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        format!(
            "INSERT INTO {} ({}) SELECT {} FROM {} WHERE NOT s.gone ORDER BY {} ON CONFLICT ({}) DO {action}",
            self.name,
            self.columns.join(", "),
            staged.join(", "),
            self.latest(),
            self.staged_keys(),
            key.join(", ")
        )
    }
}

/// The column of this name, or of this name in lower case: PostgreSQL folds unquoted names.
fn find(column: &str, known: &[(String, String)]) -> Result<String, Failure> {
    let lower = column.to_lowercase();
    let by = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, quoted)| quoted.clone());
    by(column).or_else(|| by(&lower)).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        Error::user(format!("the table of the database has no column '{column}'"))
            .remedy(format!("its columns are: {}", names.join(", ")))
            .into()
    })
}
