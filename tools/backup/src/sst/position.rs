//! The node's position in the cluster, in restored files.
//!
//! Sluice stores what the plugin gives it: a byte of state, then the server's XID
//! (`plugin/cluster.cc`, `plugin/commit_turn.h` and `sql/wsrep_xid.cc`):
//!
//! ```text
//! 0  state   0 running, 1 clean, 2 unknown, 3 commits are durable after their turn (G9)
//! 1  text    8 bytes "WSREPXi" and a version, 'd' to 'f'
//! 9  UUID    16 bytes
//! 25 number  i64, little-endian
//! 33 ...     of the server
//! ```
//! While files are moved into a data directory the state is *unknown*: a start then asks for a full
//! transfer (T2). At the end it is *clean*: both engines' logs reach to the same point (B7). So no
//! engine has lost the end of its log.
use crate::restore::with_engine;
use crate::{RestoreArguments, Result};
use std::path::Path;

const CLEAN: u8 = 1;
const UNKNOWN: u8 = 2;
const TEXT: &[u8] = b"WSREPXi";

/// `UUID:NUMBER`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    pub uuid: String,
    pub number: i64,
}

impl Position {
    /// `UUID:NUMBER`, with or without a domain after a space.
    pub fn parse(text: &str) -> Option<Position> {
        let text = text.split_whitespace().next()?;
        let (uuid, number) = text.rsplit_once(':')?;
        Some(Position {
            uuid: uuid.to_ascii_lowercase(),
            number: number.parse().ok()?,
        })
    }
    fn of_stored(bytes: &[u8]) -> Option<Position> {
        if *bytes.first()? == UNKNOWN || bytes.get(1..8)? != TEXT {
            return None;
        }
        let hex: String = bytes.get(9..25)?.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Some(Position {
            uuid: parts.join("-"),
            number: i64::from_le_bytes(bytes.get(25..33)?.try_into().ok()?),
        })
    }
    /// The position of the files is the newest one: each engine stores that of its own last change.
    pub fn newest(of_engines: &[Option<Position>]) -> Result<Option<Position>> {
        let mut newest: Option<&Position> = None;
        for position in of_engines.iter().flatten() {
            match newest {
                Some(other) if other.uuid != position.uuid => {
                    return Err(format!(
                        "the files are of two clusters: {} and {}",
                        other.text(),
                        position.text()
                    ));
                }
                Some(other) if other.number >= position.number => {}
                _ => newest = Some(position),
            }
        }
        Ok(newest.cloned())
    }
    pub fn text(&self) -> String {
        format!("{}:{}", self.uuid, self.number)
    }
}

/// Recovers the restored files, and marks their position as unknown (T2). Returns the stored
/// position.
pub fn recover_and_mark_unknown(arguments: &RestoreArguments, sluice: &Path) -> Result<Vec<u8>> {
    with_engine(arguments, sluice, |engine| {
        let stored = engine.store().trx_sys.position();
        let mut marked = stored.clone();
        if let Some(state) = marked.first_mut() {
            *state = UNKNOWN;
            engine.set_position(&marked)?;
        }
        Ok(stored)
    })
}

pub fn of_sluice(stored: &[u8]) -> Option<Position> {
    Position::of_stored(stored)
}

/// Stores the position again, and marks it as clean (T3): the last step of a transfer.
pub fn mark_clean(arguments: &RestoreArguments, sluice: &Path, stored: &[u8]) -> Result<()> {
    let mut marked = stored.to_vec();
    match marked.first_mut() {
        // The donor did not know its own position.
        None | Some(&mut UNKNOWN) => return Ok(()),
        Some(state) => *state = CLEAN,
    }
    with_engine(arguments, sluice, |engine| engine.set_position(&marked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_and_compared() {
        let mut stored = vec![0];
        stored.extend(b"WSREPXif");
        stored.extend((1..=16).collect::<Vec<u8>>());
        stored.extend(77i64.to_le_bytes());
        stored.extend([0; 16]);
        let sluice = of_sluice(&stored);
        let text = "01020304-0506-0708-090a-0b0c0d0e0f10:77";
        assert_eq!(sluice.as_ref().map(Position::text).as_deref(), Some(text));
        let other = Position::parse("01020304-0506-0708-090A-0B0C0D0E0F10:78 3");
        assert_eq!(Position::newest(&[sluice.clone(), None, other.clone()]), Ok(other));
        assert_eq!(Position::newest(&[None, None]), Ok(None));
        assert!(Position::newest(&[sluice, Position::parse("a:1")]).is_err());
        assert_eq!(Position::parse("nothing"), None);
        stored[0] = UNKNOWN;
        assert_eq!(of_sluice(&stored), None);
    }
}
