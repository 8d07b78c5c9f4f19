//! Batches of entries in key order, both directions, for the table layer's cursors.
