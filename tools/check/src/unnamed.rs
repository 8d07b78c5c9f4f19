//! Data files that the catalog does not name. The next start removes those that provably hold no
//! rows, and is refused for any other. The proofs are drawn in
//! `engine/src/engine/start/orphan_files.rs`. Files that the log drops are gone before (`store`).
use crate::bytes::{u32_at, u64_at};
use crate::catalog::SYSTEM_FILE;
use crate::space;
use crate::store::Store;

/// Of which database the file is, in its header; 0: it is older than these numbers.
const DATABASE_AT: usize = 476;
/// In the system file's header: dropped files that could not be removed.
const LEFT_OVER: std::ops::Range<usize> = 512..512 + 1984 * 4;

pub fn is_left_over(store: &Store, file: u32) -> bool {
    let header = store.read(SYSTEM_FILE, 0).unwrap_or_default();
    let places = header.get(LEFT_OVER).unwrap_or_default();
    places.chunks_exact(4).any(|place| u32_at(place, 0) == file)
}

/// Ok: why the start goes on, Err: why it is refused.
pub fn judge(store: &Store, file: u32) -> Result<&'static str, String> {
    if is_left_over(store, file) {
        return Ok(
            "of a dropped table, it could not be removed then; each start tries again, and it may be removed by hand",
        );
    }
    if store.is_blank(file)? {
        return Ok("no table has it, and it has only zeros; the next start removes it");
    }
    if store.was_made(file) {
        return match header_fault(store, file) {
            None => Ok("of a CREATE or TRUNCATE that did not finish; the next start removes it"),
            Some(what) => Err(format!(
                "no table has it, the log created a file of that number, but this is another one ({what}): the engine refuses the start"
            )),
        };
    }
    Err(
        "no table has it, and nothing says that it was dropped: the engine refuses the start. The catalog or the whole directory is older \
         than it is; if its rows are not wanted, move it away"
            .into(),
    )
}

fn header_fault(store: &Store, file: u32) -> Option<String> {
    let header = match space::header(store, file) {
        Ok(header) => header,
        Err(what) => return Some(what),
    };
    let ours = store.read(SYSTEM_FILE, 0).map_or(0, |ours| u64_at(&ours, DATABASE_AT));
    let theirs = u64_at(&header, DATABASE_AT);
    (theirs != 0 && ours != 0 && theirs != ours).then(|| "it is of another database".into())
}
