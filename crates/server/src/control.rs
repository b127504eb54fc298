//! The control connections between the processes of a cluster: a coordinator, its workers, and command line
//! clients.
//!
//! A connection carries messages both ways, in order, as JSON. Messages are few: decisions, reports and
//! heartbeats. Rows never travel here. The module knows nothing of what the messages say: both types are
//! parameters.
//!
//! **Life of a connection.** The [`Listener`] accepts it on a thread of its own, so that a silent peer delays
//! no other. With [`Security::TlsServer`] TLS comes first. Then the client sends a hello: magic, version and
//! token. The listener accepts it, or refuses it with a reason. Nothing else that the client sends is read
//! before that. Then each end has two threads, one that reads and one that writes. [`Connection::send`]
//! appends to a queue and never waits. [`Connection::close`] sends what is queued and a farewell. The end of
//! a connection is an event, [`Event::Closed`], which comes once and last.
//!
//! **A connection that ends without a farewell has failed**: the peer's process has died, or the network has.
//! This module does not notice a peer that is merely silent. That is for heartbeats among the messages.
//! [`Connection::close`] ends such a connection at once.
//!
//! **Nothing from a peer is trusted.** A length is checked before memory is allocated, and memory grows with
//! the bytes that arrive. Any violation closes the connection with an error that names the peer's address.
//! The peer gets the reason if the connection still works. A listener keeps at most 64 connections that have
//! not finished the hello: the oldest is dropped for a new one. None may take longer than five seconds.
//!
//! **Only a loopback address may do without TLS.** Any other address needs TLS and a token of at least 16
//! bytes, at both ends. The client checks the listener's certificate, which must have the name or the address
//! by which the client knows it. The listener checks the token.
//!
//! Formats are in `hello` and `frame`. Tests freeze both.

mod connection;
mod frame;
mod hello;
mod listener;
mod security;
mod wire;

pub use connection::{Connection, Event, connect, is_absent};
pub use listener::{Incoming, Listener};
pub use security::Security;

#[cfg(test)]
mod tests;
