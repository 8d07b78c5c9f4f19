//! Formats of the redo ring: segment header, checkpoint records, 512-byte blocks.
