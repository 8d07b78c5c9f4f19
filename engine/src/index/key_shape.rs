//! The shape of an index's keys: where the image of each key part ends.
//!
//! Keys compare as bytes (I8), and nothing here decodes a value. Statistics need to know which
//! bytes of a key are its first k parts. The user describes the parts when a table is opened; an
//! index without a description has one part, its whole key.
//!
//! The image of a part: if the column may be NULL one byte (00 = NULL, nothing follows; 01 = a
//! value). Then the value: a fixed number of bytes, or a string, level by level. A string level is
//! a sequence of weights of `unit` bytes:
//! ```text
//! Plain     a weight of zeros is followed by FF; the level ends with a weight of zeros and 00
//! Padded    a weight of a space is followed by 01 count or 03 ~count (a run of spaces), or by 02
//!           (the level ends)
//! Filled    both: runs of spaces as in Padded, the end as in Plain
//! count     one byte; FF is followed by two more
//! ```
//! All bytes of a descending part are inverted. Called by: the statistics of `table`.
use smallvec::SmallVec;

const END: u8 = 2;
const RUN_ABOVE: u8 = 3;
const LONG_COUNT: u8 = 0xFF;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelForm {
    Plain,
    Padded,
    Filled,
}

/// One level of a string's weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StringLevel {
    pub form: LevelForm,
    /// Bytes of a weight, 1 to 4.
    pub unit: u8,
    /// The weight of a space; its first `unit` bytes count.
    pub space: [u8; 4],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartImage {
    /// Bytes.
    Fixed(u32),
    String(SmallVec<[StringLevel; 1]>),
}

/// One part of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartShape {
    pub nullable: bool,
    /// DESC: every byte is inverted.
    pub inverted: bool,
    pub image: PartImage,
}

/// The parts of an index's keys: those of the index, then those of the clustered key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyShape {
    pub parts: Vec<PartShape>,
}

/// Ends of the first parts of a key, in bytes from its beginning.
pub type PartEnds = SmallVec<[u32; 16]>;

impl KeyShape {
    /// Parts that statistics tell apart; at least one.
    pub fn len(&self) -> usize {
        self.parts.len().max(1)
    }
    pub fn is_empty(&self) -> bool {
        false
    }
    /// The ends of all parts that are complete in `key`, which may be cut short. A shape without
    /// parts has one, which ends where the key ends.
    pub fn part_ends(&self, key: &[u8], ends: &mut PartEnds) {
        ends.clear();
        if self.parts.is_empty() {
            ends.push(key.len() as u32);
            return;
        }
        let mut at = 0;
        for part in &self.parts {
            match part.end(key, at) {
                Some(end) => at = end,
                None => return,
            }
            ends.push(at as u32);
        }
        debug_assert!(ends.is_sorted(), "a part ends after the one before it");
        debug_assert!(
            ends.last().is_none_or(|end| *end as usize <= key.len()),
            "a part that is complete lies in the key"
        );
    }
}

impl PartShape {
    /// Where the part that begins at `at` ends; None: the key ends before.
    fn end(&self, key: &[u8], at: usize) -> Option<usize> {
        let mask = if self.inverted { 0xFF } else { 0 };
        let mut at = at;
        if self.nullable {
            at += 1;
            if key.get(at - 1)? ^ mask == 0 {
                return Some(at);
            }
        }
        match &self.image {
            PartImage::Fixed(len) => {
                let end = at + *len as usize;
                (end <= key.len()).then_some(end)
            }
            PartImage::String(levels) => levels.iter().try_fold(at, |at, level| level.end(key, at, mask)),
        }
    }
}

impl StringLevel {
    fn end(&self, key: &[u8], at: usize, mask: u8) -> Option<usize> {
        debug_assert!((1..=4).contains(&self.unit), "a weight has 1 to 4 bytes");
        let unit = self.unit as usize;
        let mut at = at;
        loop {
            let weight = key.get(at..at + unit)?;
            at += unit;
            let is = |wanted: &[u8]| weight.iter().zip(wanted).all(|(byte, wanted)| byte ^ mask == *wanted);
            let is_zero = self.form != LevelForm::Padded && is(&[0; 4]);
            let is_space = self.form != LevelForm::Plain && is(&self.space);
            if !is_zero && !is_space {
                continue;
            }
            let mark = key.get(at)? ^ mask;
            at += 1;
            if mark == if is_zero { 0 } else { END } {
                return Some(at);
            }
            if is_space {
                let mask = if mark == RUN_ABOVE { !mask } else { mask };
                let long = key.get(at)? ^ mask == LONG_COUNT;
                at += if long { 3 } else { 1 };
                if at > key.len() {
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(shape: &KeyShape, key: &[u8]) -> Vec<u32> {
        let mut ends = PartEnds::new();
        shape.part_ends(key, &mut ends);
        ends.to_vec()
    }
    fn string(form: LevelForm, inverted: bool) -> PartShape {
        let level = StringLevel {
            form,
            unit: 1,
            space: [b' ', 0, 0, 0],
        };
        PartShape {
            nullable: false,
            inverted,
            image: PartImage::String(SmallVec::from_elem(level, 1)),
        }
    }
    fn fixed(len: u32, nullable: bool) -> PartShape {
        PartShape {
            nullable,
            inverted: false,
            image: PartImage::Fixed(len),
        }
    }

    #[test]
    fn parts_end_where_their_images_say() {
        let shape = KeyShape {
            parts: vec![fixed(2, true), string(LevelForm::Padded, false), fixed(1, false)],
        };
        assert_eq!(ends(&shape, b"\x01ab\x61\x20\x01\x05\x62\x20\x02z"), [3, 10, 11]);
        assert_eq!(ends(&shape, b"\x00\x20\x02z"), [1, 3, 4]);
        assert_eq!(ends(&shape, b"\x00\x20\x03\x00\x01\x02\x61\x20\x02z"), [1, 9, 10]);
        assert_eq!(ends(&shape, b"\x00\x61\x20"), [1]);
        assert_eq!(ends(&shape, b""), [0u32; 0]);
    }
    #[test]
    fn zeros_in_binary_strings_do_not_end_them() {
        let shape = KeyShape {
            parts: vec![string(LevelForm::Plain, false), fixed(1, false)],
        };
        assert_eq!(ends(&shape, b"a\x00\xFFb\x00\x00z"), [6, 7]);
    }
    #[test]
    fn descending_parts_are_inverted() {
        let shape = KeyShape {
            parts: vec![string(LevelForm::Padded, true)],
        };
        let image: Vec<u8> = b"ab\x20\x02".iter().map(|byte| !byte).collect();
        assert_eq!(ends(&shape, &image), [4]);
    }
    #[test]
    fn an_index_without_a_description_has_one_part() {
        assert_eq!(ends(&KeyShape::default(), b"abc"), [3]);
    }
}
