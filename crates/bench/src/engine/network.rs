//! The exchange between workers, from a task that sends to a task that receives, over a socket of this
//! machine.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anabranch_dataflow::JobOptions;
use anabranch_model::{Clock, Envelope, Error, Incarnation, Nanos, Result, Stamped, SystemClock};
use anabranch_runtime::network::{
    Deadline, Deliver, Encoded, Greeting, Hello, Incoming, IncomingChannel, Keys, Outgoing, Patience, Permit, Question,
    Wire, WorkerId, decode, encode,
};
use arrow::buffer::{Buffer, MutableBuffer};

use crate::contestant::RunResult;
use crate::measure::process_cpu_s;
use crate::workload::{Columns, LastRows};

const HELLO: Hello = Hello { job: 1, incarnation: Incarnation(1), from: WorkerId(0), to: WorkerId(1), channels: 1 };

/// Time to connect.
const WAIT: Duration = Duration::from_secs(5);
/// Batches of which the parts of the work are measured.
const BATCHES_MEASURED: usize = 200;

/// Sends all batches through one channel of a connection, which may be encrypted as it is between machines.
pub(crate) fn exchange(columns: &Columns, is_encrypted: bool) -> Result<RunResult> {
    let keys = is_encrypted.then(Keys::generate).transpose()?;
    let key = keys.as_ref().map(Keys::public);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| socket(&error))?;
    let address = listener.local_addr().map_err(|error| socket(&error))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let limit = JobOptions::default().channel_bytes as u64;
    thread::scope(|scope| {
        let send = || {
            let stream = TcpStream::connect(address).map_err(|error| socket(&error))?;
            let wire = Wire::connect(stream, address, key, WAIT)?;
            let patience = (Patience::default(), WAIT);
            let outgoing = Outgoing::open(wire, &HELLO, &[], patience, Arc::clone(&clock))?;
            let mut channel = outgoing.channel(0, limit as usize);
            for batch in columns.in_turn() {
                let mut next = channel.offer(rows(batch.clone(), clock.now()))?;
                while let Some(envelope) = next {
                    channel.wait_for_room();
                    next = channel.offer(envelope)?;
                }
            }
            outgoing.finish()
        };
        let sender = thread::Builder::new().name("sending task".into()).spawn_scoped(scope, send);
        let sender = sender.map_err(|error| socket(&error))?;
        let (stream, _) = listener.accept().map_err(|error| socket(&error))?;
        let (deliver, deliveries) = mpsc::channel();
        let channel = IncomingChannel { schema: columns.batches[0].schema(), limit };
        let wire = Wire::accept(stream, keys.as_ref(), &Deadline::after(WAIT))?;
        let (greeting, deliver) = (Greeting::receive(wire)?, Arc::new(Receiver(deliver)));
        let incoming = Incoming::open(greeting, vec![channel], Patience::default(), Arc::clone(&clock), deliver)?;
        let (mut last_rows, mut events) = (LastRows::new(), 0);
        for (envelope, _permit) in deliveries {
            if let Envelope::Batch(batch) = envelope {
                events += batch.value.num_rows() as u64;
                last_rows.add_batch(&batch.value);
            }
        }
        incoming.join()?;
        sender.join().map_err(|_| Error::internal("the sending task panicked"))??;
        Ok(RunResult { events, result_hash: Some(last_rows.0) })
    })
}

/// Passes on what is delivered.
struct Receiver(mpsc::Sender<(Envelope, Permit)>);

impl Deliver for Receiver {
    fn envelope(&self, _: usize, envelope: Envelope, permit: Permit) {
        drop(self.0.send((envelope, permit)));
    }

    fn question(&self, _: usize, _: Question) {}

    fn ended(&self, _: &dyn Fn() -> Result<()>) {}
}

/// Processor time of the parts of the work that no socket takes part in: name, and nanoseconds per row.
pub(crate) fn parts(columns: &Columns) -> Result<Vec<(&'static str, f64)>> {
    let clock = SystemClock::new();
    let mut costs = vec![("encode", 0.0), ("decode and validate", 0.0)];
    let mut measured_rows = 0;
    for batch in columns.in_turn().take(BATCHES_MEASURED) {
        measured_rows += batch.num_rows();
        let envelope = rows(batch.clone(), clock.now());
        let started_s = process_cpu_s()?;
        let mut frames = encode(&envelope, 0, HELLO.incarnation, usize::MAX)?;
        frames.iter_mut().for_each(|frame| frame.seal(clock.now()));
        let encoded_s = process_cpu_s()?;
        let bodies: Vec<Buffer> = frames.iter().map(body).collect();
        let copied_s = process_cpu_s()?;
        for (frame, body) in frames.iter().zip(&bodies) {
            std::hint::black_box(decode(frame.frame(), body, &batch.schema(), &clock)?);
        }
        let decoded_s = process_cpu_s()?;
        for ((_, cost), seconds) in costs.iter_mut().zip([encoded_s - started_s, decoded_s - copied_s]) {
            *cost += seconds * 1e9;
        }
    }
    Ok(costs.into_iter().map(|(part, ns)| (part, ns / measured_rows as f64)).collect())
}

/// The body of a frame as it is read from a socket.
fn body(frame: &Encoded) -> Buffer {
    let mut slices = Vec::new();
    frame.slices(&mut slices);
    // The first slice is the header.
    let mut body = MutableBuffer::new(frame.frame().body_bytes());
    slices[1..].iter().for_each(|slice| body.extend_from_slice(slice));
    Buffer::from(body)
}

fn rows(batch: arrow::array::RecordBatch, born: Nanos) -> Envelope {
    Envelope::Batch(Stamped { value: batch, born })
}

fn socket(error: &std::io::Error) -> Error {
    Error::outside(format!("no connection over the local network: {error}"))
}
