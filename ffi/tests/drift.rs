//! The header and its Rust side name the same functions, each once, with as many parameters.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = rest[start..].find("*/").map_or("", |end| &rest[start + end + 2..]);
    }
    out + rest
}

/// Parameters between the parenthesis that opens at the start of `text` and its partner.
fn parameters(text: &str) -> usize {
    let mut depth = 0;
    let mut commas = 0;
    let mut inside = String::new();
    for c in text.chars() {
        match c {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            ',' if depth == 1 => commas += 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        inside.push(c);
    }
    let inside = inside.trim_start_matches('(').trim();
    if inside.is_empty() || inside == "void" {
        return 0;
    }
    let trailing = inside.ends_with(',') as usize;
    commas + 1 - trailing
}

/// Function names followed by `(`, with their number of parameters.
fn functions(text: &str, before: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices("slc_") {
        let name: String = text[at..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let behind = &text[at + name.len()..];
        let line_start = text[..at].rfind('\n').map_or(0, |n| n + 1);
        let is_definition = behind.starts_with('(') && text[line_start..at].contains(before);
        if is_definition {
            assert!(found.insert(name.clone(), parameters(behind)).is_none(), "{name} twice");
        }
    }
    found
}

#[test]
fn the_header_and_the_library_have_the_same_functions() {
    let header = fs::read_to_string(root().join("../plugin/sluice_abi.h")).unwrap();
    let header = without_comments(&header);
    // Declarations only: not the typedefs and members that mention a type.
    let declared: String = header
        .lines()
        .filter(|l| !l.contains("(*"))
        .map(|l| format!(" {l}\n"))
        .collect();
    let declared = functions(&declared, " ");
    let mut defined = BTreeMap::new();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        defined.extend(functions(&text, "extern \"C\" fn "));
    }
    assert!(declared.len() > 70, "the header was read");
    assert_eq!(declared, defined);
}
