//! The import graph of the engine's files, and the circles in it.
//!
//! An edge goes from a file to each file whose items it names, in `use` lines and in paths. A name
//! that a `mod.rs` re-exports leads to the file that defines it. Test code is left out.
use super::source::{code, Source};
use std::collections::{BTreeMap, BTreeSet};

/// A module: its file, what it defines, and what it re-exports.
struct Module<'a> {
    source: &'a Source,
    defines: BTreeSet<String>,
    /// Name, and the path that it stands for.
    exports: Vec<(String, Vec<String>)>,
    /// Paths of `pub use path::*`.
    globs: Vec<Vec<String>>,
}

pub struct Graph<'a> {
    modules: BTreeMap<Vec<String>, Module<'a>>,
}

/// Module path of a file under `src`.
fn module_path(name: &str) -> Vec<String> {
    let stem = name.trim_end_matches(".rs");
    let mut path: Vec<String> = stem.split('/').map(str::to_string).collect();
    if path.last().is_some_and(|last| last == "mod" || last == "lib") {
        path.pop();
    }
    path
}

/// One `use` statement, spread into full paths. The last segment may be `*`.
struct Use {
    public: bool,
    path: Vec<String>,
    name: String,
}

impl<'a> Graph<'a> {
    pub fn new(sources: &'a [Source]) -> Graph<'a> {
        let mut modules = BTreeMap::new();
        for source in sources {
            let path = module_path(&source.name);
            let mut module = Module {
                source,
                defines: definitions(source),
                exports: Vec::new(),
                globs: Vec::new(),
            };
            for import in uses(source, &path) {
                match (import.public, import.name.as_str()) {
                    (true, "*") => module.globs.push(import.path),
                    _ => module.exports.push((import.name, import.path)),
                }
            }
            modules.insert(path, module);
        }
        Graph { modules }
    }

    /// The file that defines what `path` names, as a module path.
    fn resolve(&self, path: &[String], depth: usize) -> Option<Vec<String>> {
        if depth > 8 || path.is_empty() {
            return None;
        }
        let at = (0..=path.len())
            .rev()
            .find(|n| self.modules.contains_key(&path[..*n]))?;
        let (module, rest) = (&self.modules[&path[..at]], &path[at..]);
        let Some(name) = rest.first() else {
            return Some(path[..at].to_vec());
        };
        if module.defines.contains(name) || name == "*" {
            return Some(path[..at].to_vec());
        }
        if let Some((_, target)) = module.exports.iter().find(|(export, _)| export == name) {
            let full: Vec<String> = target.iter().chain(&rest[1..]).cloned().collect();
            return self.resolve(&full, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let inner = self.modules.get(glob)?;
            let known = inner.defines.contains(name) || inner.exports.iter().any(|(export, _)| export == name);
            let full: Vec<String> = glob.iter().chain(rest).cloned().collect();
            known.then(|| self.resolve(&full, depth + 1)).flatten()
        })
    }

    /// File, and the files of the same crate that it uses: by module path.
    pub fn edges(&self) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
        let mut edges = BTreeMap::new();
        for (path, module) in &self.modules {
            let mut used: BTreeSet<Vec<String>> = BTreeSet::new();
            for import in uses(module.source, path).into_iter().filter(|import| !import.public) {
                used.extend(self.resolve(&import.path, 0));
            }
            for named in inline_paths(module.source, path) {
                used.extend(self.resolve(&named, 0));
            }
            used.remove(path);
            used.remove(&Vec::new());
            edges.insert(path.clone(), used);
        }
        edges
    }

    /// Groups of files that use each other in a circle.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let edges = self.edges();
        let reach: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> =
            edges.keys().map(|from| (from, reachable(&edges, from))).collect();
        let mut done = BTreeSet::new();
        let mut out = Vec::new();
        for from in edges.keys() {
            let group: Vec<&Vec<String>> = reach[from]
                .iter()
                .copied()
                .filter(|to| reach[*to].contains(from))
                .collect();
            if group.len() > 1 && group.iter().all(|member| done.insert(*member)) {
                out.push(group.iter().map(|member| member.join("/")).collect());
            }
        }
        out
    }
}

