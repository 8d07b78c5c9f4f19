//! Links of the documents to headings of documents (`page.md#heading`).
use super::source::{root, Source};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Links whose page is a document, and has no heading of that name.
pub fn dead(documents: &[Source]) -> Vec<String> {
    let anchors: HashMap<PathBuf, Vec<String>> = documents
        .iter()
        .map(|source| (normal(Path::new(&source.name)), anchors(source)))
        .collect();
    let mut out = Vec::new();
    for source in documents {
        let folder = Path::new(&source.name).parent().expect("a name in a folder");
        for (n, line) in source.lines.iter().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let Some((page, anchor)) = link.split_once('#').filter(|_| !link.contains("://")) else {
                    continue;
                };
                let page = match page {
                    "" => normal(Path::new(&source.name)),
                    page => normal(&folder.join(page)),
                };
                let is_dead = match anchors.get(&page) {
                    Some(anchors) => !anchors.iter().any(|known| known == anchor),
                    None => !root().join(&page).exists(),
                };
                if is_dead {
                    out.push(format!("{}:{}: {link}", source.name, n + 1));
                }
            }
        }
    }
    out
}

/// The names by which links refer to a page's headings.
fn anchors(source: &Source) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in &source.lines {
        is_code ^= line.starts_with("```");
        let text = line.trim_start_matches('#');
        if is_code || text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let name: String = shown(text.trim()).to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let before = out.iter().filter(|other| **other == name).count();
        out.push(match before {
            0 => name,
            n => format!("{name}-{n}"),
        });
    }
    out
}

/// The text of a heading without the targets of its links.
fn shown(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or("").to_string();
    parts.fold(first, |text, part| {
        text + part.split_once(')').map_or("", |(_, rest)| rest)
    })
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}
