//! Counts per campaign and window. Windows arrive nearly in order, so the row of the last one is cached.

use std::collections::BTreeMap;

use crate::answer::Answer;
use crate::workload::WINDOW_MS;

/// Views per campaign and window.
#[derive(Debug)]
pub(crate) struct WindowCounts {
    campaigns: usize,
    window: i64,
    row: Vec<u64>,
    others: BTreeMap<i64, Vec<u64>>,
}

impl WindowCounts {
    /// Without views, for `campaigns` campaigns.
    pub(crate) fn new(campaigns: usize) -> Self {
        WindowCounts { campaigns, window: i64::MIN, row: vec![0; campaigns], others: BTreeMap::new() }
    }

    /// The window of an event time.
    #[inline]
    pub(crate) fn window_of(time_ms: i64) -> i64 {
        time_ms.div_euclid(WINDOW_MS)
    }

    /// One more view.
    #[inline]
    pub(crate) fn add(&mut self, campaign: u32, window: i64) {
        if window != self.window {
            self.switch(window);
        }
        self.row[campaign as usize] += 1;
    }

    #[cold]
    fn switch(&mut self, window: i64) {
        let row = self.others.remove(&window).unwrap_or_else(|| vec![0; self.campaigns]);
        let last = std::mem::replace(&mut self.row, row);
        self.others.insert(self.window, last);
        self.window = window;
    }

    /// The rows with views.
    pub(crate) fn answer(&self, campaigns: &[String]) -> Answer {
        let mut answer = Answer::default();
        for (window, row) in self.others.iter().chain(std::iter::once((&self.window, &self.row))) {
            for (campaign, views) in campaigns.iter().zip(row).filter(|(_, views)| **views > 0) {
                answer.add_views(campaign, window * WINDOW_MS, *views);
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_switching_back_and_forth() {
        let campaigns = ["a".to_owned(), "b".to_owned()];
        let mut counts = WindowCounts::new(2);
        for (campaign, time_ms) in [(0, 9_999), (1, 10_000), (0, 0), (1, 19_999), (1, 5)] {
            counts.add(campaign, WindowCounts::window_of(time_ms));
        }
        let mut expected = Answer::default();
        expected.add_views("a", 0, 2);
        expected.add_views("b", 0, 1);
        expected.add_views("b", 10_000, 2);
        assert_eq!(counts.answer(&campaigns), expected);
    }
}
