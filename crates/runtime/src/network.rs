//! The exchange between workers: the channels from the tasks of one process to those of another, over one TCP connection.
//!
//! A connection carries rows in one direction, for all channels between the two workers, and credits in the other. Its
//! threads are the only place that waits for a socket: `connection`. What they do is decided by parts without sockets:
//! `frame` and `arrays` have the format of what is sent, `credit` has the limits of what may be sent, `hello` opens a
//! connection. Tasks and threads meet in `outbox` at the sender and in `returns` at the receiver.
//!
//! Everything that a peer sends is checked before it is used. Whatever is wrong ends the connection, and the error names
//! the peer. For the frame that is read, a peer makes this process allocate at most [`FRAME_BYTES_MAX`] and some MiB that
//! describe its buffers. Of frames that its tasks have not taken, each channel holds at most its limit, or half of it and
//! one frame.

mod arrays;
mod connection;
mod credit;
mod endpoint;
mod frame;
mod hello;
mod incoming;
mod links;
mod outbox;
mod outgoing;
mod pool;
mod returns;

pub use anabranch_protocol::membership::WorkerId;
pub use connection::Patience;
pub(crate) use endpoint::Registration;
pub use endpoint::{Endpoint, end_accepting};
pub use frame::{Encoded, FRAME_BYTES_MAX, Frame, HEADER_BYTES, decode, encode};
pub use hello::{Greeting, Hello};
pub use incoming::{Deliver, Incoming, IncomingChannel};
pub(crate) use links::{Expected, Links};
pub use outgoing::{Outgoing, OutgoingChannel};
pub use returns::{Permit, Question};

#[cfg(test)]
mod tests;
