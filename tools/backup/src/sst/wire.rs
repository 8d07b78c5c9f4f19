//! The protocol between donor and joiner, before and after the backup.
//!
//! ```text
//! donor:   magic 8 bytes "SLUICEST", version u32, kind u32 (1: nothing to transfer, 2: a backup),
//!          secret (length u32, text), position `UUID:NUMBER DOMAIN` (length u32, text)
//! joiner:  answer (0: refused, 1: go on)
//! donor:   the backup, if there is one, as `sluice-backup backup` writes it
//! joiner:  answer (1: the backup is complete)
//! ```
//! An answer is a u32, and a text with its length. All numbers are little-endian.
use crate::Result;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

const MAGIC: &[u8; 8] = b"SLUICEST";
const VERSION: u32 = 1;
const TEXT_BYTES_MAX: usize = 1024;

const BYPASS: u32 = 1;
const BACKUP: u32 = 2;

/// The donor's first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// No files follow: the joiner has all data, or gets the rest from the group.
    pub bypass: bool,
    pub secret: String,
    /// The donor's position when it was chosen.
    pub position: String,
}

impl Greeting {
    pub fn send(&self, to: &mut impl Write) -> Result<()> {
        let kind = if self.bypass { BYPASS } else { BACKUP };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        put_text(&mut bytes, &self.secret);
        put_text(&mut bytes, &self.position);
        send(to, &bytes)
    }
    pub fn receive(from: &mut impl Read) -> Result<Greeting> {
        let mut magic = [0; 8];
        receive(from, &mut magic)?;
        if &magic != MAGIC {
            return Err("this is not a donor".into());
        }
        let version = number(from)?;
        if version != VERSION {
            return Err(format!(
                "the donor speaks version {version}, this node {VERSION}: install the same sluice-backup"
            ));
        }
        let bypass = match number(from)? {
            BYPASS => true,
            BACKUP => false,
            kind => return Err(format!("the donor sends a transfer of the unknown kind {kind}")),
        };
        Ok(Greeting {
            bypass,
            secret: text(from)?,
            position: text(from)?,
        })
    }
}

/// `Err`: the text of a refusal.
pub fn answer(to: &mut impl Write, answer: std::result::Result<(), &str>) -> Result<()> {
    let mut bytes = u32::from(answer.is_ok()).to_le_bytes().to_vec();
    put_text(&mut bytes, answer.err().unwrap_or(""));
    send(to, &bytes)
}

pub fn receive_answer(from: &mut impl Read) -> Result<()> {
    let answer = number(from)?;
    let why = text(from)?;
    match answer {
        1 => Ok(()),
        _ => Err(format!("the joiner refused: {why}")),
    }
}

/// Compares in constant time, so that the time does not tell where the two differ.
pub fn same_secret(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

/// Keepalive: if the other machine fails, the connection ends after half a minute. A timeout of
/// reads would not serve, because a backup may pause for longer.
pub fn notice_dead_peer(peer: &TcpStream) {
    let set = |level, name, value: libc::c_int| {
        // SAFETY: the descriptor is open, and the value is a live int. A failure is without harm.
        unsafe {
            let size = std::mem::size_of_val(&value) as libc::socklen_t;
            libc::setsockopt(peer.as_raw_fd(), level, name, (&raw const value).cast(), size);
        }
    };
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 10);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5);
    set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4);
    // What was sent and is not confirmed, in milliseconds.
    set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 60_000);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn send(to: &mut impl Write, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes)
        .and_then(|()| to.flush())
        .map_err(|e| format!("the other node: {e}"))
}

fn receive(from: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    from.read_exact(bytes).map_err(|e| format!("the other node: {e}"))
}

fn number(from: &mut impl Read) -> Result<u32> {
    let mut bytes = [0; 4];
    receive(from, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn text(from: &mut impl Read) -> Result<String> {
    let length = number(from)? as usize;
    if length > TEXT_BYTES_MAX {
        return Err(format!("the other node: a text of {length} bytes"));
    }
    let mut bytes = vec![0; length];
    receive(from, &mut bytes)?;
    String::from_utf8(bytes).map_err(|_| "the other node: a text that is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_and_answers_come_through() {
        let greeting = Greeting {
            bypass: true,
            secret: "0123".into(),
            position: "a-b:7 0".into(),
        };
        let mut bytes = Vec::new();
        greeting.send(&mut bytes).unwrap();
        assert_eq!(Greeting::receive(&mut &bytes[..]), Ok(greeting));
        for cut in 0..bytes.len() {
            assert!(Greeting::receive(&mut &bytes[..cut]).is_err());
        }
        bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Greeting::receive(&mut &bytes[..])
            .unwrap_err()
            .contains("4294967295 bytes"));
        let mut bytes = Vec::new();
        answer(&mut bytes, Err("not you")).unwrap();
        assert_eq!(
            receive_answer(&mut &bytes[..]),
            Err("the joiner refused: not you".into())
        );
        let mut bytes = Vec::new();
        answer(&mut bytes, Ok(())).unwrap();
        assert_eq!(receive_answer(&mut &bytes[..]), Ok(()));
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same_secret("abc", "abc"));
        assert!(!same_secret("abc", "abd") && !same_secret("abc", "ab") && !same_secret("", "a"));
    }
}
