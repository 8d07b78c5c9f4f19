//! The shape of the code and the language of its comments, as tests.
//!
//! The tables here and in `subfolders.rs` and `words.rs` are the rules. Change them in the same
//! commit as the reason for the change. Rules of modules, subfolders, circles, types and calls hold
//! for the engine. All others hold for every crate of the repository, and the words for the plugin,
//! too.
mod anchors;
mod asserts;
mod imports;
mod source;
mod subfolders;
mod types;
mod words;

use source::{all_sources, code, documents, plugin_sources, report, root, sources, src, Source};
use std::fs;

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
const PAGE_WORDS_MAX: usize = 1500;
const README_BYTES_MAX: u64 = 6 * 1024;
const TYPE_METHODS_MAX: usize = 60;
const TYPE_FILES_MAX: usize = 6;

/// `call` stands in `line`, and not as the end of a longer name.
fn has_word(line: &str, call: &str) -> bool {
    line.match_indices(call)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        || (call.starts_with('.') && line.contains(call))
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

#[test]
fn no_circle_of_imports() {
    let sources = sources();
    let circles = imports::Graph::new(&sources).circles();
    report(
        "files that import each other",
        circles.iter().map(|files| files.join(" ")).collect(),
    );
}

#[test]
fn rooms_use_only_what_lies_below() {
    let sources = sources();
    let graph = imports::Graph::new(&sources);
    report("subfolders that are named and missing", subfolders::missing(&graph));
    report("layers of subfolders", subfolders::breaches(&graph));
}

#[test]
fn documents_name_files_that_exist() {
    let mut found = Vec::new();
    for source in documents() {
        let is_history = source.name.starts_with("docs/decisions/") || source.name == "CHANGELOG.md";
        for (n, line) in source.lines.iter().enumerate().filter(|_| !is_history) {
            for path in line.split(|c: char| !(c.is_alphanumeric() || "_/.-".contains(c))) {
                let is_path =
                    path.contains('/') && [".rs", ".cc", ".h", ".py", ".md"].iter().any(|end| path.ends_with(end));
                let places = ["", "engine/src", "engine", "docs", "docs/guide", "docs/benchmarks"];
                let folder = root().join(&source.name).parent().unwrap().to_path_buf();
                let exists =
                    folder.join(path).exists() || places.iter().any(|place| root().join(place).join(path).exists());
                if is_path && !exists {
                    found.push(format!("{}:{}: {path}", source.name, n + 1));
                }
            }
        }
    }
    report("files that documents name and that do not exist", found);
}

/// The first table of README.md has figures of the insert benchmark. Each must stand in the page
/// that `make bench-pages` writes, in a row of an arm of that name.
#[test]
fn figures_of_the_readme_are_measured() {
    let text = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (readme, page) = (text("README.md"), text("docs/benchmarks/insert-benchmark.md"));
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_string()).collect() };
    let measured: Vec<Vec<String>> = page.lines().map(cells).collect();
    let (mut found, mut figures) = (Vec::new(), 0);
    for row in readme.lines().filter(|line| line.starts_with("| ")).map(cells) {
        let arm = &row[1];
        let is_figure = |cell: &&String| cell.starts_with(|c: char| c.is_ascii_digit());
        for figure in row[2..].iter().filter(is_figure) {
            figures += 1;
            let has = |of: &Vec<String>| of.get(1).is_some_and(|name| name.starts_with(arm)) && of.contains(figure);
            if !measured.iter().any(has) {
                found.push(format!("README.md: {arm}: {figure}"));
            }
        }
    }
    assert!(figures > 8, "the table is found");
    report("figures of README.md that docs/benchmarks does not have", found);
}

#[test]
fn links_lead_to_headings() {
    report(
        "links of documents to headings that do not exist",
        anchors::dead(&documents()),
    );
}

#[test]
fn names_that_users_see_use_the_words_of_the_field() {
    report("names that only their writer understands", words::banned_names());
}

#[test]
fn public_items_use_the_words_of_the_field() {
    let found = all_sources().iter().flat_map(words::banned_items).collect();
    report("items whose names only their writer understands", found);
}

