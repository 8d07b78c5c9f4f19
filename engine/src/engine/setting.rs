//! What one setting is, and the macro that turns the table of all settings into code.
//!
//! The table is in `config.rs`. [`settings!`] makes of it:
//! - `SETTINGS`: every row, for the files that are generated: `plugin/settings_table.inc` (the
//!   server's variables) and the table in `docs/guide/settings.md`. `ffi/tests/settings.rs`
//!   compares both with the table, and writes them.
//! - `Config`: what an engine is opened with. A row's name is the field, its help text the field's
//!   documentation.
//! - `Apply`: a method for each setting that changes while the engine runs. `runtime_settings.rs`
//!   implements it.
//!
//! Called by: `config.rs`, `runtime_settings.rs`, `ffi`.
use crate::change::Buffering;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As users write it, without the prefix `sluice_`.
    pub name: &'static str,
    /// The comment of the server's variable.
    pub help: &'static str,
    pub values: Values,
    /// Of a number, in words for the manual; empty: it counts, or is no number.
    pub unit: &'static str,
    pub owner: Owner,
    pub change: Change,
    pub argument: Argument,
    /// A macro of the plugin: the default where it depends on the server's version. Empty: the
    /// default of `values`.
    pub default_in_server: &'static str,
    /// The manual's text, in Markdown; empty: the help text.
    pub manual: &'static str,
}

/// The values that a setting can have. The server keeps its variables in these ranges.
/// [`Config`](super::Config) takes others too: tests use smaller pools and logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// A multiple of `block`, if that is not 0.
    Long {
        default: u64,
        min: u64,
        max: u64,
        block: u64,
    },
    Int {
        default: u32,
        min: u32,
        max: u32,
    },
    Flag {
        default: bool,
    },
    /// The number of a word.
    Choice {
        default: u64,
        words: &'static [&'static str],
    },
    Text {
        default: &'static str,
    },
}

/// What a setting belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The engine: a field of [`Config`](super::Config).
    Engine,
    /// The engine, but no field of `Config`: setting it starts something. The server sets it once
    /// after the open.
    Action,
    /// The plugin: the engine does not know it.
    Server,
    /// The plugin, with a value for each session.
    Session,
}

/// When the server's variable can be changed, and what its change does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    AtStart,
    /// It is given to `Engine::set`.
    ThroughEngine,
    /// A function of the plugin does more than to call `Engine::set`.
    ByOwnCode,
    /// The plugin reads the variable where it needs it.
    AtUse,
}

/// Whether the server's option needs a value: `--sluice-verify` alone is allowed,
/// `--sluice-io-capacity` alone is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    Required,
    Optional,
}

impl Setting {
    pub(super) const BLANK: Setting = Setting {
        name: "",
        help: "",
        values: Values::Flag { default: false },
        unit: "",
        owner: Owner::Engine,
        change: Change::AtStart,
        argument: Argument::Required,
        default_in_server: "",
        manual: "",
    };
    /// The default as the number that `Engine::set` takes.
    pub fn default_number(&self) -> u64 {
        match self.values {
            Values::Long { default, .. } | Values::Choice { default, .. } => default,
            Values::Int { default, .. } => default.into(),
            Values::Flag { default } => default.into(),
            Values::Text { .. } => 0,
        }
    }
}

pub(super) const fn long(default: u64, min: u64, max: u64, block: u64) -> Values {
    assert!(min <= default && default <= max, "a default lies in its range");
    assert!(
        block == 0 || default % block == 0 && min % block == 0,
        "the server keeps a setting at multiples of its block"
    );
    Values::Long {
        default,
        min,
        max,
        block,
    }
}
pub(super) const fn int(default: u32, min: u32, max: u32) -> Values {
    assert!(min <= default && default <= max, "a default lies in its range");
    Values::Int { default, min, max }
}
pub(super) const fn flag(default: bool) -> Values {
    Values::Flag { default }
}
pub(super) const fn choice(default: u64, words: &'static [&'static str]) -> Values {
    assert!(default < words.len() as u64, "a default is one of the words");
    Values::Choice { default, words }
}
pub(super) const fn text(default: &'static str) -> Values {
    Values::Text { default }
}

/// A field of `Config`: made from the number that the C ABI and `Engine::set` carry. A number
/// beyond the type's largest becomes the largest.
pub(super) trait FromNumber {
    fn from_number(n: u64) -> Self;
}

impl FromNumber for u64 {
    fn from_number(n: u64) -> u64 {
        n
    }
}
impl FromNumber for usize {
    fn from_number(n: u64) -> usize {
        usize::try_from(n).unwrap_or(usize::MAX)
    }
}
impl FromNumber for u32 {
    fn from_number(n: u64) -> u32 {
        u32::try_from(n).unwrap_or(u32::MAX)
    }
}
impl FromNumber for u8 {
    fn from_number(n: u64) -> u8 {
        u8::try_from(n).unwrap_or(u8::MAX)
    }
}
impl FromNumber for bool {
    fn from_number(n: u64) -> bool {
        n != 0
    }
}
impl FromNumber for Buffering {
    fn from_number(n: u64) -> Buffering {
        Buffering::from_number(n)
    }
}

