//! Copying without a job: bytes through a socket of this machine to a file.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anabranch_model::{Error, Result, Rng};

/// Bytes that are sent, received and written at once.
const PART: usize = 1 << 20;

/// Time to send this number of bytes from one thread to another, which writes them to a file of the folder,
/// and to the disk.
pub(super) fn copy(bytes: u64, folder: &Path) -> Result<Duration> {
    let failed = |error: std::io::Error| Error::outside(format!("cannot copy: {error}"));
    let path = folder.join("copy");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let begun = Instant::now();
    let copied = thread::scope(|scope| {
        let sender = scope.spawn(move || send(TcpStream::connect(address)?, bytes));
        let received = listener.accept().and_then(|(stream, _)| receive(stream, &path));
        let sent = sender.join().map_err(|_| Error::internal("the sender panicked"))?;
        sent.and(received).map_err(failed)
    })?;
    let time = begun.elapsed();
    std::fs::remove_file(&path).map_err(failed)?;
    match copied == bytes {
        true => Ok(time),
        false => Err(Error::internal(format!("{copied} bytes arrived of {bytes}"))),
    }
}

fn send(mut stream: TcpStream, bytes: u64) -> std::io::Result<()> {
    let mut rng = Rng::new(1);
    let part: Vec<u8> = (0..PART / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(PART).min(PART);
        stream.write_all(&part[..length])?;
        left -= length as u64;
    }
    Ok(())
}

fn receive(mut stream: TcpStream, path: &Path) -> std::io::Result<u64> {
    let (mut file, mut part, mut received) = (File::create(path)?, vec![0; PART], 0);
    loop {
        match stream.read(&mut part)? {
            0 => break,
            length => {
                file.write_all(&part[..length])?;
                received += length as u64;
            }
        }
    }
    file.sync_all()?;
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_arrive_and_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        assert!(copy(3 * PART as u64 + 5, folder.path()).unwrap() > Duration::ZERO);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
