//! Standard output and standard error whose reader may leave before the text ends, as `head` does. What is written
//! then has nobody who misses it: it is dropped, the command is told to come to its end, and nobody is told of an error.

use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_model::Error;

/// One of the two streams; clones share what is known of its reader.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    stream: Stream,
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
        Console { stream: Stream::Output, reader_left: Arc::default() }
    }

    /// Standard error, for everything else.
    pub(crate) fn error() -> Self {
        Console { stream: Stream::Error, reader_left: Arc::default() }
    }

    /// Whether nobody reads any more.
    pub(crate) fn reader_left(&self) -> bool {
        self.reader_left.load(Ordering::SeqCst)
    }

    /// Writes a text and a line's end.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Error> {
        let written = self.write_all(format!("{text}\n").as_bytes()).and_then(|()| self.flush());
        written.map_err(|e| Error::outside(format!("cannot write to the terminal: {e}")))
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
        let written = match self.stream {
            Stream::Output => stdout().write(text),
            Stream::Error => stderr().write(text),
        };
        self.unless_left(written, text.len())
    }

    /// Under one lock: the lines of two writers do not mix.
    fn write_all(&mut self, text: &[u8]) -> io::Result<()> {
        let written = match self.stream {
            Stream::Output => stdout().write_all(text),
            Stream::Error => stderr().write_all(text),
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
    fn only_a_reader_who_left_is_no_error() {
        let console = Console::output();
        let other = console.clone();
        assert!(console.unless_left(Err(ErrorKind::StorageFull.into()), ()).is_err());
        assert!(!other.reader_left());
        assert_eq!(console.unless_left(Err(ErrorKind::BrokenPipe.into()), 7).expect("dropped"), 7);
        assert!(other.reader_left());
    }
}
