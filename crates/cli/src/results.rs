//! The latest lines that print tables have written, kept for the live view.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of lines to keep: more than any screen shows.
const KEPT_LINES_MAX: usize = 500;
/// Largest number of bytes of a line to keep.
const LINE_BYTES_MAX: usize = 4096;

/// The latest lines; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    partial: Vec<u8>,
}

impl Results {
    /// The latest lines, oldest first, at most `at_most`.
    pub(crate) fn latest(&self, at_most: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.lines.iter().skip(kept.lines.len().saturating_sub(at_most)).cloned().collect()
    }
}

/// Keeps the lines that a print table writes.
impl Write for Results {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in text.split_inclusive(|b| *b == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(kept.partial.len());
            let (body, ended) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece, false),
            };
            kept.partial.extend_from_slice(&body[..body.len().min(room)]);
            if ended {
                let line = std::mem::take(&mut kept.partial);
                if kept.lines.len() == KEPT_LINES_MAX {
                    kept.lines.pop_front();
                }
                kept.lines.push_back(String::from_utf8_lossy(&line).into_owned());
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_in_order() {
        let results = Results::default();
        let mut writer = results.clone();
        writer.write_all(b"one\ntw").expect("memory");
        assert_eq!(results.latest(9), ["one"]);
        writer.write_all(b"o\n\nthree\n").expect("memory");
        assert_eq!(results.latest(9), ["one", "two", "", "three"]);
        assert_eq!(results.latest(2), ["", "three"]);
    }

    #[test]
    fn memory_is_bounded() {
        let results = Results::default();
        let mut writer = results.clone();
        for i in 0..2 * KEPT_LINES_MAX {
            writeln!(writer, "{i}").expect("memory");
        }
        writer.write_all(&vec![b'x'; 3 * LINE_BYTES_MAX]).expect("memory");
        writer.write_all(b"y\n").expect("memory");
        let kept = results.latest(usize::MAX);
        assert_eq!((kept.len(), kept.last().map(String::len)), (KEPT_LINES_MAX, Some(LINE_BYTES_MAX)));
        assert_eq!(kept[0], (KEPT_LINES_MAX + 1).to_string());
    }
}
