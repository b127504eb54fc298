//! Standard output and standard error. Their reader may leave before the text ends, as `head` does. Text
//! written after that is dropped, the command stops, and no error is reported.
//!
//! Control characters from data never reach a terminal: they are escaped on the way there, and always on
//! standard error.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_model::{Error, visible};

/// One of the two streams; clones share whether its reader has left.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    stream: Stream,
    /// Whether control characters are escaped. They are not if a program reads the stream.
    escapes: bool,
    reader_left: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Output,
    Error,
}

impl Console {
    /// Standard output, for results.
    pub(crate) fn output() -> Self {
        Console { stream: Stream::Output, escapes: stdout().is_terminal(), reader_left: Arc::default() }
    }

    /// Standard error, for everything else.
    pub(crate) fn error() -> Self {
        Console { stream: Stream::Error, escapes: true, reader_left: Arc::default() }
    }

    /// Whether the reader has closed the stream.
    pub(crate) fn reader_left(&self) -> bool {
        self.reader_left.load(Ordering::SeqCst)
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<(), Error> {
        let written = self.write_all(format!("{text}\n").as_bytes()).and_then(|()| self.flush());
        written.map_err(|e| Error::outside(format!("cannot write to the terminal: {e}")))
    }

    fn shown<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let is_safe = |byte: &u8| (*byte >= b' ' && *byte < 0x7f) || *byte == b'\n';
        if !self.escapes || text.iter().all(is_safe) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(visible(&String::from_utf8_lossy(text)).into_owned().into_bytes())
    }

    fn unless_left<T>(&self, result: io::Result<T>, dropped: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.reader_left.store(true, Ordering::SeqCst);
                Ok(dropped)
            }
            other => other,
        }
    }
}

impl Write for Console {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.write_all(text).map(|()| text.len())
    }

    /// Under one lock: the lines of two writers do not mix.
    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        let shown = self.shown(text);
        let written = match self.stream {
            Stream::Output => stdout().write_all(&shown),
            Stream::Error => stderr().write_all(&shown),
        };
        self.unless_left(written, ())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match self.stream {
            Stream::Output => stdout().flush(),
            Stream::Error => stderr().flush(),
        };
        self.unless_left(flushed, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_unless_a_program_reads() {
        let console = Console { escapes: true, ..Console::output() };
        assert_eq!(&*console.shown(b"a\x1b[2J\n"), b"a\\u{1b}[2J\n");
        assert_eq!(&*console.shown("Ü\n".as_bytes()), "Ü\n".as_bytes());
        let console = Console { escapes: false, ..console };
        assert_eq!(&*console.shown(b"a\x1b\xff"), b"a\x1b\xff");
    }

    #[test]
    fn only_a_reader_who_left_is_no_error() {
        let console = Console::output();
        let other = console.clone();
        assert!(console.unless_left(Err(ErrorKind::StorageFull.into()), ()).is_err());
        assert!(!other.reader_left());
        assert_eq!(console.unless_left(Err(ErrorKind::BrokenPipe.into()), 7).expect("dropped"), 7);
        assert!(other.reader_left());
    }
}
