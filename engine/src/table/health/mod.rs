//! CHECK TABLE, and the watch over buffered changes that cannot be merged.
pub(crate) mod check;
pub(crate) mod orphans;
pub(crate) mod references;
pub(crate) mod unmergeable;
