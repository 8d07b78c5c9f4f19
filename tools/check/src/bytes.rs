//! Numbers in byte slices: little-endian, and varints (seven bits a byte, lowest first). Every
//! access is checked, because the bytes may be broken.

pub fn u16_at(b: &[u8], at: usize) -> u16 {
    b.get(at..at + 2).map_or(0, |x| u16::from_le_bytes([x[0], x[1]]))
}
pub fn u32_at(b: &[u8], at: usize) -> u32 {
    number(b, at, 4) as u32
}
pub fn u48_at(b: &[u8], at: usize) -> u64 {
    number(b, at, 6)
}
pub fn u64_at(b: &[u8], at: usize) -> u64 {
    number(b, at, 8)
}
fn number(b: &[u8], at: usize, len: usize) -> u64 {
    let bytes = b.get(at..at + len).unwrap_or(&[]);
    bytes.iter().rev().fold(0, |v, byte| v << 8 | *byte as u64)
}

/// Reads front to back; None once the bytes have ended.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }
    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let piece = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(piece)
    }
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }
    pub fn u48(&mut self) -> Option<u64> {
        self.take(6).map(|b| u48_at(b, 0))
    }
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= ((byte & 0x7f) as u64) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
    pub fn u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }
    /// A varint and so many bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at.min(self.bytes.len())..]
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ranges that are named before the rest is left out.
const RANGES_MAX: usize = 20;

/// "4, 7-9": numbers that rise, in few words.
pub fn ranges(numbers: &[u32]) -> String {
    let runs: Vec<&[u32]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    let named = runs.iter().take(RANGES_MAX).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    let mut text = named.collect::<Vec<_>>().join(", ");
    if runs.len() > RANGES_MAX {
        text.push_str(", ...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none() {
        let mut reader = Reader::new(&[0xac, 0x02, 3, 7, 8]);
        assert_eq!(reader.varint(), Some(300));
        assert_eq!(reader.clone().bytes(), None);
        assert_eq!(reader.u8(), Some(3));
        assert_eq!(reader.u48(), None);
        assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
        assert_eq!(u32_at(&[1, 2], 0), 0);
    }

    #[test]
    fn ranges_are_named_by_their_ends() {
        assert_eq!(ranges(&[3, 5, 6, 7, 9]), "3, 5-7, 9");
        assert_eq!(ranges(&[]), "");
        let odd: Vec<u32> = (0..100).map(|n| 2 * n).collect();
        assert!(ranges(&odd).ends_with("36, 38, ..."));
    }
}
