//! Of the simulated disk: what is written and not durable, and what a crash makes of it (rules S1 and S2 of `sim.rs`). Called
//! by `sim.rs` under its lock.
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

#[derive(Default, Clone)]
pub(super) struct Body {
    /// What reads see.
    pub live: Vec<u8>,
    pub durable: Vec<u8>,
    pub pending: Vec<Pending>,
}

/// splitmix64. The engine's tests throw it, too.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// 0 .. n - 1.
    pub fn below<N: TryFrom<u64> + TryInto<u64>>(&mut self, n: N) -> N {
        let n = n.try_into().ok().filter(|n| *n > 0).expect("a choice of something");
        (self.next() % n).try_into().ok().expect("it is less than n")
    }
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// S2: what a crash leaves of a file.
pub(super) fn survivors(body: &Body, sector: usize, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = body.durable.clone();
    let whole = match dice.below(4) {
        0 => return bytes,
        1 => body.pending.len(),
        2 => dice.below(body.pending.len() as u64 + 1) as usize,
        _ => {
            body.pending
                .iter()
                .for_each(|p| apply_some(p, sector, &mut bytes, dice));
            return bytes;
        }
    };
    body.pending[..whole].iter().for_each(|p| p.apply(&mut bytes));
    // The change at the edge may have been under way.
    if let Some(edge) = body.pending.get(whole) {
        apply_some(edge, sector, &mut bytes, dice);
    }
    bytes
}

/// Applies a change sector by sector, each by its own coin.
pub(super) fn apply_some(change: &Pending, sector: usize, bytes: &mut Vec<u8>, dice: &mut Dice) {
    let mut parts = Vec::new();
    split(change, sector, &mut parts);
    for part in parts {
        if dice.coin() {
            part.apply(bytes);
        }
    }
}

pub(super) fn split(change: &Pending, sector: usize, parts: &mut Vec<Pending>) {
    let Pending::Write { offset, data } = change else {
        parts.push(change.clone());
        return;
    };
    let mut at = 0;
    while at < data.len() {
        let place = offset + at;
        let n = (sector - place % sector).min(data.len() - at);
        parts.push(Pending::Write {
            offset: place,
            data: data[at..at + n].to_vec(),
        });
        at += n;
    }
}
