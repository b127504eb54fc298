//! Numbers of 64 bits that are near each other, in four bytes each.

/// The base is this much less than the first number. So later numbers may be that much less or greater.
const NEAR: u64 = 1 << 31;

/// Numbers of 64 bits by their index. As long as all of them are near the first one, each takes four bytes.
pub(crate) struct Words(Cells);

enum Cells {
    /// Differences from the base, which the first number determines.
    Near {
        base: Option<u64>,
        offsets: Vec<u32>,
    },
    Any(Vec<u64>),
}

impl Default for Words {
    fn default() -> Words {
        Words(Cells::Near { base: None, offsets: Vec::new() })
    }
}

impl Words {
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Cells::Near { offsets, .. } => offsets.len(),
            Cells::Any(words) => words.len(),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> u64 {
        match &self.0 {
            Cells::Near { base, offsets } => base.unwrap_or(0).wrapping_add(u64::from(offsets[at])),
            Cells::Any(words) => words[at],
        }
    }

    pub(crate) fn reserve(&mut self, more: usize) {
        match &mut self.0 {
            Cells::Near { offsets, .. } => offsets.reserve(more),
            Cells::Any(words) => words.reserve(more),
        }
    }

    /// Replaces a number, or appends it.
    #[inline(always)]
    pub(crate) fn put(&mut self, at: usize, word: u64) {
        match &mut self.0 {
            Cells::Near { base, offsets } => {
                let base = *base.get_or_insert(word.wrapping_sub(NEAR));
                match u32::try_from(word.wrapping_sub(base)) {
                    Ok(offset) => put(offsets, at, offset),
                    Err(_) => self.put_far(at, word),
                }
            }
            Cells::Any(words) => put(words, at, word),
        }
    }

    /// Puts an arbitrary number there.
    pub(crate) fn put_none(&mut self, at: usize) {
        match &mut self.0 {
            Cells::Near { offsets, .. } => put(offsets, at, 0),
            Cells::Any(words) => put(words, at, 0),
        }
    }

    /// Appends this number until the length is `len`.
    pub(crate) fn fill(&mut self, len: usize, word: u64) {
        (self.len()..len).for_each(|at| self.put(at, word));
    }

    #[cold]
    fn put_far(&mut self, at: usize, word: u64) {
        let mut words: Vec<u64> = (0..self.len()).map(|at| self.get(at)).collect();
        put(&mut words, at, word);
        self.0 = Cells::Any(words);
    }

    pub(crate) fn size_bytes(&self) -> usize {
        match &self.0 {
            Cells::Near { offsets, .. } => offsets.capacity() * size_of::<u32>(),
            Cells::Any(words) => words.capacity() * size_of::<u64>(),
        }
    }
}

impl FromIterator<u64> for Words {
    fn from_iter<I: IntoIterator<Item = u64>>(words: I) -> Words {
        let mut all = Words::default();
        let words = words.into_iter();
        all.reserve(words.size_hint().0);
        words.enumerate().for_each(|(at, word)| all.put(at, word));
        all
    }
}

#[inline(always)]
fn put<T>(cells: &mut Vec<T>, at: usize, cell: T) {
    match cells.get_mut(at) {
        Some(former) => *former = cell,
        None => cells.push(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_were_when_they_become_far_from_each_other() {
        let mut words = Words::default();
        words.put_none(0);
        let near = [5, u64::MAX, 5 + NEAR - 1, 5_u64.wrapping_sub(NEAR)];
        near.iter().enumerate().for_each(|(at, word)| words.put(at, *word));
        assert!(words.size_bytes() <= 4 * size_of::<u64>(), "the first number was none");
        assert_eq!((0..4).map(|at| words.get(at)).collect::<Vec<_>>(), near);
        words.put(1, 7);
        words.put(4, 5 + NEAR);
        words.fill(6, 0);
        let all = [5, 7, near[2], near[3], 5 + NEAR, 0];
        assert_eq!((0..6).map(|at| words.get(at)).collect::<Vec<_>>(), all);
        assert_eq!(all.into_iter().collect::<Words>().len(), 6);
    }
}
