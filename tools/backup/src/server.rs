//! SQL statements, run by the client program `mariadb`, which has all options to log in.
use crate::{Connection, Result};
use std::process::{Command, Stdio};

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

/// The text as a string of SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
