//! [`KeyPart`]: what the catalog knows of one part of an index.
//!
//! On disk, in definitions of format 4:
//! ```text
//! column  bytes   name of the column
//! domain  bytes   what the column's values are: see `KeyPart::domain`
//! flags   u8      1 = the part is the whole column, 2 = may be NULL, 4 = DESC, 8 = a string
//! image           a string: number of levels u8, then each: form u8, unit u8, space 4 bytes;
//!                 else its length, varint
//! ```
//! Takes no latch. Called by the rest of `catalog`.
use crate::base::bytes::{push_bytes, push_varint, take_bytes, take_varint};
use crate::index::key_shape::{LevelForm, PartImage, PartShape, StringLevel};
use smallvec::SmallVec;

const WHOLE: u8 = 1;
const NULLABLE: u8 = 2;
const INVERTED: u8 = 4;
const STRING: u8 = 8;

/// How the domains end of a table with system versioning whose rows of the past are not marked:
/// an earlier version made it. No foreign key may use its indexes.
pub const UNMARKED: &str = ", with system versioning";

/// One part of an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPart {
    pub column: String,
    /// A text for what the column's values are, for example a type and a collation. Two columns
    /// whose domains and images are equal have equal bytes for equal values.
    pub domain: String,
    /// False: the key has only the beginning of the column.
    pub is_whole: bool,
    pub shape: PartShape,
}

pub fn push_parts(out: &mut Vec<u8>, parts: &[KeyPart]) {
    let start = out.len();
    push_varint(out, parts.len() as u64);
    for part in parts {
        push_bytes(out, part.column.as_bytes());
        push_bytes(out, part.domain.as_bytes());
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let flags =
            flag(part.is_whole, WHOLE) | flag(part.shape.nullable, NULLABLE) | flag(part.shape.inverted, INVERTED);
        match &part.shape.image {
            PartImage::Fixed(len) => {
                out.push(flags);
                push_varint(out, *len as u64);
            }
            PartImage::String(levels) => {
                debug_assert!(levels.len() <= u8::MAX as usize, "the number of levels has one byte");
                out.extend([flags | STRING, levels.len() as u8]);
                for level in levels {
                    debug_assert!((1..=4).contains(&level.unit), "a unit that is written can be read back");
                    out.extend([level.form as u8, level.unit]);
                    out.extend(level.space);
                }
            }
        }
    }
    debug_assert_eq!(
        take_parts(&out[start..], &mut 0).as_deref(),
        Some(parts),
        "the parts of a key read back as they were written"
    );
}

/// None: the bytes have another form.
pub fn take_parts(b: &[u8], at: &mut usize) -> Option<Vec<KeyPart>> {
    let count = take_varint(b, at)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push(take_part(b, at)?);
    }
    Some(parts)
}

fn take_part(b: &[u8], at: &mut usize) -> Option<KeyPart> {
    let column = take_text(b, at)?;
    let domain = take_text(b, at)?;
    let flags = take_byte(b, at)?;
    let image = if flags & STRING == 0 {
        PartImage::Fixed(u32::try_from(take_varint(b, at)?).ok()?)
    } else {
        let mut levels = SmallVec::new();
        for _ in 0..take_byte(b, at)? {
            levels.push(take_level(b, at)?);
        }
        PartImage::String(levels)
    };
    Some(KeyPart {
        column,
        domain,
        is_whole: flags & WHOLE != 0,
        shape: PartShape {
            nullable: flags & NULLABLE != 0,
            inverted: flags & INVERTED != 0,
            image,
        },
    })
}

fn take_level(b: &[u8], at: &mut usize) -> Option<StringLevel> {
    let form = match take_byte(b, at)? {
        0 => LevelForm::Plain,
        1 => LevelForm::Padded,
        2 => LevelForm::Filled,
        _ => return None,
    };
    let unit = take_byte(b, at)?;
    let space = b.get(*at..*at + 4)?.try_into().ok()?;
    *at += 4;
    (1..=4).contains(&unit).then_some(StringLevel { form, unit, space })
}

fn take_byte(b: &[u8], at: &mut usize) -> Option<u8> {
    let byte = *b.get(*at)?;
    *at += 1;
    Some(byte)
}

pub fn take_text(b: &[u8], at: &mut usize) -> Option<String> {
    String::from_utf8(take_bytes(b, at)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(image: PartImage) -> KeyPart {
        KeyPart {
            column: "größe".into(),
            domain: "int 4 unsigned".into(),
            is_whole: true,
            shape: PartShape {
                nullable: true,
                inverted: false,
                image,
            },
        }
    }

    #[test]
    fn parts_read_back() {
        let level = |form, unit| StringLevel {
            form,
            unit,
            space: [0, 32, 0, 0],
        };
        let mut inverted = part(PartImage::Fixed(70_000));
        (inverted.is_whole, inverted.shape.inverted, inverted.shape.nullable) = (false, true, false);
        let levels = [
            level(LevelForm::Plain, 1),
            level(LevelForm::Filled, 4),
            level(LevelForm::Padded, 2),
        ];
        let parts = [
            part(PartImage::Fixed(4)),
            inverted,
            part(PartImage::String(SmallVec::from_slice(&levels))),
        ];
        let mut bytes = Vec::new();
        push_parts(&mut bytes, &parts);
        let mut at = 0;
        assert_eq!(take_parts(&bytes, &mut at).expect("whole"), parts);
        assert_eq!(at, bytes.len());
        for cut in 0..bytes.len() {
            assert!(take_parts(&bytes[..cut], &mut 0).is_none(), "cut after {cut}");
        }
    }
}
