//! Severity of a line in the error log. Called by: every layer that logs.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Info,
    Warning,
    Error,
}
