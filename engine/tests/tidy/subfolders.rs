//! The subfolders of each module, and files at its root, from top to bottom. A subfolder may use
//! only what stands below it in its line. A file that no line names is free.
use super::imports::Graph;

/// Module, and its subfolders and files.
const SUBFOLDERS: &[(&str, &[&str])] = &[
    (
        "engine",
        &["database", "runtime_settings", "transactions", "config", "setting"],
    ),
    (
        "table",
        &[
            "store",
            "bulk",
            "merge_scheduler",
            "optimizer",
            "dml",
            "health",
            "scan",
            "undo",
            "row",
            "catalog",
            "statistics",
        ],
    ),
    (
        "txn",
        &[
            "commit",
            "purge",
            "report",
            "sys",
            "recover",
            "visibility",
            "active",
            "undo",
            "view",
            "xid",
        ],
    ),
    ("index", &["scan", "table_index"]),
    (
        "change",
        &[
            "check", "estimate", "unique", "apply", "read", "merge", "trees", "delta", "policy", "filter", "op",
        ],
    ),
    (
        "btree",
        &[
            "free_tree",
            "overflow",
            "sorted",
            "write",
            "pages",
            "read",
            "tree",
            "nodes",
        ],
    ),
    (
        "space",
        &[
            "allocate",
            "file",
            "free",
            "truncate",
            "orphans",
            "page_search",
            "usage",
            "bitmap_page",
            "header",
            "bitmap",
        ],
    ),
    (
        "pool",
        &[
            "page_list",
            "direct",
            "mtr",
            "buffer_pool",
            "joined",
            "recovery",
            "read",
            "config",
            "write",
            "frames",
            "page",
        ],
    ),
    (
        "redo",
        &[
            "read_ahead",
            "group_commit",
            "log",
            "reader",
            "block_writer",
            "flush_queue",
            "log_state",
            "segment_ring",
            "control",
            "block_format",
        ],
    ),
    ("io", &["files", "real", "sim", "align", "disk"]),
];

pub fn breaches(graph: &Graph<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for (from, used) in graph.edges() {
        for to in used.iter().filter(|to| to.first() == from.first()) {
            let (Some(upper), Some(lower)) = (place(&from), place(to)) else {
                continue;
            };
            if lower < upper {
                out.push(format!("{} uses {}, which lies above it", from.join("/"), to.join("/")));
            }
        }
    }
    out
}

/// Subfolders that a line names and the crate does not have.
pub fn missing(graph: &Graph<'_>) -> Vec<String> {
    let named = SUBFOLDERS
        .iter()
        .flat_map(|(module, subfolders)| subfolders.iter().map(move |subfolder| (module, subfolder)));
    named
        .filter(|(module, subfolder)| {
            let path = [module.to_string(), subfolder.to_string()];
            !graph.edges().keys().any(|file| file.starts_with(&path))
        })
        .map(|(module, subfolder)| format!("{module}/{subfolder}"))
        .collect()
}

/// The place of a file's subfolder in its module's line. None: no line names it.
fn place(file: &[String]) -> Option<usize> {
    let (module, subfolder) = (file.first()?, file.get(1)?);
    let (_, subfolders) = SUBFOLDERS.iter().find(|(name, _)| name == module)?;
    subfolders.iter().position(|name| name == subfolder)
}
