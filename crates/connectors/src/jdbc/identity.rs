//! Names of a writer's connections. By these names, the next owner of the job finds abandoned connections,
//! and ends them.
//!
//! A frozen process keeps its connections: the kernel answers for it, so the server finds nothing wrong. If a
//! transaction was in progress, its locks block the next owner of the job. So a writer ends the connections
//! of older incarnations when it connects. The server allows this for connections of the same user. A
//! transaction that ends that way has written nothing. The table of commits prevents later writes by a
//! process that has lost its job.

use anabranch_operators::{Former, TaskContext};

use super::failure::Failure;
use super::options::JdbcTable;
use super::session::{Bounds, Session};

/// The server truncates names to this number of bytes.
const NAME_MAX: usize = 63;
/// Limit of the bytes of a scope's suffix, which identifies the job and the writer.
const SCOPE_MAX: usize = 32;

/// Ends connections by their names, `anabranch SCOPE/TASK/INCARNATION`: those of older incarnations, and
/// other connections of the same task.
const END_FORMER: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
     WHERE usename = current_user AND datname = current_database() AND pid <> pg_backend_pid() \
     AND CASE WHEN application_name ~ ' [^ /]+/[0-9]+/[0-9]+$' THEN \
       split_part(substring(application_name from '[^ ]+$'), '/', 1) = ANY($1) \
       AND (split_part(substring(application_name from '[^ ]+$'), '/', 3)::numeric < $2::text::numeric \
            OR substring(application_name from '[^ ]+$') = $3) ELSE false END";

/// The identity of a writer.
pub(super) struct Identity {
    session_name: String,
    /// Suffixes of the present and former scopes of the writer.
    scopes: Vec<String>,
    incarnation: String,
    /// The suffix of the session's name.
    own: String,
}

impl Identity {
    pub(super) fn new(table: &JdbcTable, scope: &str, former: &Former, context: &TaskContext) -> Identity {
        let incarnation = context.host.incarnation().0.to_string();
        let own = format!("{}/{}/{incarnation}", end(scope), context.index);
        let program = table.url.application.as_deref().unwrap_or("anabranch");
        let program: String =
            program.chars().filter(|c| c.is_ascii()).take(NAME_MAX.saturating_sub(own.len() + 1)).collect();
        let scopes = std::iter::once(scope).chain(former.scopes.iter().map(String::as_str)).map(end).collect();
        Identity { session_name: format!("{program} {own}"), scopes, incarnation, own }
    }

    pub(super) fn session_name(&self) -> &str {
        &self.session_name
    }

    /// Ends abandoned connections of older incarnations or of this task.
    pub(super) fn end_former(&self, session: &Session, bounds: &Bounds<'_>) -> Result<(), Failure> {
        session.run(bounds, async {
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&self.scopes, &self.incarnation, &self.own];
            Ok(session.client.query(END_FORMER, &parameters).await.map(drop)?)
        })
    }
}

/// The last characters of a scope. They are letters, digits and hyphens.
fn end(scope: &str) -> String {
    scope.get(scope.len().saturating_sub(SCOPE_MAX)..).unwrap_or(scope).to_owned()
}
