//! How the server calls the program: the command line, the environment, the option files.
//!
//! `my_print_defaults` reads the server's option files, as for the other transfer methods.
use crate::{Connection, Result};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The port if `wsrep_sst_receive_address` has none.
const PORT: u16 = 4444;
const INITIAL_TIMEOUT_SECONDS: u64 = 300;
/// Options of the group `[sst]`, or of another group for state transfers, that ask for encryption.
const ENCRYPTION: &[&str] = &[
    "encrypt-algo",
    "encrypt-key",
    "encrypt-key-file",
    "tca",
    "tcapath",
    "tcert",
    "tkey",
    "ssl-ca",
    "ssl-capath",
    "ssl-cert",
    "ssl-key",
];
const GROUPS: &[&str] = &["sst", "xtrabackup", "mariabackup"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Donor,
    Joiner,
}

/// `HOST:PORT/MODULE`; a host of IPv6 stands in brackets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl Address {
    fn parse(text: &str) -> Result<Address> {
        let bad = || format!("--address '{text}' is not HOST:PORT");
        let (host, rest) = match text.strip_prefix('[') {
            Some(text) => text.split_once(']').ok_or_else(bad)?,
            None => text.split_at(text.find([':', '/']).unwrap_or(text.len())),
        };
        let rest = rest.split('/').next().unwrap_or("");
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| bad())?,
            None if rest.is_empty() => PORT,
            None => return Err(bad()),
        };
        match host.is_empty() {
            true => Err(bad()),
            false => Ok(Address {
                host: host.to_string(),
                port,
            }),
        }
    }
    /// With brackets, where they are needed.
    pub fn text(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[derive(Debug)]
pub struct Options {
    pub role: Role,
    pub address: Address,
    pub data: PathBuf,
    /// The joiner's server.
    pub parent: Option<u32>,
    pub progress: bool,
    pub bypass: bool,
    /// `UUID:NUMBER DOMAIN` of the donor, when it was chosen.
    pub position: String,
    /// The secret by which the joiner recognizes its donor.
    pub secret: String,
    socket: Option<PathBuf>,
    /// `--binlog`, `--binlog-index`: names relative to the data directory.
    pub binlog: Option<String>,
    pub binlog_index: Option<String>,
    defaults: Vec<String>,
    no_defaults: bool,
    /// `user:password` of `wsrep_sst_auth`.
    auth: String,
    /// `name`, `value` of the server's own command line, names with dashes.
    of_server: Vec<(String, String)>,
    /// The same of the option files, with the group.
    of_files: Vec<(String, String, String)>,
}

impl Options {
    /// `words`: the command line without the program's name. Reads the environment and the option
    /// files, too.
    pub fn parse(words: Vec<String>) -> Result<Options> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let mut options = Options::of_words(words, &variable("WSREP_SST_OPT_REMOTE_AUTH"))?;
        options.read_files()?;
        options.auth = Some(variable("WSREP_SST_OPT_AUTH"))
            .filter(|auth| !auth.is_empty() && auth != "(null)")
            .or_else(|| options.of_sst("wsrep-sst-auth").map(str::to_string))
            .unwrap_or_default();
        Ok(options)
    }
    fn of_words(words: Vec<String>, remote_auth: &str) -> Result<Options> {
        let mut found = std::collections::HashMap::new();
        let mut options = Options {
            role: Role::Donor,
            address: Address {
                host: String::new(),
                port: 0,
            },
            data: PathBuf::new(),
            parent: None,
            progress: false,
            bypass: false,
            position: String::new(),
            secret: remote_auth.split_once(':').map_or("", |(_, secret)| secret).to_string(),
            socket: None,
            binlog: None,
            binlog_index: None,
            defaults: Vec::new(),
            no_defaults: false,
            auth: String::new(),
            of_server: Vec::new(),
            of_files: Vec::new(),
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--bypass" => options.bypass = true,
                "--mysqld-args" => options.read_server(words.by_ref().collect()),
                _ if word.starts_with("--") => {
                    let value = words.next().unwrap_or_default();
                    found.insert(word, value.trim().to_string());
                }
                _ => {}
            }
        }
        let mut take = |name: &str| found.remove(name).filter(|value| !value.is_empty());
        options.role = match take("--role").as_deref() {
            Some("donor") => Role::Donor,
            Some("joiner") => Role::Joiner,
            other => return Err(format!("--role {}: neither donor nor joiner", other.unwrap_or(""))),
        };
        options.address = Address::parse(&take("--address").unwrap_or_default())?;
        options.data = take("--datadir").ok_or("there is no --datadir")?.into();
        options.parent = take("--parent").and_then(|text| text.parse().ok());
        options.progress = take("--progress").is_some_and(|text| text != "0");
        options.socket = take("--socket").map(PathBuf::from);
        options.binlog = take("--binlog").or_else(|| take("--log-bin"));
        options.binlog_index = take("--binlog-index").or_else(|| take("--log-bin-index"));
        options.position = format!(
            "{} {}",
            take("--gtid").unwrap_or_default(),
            take("--gtid-domain-id").unwrap_or_else(|| "0".into())
        );
        for name in ["--defaults-file", "--defaults-extra-file", "--defaults-group-suffix"] {
            options
                .defaults
                .extend(take(name).map(|value| format!("{name}={value}")));
        }
        Ok(options)
    }
    fn read_server(&mut self, words: Vec<String>) {
        self.no_defaults = words.first().is_some_and(|word| word == "--no-defaults");
        let values = words.iter().skip(1).map(Some).chain([None]);
        for (word, next) in words.iter().zip(values) {
            let Some((name, mut value)) = named(word) else { continue };
            // `--name value`
            if let Some(next) = next.filter(|next| !word.contains('=') && !next.starts_with('-')) {
                value.clone_from(next);
            }
            self.of_server.push((name, value));
        }
    }
    /// Reads nothing from files without one of the groups, and with `--no-defaults`.
    fn read_files(&mut self) -> Result<()> {
        if self.no_defaults {
            return Ok(());
        }
        let server = ["--mysqld".to_string()];
        let groups = GROUPS.iter().map(|group| vec![group.to_string()]);
        for words in groups.chain([server.to_vec()]) {
            let run = Command::new("my_print_defaults")
                .args(&self.defaults)
                .args(&words)
                .stdin(Stdio::null())
                .output();
            let output = run.map_err(|e| format!("cannot run my_print_defaults, which reads the options: {e}"))?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr);
                return Err(format!("my_print_defaults: {}", why.trim()));
            }
            let lines = String::from_utf8_lossy(&output.stdout);
            let found = lines.lines().filter_map(named);
            self.of_files
                .extend(found.map(|(name, value)| (words[0].clone(), name, value)));
        }
        Ok(())
    }
    /// An option of the server: the last value counts, and the command line overrides the files.
    pub fn of_server(&self, name: &str) -> Option<&str> {
        let here = self.of_server.iter().rev().find(|(own, _)| own == name);
        here.map(|(_, value)| value.as_str())
            .or_else(|| self.of_group("--mysqld", name))
    }
    /// An option of the group `[sst]`.
    pub fn of_sst(&self, name: &str) -> Option<&str> {
        self.of_group(GROUPS[0], name)
    }
    fn of_group(&self, group: &str, name: &str) -> Option<&str> {
        let mut found = self.of_files.iter().rev();
        let found = found.find(|(own_group, own, _)| own_group == group && own == name);
        found.map(|(_, _, value)| value.as_str())
    }
    /// Of any group for state transfers.
    fn of_transfers(&self, name: &str) -> Option<&str> {
        GROUPS.iter().find_map(|group| self.of_group(group, name))
    }
    /// How long the joiner waits for its donor; `None`: without a limit.
    pub fn initial_timeout(&self) -> Option<std::time::Duration> {
        let seconds = self.of_sst("sst-initial-timeout").and_then(|text| text.parse().ok());
        let seconds = seconds.unwrap_or(INITIAL_TIMEOUT_SECONDS);
        (seconds > 0).then(|| std::time::Duration::from_secs(seconds))
    }
    /// `rlimit`: bytes a second, with `k`, `m` or `g`. Returns MiB.
    pub fn rate_limit(&self) -> Result<Option<u64>> {
        let Some(text) = self.of_sst("rlimit").filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let (number, shift) = match text.to_ascii_lowercase().chars().last() {
            Some('k') => (&text[..text.len() - 1], 10),
            Some('m') => (&text[..text.len() - 1], 20),
            Some('g') => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        let number: u64 = number
            .parse()
            .map_err(|_| format!("rlimit={text} is not a number of bytes"))?;
        Ok((number > 0).then(|| (number << shift >> 20).max(1)))
    }
    /// Refuses options that ask for encryption: it is never silently omitted.
    pub fn refuse_encryption(&self) -> Result<()> {
        let is_on = |value: &str| !matches!(value.to_ascii_uppercase().as_str(), "" | "0" | "OFF" | "DISABLED");
        let mode = self.of_transfers("ssl-mode").or_else(|| self.of_server("ssl-mode"));
        let mode = mode.filter(|mode| is_on(mode)).map(|_| "ssl-mode");
        let encrypt = self.of_transfers("encrypt").or_else(|| self.of_server("encrypt"));
        let encrypt = encrypt.filter(|value| is_on(value)).map(|_| "encrypt");
        let others = || {
            ENCRYPTION
                .iter()
                .copied()
                .find(|name| self.of_transfers(name).is_some())
        };
        match mode.or(encrypt).or_else(others) {
            None => Ok(()),
            Some(name) => Err(format!(
                "the option {name} asks for an encrypted state transfer, and wsrep_sst_method=sluice has none. Use \
                 wsrep_sst_method=rsync, or a tunnel or a private network between the nodes, and take the option away"
            )),
        }
    }
    /// Options that the server's other programs take first.
    pub fn defaults(&self) -> Vec<String> {
        match self.no_defaults {
            true => vec!["--no-defaults".into()],
            false => self.defaults.clone(),
        }
    }
    /// To the server of the donor.
    pub fn connection(&self) -> Connection {
        let default = |name: &str| {
            let found = self.defaults.iter().find_map(|option| option.strip_prefix(name));
            found.map(str::to_string)
        };
        let (user, password) = match self.auth.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (self.auth.as_str(), None),
        };
        Connection {
            defaults_file: default("--defaults-file=").map(PathBuf::from),
            defaults_extra_file: default("--defaults-extra-file=").map(PathBuf::from),
            defaults_group_suffix: default("--defaults-group-suffix="),
            no_defaults: self.no_defaults,
            user: Some(user.to_string()).filter(|user| !user.is_empty()),
            password: None,
            hidden_password: password.map(str::to_string),
            socket: self.socket.clone(),
            host: None,
            port: None,
            client: "mariadb".into(),
        }
    }
}

