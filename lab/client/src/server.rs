//! Where the server is, and the one way in which a failed statement is judged.
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

#[derive(clap::Args, Clone)]
pub struct Address {
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    #[arg(long, default_value_t = 3306)]
    port: u16,
    /// Unix socket; wins over host and port
    #[arg(long)]
    socket: Option<String>,
    #[arg(long, default_value = "root")]
    user: String,
    #[arg(long, default_value = "lab")]
    database: String,
    /// Storage engine of the tables that are made
    #[arg(long, default_value = "InnoDB")]
    pub engine: String,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Address {
    pub fn connect(&self) -> mysql::Result<Conn> {
        let options = OptsBuilder::new()
            .user(Some(&self.user))
            .db_name(Some(&self.database))
            .socket(self.socket.as_ref())
            .ip_or_hostname(Some(&self.host))
            .tcp_port(self.port)
            .prefer_socket(false);
        Conn::new(options)
    }

    pub fn create(&self, connection: &mut Conn, table: &str, columns: &str) -> mysql::Result<()> {
        connection.query_drop(format!("DROP TABLE IF EXISTS {table}"))?;
        connection.query_drop(format!("CREATE TABLE {table} ({columns}) ENGINE={}", self.engine))
    }
}

/// The server's error number when trying the same statement again may help: deadlock, lock wait timeout, snapshot conflict,
/// and, for random keys, a duplicate.
pub fn retryable(error: &mysql::Error) -> Option<u16> {
    match error {
        mysql::Error::MySqlError(inner) if [1213, 1205, 1020, 1180, 1062].contains(&inner.code) => Some(inner.code),
        _ => None,
    }
}

/// The connection is gone, as opposed to a statement that failed.
pub fn is_lost(error: &mysql::Error) -> bool {
    matches!(
        error,
        mysql::Error::IoError(_) | mysql::Error::DriverError(_) | mysql::Error::CodecError(_)
    )
}
