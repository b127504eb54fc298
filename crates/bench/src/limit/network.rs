//! A bare sender and receiver of Arrow buffers over a socket: the lengths, then the bytes. Nothing is
//! checked, nothing is limited, and the bytes are read into the same memory every time.

use std::io::{BufReader, IoSlice, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use crate::contestant::RunResult;
use crate::workload::{Columns, LastRows, buffers};

/// Sends all batches from one thread to another.
pub(crate) fn pair(columns: &Columns) -> Result<RunResult> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| socket(&error))?;
    let address = listener.local_addr().map_err(|error| socket(&error))?;
    thread::scope(|scope| {
        let send = || TcpStream::connect(address).and_then(|stream| send(stream, columns));
        let sender = thread::Builder::new().name("bare sender".into()).spawn_scoped(scope, send);
        let sender = sender.map_err(|error| socket(&error))?;
        let accepted = listener.accept().map_err(|error| socket(&error))?;
        let hash = receive(&accepted.0, columns).map_err(|error| socket(&error));
        sender.join().map_err(|_| Error::internal("the bare sender panicked"))?.map_err(|error| socket(&error))?;
        Ok(RunResult { events: columns.rows(), result_hash: Some(hash?) })
    })
}

fn parts(batch: &RecordBatch) -> Vec<Buffer> {
    batch.columns().iter().flat_map(|column| buffers(column)).collect()
}

fn send(mut stream: TcpStream, columns: &Columns) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    for batch in columns.in_turn() {
        let parts = parts(batch);
        let lengths: Vec<u8> = parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes()).collect();
        let slices = std::iter::once(lengths.as_slice()).chain(parts.iter().map(Buffer::as_slice));
        let mut slices: Vec<IoSlice<'_>> = slices.map(IoSlice::new).collect();
        let mut slices = slices.as_mut_slice();
        while !slices.is_empty() {
            let written = stream.write_vectored(slices)?;
            IoSlice::advance_slices(&mut slices, written);
        }
    }
    Ok(())
}

fn receive(stream: &TcpStream, columns: &Columns) -> std::io::Result<u64> {
    let mut stream = BufReader::with_capacity(8 << 10, stream);
    let (mut memory, mut last_rows) = (Vec::new(), LastRows::new());
    let types: Vec<DataType> = columns.batches[0].columns().iter().map(|column| column.data_type().clone()).collect();
    let mut lengths = vec![0; 8 * parts(&columns.batches[0]).len()];
    for _ in 0..columns.count {
        stream.read_exact(&mut lengths)?;
        let (words, _) = lengths.as_chunks::<8>();
        let mut lengths = words.iter().map(|word| u64::from_le_bytes(*word) as usize);
        let bytes: usize = lengths.clone().sum();
        if memory.len() < bytes {
            memory.resize(bytes, 0);
        }
        stream.read_exact(&mut memory[..bytes])?;
        let mut at = 0;
        for data_type in &types {
            let (strings, width) = if *data_type == DataType::Utf8View { (true, 16) } else { (false, 8) };
            at += lengths.next().unwrap_or(0);
            last_rows.add(u64::from_le_bytes(std::array::from_fn(|index| memory[at - width + index])));
            at += if strings { lengths.next().unwrap_or(0) } else { 0 };
        }
    }
    Ok(last_rows.0)
}

fn socket(error: &std::io::Error) -> Error {
    Error::outside(format!("the bare pair has no connection: {error}"))
}
