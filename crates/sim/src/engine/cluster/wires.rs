//! The connections between workers, and the bytes under way on them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{ErrorKind, Nanos, Rng};
use anabranch_runtime::network::{SteppedEndpoint, SteppedWire};

use super::frames::{Channels, Credit, Frames};
use super::lane::Lane;
use crate::engine::outside::ProcessId;
use crate::engine::scenario::Several;
use crate::{Checked, Mutation};

/// A machine; 0 has the coordinators.
pub(super) type Place = usize;

/// How things travel.
pub(super) struct Air {
    pub(super) rng: Rng,
    pub(super) several: Several,
    /// Until when nothing passes from one place to another.
    pub(super) cuts: BTreeMap<(Place, Place), Nanos>,
    /// Slow links, by their ends: how much longer everything takes.
    pub(super) slow: BTreeMap<(Place, Place), u64>,
}

impl Air {
    pub(super) fn passes(&self, from: Place, to: Place, now: Nanos) -> bool {
        self.cuts.get(&(from, to)).is_none_or(|until| *until <= now)
    }

    /// When something that is sent now arrives.
    pub(super) fn arrival(&mut self, from: Place, to: Place, now: Nanos) -> Nanos {
        let factor = self.slow.get(&(from, to)).copied().unwrap_or(1);
        now.plus(Duration::from_micros(self.rng.below(self.several.delay_us * factor + 1)))
    }
}

/// All connections between workers.
#[derive(Default)]
pub(super) struct Wires {
    connections: Vec<Connection>,
    /// Who listens where.
    listening: BTreeMap<SocketAddr, (ProcessId, Place, Arc<SteppedEndpoint>)>,
    /// The newest rows that went from one place to another, and whether a change was undone since.
    newest: BTreeMap<(Place, Place), Vec<u8>>,
    pub(super) undone: bool,
    /// Connections that were made.
    pub(super) made: u64,
    /// Bytes of connections that carried rows.
    pub(super) carried: u64,
}

/// A connection. The first end has begun it.
struct Connection {
    ends: [End; 2],
    /// From each end to the other.
    lanes: [Lane<Bytes>; 2],
    under_way: [usize; 2],
    frames: [Frames; 2],
    channels: Channels,
}

/// Some bytes, and what the sender of rows learns with the first of them.
struct Bytes {
    bytes: Vec<u8>,
    credits: Vec<Credit>,
}

struct End {
    process: ProcessId,
    place: Place,
    wire: SteppedWire,
    /// Nothing comes out of it any more.
    gone: bool,
}

impl Wires {
    pub(super) fn listen(
        &mut self,
        (process, place): (ProcessId, Place),
        address: SocketAddr,
        at: &Arc<SteppedEndpoint>,
    ) {
        self.listening.insert(address, (process, place, Arc::clone(at)));
    }

    /// A process is gone. What it has sent may be lost.
    pub(super) fn gone(&mut self, process: ProcessId, now: Nanos, air: &mut Air) {
        self.listening.retain(|_, (listening, ..)| *listening != process);
        for connection in &mut self.connections {
            for side in 0..2 {
                if connection.ends[side].process == process && !connection.ends[side].gone {
                    if air.rng.below(2) == 0 {
                        connection.lanes[side].lose();
                    }
                    connection.close(side, now, air);
                }
            }
        }
    }

    /// A connection is reset: what is under way is lost, and both ends learn of it, each in its time.
    pub(super) fn reset(&mut self, now: Nanos, air: &mut Air) -> bool {
        let count = self.connections.len() as u64;
        let Some(connection) = (count > 0).then(|| air.rng.below(count) as usize) else { return false };
        let connection = &mut self.connections[connection];
        for side in 0..2 {
            connection.lanes[side].lose();
            connection.finish(side, now, air);
        }
        true
    }

