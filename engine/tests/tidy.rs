//! The shape of the code, as a test: which module may use which, which calls have one home, where `unsafe` may stand (in the
//! engine); how long files and functions may be (in every crate of the repository, tests and all). The tables below ARE the rules;
//! change them in the same commit as the reason for it.
use std::fs;
use std::path::{Path, PathBuf};

/// Module, and the modules it may use. The order is the order of `lib.rs`; nothing uses upward.
const MAY_USE: &[(&str, &[&str])] = &[
    (
        "engine",
        &[
            "table", "txn", "index", "change", "btree", "space", "pool", "redo", "io", "base",
        ],
    ),
    (
        "table",
        &["txn", "index", "change", "btree", "space", "pool", "redo", "io", "base"],
    ),
    ("txn", &["space", "pool", "redo", "base"]),
    ("index", &["change", "entry", "btree", "pool", "base"]),
    ("change", &["entry", "btree", "space", "pool", "base"]),
    ("entry", &["base"]),
    ("btree", &["space", "pool", "base"]),
    ("space", &["pool", "io", "base"]),
    ("pool", &["redo", "io", "base"]),
    ("redo", &["io", "base"]),
    ("io", &["base"]),
    ("base", &[]),
];

/// Calls with one home: (text, files or folders where it may stand, what to use instead).
const HOMES: &[(&str, &[&str], &str)] = &[
    ("std::fs", &["io/"], "the Disk trait: every disk access goes through io"),
    (
        "std::thread::",
        &[
            "base/schedule_jitter.rs",
            "base/sync.rs",
            "engine/workers.rs",
            "pool/read/prefetch.rs",
            "pool/recovery/apply.rs",
            "redo/read_ahead.rs",
            "redo/group_commit.rs",
            "io/",
        ],
        "a step() driven by engine/workers.rs",
    ),
    ("Instant::now", &["io/", "txn/lock/wait.rs"], "Disk::now_us"),
    ("SystemTime", &["io/"], "Disk::wall_s"),
    ("println!", &[], "the log callback or a counter"),
    ("eprintln!", &["io/"], "the log callback or a counter"),
    (
        ".unwrap()",
        &["base/bytes.rs"],
        "an error, or expect() with the reason it cannot fail",
    ),
    ("dbg!", &[], "nothing"),
    ("todo!", &[], "the code"),
    ("unimplemented!", &[], "the code"),
];

/// Files that may hold `unsafe`, each with its safety argument beside it.
const UNSAFE_HOMES: &[&str] = &[
    "pool/frames/frame.rs",
    "pool/frames/memory.rs",
    "io/real/disk.rs",
    "io/real/file.rs",
    "io/align.rs",
    "io/real/batch.rs",
    "io/futex.rs",
];

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

struct Source {
    /// Path under the folder that was read, with '/'.
    name: String,
    lines: Vec<String>,
    /// Lines from the first `#[cfg(test)]` module on, and whole `_tests.rs` files, are test code.
    test_from: usize,
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Folders of the repository that hold Rust.
const CRATES: &[&str] = &["engine", "ffi", "tools", "lab"];

/// The engine's own.
fn sources() -> Vec<Source> {
    read_all(&src(), vec![src()])
}

/// Every crate's, tests included.
fn all_sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = CRATES.iter().map(|name| root.join(name)).collect();
    read_all(&root, folders)
}

fn read_all(root: &Path, mut folders: Vec<PathBuf>) -> Vec<Source> {
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(read(root, &path));
            }
        }
    }
    assert!(out.len() > 30, "tidy reads the real source tree");
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn read(root: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let is_test_file = name.ends_with("tests.rs") || name.contains("/tests/");
    let test_from = if is_test_file { 0 } else { inline_tests(&lines) };
    Source { name, lines, test_from }
}

/// First line of an inline `#[cfg(test)] mod x { ... }` (a `mod x;` after the attribute is only a declaration).
fn inline_tests(lines: &[String]) -> usize {
    lines
        .windows(2)
        .position(|w| w[0].trim() == "#[cfg(test)]" && w[1].contains("mod ") && w[1].trim_end().ends_with('{'))
        .unwrap_or(lines.len())
}

fn code(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with("//") {
        return "";
    }
    line.split(" // ").next().unwrap_or(line)
}

