//! Tests of the log as a whole: what was flushed is read back, whatever happened in between.
mod append_flush;
mod checkpoint;
mod crash;
mod damage;
mod descriptors;
mod group_commit;
mod on_off;
mod segments;

use super::block_format::{self as block, BLOCK};
use super::control::CONTROL_FILE;
use super::reader::{scan, ScanEnd};
use super::segment_ring::{file_offset, list_segments, segment_name, segment_size_for, SEGMENT_HEADER};
use super::*;
use crate::base::{Counters, Error, Lsn, Result, SyncPoint};
use crate::io::sim::Fault;
use crate::io::{Disk, RealDisk, SimDisk};
use proptest::prelude::*;
use std::sync::Arc;

const CAPACITY: u64 = 1 << 20;

fn config() -> RedoConfig {
    RedoConfig {
        capacity: CAPACITY,
        buffer_size: 256 << 10,
        direct_io: true,
    }
}
fn create(disk: &Arc<SimDisk>) -> Redo {
    Redo::create(disk.clone(), config(), Arc::default()).unwrap()
}
/// Recovers: returns the groups since the checkpoint, and the log, opened after them.
fn reopen(disk: &Arc<SimDisk>) -> Result<(Vec<Vec<u8>>, ScanEnd, Redo)> {
    let (checkpoint, _) = Redo::read_checkpoint(&**disk)?;
    let (groups, end) = read(disk, checkpoint)?;
    let redo = Redo::open(disk.clone(), config(), Arc::default(), checkpoint, end.lsn)?;
    Ok((groups, end, redo))
}
fn read(disk: &Arc<SimDisk>, from: Lsn) -> Result<(Vec<Vec<u8>>, ScanEnd)> {
    let mut groups = Vec::new();
    let mut last = from;
    let end = scan(&**disk, from, &mut |start, end, group| {
        assert!(start >= last && end > start, "groups come in order");
        last = end;
        groups.push(group.to_vec());
        Ok(())
    })?;
    assert!(end.lsn >= last);
    Ok((groups, end))
}
/// A group that holds its own number.
fn group(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len.max(8), number as u8);
    bytes
}
fn number_of(group: &[u8]) -> u64 {
    assert!(group[8..].iter().all(|b| *b == group[0]), "a group comes back whole");
    u64::from_le_bytes(group[..8].try_into().unwrap())
}
