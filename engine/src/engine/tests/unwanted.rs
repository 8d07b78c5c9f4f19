//! Locks of rows that a statement turns out not to want, under READ COMMITTED.
use super::isolation::{filled, X};
use crate::base::Error;
use crate::table::{Cursor, LockChoice};
use crate::txn::Isolation::ReadCommitted;
use crate::txn::LockMode;

/// The server gives a row of a join back late, when another cursor of the statement stands on it: that row was returned FOR UPDATE, unlocked.
#[test]
fn a_row_that_one_cursor_does_not_want_stays_locked_for_another() {
    let rig = filled();
    let shared = LockChoice {
        mode: Some(LockMode::Shared),
        ..Default::default()
    };
    let exclusive = LockChoice { mode: X, ..shared };
    for (first, second) in [(exclusive, exclusive), (shared, exclusive)] {
        let mut trx = rig.begin(ReadCommitted);
        let mut cursors = [0; 2].map(|_| Cursor::new(rig.store().clone(), rig.table.clone()));
        assert_eq!(cursors[0].get(&mut trx, &[2], first), Ok(true));
        assert_eq!(cursors[1].get(&mut trx, &[2], second), Ok(true));
        cursors[0].unlock_row(&mut trx);
        let mut other = rig.begin(ReadCommitted);
        other.lock_wait_timeout_ms = 1;
        assert_eq!(rig.get(&mut other, &[2], X).map(drop), Err(Error::LockWaitTimeout));
        rig.engine.rollback(&mut other).expect("rollback");
        rig.engine.commit(&mut trx, false).expect("commit");
    }
}
