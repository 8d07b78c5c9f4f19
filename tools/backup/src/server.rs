//! SQL statements, run by the client program `mariadb`, which has all options to log in.
use crate::other_engines::last_lines;
use crate::{Connection, Result};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

impl Connection {
    /// Options for `mariadb` and `mariadb-backup`. Option files come first, as the programs ask.
    pub fn options(&self) -> Vec<String> {
        let mut options: Vec<String> = self
            .no_defaults
            .then(|| "--no-defaults".to_string())
            .into_iter()
            .collect();
        let mut add = |name: &str, value: Option<String>| {
            options.extend(value.map(|value| format!("--{name}={value}")));
        };
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        add("defaults-file", path(&self.defaults_file));
        add("defaults-extra-file", path(&self.defaults_extra_file));
        add("defaults-group-suffix", self.defaults_group_suffix.clone());
        add("user", self.user.clone());
        add("password", self.password.clone());
        add("socket", path(&self.socket));
        add("host", self.host.clone());
        add("port", self.port.map(|port| port.to_string()));
        options
    }
    /// A password that no list of processes shows.
    pub fn pass_password(&self, command: &mut Command) {
        if let Some(password) = &self.hidden_password {
            command.env("MYSQL_PWD", password);
        }
    }
    /// Runs statements in one session. Returns the rows, columns separated by tabs.
    pub fn sql(&self, text: &str) -> Result<Vec<String>> {
        let program = self.client.display();
        let mut command = Command::new(&self.client);
        self.pass_password(&mut command);
        let output = command
            .args(self.options())
            .args(["--batch", "--skip-column-names", "-e", text])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("cannot run {program}: {e}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the server refused: {}", why.trim()));
        }
        let rows = String::from_utf8_lossy(&output.stdout);
        Ok(rows.lines().map(str::to_string).collect())
    }
}

/// The engine on the server, under one of its two names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Sluice,
    /// The plugin that stands in for InnoDB.
    StandIn,
}

impl Engine {
    pub fn find(connection: &Connection) -> Result<Engine> {
        let found = connection.sql(
            "SELECT VARIABLE_NAME FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME IN ('SLUICE_BACKUP_TO', \
             'INNODB_BACKUP_TO')",
        )?;
        match found.first().map(String::as_str) {
            Some("INNODB_BACKUP_TO") => Ok(Engine::StandIn),
            Some(_) => Ok(Engine::Sluice),
            None => Err("the server has no Sluice: the plugin is not loaded".into()),
        }
    }
    /// The variable that begins a backup.
    pub fn variable(self) -> &'static str {
        match self {
            Engine::Sluice => "sluice_backup_to",
            Engine::StandIn => "innodb_backup_to",
        }
    }
}

/// A session that lasts: a client program that is given one statement after another.
pub struct Session {
    client: Child,
    statements: ChildStdin,
    rows: BufReader<ChildStdout>,
}

/// A row after those of each statement.
const MARK: &str = "sluice-backup: the statement has ended";

impl Session {
    pub fn start(connection: &Connection) -> Result<Session> {
        let program = connection.client.display();
        let mut command = Command::new(&connection.client);
        connection.pass_password(&mut command);
        let spawned = command
            .args(connection.options())
            .args(["--batch", "--skip-column-names", "--unbuffered"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut client = spawned.map_err(|e| format!("cannot run {program}: {e}"))?;
        match (client.stdin.take(), client.stdout.take()) {
            (Some(statements), Some(rows)) => Ok(Session {
                client,
                statements,
                rows: BufReader::new(rows),
            }),
            _ => Err(format!("{program} has no input or output")),
        }
    }
    /// Runs a statement. Returns its rows, columns separated by tabs.
    pub fn run(&mut self, statement: &str) -> Result<Vec<String>> {
        let sent = self
            .statements
            .write_all(format!("{statement};\nSELECT '{MARK}';\n").as_bytes())
            .and_then(|()| self.statements.flush());
        let mut rows = Vec::new();
        while sent.is_ok() {
            let mut line = String::new();
            let n = self
                .rows
                .read_line(&mut line)
                .map_err(|e| format!("the answer to {statement}: {e}"))?;
            let line = line.trim_end_matches('\n');
            if n == 0 {
                break;
            }
            if line == MARK {
                return Ok(rows);
            }
            rows.push(line.to_string());
        }
        // The client ends at the first error.
        let why = self.client.stderr.take().map(last_lines).unwrap_or_default();
        Err(format!("the server refused {statement}: {}", why.join(" ")))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // With the connection, its stage of a backup ends.
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// The text as a string of SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