/// When a commit returns. The numbers are those of `flush_log_at_trx_commit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitFlush {
    /// Log written and synced once a second.
    Lazy,
    /// Durable.
    Sync,
    /// Written to the operating system; synced once a second.
    Write,
}

impl CommitFlush {
    pub fn from_number(n: u64) -> CommitFlush {
        match n {
            0 => CommitFlush::Lazy,
            2 => CommitFlush::Write,
            _ => CommitFlush::Sync,
        }
    }
    pub fn number(self) -> u64 {
        match self {
            CommitFlush::Lazy => 0,
            CommitFlush::Sync => 1,
            CommitFlush::Write => 2,
        }
    }
}

impl FromNumber for CommitFlush {
    fn from_number(n: u64) -> CommitFlush {
        CommitFlush::from_number(n.min(2))
    }
}

/// How data files and the redo log are read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushMethod {
    /// Bypasses the cache of the file system (O_DIRECT).
    Direct,
    Buffered,
}

impl FlushMethod {
    pub fn direct_if(is_direct: bool) -> FlushMethod {
        match is_direct {
            true => FlushMethod::Direct,
            false => FlushMethod::Buffered,
        }
    }
    pub fn is_direct(self) -> bool {
        self == FlushMethod::Direct
    }
}

impl FromNumber for FlushMethod {
    fn from_number(n: u64) -> FlushMethod {
        FlushMethod::direct_if(n == 0)
    }
}

/// See the file's head. The sections:
/// - `at_open`: fields of `Config` that keep their value while the engine is open.
/// - `run_time`: fields of `Config` that [`Apply`] changes, too.
/// - `actions`: only [`Apply`].
/// - `server`: the plugin's own.
/// - `besides`: fields of `Config` that are no settings.
macro_rules! settings {
    (
        at_open { $($open:ident : $open_type:ty, $open_help:literal { $($open_row:tt)* })* }
        run_time { $($run:ident : $run_type:ty, $run_help:literal { $($run_row:tt)* })* }
        actions { $($action:ident : $action_type:ty, $action_help:literal { $($action_row:tt)* })* }
        server { $($server:ident, $server_help:literal { $($server_row:tt)* })* }
        besides { $($(#[$doc:meta])* $besides:ident : $besides_type:ty = $besides_default:expr;)* }
    ) => {
        /// All settings.
        pub const SETTINGS: &[Setting] = &[
            $(Setting { name: stringify!($open), help: $open_help, $($open_row)*, ..Setting::BLANK },)*
            $(Setting {
                name: stringify!($run),
                help: $run_help,
                $($run_row)*,
                ..Setting::BLANK
            },)*
            $(Setting {
                name: stringify!($action),
                help: $action_help,
                owner: Owner::Action,
                $($action_row)*,
                ..Setting::BLANK
            },)*
            $(Setting { name: stringify!($server), help: $server_help, $($server_row)*, ..Setting::BLANK },)*
        ];

        /// What an engine is opened with: a field for each setting of the engine, and the caller's
        /// functions.
        #[derive(Clone)]
        pub struct Config {
            $(#[doc = $open_help] pub $open: $open_type,)*
            $(#[doc = $run_help] pub $run: $run_type,)*
            $($(#[$doc])* pub $besides: $besides_type,)*
        }

        impl Config {
            /// The defaults of the server's variables.
            fn of_table() -> Config {
                Config {
                    $($open: FromNumber::from_number(default_number(stringify!($open))),)*
                    $($run: FromNumber::from_number(default_number(stringify!($run))),)*
                    $($besides: $besides_default,)*
                }
            }
            /// Sets a field by the name of its setting. Error: `Unsupported`, if no field has that
            /// name.
            pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
                match name {
                    $(stringify!($open) => self.$open = FromNumber::from_number(value),)*
                    $(stringify!($run) => self.$run = FromNumber::from_number(value),)*
                    _ => return Err(Error::Unsupported(format!("setting {name} at the start"))),
                }
                Ok(())
            }
        }

        /// What each setting does that changes while the engine runs. Values beyond a setting's
        /// range are the caller's to refuse.
        pub(super) trait Apply {
            $(#[doc = $run_help] fn $run(&self, to: $run_type) -> Result<()>;)*
            $(#[doc = $action_help] fn $action(&self, to: $action_type) -> Result<()>;)*
            /// By name. Error: `Unsupported`, if the setting is unknown or cannot be changed while
            /// the engine runs.
            fn apply(&self, name: &str, value: u64) -> Result<()> {
                match name {
                    $(stringify!($run) => self.$run(FromNumber::from_number(value)),)*
                    $(stringify!($action) => self.$action(FromNumber::from_number(value)),)*
                    _ => Err(Error::Unsupported(format!("setting {name} at run time"))),
                }
            }
        }
    };
}
pub(super) use settings;
