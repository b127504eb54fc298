//! What the threads of a job synchronize by. `inbox`, `control` and `mailbox` take their primitives from here, so that a test can
//! compile the same files over others and try the interleavings of their threads (`tests/interleavings.rs`).

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic, mpsc};
pub(crate) use std::thread;