fn reachable<'a>(
    edges: &'a BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
    from: &'a Vec<String>,
) -> BTreeSet<&'a Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut stack: Vec<&Vec<String>> = edges[from].iter().collect();
    while let Some(next) = stack.pop() {
        if seen.insert(next) {
            stack.extend(edges.get(next).into_iter().flatten());
        }
    }
    seen
}

/// Names that a file defines at its top level.
fn definitions(source: &Source) -> BTreeSet<String> {
    const KINDS: &[&str] = &[
        "fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod",
    ];
    let mut out = BTreeSet::new();
    for line in &source.lines[..source.test_from] {
        if line.starts_with(char::is_whitespace) {
            continue;
        }
        let words: Vec<&str> = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|w| !w.is_empty())
            .collect();
        let kind = words.iter().position(|word| KINDS.contains(word));
        if let Some(at) = kind.filter(|at| !(words[*at] == "mod" && line.trim_end().ends_with(';'))) {
            // `const fn`: the name follows both.
            let name = words[at + 1..].iter().find(|word| !KINDS.contains(word));
            out.extend(name.map(|name| name.to_string()));
        }
    }
    out
}

/// All `use` statements at any depth of the non-test lines, with full paths.
fn uses(source: &Source, module: &[String]) -> Vec<Use> {
    let mut out = Vec::new();
    let mut lines = source.lines[..source.test_from].iter();
    while let Some(line) = lines.next() {
        let text = code(line).trim_start();
        let Some((public, rest)) = use_of(text) else { continue };
        let mut statement = rest.to_string();
        while !statement.contains(';') {
            statement.push_str(lines.next().map_or(";", |line| code(line).trim()));
        }
        let statement = statement.split(';').next().unwrap_or_default();
        spread(statement.trim(), &[], &mut |path| {
            if let Some((path, name)) = full(path, module) {
                out.push(Use { public, path, name });
            }
        });
    }
    out
}

fn use_of(text: &str) -> Option<(bool, &str)> {
    if let Some(rest) = text.strip_prefix("use ") {
        return Some((false, rest));
    }
    let rest = text.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    Some((true, rest.trim_start().strip_prefix("use ")?))
}

/// Calls `found` with each path of a use tree.
fn spread(tree: &str, before: &[String], found: &mut dyn FnMut(Vec<String>)) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let mut path = before.to_vec();
        path.extend(
            tree[..open]
                .split("::")
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(str::to_string),
        );
        let inner = &tree[open + 1..];
        let inner = &inner[..balanced(inner)];
        for part in split_top(inner) {
            spread(part, &path, found);
        }
    } else if !tree.is_empty() {
        let mut path = before.to_vec();
        path.extend(tree.split("::").map(|part| part.trim().to_string()));
        found(path);
    }
}

/// Length up to the brace that closes.
fn balanced(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

/// From the crate's root, and the name by which it is known here. None: another crate's.
fn full(path: Vec<String>, module: &[String]) -> Option<(Vec<String>, String)> {
    let mut path = path;
    let last = path.pop()?;
    let (last, name) = match last.split_once(" as ") {
        Some((last, name)) => (last.trim().to_string(), name.trim().to_string()),
        None => (last.clone(), last),
    };
    if last != "self" {
        path.push(last.clone());
    }
    let name = if last == "self" && name == "self" {
        path.last()?.clone()
    } else {
        name
    };
    absolute(&path, module).map(|path| (path, name))
}

fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let mut base = module.to_vec();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        // A child of this module, or another crate: the resolver finds out.
        _ => {}
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// Paths that begin with crate, self or super, outside of `use` lines.
fn inline_paths(source: &Source, module: &[String]) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for line in &source.lines[..source.test_from] {
        let text = code(line);
        if use_of(text.trim_start()).is_some() {
            continue;
        }
        for start in ["crate::", "super::", "self::"] {
            for (at, _) in text.match_indices(start) {
                let whole = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
                let in_scope = text[..at].ends_with("in ");
                let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let path: String = text[at..].chars().take_while(|c| is_path(*c)).collect();
                let path: Vec<String> = path.split("::").filter(|p| !p.is_empty()).map(str::to_string).collect();
                if whole && !in_scope {
                    out.extend(absolute(&path, module));
                }
            }
        }
    }
    out
}
