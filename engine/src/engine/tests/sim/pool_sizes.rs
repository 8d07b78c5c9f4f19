//! A workload in which the buffer pool changes its size. A small pool is full of changed pages when
//! it grows, and again when it shrinks: they move. Its page list is written, and read.
use super::op::Op;
use super::workloads::fill;

const COMMIT: Op = Op::Commit { trx: 0, flush: 1 };

const fn update(key: u64) -> Op {
    let (trx, table, row) = (0, 0, 77);
    Op::Update { trx, table, key, row }
}

pub const POOL_SIZES: &[Op] = &[
    Op::Create { kinds: 7 },
    fill(0, 40, 900),
    Op::ResizePool { more: 100 },
    fill(50, 40, 900),
    COMMIT,
    update(3),
    Op::PageList { load: false },
    Op::ResizePool { more: 10 },
    COMMIT,
    Op::Checkpoint,
    update(5),
    Op::ResizePool { more: 80 },
    Op::Flush { pages: 101 },
    Op::PageList { load: true },
    update(60),
    Op::ResizePool { more: 0 },
    COMMIT,
    Op::Flush { pages: 100 },
    Op::Checkpoint,
];
