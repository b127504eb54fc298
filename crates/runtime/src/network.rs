//! The exchange between workers: the channels from the tasks of one process to those of another, over one TCP
//! connection.
//!
//! A connection carries rows in one direction, for all channels between the two workers, and credits in the
//! other. A task never waits for a socket. `acceptor` and `links` make the sockets of new connections, and
//! `hello` introduces their ends. `registry` and `links` decide which incarnation a connection belongs to.
//! `connection` starts the two threads of each end. `outgoing` and `incoming` are the ends, and decide
//! without sockets what the threads do. `frame` and `arrays` define the format of what is sent. Tasks and
//! threads meet in `outbox` at the sender and in an inbox at the receiver. An inbox gives bytes back to the
//! sender by `returns`; `credit` limits how many are on their way. A simulator carries the bytes of the same
//! ends without sockets and threads: `stepped`.
//!
//! Between machines the bytes are encrypted: `keys` defines whom a worker trusts, `session` has the state of
//! TLS that both threads share, and `wire` is the layer above it, the bytes of a connection, encrypted or
//! not.
//!
//! Everything that a peer sends is checked before it is used. An error ends the connection, and names the
//! peer. For the frame that is being read, a peer makes this process allocate at most [`FRAME_BYTES_MAX`] and
//! some MiB that describe its buffers. Of frames that its tasks have not taken, each channel holds at most
//! its limit, or half of it and one frame.
//!
//! `wiring` creates the channels of one incarnation at one worker, from a plan and a placement.
//!
//! Absent: the messages between coordinators and workers. They use other connections, which the crate
//! `server` has.

mod acceptor;
mod arrays;
mod connection;
mod deadline;
mod endpoint;
mod frame;
mod hello;
mod incoming;
mod keys;
mod links;
mod outbox;
mod outgoing;
mod pool;
mod registry;
mod session;
mod stepped;
mod wire;
pub mod wiring;

pub use crate::task::returns::{Permit, Question};
pub use acceptor::{Acceptor, Greeter, Stranger};
pub use anabranch_protocol::membership::WorkerId;
pub use connection::Patience;
pub use deadline::{Deadline, Limited};
pub use endpoint::{Endpoint, is_loopback};
pub use frame::{Encoded, FRAME_BYTES_MAX, Frame, HEADER_BYTES, decode, encode};
pub use hello::{Greeting, Hello};
pub use incoming::{Deliver, Incoming, IncomingChannel};
pub use keys::{Keys, Peer, PublicKey};
pub(crate) use links::{Expected, Links};
pub use outgoing::{Outgoing, OutgoingChannel};
pub(crate) use registry::{Registration, Registry};
pub use session::{Session, Undecrypted, is_tls};
pub use stepped::{SteppedEndpoint, SteppedWire};
pub use wire::Wire;

#[cfg(test)]
mod tests;
