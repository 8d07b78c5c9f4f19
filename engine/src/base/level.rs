//! How much a note for people matters: the engine's log sorts by it.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Info,
    Warning,
    Error,
}
