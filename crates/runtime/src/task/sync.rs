//! The synchronization primitives of a job's threads. `inbox`, `control`, `mailbox` and the modules that they
//! need use these, so that a test can compile the same files with other primitives and explore the
//! interleavings of their threads (`tests/interleavings.rs`).

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic, mpsc};
pub(crate) use std::thread;
