//! The file of a page list. It is text, so that users can read it:
//!
//! ```text
//! sluice page list 1 DATABASE PAGES CRC      version; number of the database; pages; checksum
//! FILE FIRST COUNT                           a line for each run of neighbours
//! ```
//!
//! DATABASE (16 digits), CRC (8) and FILE (8) are hexadecimal, the others decimal. CRC is the
//! CRC-32C of all bytes after the first line. Runs are in ascending order, and do not overlap.
//!
//! Called by: `dump`, `load`.
use crate::base::{FileId, PageId, PageNo};
use std::fmt::Write;

const MAGIC: &str = "sluice page list ";
const VERSION: &str = "1";
/// A run that reaches beyond this page is damage.
const PAGE_NO_MAX: u64 = u32::MAX as u64;

/// Neighbouring pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub file: FileId,
    pub first: PageNo,
    pub count: u32,
}

/// The runs of these pages, which are sorted.
pub fn runs_of(pages: &[PageId]) -> Vec<Run> {
    debug_assert!(
        pages.is_sorted_by(|a, b| a < b),
        "pages are listed in the order of their places, each once"
    );
    let mut runs: Vec<Run> = Vec::new();
    for id in pages {
        match runs.last_mut() {
            Some(run) if run.file == id.file && run.first + run.count == id.no => run.count += 1,
            _ => runs.push(Run {
                file: id.file,
                first: id.no,
                count: 1,
            }),
        }
    }
    runs
}

pub fn encode(database: u64, runs: &[Run]) -> String {
    debug_assert!(
        runs.is_sorted_by(|a, b| (a.file, a.first + a.count) <= (b.file, b.first)),
        "runs ascend, and do not overlap"
    );
    let mut body = String::new();
    let mut pages = 0;
    for run in runs {
        pages += run.count as u64;
        let _ = writeln!(body, "{:08x} {} {}", run.file, run.first, run.count);
    }
    let crc = crc32c::crc32c(body.as_bytes());
    format!("{MAGIC}{VERSION} {database:016x} {pages} {crc:08x}\n{body}")
}

/// `Err`: why the list is not used.
pub fn decode(database: u64, text: &[u8]) -> Result<Vec<Run>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not a page list of Sluice")?;
    let (head, body) = text.split_once('\n').ok_or("it is not a page list of Sluice")?;
    let head = head.strip_prefix(MAGIC).ok_or("it is not a page list of Sluice")?;
    let words: Vec<&str> = head.split(' ').collect();
    if words[0] != VERSION {
        return Err(format!(
            "it has version {}, this build reads version {VERSION}",
            words[0]
        ));
    }
    let [_, of, pages, crc] = words[..] else {
        return Err("it is damaged: its first line is wrong".into());
    };
    if crc != format!("{:08x}", crc32c::crc32c(body.as_bytes())) {
        return Err("it is damaged: its checksum is wrong".into());
    }
    if of != format!("{database:016x}") {
        return Err("it is of another database".into());
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut found = 0u64;
    for line in body.lines() {
        let run = run_of(line).ok_or_else(|| format!("it is damaged: {line:?} is not a run of pages"))?;
        let ascends = runs.last().is_none_or(|last| {
            last.file < run.file
                || (last.file == run.file && (last.first as u64 + last.count as u64) <= run.first as u64)
        });
        if !ascends {
            return Err(format!("it is damaged: {line:?} is out of order"));
        }
        found += run.count as u64;
        runs.push(run);
    }
    if pages != found.to_string() {
        return Err("it is damaged: its number of pages is wrong".into());
    }
    Ok(runs)
}

fn run_of(line: &str) -> Option<Run> {
    let mut words = line.split(' ');
    let file = words.next().filter(|word| word.len() == 8)?;
    let run = Run {
        file: FileId::from_str_radix(file, 16).ok()?,
        first: words.next()?.parse().ok()?,
        count: words.next()?.parse().ok()?,
    };
    let is_sound = run.count > 0 && run.first as u64 + run.count as u64 <= PAGE_NO_MAX;
    (is_sound && words.next().is_none()).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_reads_back_and_a_changed_byte_shows(
            pages in prop::collection::btree_set((1..4u32, 0..300u32), 0..200),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let pages: Vec<PageId> = pages.into_iter().map(|(file, no)| PageId::new(file, no)).collect();
            let text = encode(7, &runs_of(&pages)).into_bytes();
            let runs = decode(7, &text).expect("it is whole");
            let again: Vec<PageId> = runs
                .iter()
                .flat_map(|run| (run.first..run.first + run.count).map(|no| PageId::new(run.file, no)))
                .collect();
            prop_assert_eq!(&again, &pages);
            prop_assert_eq!(decode(8, &text), Err("it is of another database".to_string()));
            let mut damaged = text.clone();
            let at = at.index(damaged.len());
            damaged[at] = byte;
            // (A list with fewer pages than it says, or others, is never taken.)
            prop_assert!(damaged == text || decode(7, &damaged).is_err());
            let mut cut = text;
            cut.truncate(at);
            prop_assert!(decode(7, &cut).is_err());
        }
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        for (text, why) in [
            ("", "not a page list"),
            ("5,7\n5,8\n", "not a page list"),
            ("sluice page list 2 0000000000000007 0 00000000\n", "version 2"),
            ("sluice page list 1 7\n", "first line"),
        ] {
            let refusal = decode(7, text.as_bytes()).expect_err(text);
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
