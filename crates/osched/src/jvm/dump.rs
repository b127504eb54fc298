//! The text that a JVM answers `threaddump` with: for each thread a line with its name and its native id, and
//! its stack.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

/// Bytes that are read at most: ten thousand threads with deep stacks.
const DUMP_BYTES_MAX: u64 = 256 << 20;
/// Lines of one name: a name may hold line breaks.
const NAME_LINES_MAX: usize = 50;

/// Native ids and names. They count in the JVM's namespace of processes. `Err`: the connection broke, or it
/// took too long.
pub(super) fn parse(dump: impl Read) -> std::io::Result<BTreeMap<u32, String>> {
    let mut reader = BufReader::new(dump.take(DUMP_BYTES_MAX));
    let mut names = BTreeMap::new();
    let (mut line, mut head, mut head_lines) = (Vec::new(), String::new(), 0);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(names);
        }
        let text = String::from_utf8_lossy(&line);
        let is_first = text.starts_with('"');
        if is_first {
            (head_lines, _) = (0, head.clear());
        }
        if (is_first || !head.is_empty()) && head_lines < NAME_LINES_MAX {
            head.push_str(&text);
            head_lines += 1;
            if let Some((id, name)) = thread(&head) {
                names.insert(id, name);
                head.clear();
            }
        }
    }
}

/// Reads `"main" #1 [77] prio=5 os_prio=0 cpu=3.1ms elapsed=9.0s tid=0x7f nid=0x4d runnable`. The number is
/// hexadecimal before JDK 19 and decimal since. A name may hold quotes and line breaks.
fn thread(head: &str) -> Option<(u32, String)> {
    let (before, after) = head.rsplit_once(" nid=")?;
    let number = after.split_ascii_whitespace().next()?;
    let id = match number.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    let (name, _) = before.strip_prefix('"')?.rsplit_once('"')?;
    Some((id, name.to_owned()))
}
