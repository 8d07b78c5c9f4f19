//! What a load is run against, and the one way in which a failed statement is judged.
use lab_server::Address;
use mysql::prelude::Queryable;
use mysql::Conn;

#[derive(clap::Args, Clone)]
pub struct Target {
    #[command(flatten)]
    server: Address,
    #[arg(long, default_value = "lab")]
    database: String,
    /// Storage engine of the tables that are made
    #[arg(long, default_value = "InnoDB")]
    pub engine: String,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Target {
    pub fn connect(&self) -> mysql::Result<Conn> {
        self.server.connect(Some(&self.database))
    }

    pub fn create(&self, connection: &mut Conn, table: &str, columns: &str) -> mysql::Result<()> {
        connection.query_drop(format!("DROP TABLE IF EXISTS {table}"))?;
        connection.query_drop(format!("CREATE TABLE {table} ({columns}) ENGINE={}", self.engine))
    }
}

/// The server's error number if another try of the same statement may succeed: deadlock, lock wait
/// timeout, snapshot conflict and, for random keys, a duplicate.
pub fn retryable(error: &mysql::Error) -> Option<u16> {
    match error {
        mysql::Error::MySqlError(inner) if [1213, 1205, 1020, 1180, 1062].contains(&inner.code) => Some(inner.code),
        _ => None,
    }
}
