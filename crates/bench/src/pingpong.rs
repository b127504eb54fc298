//! The noise floor of latency on this machine: how long two threads take to exchange a message, and how late
//! a timer wakes a thread. No engine with several threads can be faster.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_model::{Error, Result, pause};
use hdrhistogram::Histogram;

/// A minute; a longer latency is recorded as this.
const NANOS_MAX: u64 = 60_000_000_000;

/// Distribution of a latency.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    /// What was measured.
    pub(crate) name: String,
    nanos: Histogram<u64>,
}

impl Latency {
    /// No samples yet.
    pub(crate) fn new(name: impl Into<String>) -> Result<Self> {
        // A histogram without bounds can fail to grow in `record`; with bounds, larger values are clamped.
        let nanos = Histogram::new_with_bounds(1, NANOS_MAX, 3)
            .map_err(|error| Error::internal(format!("histogram: {error}")))?;
        Ok(Latency { name: name.into(), nanos })
    }

    /// Adds a sample.
    pub(crate) fn record(&mut self, duration: Duration) {
        self.nanos.saturating_record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Latency in microseconds that this share of the samples does not exceed.
    pub(crate) fn quantile_us(&self, share: f64) -> f64 {
        self.nanos.value_at_quantile(share) as f64 / 1e3
    }

    /// Adds the samples of another one.
    pub(crate) fn merge(&mut self, other: &Latency) -> Result<()> {
        self.nanos.add(&other.nanos).map_err(|error| Error::internal(format!("histogram: {error}")))
    }

    /// Number of samples.
    pub(crate) fn samples(&self) -> u64 {
        self.nanos.len()
    }
}

/// One way between two threads over a bounded channel: half of the time there and back.
pub(crate) fn channel(rounds: u32) -> Result<Latency> {
    let (ping, pinged) = sync_channel::<()>(1);
    let (pong, ponged) = sync_channel::<()>(1);
    thread::scope(|scope| {
        named(scope, "pong", move || while pinged.recv().is_ok() && pong.send(()).is_ok() {})?;
        let mut latency = Latency::new("two threads, std channel, one way")?;
        for _ in 0..rounds {
            let start = Instant::now();
            ping.send(()).map_err(gone)?;
            ponged.recv().map_err(gone)?;
            latency.record(start.elapsed() / 2);
        }
        drop(ping);
        Ok(latency)
    })
}

/// One way between two threads over a mutex and a condition: half of the time there and back.
pub(crate) fn condition(rounds: u32) -> Result<Latency> {
    // Odd: the other thread's turn.
    let (turn, turned) = (Mutex::new(0_u32), Condvar::new());
    let wait = |parity: u32| {
        let guard = turn.lock().unwrap_or_else(PoisonError::into_inner);
        turned.wait_while(guard, |turn| *turn % 2 != parity).unwrap_or_else(PoisonError::into_inner)
    };
    thread::scope(|scope| {
        named(scope, "pong", || {
            for _ in 0..rounds {
                *wait(1) += 1;
                turned.notify_one();
            }
        })?;
        let mut latency = Latency::new("two threads, mutex and condition, one way")?;
        for _ in 0..rounds {
            let start = Instant::now();
            *wait(0) += 1;
            turned.notify_one();
            drop(wait(0));
            latency.record(start.elapsed() / 2);
        }
        Ok(latency)
    })
}

/// How late a thread wakes that waits with a timeout.
pub(crate) fn timer(rounds: u32, timeout: Duration) -> Result<Latency> {
    let mut latency = Latency::new(format!("timer of {} ms, time overslept", timeout.as_millis()))?;
    for _ in 0..rounds {
        let start = Instant::now();
        pause(timeout);
        latency.record(start.elapsed().saturating_sub(timeout));
    }
    Ok(latency)
}

/// A message of a few bytes there and back between two threads over a loopback socket, once in each `time`.
pub(crate) fn loopback(rounds: u32, time: Duration) -> Result<Latency> {
    let failed = |error: io::Error| Error::outside(format!("no connection over the local network: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let mut ping = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let (mut pong, _) = listener.accept().map_err(failed)?;
    ping.set_nodelay(true).and_then(|()| pong.set_nodelay(true)).map_err(failed)?;
    thread::scope(|scope| {
        named(scope, "pong", move || {
            let mut message = [0; 8];
            while pong.read_exact(&mut message).is_ok() && pong.write_all(&message).is_ok() {}
        })?;
        let mut latency = Latency::new("a message there and back over a loopback socket")?;
        for _ in 0..rounds {
            pause(time);
            let start = Instant::now();
            ping.write_all(&[7; 8]).and_then(|()| ping.read_exact(&mut [0; 8])).map_err(failed)?;
            latency.record(start.elapsed());
        }
        drop(ping);
        Ok(latency)
    })
}

fn named<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() + Send + 'scope,
) -> Result<()> {
    let thread = thread::Builder::new().name(name.into()).spawn_scoped(scope, body);
    thread.map(drop).map_err(|error| Error::outside(format!("cannot start thread '{name}': {error}")))
}

fn gone<E>(_: E) -> Error {
    Error::internal("the other thread of the ping-pong is gone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_any_size_keep_their_size() {
        for duration in [Duration::from_nanos(300), Duration::from_micros(70), Duration::from_millis(900)] {
            let mut latency = Latency::new("x").unwrap();
            latency.record(duration);
            let (seen_us, given_us) = (latency.quantile_us(0.5), duration.as_nanos() as f64 / 1e3);
            assert!((seen_us / given_us - 1.0).abs() < 0.002, "{duration:?}: {seen_us} us");
        }
    }

    #[test]
    fn every_round_is_recorded_and_takes_time() {
        let pause = Duration::from_micros(100);
        for latency in [channel(200), condition(200), loopback(200, pause), timer(5, pause)].map(Result::unwrap) {
            assert!(latency.samples() == 200 || latency.samples() == 5);
            let (p50, p999) = (latency.quantile_us(0.5), latency.quantile_us(0.999));
            assert!(p50 > 0.0 && p50 <= p999, "{latency:?}");
        }
    }
}
