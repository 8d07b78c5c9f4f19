//! Workloads of ALTER TABLE beside writers, with a crash at every change of the disk.
use super::op::Op;
use super::workloads::*;

/// With transactions that begin before a step and end after it.
pub const ONLINE_INDEX: &[Op] = &[
    Op::Create { kinds: 0 },
    fill(0, 20, 250),
    COMMIT,
    Op::OnlineBegin { table: 0, kind: 0 },
    update(0, 3, 11),
    insert(1, 40, 12),
    Op::OnlineStep,
    clear(10, 3),
    Op::OnlineStep,
    commit(1, 1),
    Op::OnlineStep,
    Op::Rollback { trx: 0 },
    update(2, 5, 13),
    commit(2, 2),
    Op::OnlineEnd,
    insert(1, 41, 14),
    commit(1, 1),
];
pub const ONLINE_REBUILD: &[Op] = &[
    Op::Create { kinds: 3 },
    fill(0, 20, 250),
    COMMIT,
    Op::OnlineBegin { table: 0, kind: 4 },
    insert(1, 40, 12),
    update(0, 3, 11),
    Op::OnlineStep,
    clear(10, 3),
    Op::OnlineStep,
    COMMIT,
    commit(1, 1),
    Op::OnlineEnd,
    insert(1, 41, 14),
    commit(1, 1),
];