    /// A process reads what has come and writes what it has to. `endpoint`: where it begins connections.
    pub(super) fn carry(
        &mut self,
        (process, place): (ProcessId, Place),
        endpoint: &SteppedEndpoint,
        now: Nanos,
        air: &mut Air,
        mutation: Option<Mutation>,
    ) -> Checked {
        for (address, wire) in endpoint.dials() {
            let Some((listener, at, accepts)) = self.listening.get(&address) else {
                wire.unreachable();
                continue;
            };
            self.made += 1;
            let own = End { process, place, wire, gone: false };
            let other = End { process: *listener, place: *at, wire: accepts.accept(), gone: false };
            let former = self.newest.remove(&(place, *at)).filter(|_| self.undone);
            self.connections.push(Connection {
                ends: [own, other],
                lanes: [Lane::default(), Lane::default()],
                under_way: [0; 2],
                frames: [Frames::new(true), Frames::new(false)],
                channels: Channels::after(former),
            });
        }
        for connection in &mut self.connections {
            for side in 0..2 {
                if connection.ends[side].process == process && !connection.ends[side].gone {
                    self.carried += connection.read(side, now, air)?;
                    connection.write(side, now, air, mutation)?;
                    let places = (connection.ends[side].place, connection.ends[1 - side].place);
                    self.newest.extend(connection.channels.newest.take().map(|rows| (places, rows)));
                }
            }
        }
        self.connections.retain(|connection| !connection.ends.iter().all(|end| end.gone));
        Ok(())
    }
}

impl Connection {
    fn close(&mut self, side: usize, now: Nanos, air: &mut Air) {
        self.ends[side].gone = true;
        self.finish(side, now, air);
    }

    /// This end sends nothing more. The other end learns it when the message arrives.
    fn finish(&mut self, side: usize, now: Nanos, air: &mut Air) {
        let at = air.arrival(self.ends[side].place, self.ends[1 - side].place, now);
        self.lanes[side].close(at);
    }

    /// An end gets what has come. Returns how many bytes that are.
    fn read(&mut self, side: usize, now: Nanos, air: &Air) -> Checked<u64> {
        let (end, other) = (&self.ends[side], &self.ends[1 - side]);
        let mut read = 0;
        if air.passes(other.place, end.place, now) {
            let lane = &mut self.lanes[1 - side];
            while let Some(Bytes { bytes, credits }) = lane.pop(now) {
                self.under_way[1 - side] = self.under_way[1 - side].saturating_sub(bytes.len());
                credits.into_iter().for_each(|credit| self.channels.credit(credit));
                read += bytes.len() as u64;
                end.wire.give(&bytes);
            }
            if lane.has_closed(now) {
                end.wire.end("the peer has closed the connection");
            }
        }
        end.wire.tick();
        match end.wire.failure().filter(|error| error.kind() != ErrorKind::Cancelled) {
            Some(error) if ["malformed", "checksum"].iter().any(|wrong| error.to_string().contains(wrong)) => {
                Err(("exchange", error.to_string()))
            }
            _ => Ok(read),
        }
    }

    /// An end writes what it has to, as far as there is room.
    fn write(&mut self, side: usize, now: Nanos, air: &mut Air, mutation: Option<Mutation>) -> Checked {
        let (place, to) = (self.ends[side].place, self.ends[1 - side].place);
        while self.under_way[side] < air.several.window {
            let bytes_max = 1 + air.rng.below(air.several.chunk as u64) as usize;
            let bytes = self.ends[side].wire.take(bytes_max);
            if bytes.is_empty() {
                break;
            }
            let (passing, mut credits) = self.frames[side].written(&bytes, &mut self.channels, mutation)?;
            self.under_way[side] += passing.len();
            let mut rest = passing.as_slice();
            while !rest.is_empty() {
                let (first, others) =
                    rest.split_at(rest.len().min(1 + air.rng.below(air.several.chunk as u64) as usize));
                let at = air.arrival(place, to, now);
                let bytes = Bytes { bytes: first.to_vec(), credits: std::mem::take(&mut credits) };
                self.lanes[side].push(at, bytes);
                rest = others;
            }
        }
        if self.ends[side].wire.has_finished() && !self.lanes[side].is_closed() {
            self.finish(side, now, air);
        }
        if self.ends[side].wire.is_over() && !self.ends[side].gone {
            self.close(side, now, air);
        }
        Ok(())
    }
}
