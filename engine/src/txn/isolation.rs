//! Isolation levels.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isolation {
    /// Reads the newest version of every row, committed or not. For upkeep: CHECK TABLE, index
    /// builds. READ UNCOMMITTED in the server gives [`Isolation::ReadCommitted`], except in the
    /// stand-in (`Connection::start` in the plugin).
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    const ALL: [Isolation; 4] = [
        Isolation::ReadUncommitted,
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    /// The server's numbers; a number above them is taken as the strictest level.
    pub fn from_number(n: u32) -> Isolation {
        Isolation::ALL
            .get(n as usize)
            .copied()
            .unwrap_or(Isolation::Serializable)
    }
}
