//! Transaction ids and commit numbers: one counter gives both. Also the ids that are active, and
//! the ends under way.
//!
//! Plain data under the mutex of [`Visibility`](super::visibility::Visibility). Invariant: every
//! active transaction has one number reserved for its end, so that an end can always draw one.
use crate::base::TrxId;

pub(super) struct Numbers {
    /// The next id or commit number.
    next: u64,
    /// No number at or above may be given: the transaction system page reserves those below.
    bound: u64,
    /// Ids of the active writers, in ascending order.
    active: Vec<TrxId>,
    /// Numbers drawn by transactions whose end is not visible yet. As many as threads in an end.
    committing: Vec<u64>,
}

impl Numbers {
    /// `bound`: the reserved bound, from which ids go on after a start. `active`: in ascending
    /// order.
    pub fn new(bound: u64, active: Vec<TrxId>) -> Numbers {
        debug_assert!(active.windows(2).all(|pair| pair[0] < pair[1]));
        debug_assert!(
            active.last().is_none_or(|newest| *newest < bound),
            "I10: only numbers below the bound were given"
        );
        Numbers {
            next: bound,
            bound,
            active,
            committing: Vec::new(),
        }
    }
    pub fn next(&self) -> u64 {
        self.next
    }
    pub fn active(&self) -> &[TrxId] {
        &self.active
    }
    /// The oldest active id; without one, the next id.
    pub fn oldest_active(&self) -> TrxId {
        self.active.first().copied().unwrap_or(self.next)
    }
    /// Each active transaction will draw one number more, for its end.
    pub fn can_draw(&self) -> bool {
        self.next + self.active.len() as u64 + 1 < self.bound
    }
    pub fn raise_bound(&mut self, bound: u64) {
        self.bound = self.bound.max(bound);
        debug_assert!(
            self.next <= self.bound,
            "I10: no number at or above the bound was given"
        );
    }
    /// Draws an id, active at once. `can_draw` holds.
    pub fn begin(&mut self) -> TrxId {
        debug_assert!(self.can_draw());
        let id = self.next;
        debug_assert!(
            self.active.last().is_none_or(|newest| *newest < id),
            "views search the active ids, which ascend"
        );
        self.next += 1;
        self.active.push(id);
        id
    }
    /// The end of every transaction with a number below this one is visible.
    pub fn commit_no(&self) -> u64 {
        self.committing.iter().copied().min().unwrap_or(self.next)
    }
    /// Draws a commit number. `end_committing` must follow.
    pub fn begin_end(&mut self) -> u64 {
        let number = self.next;
        assert!(
            number < self.bound,
            "every active transaction has a number reserved for its end"
        );
        self.next += 1;
        debug_assert!(
            self.committing.len() < self.active.len(),
            "only an active transaction draws a number for its end, and only one"
        );
        self.committing.push(number);
        number
    }
    pub fn end_committing(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            let at = self.committing.iter().position(|n| *n == number);
            self.committing
                .swap_remove(at.expect("the number was drawn by begin_end"));
        }
    }
    /// Removes an active id; returns the oldest that remains.
    pub fn leave(&mut self, id: TrxId) -> TrxId {
        let at = self
            .active
            .binary_search(&id)
            .expect("an active transaction is in the list");
        self.active.remove(at);
        debug_assert!(self.oldest_active() > id || at > 0, "the oldest active id only grows");
        self.oldest_active()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_number_waits_for_the_ends_under_way() {
        let mut numbers = Numbers::new(10, Vec::new());
        assert!(!numbers.can_draw());
        numbers.raise_bound(100);
        let (a, b) = (numbers.begin(), numbers.begin());
        assert_eq!((a, b, numbers.oldest_active()), (10, 11, 10));
        let end = numbers.begin_end();
        assert_eq!((end, numbers.commit_no()), (12, 12));
        let other = numbers.begin_end();
        numbers.end_committing(Some(other));
        assert_eq!(numbers.commit_no(), end, "the first end is not visible yet");
        numbers.end_committing(Some(end));
        assert_eq!(numbers.leave(a), b);
        assert_eq!((numbers.commit_no(), numbers.leave(b)), (14, 14));
    }
}
