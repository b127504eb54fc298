//! Layouts: the bytes that the records of a stream have in common, learned from one of them.
//!
//! Similar records have the same bytes between their values: brackets, keys, colons, commas, white space. A
//! layout consists of those bytes and, between them, what to do with the values. Nested objects are
//! flattened, so a nested field costs as much as a field of the record.
//!
//! A stream may have several layouts, one for each kind of event. A few layouts are kept. The last one that
//! matched is tried first. If layouts hardly ever fit, trying and learning them would cost more than they
//! save; then they are disabled for a while.

use super::column::{ColumnId, Columns, ROOT};
use super::datetime::{EPOCH_MS_MAX, EPOCH_MS_MIN};
use super::kind::ValueKind;
use super::token::{Padded, space_end};
use super::trace::{Leaf, Shape, Trace};
use crate::format::lanes::{Lanes, WIDTH};

/// What to do with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Skip a string.
    SkipText,
    /// A string's view.
    Text,
    SkipInteger,
    /// An integer of at most 64 bits.
    Integer,
    /// Skip any value, by the scanner.
    Skip,
    /// Read any value, by the scanner.
    Read,
}

/// Bytes that must be there, in the form of one wide comparison.
#[derive(Clone, Debug)]
pub(super) struct Literal {
    /// The last bytes, at most as many as one comparison covers.
    pub(super) tail: [u8; WIDTH],
    pub(super) tail_len: usize,
    /// The bits of the comparison that are ignored.
    pub(super) beyond: u32,
    /// The bytes before the tail; almost always none.
    pub(super) head: Box<[u8]>,
    /// All of its bytes except the white space between tokens; `None` if a key has escapes.
    tokens: Option<Box<[u8]>>,
}

/// A value and the bytes before it, including a string's opening quote.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) literal: Literal,
    /// The bit of the opening quote in the comparison, 0 if there is none.
    pub(super) quote: u32,
    pub(super) action: Action,
    pub(super) target: ColumnId,
    /// The range of an integer.
    pub(super) min: i64,
    pub(super) max: i64,
    /// Number of objects around the value.
    pub(super) depth: usize,
}

/// The bytes that records of one kind have in common.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) steps: Vec<Step>,
    /// The bytes after the last value.
    pub(super) last: Literal,
    /// Objects that are present, to be made valid.
    pub(super) present: Vec<ColumnId>,
    /// Columns that are absent, to be made null.
    pub(super) absent: Vec<ColumnId>,
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        let (head, tail) = bytes.split_at(bytes.len().saturating_sub(WIDTH));
        let mut wide = [0; WIDTH];
        wide[..tail.len()].copy_from_slice(tail);
        let beyond = u32::MAX.checked_shl(tail.len() as u32).unwrap_or(0);
        Literal { tail: wide, tail_len: tail.len(), beyond, head: head.into(), tokens: tokens(bytes) }
    }

    /// Where the literal ends if it begins at `pos` of `record`, with any white space between its tokens.
    ///
    /// # Safety
    /// The processor must have the instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn loose_end<L: Lanes>(&self, record: Padded<'_>, mut pos: usize) -> Option<usize> {
        let mut in_key = false;
        for byte in self.tokens.as_deref()? {
            if !in_key {
                // SAFETY: same contract.
                pos = unsafe { space_end::<L>(record, pos) };
            }
            if record.bytes.get(pos) != Some(byte) {
                return None;
            }
            in_key ^= *byte == b'"';
            pos += 1;
        }
        // Before a value that is not a string, white space may follow.
        // SAFETY: same contract.
        Some(if in_key { pos } else { unsafe { space_end::<L>(record, pos) } })
    }
}

fn tokens(bytes: &[u8]) -> Option<Box<[u8]>> {
    let mut in_key = false;
    let mut tokens = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => return None,
            b' ' | b'\t' | b'\n' | b'\r' if !in_key => continue,
            b'"' => in_key = !in_key,
            _ => {}
        }
        tokens.push(*byte);
    }
    Some(tokens.into())
}

impl Layout {
    /// The layout of the record `bytes`, whose values are in `trace`.
    pub(super) fn new(bytes: &[u8], trace: &Trace, columns: &Columns) -> Self {
        let mut from = 0;
        let steps = trace.leaves.iter().map(|leaf| {
            let step = Step::new(&bytes[from..], leaf, from, columns);
            from = leaf.place.end;
            step
        });
        let steps = steps.collect();
        Layout {
            steps,
            last: Literal::new(&bytes[from..trace.end]),
            present: trace.present.clone(),
            absent: trace.absent.clone(),
        }
    }
}

