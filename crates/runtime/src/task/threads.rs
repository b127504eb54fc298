//! Errors of any thread: it cannot be started, or it panics.

use anabranch_model::Error;

/// A thread could not be started.
pub(crate) fn no_thread(error: &std::io::Error) -> Error {
    Error::outside(format!("cannot start a thread: {error}"))
        .remedy("lower the parallelism, or raise the limit of threads (ulimit -u)")
}

pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
    Error::internal(format!("panic: {text}"))
}
