//! How many methods a type has, and in how many files they stand.
use super::source::{code, Source};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Type {
    pub methods: usize,
    pub files: BTreeSet<String>,
}

/// By top-level module and name.
pub fn types(sources: &[Source]) -> BTreeMap<(String, String), Type> {
    let mut out: BTreeMap<(String, String), Type> = BTreeMap::new();
    for source in sources {
        let module = source.name.split('/').next().unwrap_or_default().to_string();
        let mut inside: Option<String> = None;
        for line in &source.lines[..source.test_from] {
            if let Some(name) = inherent_impl(line) {
                inside = (!line.trim_end().ends_with("{}")).then_some(name);
            } else if line.starts_with('}') {
                inside = None;
            } else if let Some(name) = inside.as_ref().filter(|_| is_method(line)) {
                let of = out.entry((module.clone(), name.clone())).or_default();
                of.methods += 1;
                of.files.insert(source.name.clone());
            }
        }
    }
    out
}

/// The type of `impl X {`; None: another line, or a trait's implementation.
fn inherent_impl(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    if !rest.starts_with([' ', '<']) || line.contains(" for ") {
        return None;
    }
    let rest = match rest.strip_prefix('<') {
        None => rest,
        Some(inner) => {
            let mut depth = 1;
            let end = inner.find(|c| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                depth == 0
            })?;
            &inner[end + 1..]
        }
    };
    let name: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

fn is_method(line: &str) -> bool {
    let Some(text) = line.strip_prefix("    ") else {
        return false;
    };
    !text.starts_with(' ') && code(text).split_whitespace().take(5).any(|word| word == "fn")
}
