//! What the error log has been told, for work that is tried again and again: it says why it fails once, and not with each try.
use std::collections::HashMap;

/// A text that did not come for so long is news again.
const FORGOTTEN_US: u64 = 10 * 60 * 1_000_000;

/// Texts, and when each came last (microseconds). As many as there are different ones in the time after which they are forgotten.
#[derive(Default)]
pub struct Told(HashMap<String, u64>);

impl Told {
    /// Has it to be told now?
    pub fn is_news(&mut self, text: &str, now_us: u64) -> bool {
        self.0
            .retain(|_, last_us| now_us.saturating_sub(*last_us) < FORGOTTEN_US);
        self.0.insert(text.to_string(), now_us).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{Told, FORGOTTEN_US};

    #[test]
    fn two_reasons_in_turn_are_each_told_once() {
        let mut told = Told::default();
        let tries = 200;
        let news = (0..tries).filter(|n| told.is_news(["a", "b"][*n as usize % 2], n * FORGOTTEN_US / 4));
        assert_eq!(news.collect::<Vec<_>>(), [0, 1]);
        let later = tries * FORGOTTEN_US / 4 + FORGOTTEN_US;
        assert!(told.is_news("a", later), "it had gone, and is there again");
        assert!(!told.is_news("a", later) && told.0.len() == 1);
    }
}
