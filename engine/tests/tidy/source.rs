//! The files that the rules read, line by line.
use std::fs;
use std::path::{Path, PathBuf};

pub struct Source {
    /// Path under the folder that was read, with '/'.
    pub name: String,
    pub lines: Vec<String>,
    /// Lines from the first `#[cfg(test)]` module on are test code, and so are whole test files.
    pub test_from: usize,
}

pub fn src() -> PathBuf {
    root().join("engine/src")
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Folders of the repository that hold Rust.
const CRATES: &[&str] = &["engine", "ffi", "tools", "lab"];

/// The engine's own.
pub fn sources() -> Vec<Source> {
    read_all(&src(), vec![src()], &["rs"])
}

/// Every crate's, tests included.
pub fn all_sources() -> Vec<Source> {
    let folders = CRATES.iter().map(|name| root().join(name)).collect();
    read_all(&root(), folders, &["rs"])
}

/// The plugin's.
pub fn plugin_sources() -> Vec<Source> {
    read_all(&root(), vec![root().join("plugin")], &["cc", "h"])
}

/// The documents, at the root and under `docs`.
pub fn documents() -> Vec<Source> {
    let mut out = read_all(&root(), vec![root().join("docs")], &["md"]);
    out.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| read(&root(), &root().join(name))));
    out
}

fn read_all(root: &Path, mut folders: Vec<PathBuf>, kinds: &[&str]) -> Vec<Source> {
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| kinds.iter().any(|kind| e == *kind)) {
                out.push(read(root, &path));
            }
        }
    }
    assert!(out.len() > 20, "tidy reads the real source tree");
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn read(root: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let is_test_file = name.ends_with("tests.rs") || name.contains("/tests/") || name.contains("/testing/");
    let test_from = if is_test_file { 0 } else { inline_tests(&lines) };
    Source { name, lines, test_from }
}

/// First line of an inline `#[cfg(test)] mod x { ... }` (a `mod x;` after the attribute is only a
/// declaration).
fn inline_tests(lines: &[String]) -> usize {
    lines
        .windows(2)
        .position(|w| w[0].trim() == "#[cfg(test)]" && w[1].contains("mod ") && w[1].trim_end().ends_with('{'))
        .unwrap_or(lines.len())
}

/// The line without its comment.
pub fn code(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with("//") {
        return "";
    }
    line.split(" // ").next().unwrap_or(line)
}

/// The line's comment, without its slashes.
pub fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = match text.starts_with("//") {
        true => text,
        false => &text[text.find(" // ")? + 1..],
    };
    Some(text.trim_start_matches(['/', '!']))
}

pub fn report(title: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{title} ({}):\n  {}", found.len(), found.join("\n  "));
}