/// `--Name_of=value`: name and value; the name in small letters, with dashes.
fn named(word: &str) -> Option<(String, String)> {
    let word = word.strip_prefix("--")?;
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let name = name.replace('_', "-").to_ascii_lowercase();
    let name = name.strip_prefix("loose-").unwrap_or(&name).to_string();
    Some((name, value.trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn addresses_are_taken_apart() {
        let parse = |text: &str| Address::parse(text).map(|address| address.text());
        assert_eq!(parse("10.0.0.1:5/sluice_sst").as_deref(), Ok("10.0.0.1:5"));
        assert_eq!(parse("node-a/x").as_deref(), Ok("node-a:4444"));
        assert_eq!(parse("[fe80::1]").as_deref(), Ok("[fe80::1]:4444"));
        assert_eq!(parse("[fe80::1]:7/m").as_deref(), Ok("[fe80::1]:7"));
        for bad in ["", ":5", "a:b", "[::1", "a:70000"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_call_of_the_server_is_understood() {
        let line = "--role joiner --address 127.0.0.1:25 --datadir /d/ --defaults-file /c --parent 12 --progress 0 --binlog bin \
                    --mysqld-args --no-defaults --innodb_undo_directory=/u --loose-sluice-directory=/a --innodb-undo-directory=/v x --tmpdir /t --wsrep-on";
        let options = Options::of_words(words(line), "").unwrap();
        assert_eq!(
            (options.role, options.parent, options.progress),
            (Role::Joiner, Some(12), false)
        );
        assert_eq!(options.of_server("innodb-undo-directory"), Some("/v"));
        assert_eq!(options.of_server("sluice-directory"), Some("/a"));
        assert_eq!(options.of_server("tmpdir"), Some("/t"));
        assert_eq!(options.of_server("wsrep-on"), Some(""));
        assert_eq!(options.defaults(), ["--no-defaults"]);
        let line = "--role donor --address h:1/m --local-port 3306 --socket /s --progress 1 --datadir /d --gtid u:7 --gtid-domain-id 3 --bypass";
        let options = Options::of_words(words(line), "sluice:ab:cd").unwrap();
        assert!(options.bypass && options.progress);
        assert_eq!((options.position.as_str(), options.secret.as_str()), ("u:7 3", "ab:cd"));
        assert!(Options::of_words(words("--role boss --address h --datadir /d"), "").is_err());
    }

    #[test]
    fn encryption_is_refused_by_its_name() {
        let mut options = Options::of_words(words("--role donor --address h --datadir /d"), "").unwrap();
        let mut with = |group: &str, name: &str, value: &str| {
            options.of_files = vec![(group.into(), name.into(), value.into())];
            options.refuse_encryption()
        };
        assert_eq!(with("sst", "encrypt", "0"), Ok(()));
        assert_eq!(with("--mysqld", "ssl-mode", "disabled"), Ok(()));
        for (group, name, value) in [
            ("sst", "encrypt", "3"),
            ("--mysqld", "ssl-mode", "REQUIRED"),
            ("xtrabackup", "tkey", "/k"),
        ] {
            assert!(with(group, name, value)
                .unwrap_err()
                .contains(&format!("option {name} ")));
        }
    }
}
