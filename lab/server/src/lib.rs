//! Where the server is, and how a lost connection differs from a failed statement. For the load
//! client and the isolation checker.
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
}

impl Address {
    /// Another server, with the same user.
    pub fn at_socket(&self, socket: &str) -> Address {
        Address {
            socket: Some(socket.into()),
            ..self.clone()
        }
    }
    pub fn connect(&self, database: Option<&str>) -> mysql::Result<Conn> {
        let options = OptsBuilder::new()
            .user(Some(&self.user))
            .db_name(database)
            .socket(self.socket.as_ref())
            .ip_or_hostname(Some(&self.host))
            .tcp_port(self.port)
            .prefer_socket(false);
        Conn::new(options)
    }
}

/// The connection is gone, as opposed to a statement that failed.
pub fn is_lost(error: &mysql::Error) -> bool {
    matches!(
        error,
        mysql::Error::IoError(_) | mysql::Error::DriverError(_) | mysql::Error::CodecError(_)
    )
}
