//! The table of settings (`engine/src/engine/config.rs`), the server's variables
//! (`plugin/settings_table.inc`) and the table in `docs/guide/settings.md` agree.
//!
//! With SLUICE_WRITE_SETTINGS set (`make settings`) the tests write both files instead.
use sluice::engine::config::{Argument, Change, Owner, Setting, Values, SETTINGS};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const KINDS: [&str; 7] = [
    "LONG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, BLOCK, HELP)",
    "INT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, HELP)",
    "FLAG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP)",
    "CHOICE(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP, ...)",
    "TEXT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP)",
    "SESSION_INT(NAME, ARGUMENT, DEFAULT, MIN, MAX, HELP)",
    "SESSION_FLAG(NAME, ARGUMENT, DEFAULT, HELP)",
];

const HEAD: &str = "\
/* Generated from the table of settings in engine/src/engine/config.rs by `make settings`: change that table, not this file.

   A row for each system variable. The file that includes this one defines what a row becomes; rows of a kind that it does
   not define become nothing. All definitions end with this file.
   OWNER:  ENGINE: given to slc_engine_open(). ACTION: set once the engine is open. SERVER: known to the plugin alone.
   CHANGE: AT_START: read-only. THROUGH_ENGINE: SET GLOBAL calls slc_engine_set(). BY_OWN_CODE: sysvars.cc has an update
   function. AT_USE: the plugin reads the variable where it needs it.
   Used by: settings.h, sysvars.cc. */
";

fn argument(setting: &Setting) -> &'static str {
    match setting.argument {
        Argument::Required => "PLUGIN_VAR_RQCMDARG",
        Argument::Optional => "PLUGIN_VAR_OPCMDARG",
    }
}

/// The parameters of a row between its name and its default.
fn how(setting: &Setting) -> String {
    let owner = match setting.owner {
        Owner::Engine => "ENGINE",
        Owner::Action => "ACTION",
        Owner::Server => "SERVER",
        Owner::Session => return argument(setting).into(),
    };
    let change = match setting.change {
        Change::AtStart => "AT_START",
        Change::ThroughEngine => "THROUGH_ENGINE",
        Change::ByOwnCode => "BY_OWN_CODE",
        Change::AtUse => "AT_USE",
    };
    format!("{owner}, {change}, {}", argument(setting))
}

fn row(setting: &Setting) -> String {
    let Setting { name, help, .. } = setting;
    let session = if setting.owner == Owner::Session {
        "SESSION_"
    } else {
        ""
    };
    let how = how(setting);
    match setting.values {
        Values::Long {
            default,
            min,
            max,
            block,
        } => {
            assert!(session.is_empty(), "{name}: no such kind in the header");
            format!("SLUICE_LONG({name}, {how}, {default}ULL, {min}ULL, {max}ULL, {block}ULL,\n  {help:?})")
        }
        Values::Int { default, min, max } => {
            format!("SLUICE_{session}INT({name}, {how}, {default}, {min}, {max},\n  {help:?})")
        }
        Values::Flag { default } => {
            let default = match setting.default_in_server {
                "" => default.to_string(),
                by_version => by_version.into(),
            };
            format!("SLUICE_{session}FLAG({name}, {how}, {default},\n  {help:?})")
        }
        Values::Choice { default, words } => {
            assert!(session.is_empty(), "{name}: no such kind in the header");
            let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            format!(
                "SLUICE_CHOICE({name}, {how}, {default},\n  {help:?},\n  {})",
                words.join(", ")
            )
        }
        Values::Text { default } => format!("SLUICE_TEXT({name}, {how}, {default:?},\n  {help:?})"),
    }
}

fn header() -> String {
    let mut text = String::from(HEAD);
    let name_of = |kind: &str| kind.split('(').next().unwrap_or_default().to_string();
    for kind in KINDS {
        let name = name_of(kind);
        write!(text, "#ifndef SLUICE_{name}\n#define SLUICE_{kind}\n#endif\n").expect("to a string");
    }
    for setting in SETTINGS {
        writeln!(text, "{}", row(setting)).expect("to a string");
    }
    for kind in KINDS {
        writeln!(text, "#undef SLUICE_{}", name_of(kind)).expect("to a string");
    }
    text
}

/// As options take it: 16M.
fn size(n: u64, unit: &str) -> String {
    if n == u64::MAX {
        return "no limit".into();
    }
    let steps = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    match steps.iter().find(|(bits, _)| n > 0 && n.trailing_zeros() >= *bits) {
        Some((bits, letter)) if unit == "bytes" => format!("{}{letter}", n >> bits),
        _ => n.to_string(),
    }
}

fn manual_row(setting: &Setting) -> String {
    let on_off = |is_on| if is_on { "ON" } else { "OFF" }.to_string();
    let unit = setting.unit;
    let (default, values) = match setting.values {
        Values::Long { default, min, max, .. } => (
            size(default, unit),
            format!("{} to {}", size(min, unit), size(max, unit)),
        ),
        Values::Int { default, min, max } => (default.to_string(), format!("{min} to {max}")),
        Values::Flag { default } if setting.default_in_server.is_empty() => (on_off(default), "ON, OFF".into()),
        Values::Flag { .. } => ("by version".into(), "ON, OFF".into()),
        Values::Choice { default, words } => (words[default as usize].into(), words.join(", ")),
        Values::Text { default } => (default.into(), "".into()),
    };
    let changes = match (setting.owner, setting.change) {
        (Owner::Session, _) => "session",
        (_, Change::AtStart) => "start",
        _ => "global",
    };
    // Help texts begin with a capital letter, cells of the table do not; "AUTO_INCREMENT" keeps it.
    let help = match setting.help.as_bytes() {
        [_, second, ..] if second.is_ascii_uppercase() => setting.help.to_string(),
        _ => setting.help[..1].to_lowercase() + &setting.help[1..],
    };
    let meaning = if setting.manual.is_empty() {
        help.as_str()
    } else {
        setting.manual
    };
    format!(
        "| {} | {default} | {values} | {unit} | {changes} | {meaning} |\n",
        setting.name
    )
}

fn manual_table() -> String {
    let mut rows: Vec<&Setting> = SETTINGS.iter().collect();
    rows.sort_by_key(|setting| setting.name);
    let head = "| sluice_... | default | values | unit | changes | meaning |\n|---|--:|---|---|---|---|\n";
    rows.into_iter()
        .fold(head.to_string(), |text, row| text + &manual_row(row))
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn compare(name: &str, expected: &str) {
    if std::env::var_os("SLUICE_WRITE_SETTINGS").is_some() {
        fs::write(path(name), expected).expect("written");
    }
    let found = fs::read_to_string(path(name)).expect("the file is there");
    assert!(
        found == expected,
        "{name} differs from the table in engine/src/engine/config.rs: make settings"
    );
}

#[test]
fn the_variables_of_the_server_are_those_of_the_table() {
    compare("plugin/settings_table.inc", &header());
}

#[test]
fn the_manual_has_the_table() {
    let name = "docs/guide/settings.md";
    let text = fs::read_to_string(path(name)).expect("the manual is there");
    let start = text
        .find("`make settings`. -->\n\n")
        .expect("the comment before the table");
    let start = start + text[start..].find("\n\n").unwrap_or_default() + 2;
    let end = text
        .find("\n<!-- end of the table -->")
        .expect("the comment after the table");
    let before = &text[..start];
    // An empty place for the table is where it begins.
    let end = end.max(start - 1);
    compare(name, &format!("{before}{}{}", manual_table(), &text[end..]));
}
