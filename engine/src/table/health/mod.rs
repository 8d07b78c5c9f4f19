//! CHECK TABLE, and what goes on when a page cannot be read.
pub(crate) mod check;
pub(crate) mod damage;
pub(crate) mod unmergeable;
