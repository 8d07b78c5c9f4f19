//! Deduplication of log lines: work that is retried again and again reports each failure once.
//!
//! Called by: the purge workers and `close` (engine), the pool's retries of files it cannot open.
use std::collections::HashMap;

/// A text that was not seen for this long is reported again.
const FORGET_AFTER_US: u64 = 10 * 60 * 1_000_000;

/// Texts, each with the time at which it was seen last (microseconds). Texts older than
/// `FORGET_AFTER_US` are dropped, so the map holds only texts that recur.
#[derive(Default)]
pub struct LogDedup(HashMap<String, u64>);

impl LogDedup {
    /// Notes `text`. True if it must be logged now.
    pub fn is_news(&mut self, text: &str, now_us: u64) -> bool {
        debug_assert!(!text.is_empty(), "a line of the error log says something");
        self.0
            .retain(|_, last_us| now_us.saturating_sub(*last_us) < FORGET_AFTER_US);
        self.0.insert(text.to_string(), now_us).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{LogDedup, FORGET_AFTER_US};

    #[test]
    fn alternating_texts_are_each_reported_once() {
        let mut log = LogDedup::default();
        let tries = 200;
        let news = (0..tries).filter(|n| log.is_news(["a", "b"][*n as usize % 2], n * FORGET_AFTER_US / 4));
        assert_eq!(news.collect::<Vec<_>>(), [0, 1]);
        let later = tries * FORGET_AFTER_US / 4 + FORGET_AFTER_US;
        assert!(log.is_news("a", later), "a text that was forgotten is news again");
        assert!(!log.is_news("a", later) && log.0.len() == 1);
    }
}