#[test]
fn pages_of_documents_are_short() {
    let mut found = Vec::new();
    for source in documents().iter().filter(|source| source.name.starts_with("docs/")) {
        let words = source.lines.iter().flat_map(|line| line.split_whitespace());
        let words = words.filter(|word| word.contains(char::is_alphanumeric)).count();
        if words > PAGE_WORDS_MAX {
            found.push(format!("{}: {words} words, {PAGE_WORDS_MAX} allowed", source.name));
        }
    }
    report("long pages", found);
    let readme = fs::metadata(root().join("README.md")).unwrap().len();
    assert!(
        readme <= README_BYTES_MAX,
        "README.md has {readme} bytes, {README_BYTES_MAX} are allowed"
    );
}

#[test]
fn types_are_small() {
    let found = types::types(&sources())
        .into_iter()
        .filter(|(_, of)| of.methods > TYPE_METHODS_MAX || of.files.len() > TYPE_FILES_MAX)
        .map(|((module, name), of)| format!("{module}: {name}: {} methods in {} files", of.methods, of.files.len()))
        .collect();
    report("types that do too much", found);
}

fn everywhere(check: fn(&Source) -> Vec<String>) -> Vec<String> {
    all_sources().iter().chain(&plugin_sources()).flat_map(check).collect()
}

#[test]
fn comments_are_narrow() {
    report("comment lines of more than 100 columns", everywhere(words::too_wide));
}

#[test]
fn comments_use_the_words_of_the_field() {
    report("words that only their writer understands", everywhere(words::banned));
}

#[test]
fn comments_name_files_that_exist() {
    let sources: Vec<Source> = all_sources().into_iter().chain(plugin_sources()).collect();
    let exists = |path: &str| {
        sources.iter().any(|source| match source.name.strip_suffix(path) {
            Some(rest) => rest.is_empty() || rest.ends_with('/'),
            None => false,
        })
    };
    let mut found = Vec::new();
    for source in &sources {
        for (n, text) in words::comments(source) {
            for path in text.split(|c: char| !(c.is_alphanumeric() || "_/.-".contains(c))) {
                let path = path.trim_start_matches(['.', '/']);
                // A C++ file in a folder may be the server's.
                let is_ours = path.ends_with(".rs") || (path.ends_with(".cc") && !path.contains('/'));
                if is_ours && !exists(path) {
                    found.push(format!("{}:{}: {path}", source.name, n + 1));
                }
            }
        }
    }
    report("comments that name missing files", found);
}

#[test]
fn sentences_are_short() {
    report("long sentences in comments", everywhere(words::long_sentences));
}

#[test]
fn mutexes_are_ranked() {
    let may_be_plain =
        |source: &Source| source.name == "engine/src/base/sync.rs" || source.name.starts_with("tools/races/");
    let mut found = Vec::new();
    for source in all_sources().iter().filter(|source| !may_be_plain(source)) {
        for (n, line) in source.lines[..source.test_from].iter().enumerate() {
            let text = code(line);
            if text.contains("parking_lot") && text.contains("Mutex") || text.contains("sync::Mutex") {
                found.push(format!("{}:{}: use base::sync::RankedMutex", source.name, n + 1));
            }
        }
    }
    report("mutexes without a rank", found);
}

#[test]
fn modules_have_asserts() {
    report("modules with few asserts", asserts::too_few(&sources()));
}

#[test]
fn unsafe_is_argued() {
    let mut found = Vec::new();
    for source in all_sources()
        .iter()
        .filter(|source| !source.name.starts_with("engine/tests/tidy/"))
    {
        let stated = source.lines.iter().take_while(|line| line.starts_with("//!"));
        if stated.clone().any(|line| line.contains("# Safety")) {
            continue;
        }
        for (n, line) in source.lines.iter().enumerate() {
            let words: Vec<&str> = code(line).split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let near = &source.lines[n.saturating_sub(6)..=n];
            if words.contains(&"unsafe") && !near.iter().any(|l| l.contains("SAFETY") || l.contains("# Safety")) {
                found.push(format!("{}:{}", source.name, n + 1));
            }
        }
    }
    report("unsafe without a SAFETY text", found);
}
