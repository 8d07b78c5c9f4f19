//! Names of XA transactions, and their text: as XA COMMIT takes it, and XA RECOVER FORMAT='SQL'
//! shows it.
use std::fmt::{Display, Formatter, Result};

/// XA transaction name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Xid {
    pub format_id: i64,
    pub gtrid_len: u32,
    pub bqual_len: u32,
    /// Both parts, one after the other.
    pub data: Vec<u8>,
}

/// The format that the text leaves out.
const USUAL_FORMAT: i64 = 1;

impl Display for Xid {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        // The server's choice, so that users can search for what it shows.
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" -_".contains(byte);
        let as_text = self.data.iter().all(is_plain);
        let part = |f: &mut Formatter<'_>, bytes: &[u8]| match as_text {
            true => write!(f, "'{}'", String::from_utf8_lossy(bytes)),
            false => {
                write!(f, "X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, "'")
            }
        };
        let (gtrid, bqual) = self.data.split_at(self.data.len().min(self.gtrid_len as usize));
        part(f, gtrid)?;
        if !bqual.is_empty() || self.format_id != USUAL_FORMAT {
            write!(f, ",")?;
            part(f, bqual)?;
        }
        if self.format_id != USUAL_FORMAT {
            write!(f, ",{}", self.format_id)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Xid;

    fn xid(gtrid: &[u8], bqual: &[u8], format_id: i64) -> String {
        Xid {
            format_id,
            gtrid_len: gtrid.len() as u32,
            bqual_len: bqual.len() as u32,
            data: [gtrid, bqual].concat(),
        }
        .to_string()
    }

    #[test]
    fn a_name_is_written_as_the_server_takes_it() {
        assert_eq!(xid(b"pay-7", b"", 1), "'pay-7'");
        assert_eq!(xid(b"pay", b"b 1", 1), "'pay','b 1'");
        assert_eq!(xid(b"pay", b"", 9), "'pay','',9");
        assert_eq!(xid(b"it's", b"", 1), "X'69742773'");
        assert_eq!(xid(b"a", &[0, 0xff], 3), "X'61',X'00ff',3");
    }
}
