//! The coordinator's queue of messages, and the start of its thread.
//!
//! The first message starts the thread, so that it does not delay the first rows of a job. For a job with
//! checkpoints, the thread is started without a message.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::shell::coordinator::{Message, Shell};
use crate::shell::shared::Shared;
use crate::shell::worker::{FromThread, WorkerMail};
use crate::task::mail::{FromTask, Mail};
use crate::task::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use crate::task::sync::mpsc::Sender;
use crate::task::sync::thread::{Builder, JoinHandle};
use crate::task::sync::{Arc, Mutex, PoisonError};
use crate::task::threads::{no_thread, panicked};

/// Takes messages for a coordinator.
pub(crate) struct Mailbox {
    sender: Sender<Message>,
    sent: AtomicU64,
    shared: Arc<Shared>,
    /// The coordinator, until its thread is started.
    shell: Mutex<Option<Shell>>,
    has_shell: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Mailbox {
    pub(crate) fn new(sender: Sender<Message>, shared: Arc<Shared>) -> Arc<Mailbox> {
        let (shell, thread) = (Mutex::new(None), Mutex::new(None));
        let (sent, has_shell) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Mailbox { sender, sent, shared, shell, has_shell, thread })
    }

    /// Sets the coordinator that the thread will drive.
    pub(crate) fn set_shell(&self, shell: Shell) {
        let taken = shell.taken;
        *self.shell.lock().unwrap_or_else(PoisonError::into_inner) = Some(shell);
        self.has_shell.store(true, SeqCst);
        if self.sent.load(SeqCst) > taken {
            self.start();
        }
    }

    pub(crate) fn send(&self, message: Message) {
        self.sent.fetch_add(1, SeqCst);
        // The receiver is gone only when the job is over.
        let _ = self.sender.send(message);
        if self.has_shell.load(SeqCst) {
            self.start();
        }
    }

    /// Starts the coordinator's thread, unless it has been started.
    pub(crate) fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shell) = self.shell.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        self.has_shell.store(false, SeqCst);
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| shell.run()));
            shared.end(outcome.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))));
        };
        match Builder::new().name("coordinator".into()).spawn(run) {
            Ok(started) => *thread = Some(started),
            // Dropping the shell has torn down the tasks.
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

impl Mail for Mailbox {
    fn send(&self, message: FromTask) {
        Mailbox::send(self, Message::Task(message));
    }
}

impl WorkerMail for Mailbox {
    fn send_from_thread(&self, message: FromThread) {
        Mailbox::send(self, Message::Thread(message));
    }
}
