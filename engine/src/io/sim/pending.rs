//! Changes of a simulated file that are not durable yet, and what a crash leaves of them (S1, S2).
//!
//! Called by: `disk`, `file` and `state` here, under the disk's lock.
use super::rng::Rng;

/// A change not yet durable.
#[derive(Clone)]
pub(super) enum Pending {
    Write { offset: usize, data: Vec<u8> },
    Len(usize),
}

impl Pending {
    pub fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Pending::Write { offset, data } => {
                let end = offset + data.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(data);
            }
            Pending::Len(len) => to.resize(*len, 0),
        }
    }
}

/// The contents of a file.
#[derive(Default, Clone)]
pub(super) struct Body {
    /// What reads see.
    pub live: Vec<u8>,
    pub durable: Vec<u8>,
    pub pending: Vec<Pending>,
}

/// The bytes that a crash leaves of a file (S2).
pub(super) fn survivors(body: &Body, sector: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = body.durable.clone();
    let whole = match rng.below(4) {
        0 => return bytes,
        1 => body.pending.len(),
        2 => rng.below(body.pending.len() as u64 + 1) as usize,
        _ => {
            body.pending.iter().for_each(|p| apply_some(p, sector, &mut bytes, rng));
            return bytes;
        }
    };
    body.pending[..whole].iter().for_each(|p| p.apply(&mut bytes));
    // The next change may have been under way at the crash.
    if let Some(edge) = body.pending.get(whole) {
        apply_some(edge, sector, &mut bytes, rng);
    }
    bytes
}

/// Applies a change sector by sector, each by its own coin.
pub(super) fn apply_some(change: &Pending, sector: usize, bytes: &mut Vec<u8>, rng: &mut Rng) {
    let mut parts = Vec::new();
    split(change, sector, &mut parts);
    for part in parts {
        if rng.coin() {
            part.apply(bytes);
        }
    }
}

/// Splits a write at sector boundaries. A change of length is one part.
pub(super) fn split(change: &Pending, sector: usize, parts: &mut Vec<Pending>) {
    let Pending::Write { offset, data } = change else {
        parts.push(change.clone());
        return;
    };
    let mut at = 0;
    while at < data.len() {
        let place = offset + at;
        let n = (sector - place % sector).min(data.len() - at);
        debug_assert!(
            n > 0 && place / sector == (place + n - 1) / sector,
            "S2: a part lies in one sector, which is never torn"
        );
        parts.push(Pending::Write {
            offset: place,
            data: data[at..at + n].to_vec(),
        });
        at += n;
    }
}
