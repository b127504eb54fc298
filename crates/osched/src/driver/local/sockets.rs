//! The ports at which a process listens: its sockets among its open files, and the ports of sockets in its
//! network.

use std::collections::BTreeSet;

/// State of a socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// Empty for processes of other users, unless one is root.
pub(super) fn listening(pid: u32) -> BTreeSet<u16> {
    let sockets = sockets_of(pid);
    let mut ports = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        ports.extend(
            text.lines().skip(1).filter_map(listener).filter(|(_, inode)| sockets.contains(inode)).map(|l| l.0),
        );
    }
    ports
}

/// Inodes of the sockets that a process has open.
fn sockets_of(pid: u32) -> BTreeSet<u64> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeSet::new() };
    let socket = |file: std::fs::DirEntry| {
        let target = std::fs::read_link(file.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    files.map_while(|file| file.ok()).filter_map(socket).collect()
}

/// Port and inode of a line `0: 0100007F:1F90 00000000:0000 0A ...` if it listens.
fn listener(line: &str) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let listens = *fields.get(3)? == LISTENS;
    let inode = fields.get(9)?.parse().ok()?;
    listens.then_some((u16::from_str_radix(port, 16).ok()?, inode))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn ports_of_listeners_are_found_and_those_of_connections_are_not() {
        let old = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = old.local_addr().expect("an address").port();
        let connection = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let found = listening(std::process::id());
        assert!(found.contains(&port) && !found.contains(&connection.local_addr().expect("an address").port()));
        if let Ok(new) = TcpListener::bind("[::1]:0") {
            let port = new.local_addr().expect("an address").port();
            assert!(listening(std::process::id()).contains(&port));
        }
    }

    #[test]
    fn lines_that_are_no_sockets_are_left_out() {
        for line in
            ["", "0:", "0: x y 0A", "0: 0100007F:1F90 0:0 01 0 0 0 0 0 77", "0: 0100007F:XX 0:0 0A 0 0 0 0 0 77"]
        {
            assert_eq!(listener(line), None, "{line}");
        }
    }
}