/// `call` stands in `line`, and not as the end of a longer name.
fn has_word(line: &str, call: &str) -> bool {
    line.match_indices(call)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        || (call.starts_with('.') && line.contains(call))
}

fn report(title: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{title}:\n  {}", found.join("\n  "));
}

#[test]
fn modules_use_only_what_lies_below() {
    let lib = fs::read_to_string(src().join("lib.rs")).unwrap();
    let order: Vec<&str> = lib
        .lines()
        .filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let table: Vec<&str> = MAY_USE.iter().map(|(m, _)| *m).collect();
    assert_eq!(order, table, "lib.rs is the map: its order and this table's are one");
    for (i, (module, uses)) in MAY_USE.iter().enumerate() {
        for used in *uses {
            assert!(
                table[i + 1..].contains(used),
                "{module} may not be allowed to use {used}: it does not lie below"
            );
        }
    }
    let mut found = Vec::new();
    for source in sources() {
        let Some((module, _)) = source.name.split_once('/') else {
            continue;
        };
        let Some((_, uses)) = MAY_USE.iter().find(|(m, _)| *m == module) else {
            found.push(format!("{}: module {module} is not in the table", source.name));
            continue;
        };
        for (n, line) in source.lines[..source.test_from].iter().enumerate() {
            for used in used_modules(code(line)) {
                if used != module && !uses.contains(&used.as_str()) {
                    found.push(format!("{}:{}: {module} must not use {used}", source.name, n + 1));
                }
            }
        }
    }
    report("layering", found);
}

/// Top-level modules named by `crate::x` and `crate::{x, y::..}` in one line.
fn used_modules(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        let rest = &line[at + 7..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            let mut top = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => top = true,
                    c if top && depth == 0 && (c.is_alphanumeric() || c == '_') => {
                        word.push(c);
                        continue;
                    }
                    _ => {}
                }
                if !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                    top = c == ',';
                }
            }
            if !word.is_empty() {
                out.push(word);
            }
        } else {
            out.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    out.retain(|w| MAY_USE.iter().any(|(m, _)| m == w));
    out
}

#[test]
fn calls_stay_in_their_homes() {
    let mut found = Vec::new();
    for source in sources() {
        for (n, line) in source.lines[..source.test_from].iter().enumerate() {
            for (call, homes, instead) in HOMES {
                if has_word(code(line), call) && !homes.iter().any(|h| source.name.starts_with(h)) {
                    found.push(format!("{}:{}: {call}: use {instead}", source.name, n + 1));
                }
            }
        }
    }
    report("calls outside their home", found);
}

#[test]
fn unsafe_stays_in_few_files() {
    let mut found = Vec::new();
    for source in sources() {
        if UNSAFE_HOMES.contains(&source.name.as_str()) {
            continue;
        }
        for (n, line) in source.lines.iter().enumerate() {
            let words: Vec<&str> = code(line).split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            if words.contains(&"unsafe") {
                found.push(format!("{}:{}", source.name, n + 1));
            }
        }
    }
    report("unsafe outside its homes", found);
}

#[test]
fn files_have_a_head_and_one_noun() {
    let mut found = Vec::new();
    for source in all_sources() {
        if !source.lines.first().is_some_and(|l| l.starts_with("//!")) {
            found.push(format!(
                "{}: the first line must say what the file is for (//!)",
                source.name
            ));
        }
        if source.lines.len() > FILE_LINES_MAX {
            found.push(format!(
                "{}: {} lines, {FILE_LINES_MAX} allowed: a noun is missing",
                source.name,
                source.lines.len()
            ));
        }
    }
    report("file shape", found);
}

#[test]
fn functions_are_short() {
    let mut found = Vec::new();
    for source in all_sources() {
        let lines = &source.lines;
        for (n, line) in lines.iter().enumerate() {
            let text = line.trim_start();
            let is_fn = text.starts_with("fn ") || (text.starts_with("pub") && text.contains(" fn "));
            if !is_fn {
                continue;
            }
            let close = format!("{}}}", &line[..line.len() - text.len()]);
            let length = lines[n..]
                .iter()
                .position(|l| *l == close || l.trim_end().ends_with(';') && l == line)
                .unwrap_or(0);
            if length > FUNCTION_LINES_MAX {
                found.push(format!(
                    "{}:{}: {length} lines, {FUNCTION_LINES_MAX} allowed",
                    source.name,
                    n + 1
                ));
            }
        }
    }
    report("long functions", found);
}