impl Step {
    /// The step for `leaf`; `bytes` begins after the value before it, at `from` in the record.
    fn new(bytes: &[u8], leaf: &Leaf, from: usize, columns: &Columns) -> Self {
        let (mut min, mut max) = (i64::MIN, i64::MAX);
        let action = match (leaf.shape, leaf.target.map(|target| columns.column(target).kind)) {
            (Shape::Text, None) => Action::SkipText,
            (Shape::Text, Some(ValueKind::Text)) => Action::Text,
            (Shape::Integer, None) => Action::SkipInteger,
            (Shape::Integer, Some(ValueKind::Integer { min: least, max: most })) => {
                (min, max) = (least, most);
                Action::Integer
            }
            (Shape::Integer, Some(ValueKind::Unsigned64)) => {
                min = 0;
                Action::Integer
            }
            (Shape::Integer, Some(ValueKind::Timestamp(timestamp))) if timestamp.is_millisecond() => {
                (min, max) = (EPOCH_MS_MIN, EPOCH_MS_MAX);
                Action::Integer
            }
            (_, None) => Action::Skip,
            (_, Some(_)) => Action::Read,
        };
        let quoted = matches!(action, Action::SkipText | Action::Text);
        let literal = Literal::new(&bytes[..leaf.place.start - from + usize::from(quoted)]);
        let quote = if quoted { 1 << (literal.tail_len - 1) } else { 0 };
        Step { literal, quote, action, target: leaf.target.unwrap_or(ROOT), min, max, depth: leaf.depth }
    }
}

/// The layouts of a stream.
#[derive(Debug)]
pub(super) struct Layouts {
    known: Vec<KnownLayout>,
    /// The last layout that matched.
    current: usize,
    /// Increases each time that another layout becomes the current one: it orders the layouts by their last
    /// use.
    clock: u64,
    /// The remaining budget for failed attempts; below zero, layouts are disabled.
    attempts: i32,
    /// How many layouts may still be learned.
    lessons: u32,
    /// Records that fitted since `lessons` last grew.
    fitted: usize,
    /// Records read since layouts were disabled.
    rested: u32,
}

#[derive(Debug)]
struct KnownLayout {
    layout: Layout,
    /// The clock when it last became the current layout.
    fitted: u64,
}

impl Default for Layouts {
    fn default() -> Self {
        Layouts {
            known: Vec::new(),
            current: 0,
            clock: 0,
            attempts: Self::ATTEMPTS_MAX,
            lessons: Self::LESSONS_MAX,
            fitted: 0,
            rested: 0,
        }
    }
}

impl Layouts {
    const KEPT: usize = 8;
    const ATTEMPTS_MAX: i32 = 256;
    /// The cost of a failed attempt, in attempts that fit.
    const FAILURE: i32 = 2;
    const LESSONS_MAX: u32 = 16;
    /// Records that must fit for one more lesson.
    const FITTED_PER_LESSON: usize = 64;
    /// Number of records read without layouts before they are tried again.
    const REST: u32 = 4_096;
    /// Attempts and lessons after that.
    const AFTER_REST: u32 = 8;

    /// Disabled layouts: the next records are read without.
    #[cfg(test)]
    pub(super) fn resting() -> Self {
        Layouts { attempts: -1, lessons: 0, ..Layouts::default() }
    }

    /// Whether layouts are used for the next record. Must be called once per record.
    #[inline(always)]
    pub(super) fn active(&mut self) -> bool {
        self.attempts >= 0 || self.wait()
    }

    #[cold]
    fn wait(&mut self) -> bool {
        self.rested += 1;
        if self.rested == Self::REST {
            self.rested = 0;
            self.attempts = Self::AFTER_REST as i32;
            self.lessons = self.lessons.max(Self::AFTER_REST);
        }
        false
    }

    /// The layout to try after `attempt` others: first the one that fitted last.
    #[inline(always)]
    pub(super) fn candidate(&self, attempt: usize) -> Option<(usize, &Layout)> {
        let index = match attempt {
            0 => self.current,
            _ if attempt <= self.current => attempt - 1,
            _ => attempt,
        };
        self.known.get(index).map(|known| (index, &known.layout))
    }

    /// Layout `index` fitted, after another one fitted the record before.
    #[cold]
    pub(super) fn switch(&mut self, index: usize) {
        self.clock += 1;
        self.known[index].fitted = self.clock;
        self.current = index;
    }

    /// This number of records fitted.
    pub(super) fn fitted(&mut self, records: usize) {
        self.attempts = self.attempts.saturating_add(records.min(i32::MAX as usize) as i32).min(Self::ATTEMPTS_MAX);
        self.fitted += records;
        if self.fitted >= Self::FITTED_PER_LESSON {
            let more = u32::try_from(self.fitted / Self::FITTED_PER_LESSON).unwrap_or(u32::MAX);
            self.lessons = self.lessons.saturating_add(more).min(Self::LESSONS_MAX);
            self.fitted %= Self::FITTED_PER_LESSON;
        }
    }

    /// No layout fitted.
    pub(super) fn failed(&mut self) {
        if self.attempts >= 0 {
            self.attempts -= Self::FAILURE;
        }
    }

    /// Whether to learn the layout of the next record that does not fit.
    pub(super) fn learning(&self) -> bool {
        self.lessons > 0 && self.attempts >= 0
    }

    /// Keeps a layout, replacing the least recently used one if necessary.
    pub(super) fn learn(&mut self, layout: Layout) {
        self.lessons -= 1;
        self.clock += 1;
        let known = KnownLayout { layout, fitted: self.clock };
        if self.known.len() < Self::KEPT {
            self.current = self.known.len();
            self.known.push(known);
        } else if let Some(oldest) = (0..Self::KEPT).min_by_key(|index| self.known[*index].fitted) {
            self.known[oldest] = known;
            self.current = oldest;
        }
    }
}
