//! Byte strings of two forms. A BINARY(n) column and a VARBINARY column may refer to each other, as
//! in InnoDB. Their values are equal if they have the same bytes, and equally many. Nothing is
//! filled up: `ab` in a VARBINARY(4) is no value that a BINARY(4) can have.
//!
//! The image of a BINARY(n) is its n bytes. That of a VARBINARY is a `Plain` level of units of one
//! byte (`index/key_shape.rs`): 00 FF for a zero, and 00 00 at the end.
//!
//! Pure: no latches. Called by `foreign_key`, which converts keys, and by `parent_check`.
use crate::index::key_shape::PartImage;

/// Domains of BINARY(n) and VARBINARY, as the plugin writes them.
const FIXED: (&str, &str) = ("binary(", ")");
const VARYING: &str = "string binary";

/// Both are domains of byte strings, whatever their lengths.
pub fn are_comparable(domain: &str, other: &str) -> bool {
    let holds_bytes = |domain: &str| domain == VARYING || is_fixed(domain);
    holds_bytes(domain) && holds_bytes(other)
}

/// The domain of a BINARY column.
pub fn is_fixed(domain: &str) -> bool {
    domain.starts_with(FIXED.0) && domain.ends_with(FIXED.1)
}

/// The image that the same bytes have in a part of the form `to`. None: no value of that part has
/// them. `image`: without inversion; `is_fixed`: it is a BINARY's.
pub fn converted(image: &[u8], is_fixed: bool, to: &PartImage) -> Option<Vec<u8>> {
    let bytes = match is_fixed {
        true => image.to_vec(),
        false => bytes_of(image)?,
    };
    debug_assert!(bytes.len() <= image.len(), "an image has each byte of its value");
    match to {
        PartImage::Fixed(len) => (bytes.len() == *len as usize).then_some(bytes),
        PartImage::String(_) => Some(varying(&bytes)),
    }
}

fn varying(bytes: &[u8]) -> Vec<u8> {
    let mut image = Vec::with_capacity(bytes.len() + 2);
    for byte in bytes {
        image.push(*byte);
        if *byte == 0 {
            image.push(0xFF);
        }
    }
    image.extend([0, 0]);
    debug_assert_eq!(
        bytes_of(&image).as_deref(),
        Some(bytes),
        "an image has the bytes of its value"
    );
    image
}

/// None: this is no image of a VARBINARY.
fn bytes_of(image: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(image.len());
    let mut rest = image.iter();
    loop {
        match (*rest.next()?, rest.as_slice().first()) {
            (0, Some(0)) => return (rest.len() == 1).then_some(bytes),
            (0, Some(0xFF)) => {
                rest.next();
                bytes.push(0);
            }
            (0, _) => return None,
            (byte, _) => bytes.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::SmallVec;

    #[test]
    fn values_have_the_same_bytes_in_both_forms() {
        let string = PartImage::String(SmallVec::new());
        for (bytes, image) in [
            (&b""[..], &b"\0\0"[..]),
            (b"ab", b"ab\0\0"),
            (b"a\0", b"a\0\xFF\0\0"),
            (b"\0\0", b"\0\xFF\0\xFF\0\0"),
            (b"\0\xFF", b"\0\xFF\xFF\0\0"),
        ] {
            let fixed = PartImage::Fixed(bytes.len() as u32);
            assert_eq!(converted(bytes, true, &string).as_deref(), Some(image));
            assert_eq!(converted(image, false, &fixed).as_deref(), Some(bytes));
            assert_eq!(converted(image, false, &string).as_deref(), Some(image));
            let longer = PartImage::Fixed(bytes.len() as u32 + 1);
            assert_eq!(converted(bytes, true, &longer), None, "nothing is filled up");
            assert_eq!(converted(image, false, &longer), None, "nor here");
        }
        for broken in [&b""[..], b"ab", b"a\0", b"a\0b\0\0", b"a\0\0b"] {
            assert_eq!(converted(broken, false, &string), None, "{broken:?}");
        }
    }
    #[test]
    fn domains_of_byte_strings() {
        assert!(are_comparable("binary(4)", "string binary") && are_comparable("binary(4)", "binary(8)"));
        for other in [
            "binary(4), with system versioning",
            "string latin1_bin",
            "uuid(16)",
            "bit(4)",
        ] {
            assert!(!are_comparable("binary(4)", other), "{other}");
        }
    }
}
