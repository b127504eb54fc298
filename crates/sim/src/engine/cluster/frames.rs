//! The frames on one direction of a connection between workers, as bytes: `network::frame` has their layout,
//! which a test freezes.
//!
//! Whatever passes is counted: the bytes of a channel that its sender has written and its receiver has not
//! returned must be within the limit that the receiver has set. This is the bound of the memory that the
//! exchange needs.

use std::collections::BTreeMap;

use crate::{Checked, Mutation};

/// Bytes of a header, and of the first message before its token.
const HEADER: usize = 64;
const ROWS: u8 = 1;
const MARKER: u8 = 4;
const LIMIT: u8 = 5;
const CREDIT: u8 = 6;
const END: u8 = 7;
const BEAT: u8 = 10;

/// The channels of one connection.
#[derive(Default)]
pub(super) struct Channels {
    limits: BTreeMap<u32, u64>,
    outstanding: BTreeMap<u32, u64>,
    /// The planted bug has happened.
    planted: bool,
    /// By channel, rows that the next marker passes.
    held: BTreeMap<u32, Vec<u8>>,
    /// The newest rows, and those of a former connection that come before the next ones.
    pub(super) newest: Option<Vec<u8>>,
    former: Option<Vec<u8>>,
}

/// Bytes that the receiver of a channel returns.
#[derive(Clone, Copy)]
pub(super) struct Credit {
    channel: u32,
    bytes: u64,
}

/// Bytes that pass, and those that they return to channels.
pub(super) type Passing = (Vec<u8>, Vec<Credit>);

/// One direction. What is cut between two frames passes with the rest.
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// The connection begins with a message of another form.
    greets: bool,
    /// Rows go in this direction.
    has_rows: bool,
}

impl Frames {
    pub(super) fn new(has_rows: bool) -> Frames {
        Frames { bytes: Vec::new(), greets: true, has_rows }
    }

    /// Bytes were written. Returns those that pass now, and the bytes that they return to channels.
    pub(super) fn written(
        &mut self,
        bytes: &[u8],
        channels: &mut Channels,
        mutation: Option<Mutation>,
    ) -> Checked<Passing> {
        self.bytes.extend_from_slice(bytes);
        let (mut passing, mut credits) = (Vec::new(), Vec::new());
        while let Some(frame) = self.next() {
            let kind = frame[0];
            let (channel, value) = (number(&frame, 4) as u32, number(&frame, 32));
            let is_frame = !self.greets;
            self.greets = false;
            if !is_frame {
                passing.extend(frame);
                continue;
            }
            match kind {
                LIMIT => drop(channels.limits.insert(channel, value)),
                CREDIT => credits.push(Credit { channel, bytes: value }),
                BEAT | END => {}
                _ if self.has_rows => channels.charge(channel, frame.len() as u64)?,
                _ => {}
            }
            let mutation = mutation.filter(|mutation| *mutation == Mutation::CreditTwice || self.has_rows);
            match (mutation, kind) {
                (Some(Mutation::CreditTwice), CREDIT) => passing.extend([frame.as_slice(), &frame].concat()),
                (Some(Mutation::FrameTwice), ROWS) if !std::mem::replace(&mut channels.planted, true) => {
                    passing.extend([frame.as_slice(), &frame].concat());
                }
                (Some(Mutation::ChannelLeft), ROWS) => {
                    passing.extend(channels.former.take().unwrap_or_default());
                    channels.newest = Some(frame.clone());
                    passing.extend(frame);
                }
                (Some(Mutation::FrameOvertaken), ROWS) => {
                    passing.extend(channels.held.insert(channel, frame).unwrap_or_default());
                }
                (Some(Mutation::FrameOvertaken), MARKER) => {
                    // A cut, with or without a snapshot: more follows.
                    let held = channels.held.remove(&channel).unwrap_or_default();
                    let (first, second) = if frame[1] < 2 { (frame, held) } else { (held, frame) };
                    passing.extend([first, second].concat());
                }
                (Some(Mutation::FrameOvertaken), _) => {
                    passing.extend(channels.held.remove(&channel).unwrap_or_default());
                    passing.extend(frame);
                }
                _ => passing.extend(frame),
            }
        }
        Ok((passing, credits))
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let header = self.bytes.get(..HEADER)?;
        let rest = match (self.greets, self.has_rows) {
            (true, true) => (number(header, 32) >> 32) as usize,
            (true, false) => number(header, 16) as usize,
            (false, _) if header[0] == ROWS => number(header, 24) as u32 as usize,
            (false, _) => 0,
        };
        (self.bytes.len() >= HEADER + rest).then(|| self.bytes.drain(..HEADER + rest).collect())
    }
}

impl Channels {
    /// Of a connection that follows another one, whose last rows may come once more.
    pub(super) fn after(former: Option<Vec<u8>>) -> Channels {
        Channels { former, ..Channels::default() }
    }

    /// The sender of rows learns of returned bytes.
    pub(super) fn credit(&mut self, credit: Credit) {
        let outstanding = self.outstanding.entry(credit.channel).or_default();
        *outstanding = outstanding.saturating_sub(credit.bytes);
    }

    /// A frame was written: only if it fits into the limit, or if less than half of that is outstanding.
    fn charge(&mut self, channel: u32, bytes: u64) -> Checked {
        let limit = self.limits.get(&channel).copied().unwrap_or(0);
        let outstanding = self.outstanding.entry(channel).or_default();
        if *outstanding >= limit.div_ceil(2) && *outstanding + bytes > limit {
            let held = *outstanding;
            return Err(("bound", format!("channel {channel} has {held} of {limit} bytes, and gets {bytes} more")));
        }
        *outstanding += bytes;
        Ok(())
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u64::from_le_bytes)
}
