//! A limit for work of several steps at a socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anabranch_model::{Clock as _, Nanos, SystemClock};

/// The time at which work of several steps must have ended.
pub struct Deadline {
    clock: SystemClock,
    end: Nanos,
}

impl Deadline {
    /// The work must end within this time.
    #[must_use]
    pub fn after(limit: Duration) -> Deadline {
        let clock = SystemClock::new();
        let end = clock.now().plus(limit);
        Deadline { clock, end }
    }

    /// The remaining time, or an error if there is none.
    pub fn left(&self) -> io::Result<Duration> {
        let left = self.end.after(self.clock.now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// A socket within a deadline. It changes the timeouts of the socket.
pub struct Limited<'a> {
    /// The socket.
    pub stream: &'a TcpStream,
    /// The limit of all reads and writes together.
    pub deadline: &'a Deadline,
}

impl Limited<'_> {
    /// The first byte that the peer sends, without consuming it. `None` if the peer sends nothing.
    pub fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        Ok((self.stream.peek(&mut first)? == 1).then_some(first[0]))
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
