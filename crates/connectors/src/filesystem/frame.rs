//! Where records begin and end in the bytes of a text file.

use memchr::{memchr, memchr2};

/// How records are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// A record is a line; blank lines between records are skipped.
    Lines,
    /// Every line is a record, even a blank one.
    EveryLine,
    /// A record is a line, but line ends within quoted fields belong to it. A quote opens a field only at its
    /// start.
    Csv {
        /// Between fields.
        delimiter: u8,
    },
}

impl Framing {
    /// End of the record that begins at `start`, its line end included; `None` if it is not complete.
    pub(super) fn record_end(self, bytes: &[u8], start: usize) -> Option<usize> {
        match self {
            Framing::Lines | Framing::EveryLine => line_end(bytes, start),
            Framing::Csv { delimiter } => match csv_record(bytes, start, delimiter) {
                CsvRecord::Complete(end) => Some(end),
                CsvRecord::InLine | CsvRecord::InQuotes => None,
            },
        }
    }

    /// End of the record that begins at `start`, if the file ends with `bytes`. If a quote is never closed,
    /// the record ends with its first line.
    pub(super) fn last_record_end(self, bytes: &[u8], start: usize) -> usize {
        let is_open = match self {
            Framing::Lines | Framing::EveryLine => true,
            Framing::Csv { delimiter } => csv_record(bytes, start, delimiter) != CsvRecord::InLine,
        };
        let line_end = if is_open { line_end(bytes, start) } else { None };
        line_end.unwrap_or(bytes.len())
    }

    /// Whether a record may hold line ends.
    pub(super) fn is_quoting(self) -> bool {
        matches!(self, Framing::Csv { .. })
    }

    /// Adds the ends of the complete records in `bytes[start..]` and returns the last. `offsets` begins with
    /// the start of the first record. A blank line extends the record before it, or moves the start of the
    /// first record; with [`Framing::EveryLine`] it is a record of its own.
    pub(super) fn split(self, bytes: &[u8], start: usize, offsets: &mut Vec<i32>) -> usize {
        offsets.reserve((bytes.len() - start) / 128);
        let mut at = start;
        while let Some(end) = self.record_end(bytes, at) {
            self.push(&bytes[at..end], end, offsets);
            at = end;
        }
        at
    }

    /// Adds the record that ends at `end`, or extends the last record if this one is a blank line.
    pub(super) fn push(self, record: &[u8], end: usize, offsets: &mut Vec<i32>) {
        let blank = matches!(record, b"\n" | b"\r\n");
        match offsets.last_mut() {
            Some(last) if blank && self != Framing::EveryLine => *last = end as i32,
            _ => offsets.push(end as i32),
        }
    }
}

/// End of the line that begins at `start`.
pub(super) fn line_end(bytes: &[u8], start: usize) -> Option<usize> {
    memchr(b'\n', &bytes[start..]).map(|at| start + at + 1)
}

/// How much of a CSV record is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CsvRecord {
    /// The whole record; it ends here.
    Complete(usize),
    /// The line end is missing.
    InLine,
    /// A quote is not closed yet.
    InQuotes,
}

fn csv_record(bytes: &[u8], start: usize, delimiter: u8) -> CsvRecord {
    let mut at = start;
    loop {
        let Some(found) = memchr2(b'\n', b'"', &bytes[at..]).map(|found| at + found) else { return CsvRecord::InLine };
        if bytes[found] == b'\n' {
            return CsvRecord::Complete(found + 1);
        }
        at = found + 1;
        if found > start && bytes[found - 1] != delimiter {
            continue;
        }
        // A quoted field: to its closing quote, past doubled ones.
        loop {
            let Some(quote) = memchr(b'"', &bytes[at..]) else { return CsvRecord::InQuotes };
            at += quote + 1;
            if bytes.get(at) != Some(&b'"') {
                break;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(framing: Framing, text: &str, expected: &[&str]) {
        let mut offsets = vec![0];
        framing.split(text.as_bytes(), 0, &mut offsets);
        let records: Vec<_> = offsets.windows(2).map(|w| &text[w[0] as usize..w[1] as usize]).collect();
        assert_eq!(records, expected, "{text:?}");
    }

    #[test]
    fn lines() {
        check(Framing::Lines, "", &[]);
        check(Framing::Lines, "a", &[]);
        check(Framing::Lines, "a\nb\r\nc", &["a\n", "b\r\n"]);
        check(Framing::Lines, "\n\r\na\n\n\nb\n\n", &["a\n\n\n", "b\n\n"]);
        check(Framing::EveryLine, "\na\n\n", &["\n", "a\n", "\n"]);
    }

    #[test]
    fn quoted_fields_may_hold_line_ends() {
        let csv = Framing::Csv { delimiter: b',' };
        check(csv, "1,\"two\nlines\",3\n4\n", &["1,\"two\nlines\",3\n", "4\n"]);
        check(csv, "\"a \"\"\n\"\" b\"\nnext\n", &["\"a \"\"\n\"\" b\"\n", "next\n"]);
        check(csv, "an inch is 1\"\nnext\n", &["an inch is 1\"\n", "next\n"]);
        check(csv, "\"\"\n\"\",\"\"\n", &["\"\"\n", "\"\",\"\"\n"]);
        check(csv, "\"open\nnext\n", &[]);
        check(csv, "\"closed\"", &[]);
        for (text, end) in [("1,\"a\nb\"", 7), ("1,\"a\nb\",2", 9), ("1,\"a\nb", 5), ("1,2", 3), ("\"a\"\"\nb\"", 7)] {
            assert_eq!(csv.last_record_end(text.as_bytes(), 0), end, "{text:?}");
        }
    }
}
