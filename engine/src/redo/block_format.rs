//! Format of the redo stream: 512-byte blocks, and the arithmetic between positions and LSNs.
//!
//! A device writes a sector of 512 bytes whole or not at all. So a block is new, old or nothing,
//! never a mixture.
//! ```text
//! block, 512 bytes
//!  0 checksum     u32  CRC-32C of epoch (u32), block number (u64), bytes 4..512
//!  4 number       u32  low half of the block number = LSN / 512
//!  8 distance     u32  block number minus the number of the block in which the durable LSN lay
//!                      when its round began: all blocks before (number - distance) were durable
//! 12 length       u16  bytes of data in the block, 1..=496; less than 496 only in the last block
//!                      of a flush
//! 14 first_group  u16  offset in the block of the first group that begins in the block; 0 = none
//! 16 data              the stream; zeros after `length` bytes
//! ```
//! The checksum covers epoch and block number. So no block of an older round of the ring, and none
//! from before the last recovery, passes for the block in its place. `distance` tells a torn tail,
//! which the reader cuts off, from a hole in the durable part: damage, which it refuses.
//!
//! The *stream* is the concatenated data: groups, each a varint length and that many bytes. A
//! *position* counts the bytes of the stream. An LSN counts headers too, and is never inside a
//! header. The end of a full block is the LSN of the first data byte of the next block. Both orders
//! agree, and `lsn_of` and `position_of` are inverse. Called by: `block_writer.rs`, `reader.rs`,
//! and the LSN arithmetic of `log.rs` and `on_off.rs`.
use crate::base::bytes::{get_u16, get_u32, put_u16, put_u32};
use crate::base::{planted, Lsn, Mutant};

pub const BLOCK: usize = 512;
pub const BLOCK_HEADER: usize = 16;
/// Data bytes of a block.
pub const BLOCK_DATA: usize = BLOCK - BLOCK_HEADER;
/// First LSN of a new log. The first pages of LSN space stay unused, so that 0 means "none".
pub const FIRST_LSN: Lsn = 4096 + BLOCK_HEADER as Lsn;

/// Byte position in the stream without headers.
pub type Position = u64;

pub fn lsn_of(position: Position) -> Lsn {
    let data = BLOCK_DATA as u64;
    let lsn = position / data * BLOCK as u64 + BLOCK_HEADER as u64 + position % data;
    debug_assert!(
        lsn % BLOCK as u64 >= BLOCK_HEADER as u64,
        "an LSN is never inside a header"
    );
    lsn
}
/// Inverse of [`lsn_of`]. An LSN inside a header stands for the block's first data byte.
pub fn position_of(lsn: Lsn) -> Position {
    block_of(lsn) * BLOCK_DATA as u64 + (lsn % BLOCK as u64).saturating_sub(BLOCK_HEADER as u64)
}
pub fn block_of(lsn: Lsn) -> u64 {
    lsn / BLOCK as u64
}
/// LSN of the first byte of a block's header.
pub fn block_start(number: u64) -> Lsn {
    number * BLOCK as u64
}
/// First block that holds nothing below `position`: there a log continues after a recovery.
pub fn next_whole_block(position: Position) -> u64 {
    position.div_ceil(BLOCK_DATA as u64)
}

/// The header of a valid block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    pub length: usize,
    pub first_group: usize,
    /// All blocks with smaller numbers were durable when this one was written.
    pub durable_block: u64,
}

fn checksum(block: &[u8], epoch: u32, number: u64) -> u32 {
    let seed = crc32c::crc32c(&epoch.to_le_bytes());
    let seed = crc32c::crc32c_append(seed, &number.to_le_bytes());
    crc32c::crc32c_append(seed, &block[4..BLOCK])
}

/// Fills in the header of a block whose data, and the zeros after it, are in place.
pub fn seal(block: &mut [u8], epoch: u32, number: u64, info: BlockInfo) {
    debug_assert!(info.length > 0 && info.length <= BLOCK_DATA && info.durable_block <= number);
    debug_assert!(
        info.first_group == 0 || (BLOCK_HEADER..BLOCK_HEADER + info.length).contains(&info.first_group),
        "the first group begins in the block's data"
    );
    debug_assert!(
        block[BLOCK_HEADER + info.length..BLOCK].iter().all(|byte| *byte == 0),
        "zeros follow the data"
    );
    let distance = u32::try_from(number - info.durable_block).unwrap_or(u32::MAX);
    put_u32(block, 4, number as u32);
    put_u32(block, 8, distance);
    put_u16(block, 12, info.length as u16);
    put_u16(block, 14, info.first_group as u16);
    let crc = checksum(block, epoch, number);
    put_u32(block, 0, crc);
    debug_assert_eq!(
        get_u16(block, 12) as usize,
        info.length,
        "the header says what the block holds"
    );
}

/// None unless these are the bytes of block `number`, written whole in `epoch`.
pub fn open(block: &[u8], epoch: u32, number: u64) -> Option<BlockInfo> {
    // The number is checked first: most wrong blocks are rejected without a checksum.
    let believed = planted(Mutant::TornTailBelieved) || get_u32(block, 0) == checksum(block, epoch, number);
    if get_u32(block, 4) != number as u32 || !believed {
        return None;
    }
    let info = BlockInfo {
        length: get_u16(block, 12) as usize,
        first_group: get_u16(block, 14) as usize,
        durable_block: number.checked_sub(get_u32(block, 8) as u64)?,
    };
    let first_fits =
        info.first_group == 0 || (info.first_group >= BLOCK_HEADER && info.first_group < BLOCK_HEADER + info.length);
    (info.length > 0 && info.length <= BLOCK_DATA && first_fits).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_and_lsns_are_inverse(position in 0..u64::MAX / 4) {
            let lsn = lsn_of(position);
            prop_assert_eq!(position_of(lsn), position);
            prop_assert!(lsn % BLOCK as u64 >= BLOCK_HEADER as u64, "no LSN is inside a header");
            prop_assert!(lsn_of(position + 1) > lsn);
            let whole = next_whole_block(position);
            prop_assert!(position_of(block_start(whole)) >= position);
            prop_assert!(whole == 0 || position_of(block_start(whole - 1)) < position);
        }
    }

    #[test]
    fn the_edges_of_a_block() {
        assert_eq!(lsn_of(0), 16);
        assert_eq!(lsn_of(495), 511);
        assert_eq!(lsn_of(496), 512 + 16);
        assert_eq!(position_of(512), 496);
        assert_eq!(position_of(512 + 16), 496);
        assert_eq!(next_whole_block(496), 1);
        assert_eq!(next_whole_block(497), 2);
        assert_eq!(lsn_of(position_of(FIRST_LSN)), FIRST_LSN);
    }

    #[test]
    fn a_block_is_believed_only_in_its_place_and_whole() {
        let info = BlockInfo {
            length: 20,
            first_group: 18,
            durable_block: 3,
        };
        let number = (7 << 32) | 9;
        let mut block = [0u8; BLOCK];
        block[16..36].fill(0xab);
        seal(
            &mut block,
            5,
            number,
            BlockInfo {
                durable_block: number - 3,
                ..info
            },
        );
        let read = open(&block, 5, number).unwrap();
        assert_eq!(
            (read.length, read.first_group, read.durable_block),
            (20, 18, number - 3)
        );
        assert_eq!(open(&block, 4, number), None, "another epoch");
        assert_eq!(open(&block, 5, number + (1 << 32)), None, "another round of the ring");
        for bit in 0..BLOCK * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&block, 5, number), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(open(&[0; BLOCK], 5, 0), None, "zeros are no block");
    }
}
