//! The language of comments: its width, its sentences, and words that it does without.
use super::source::{code, comment, documents, plugin_sources, root, Source};
use std::fs;

pub const WIDTH_MAX: usize = 100;
pub const SENTENCE_WORDS_MAX: usize = 25;

/// Word, and what to write instead. A word is looked for in comments, in small letters: whole, and
/// with a plural's ending.
pub const BANNED: &[(&str, &str)] = &[
    (
        "nobody",
        "name the thing that does not do it: no thread, no transaction, no caller",
    ),
    ("behind", "after, past, below, at the end of"),
    ("who", "name the thread, the caller, the transaction, the user"),
    ("whoever", "name the thread, the caller, the user"),
    ("told", "logged, reported, signalled, log_dedup"),
    ("for to", "to"),
    ("be it", "whether"),
    ("aside", "quarantined"),
    ("imprint", "absence filter"),
    ("rewound", "version cache"),
    ("unmerged", "unmergeable"),
    ("parked", "in doubt"),
    ("undecided", "in doubt"),
    ("verdict", "in doubt, decision"),
    ("settled", "durable"),
    ("rising", "append hint, ascending"),
    ("strip", "remove_loaded, remove"),
    ("stripped", "removed"),
    ("rig", "fixture"),
    ("kit", "fixture"),
    ("lone", "autocommit"),
    ("eaten", "consumed, purged"),
    ("eat", "consume, purge"),
    ("pile", "list, stack"),
];

pub fn too_wide(source: &Source) -> Vec<String> {
    let wide = |line: &&(usize, &String)| {
        let text = line.1.trim_start();
        let is_comment = text.starts_with("//") || text.starts_with("/*") || text.starts_with("* ");
        is_comment && line.1.chars().count() > WIDTH_MAX
    };
    let numbered: Vec<(usize, &String)> = source.lines.iter().enumerate().collect();
    numbered
        .iter()
        .filter(wide)
        .map(|(n, _)| format!("{}:{}", source.name, n + 1))
        .collect()
}

/// Comment text by paragraph: the first line's number, and the words.
fn paragraphs(source: &Source) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for (n, line) in source.lines.iter().enumerate() {
        let whole = line.trim_start().starts_with("//");
        let text = comment(line).filter(|_| !line.contains("\"//"));
        let Some(text) = text else {
            open = false;
            continue;
        };
        let text = text.trim();
        if text.starts_with("```") {
            fenced = !fenced;
            open = false;
            continue;
        }
        let starts = text.starts_with(['-', '*', '|', '#', '>']) || text.starts_with(|c: char| c.is_ascii_digit());
        if fenced || text.is_empty() || text.starts_with('|') {
            open = false;
            continue;
        }
        match out.last_mut().filter(|_| open && whole && !starts) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(text);
            }
            None => out.push((n + 1, text.to_string())),
        }
        open = whole;
    }
    out
}

/// The comments of a file by line: what follows `//`, and block comments.
pub fn comments(source: &Source) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let mut in_block = false;
    for (n, line) in source.lines.iter().enumerate() {
        let begin = if in_block { Some(0) } else { line.find("/*") };
        let Some(begin) = begin.filter(|_| !source.name.ends_with(".rs")) else {
            out.extend(comment(line).map(|text| (n, text)));
            continue;
        };
        let text = &line[begin..];
        let end = text.find("*/");
        in_block = end.is_none();
        out.push((n, &text[..end.unwrap_or(text.len())]));
    }
    out
}

pub fn banned(source: &Source) -> Vec<String> {
    let mut out = Vec::new();
    for (n, text) in comments(source) {
        let text = quoted_out(text).to_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for (word, instead) in BANNED {
            let parts: Vec<&str> = word.split(' ').collect();
            let stands = words.windows(parts.len()).any(|window| match window {
                [one] => is_word_or_plural(one, word),
                several => several == parts,
            });
            if stands {
                out.push(format!("{}:{}: \"{word}\": write {instead}", source.name, n + 1));
            }
        }
    }
    out
}

fn is_word_or_plural(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|ending| ["", "s", "es"].contains(&ending))
}

/// Banned words in the names that users see: status variables, settings, tables of
/// INFORMATION_SCHEMA and their columns.
pub fn banned_names() -> Vec<String> {
    let mut names = Vec::new();
    for source in documents().iter().filter(|source| source.name == "docs/status.md") {
        let rows = source.lines.iter().filter_map(|line| line.strip_prefix("| "));
        names.extend(rows.filter_map(|row| row.split(' ').next()).map(str::to_string));
    }
    for line in fs::read_to_string(root().join("plugin/settings_table.inc"))
        .unwrap()
        .lines()
    {
        let row = line.strip_prefix("SLUICE_").and_then(|row| row.split_once('('));
        names.extend(row.and_then(|(_, row)| row.split(',').next()).map(str::to_string));
    }
    let is_view = |name: &str| name.ends_with("_table.cc") || name.ends_with("_tables.cc");
    for source in plugin_sources().iter().filter(|source| is_view(&source.name)) {
        let is_name = |text: &&str| text.len() > 2 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let texts = source.lines.iter().flat_map(|line| line.split('"').skip(1).step_by(2));
        names.extend(texts.filter(is_name).map(str::to_lowercase));
    }
    assert!(names.len() > 200, "the names are found");
    let mut out = Vec::new();
    for (word, instead) in BANNED {
        let has_word = |name: &&String| name.split('_').any(|part| is_word_or_plural(part, word));
        let found = names.iter().filter(has_word);
        out.extend(found.map(|name| format!("{name}: \"{word}\": write {instead}")));
    }
    out
}

/// Banned words in the names of a crate's public items.
pub fn banned_items(source: &Source) -> Vec<String> {
    const KINDS: &[&str] = &["fn", "struct", "enum", "const", "static", "type", "trait", "mod"];
    let mut out = Vec::new();
    for (n, line) in source.lines.iter().enumerate() {
        let mut words = code(line).trim_start().split([' ', '(', '<', ':', ';', '{', ')']);
        if words.next() != Some("pub") {
            continue;
        }
        let Some(name) = words.skip_while(|word| !KINDS.contains(word)).nth(1) else {
            continue;
        };
        for (word, instead) in BANNED {
            if parts(name).iter().any(|part| is_word_or_plural(part, word)) {
                out.push(format!("{}:{}: {name}: write {instead}", source.name, n + 1));
            }
        }
    }
    out
}

/// The words of a name, in small letters.
fn parts(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut after_small = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_small {
            spaced.push('_');
        }
        after_small = c.is_ascii_lowercase();
        spaced.extend(c.to_lowercase());
    }
    spaced.split('_').map(str::to_string).collect()
}

/// Without what stands between back quotes: that is code.
fn quoted_out(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

pub fn long_sentences(source: &Source) -> Vec<String> {
    let mut out = Vec::new();
    for (line, paragraph) in paragraphs(source) {
        let text = paragraph.replace("e.g.", "eg").replace("i.e.", "ie");
        for sentence in text.split(['.', '?', '!']) {
            let words = sentence
                .split_whitespace()
                .filter(|word| word.contains(char::is_alphanumeric))
                .count();
            if words > SENTENCE_WORDS_MAX {
                out.push(format!("{}:{line}: a sentence of {words} words", source.name));
            }
        }
    }
    out
}
