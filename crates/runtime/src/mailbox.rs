//! The driver's queue of messages, and the start of its thread.
//!
//! The first message starts the thread: the first rows of a job do not wait for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anabranch_model::Notices;

use crate::driver::{Driver, Message};
use crate::job::Shared;
use crate::running::{no_thread, panicked};
use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::sync::mpsc::Sender;
use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{Arc, Mutex, PoisonError};

/// Takes messages for a driver.
pub(crate) struct Mailbox {
    sender: Sender<Message>,
    shared: Arc<Shared>,
    /// Until its thread is started.
    driver: Mutex<Option<Driver>>,
    has_driver: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Mailbox {
    pub(crate) fn new(sender: Sender<Message>, shared: Arc<Shared>) -> Arc<Mailbox> {
        let (driver, thread) = (Mutex::new(None), Mutex::new(None));
        Arc::new(Mailbox { sender, shared, driver, has_driver: AtomicBool::new(false), thread })
    }

    /// Sets the driver to start. Called before the first message.
    pub(crate) fn set_driver(&self, driver: Driver) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(driver);
        self.has_driver.store(true, SeqCst);
    }

    /// The notices for the job's user.
    pub(crate) fn notices(&self) -> Arc<Notices> {
        Arc::clone(&self.shared.notices)
    }

    pub(crate) fn send(&self, message: Message) {
        // The receiver is gone only when the job is over.
        let _ = self.sender.send(message);
        if self.has_driver.load(SeqCst) {
            self.start();
        }
    }

    /// Starts the driver's thread, unless it has been started.
    pub(crate) fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(driver) = self.driver.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        self.has_driver.store(false, SeqCst);
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| driver.run()));
            shared.end(outcome.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))));
        };
        match Builder::new().name("coordinator".into()).spawn(run) {
            Ok(started) => *thread = Some(started),
            // Dropping the driver has torn down the tasks.
            Err(error) => self.shared.end(Err(no_thread(&error))),
        }
    }

    /// Waits for the thread of a job that has ended.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic was caught inside and has become the job's outcome.
        thread.map(JoinHandle::join).unwrap_or(Ok(())).unwrap_or_default();
    }
}
