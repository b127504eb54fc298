//! Lines of a service's log for the grep workload: about 100 bytes each, one in a hundred matches.

use std::io::Write as _;

use anabranch_model::Rng;

use super::Lines;

/// The pattern. As many other lines contain only its literal part: a search for the literal is not enough.
pub(crate) const PATTERN: &str = r"timeout after [0-9]+ ms";

const METHODS: [&str; 4] = ["GET", "PUT", "POST", "DELETE"];
const PATHS: [&str; 6] =
    ["/orders", "/orders/items", "/customers/addresses", "/catalog/search", "/basket", "/payments/authorize"];

/// The log.
#[derive(Debug)]
pub(crate) struct LogLines {
    /// One record per line.
    pub(crate) text: Lines,
}

impl LogLines {
    /// Generates `count` lines.
    pub(crate) fn generate(count: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut text = Vec::with_capacity(usize::try_from(count).unwrap_or(0) * 105);
        for _ in 0..count {
            let host = rng.below(64);
            let request = rng.next_u64();
            let method = METHODS[rng.below(METHODS.len() as u64) as usize];
            let path = PATHS[rng.below(PATHS.len() as u64) as usize];
            // Writing to a vector cannot fail.
            let _ = write!(text, "host-{host:02} request={request:016x} {method} {path}/{} ", rng.below(1_000_000));
            let _ = match rng.below(100) {
                0 => writeln!(text, "upstream failed: timeout after {} ms, giving up", rng.below(30_000)),
                1 => writeln!(text, "upstream failed: timeout after several attempts"),
                _ => writeln!(text, "status=200 bytes={} took {} us", rng.below(1 << 20), rng.below(100_000)),
            };
        }
        LogLines { text: Lines::new(text, count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_line_in_a_hundred_matches() {
        let log = LogLines::generate(20_000, 3);
        let regex = regex::Regex::new(PATTERN).unwrap();
        let text = std::str::from_utf8(log.text.bytes()).unwrap();
        assert_eq!(text.lines().count(), 20_000);
        let matches = text.lines().filter(|line| regex.is_match(line)).count();
        assert!((120..280).contains(&matches), "{matches}");
        assert!((80..=110).contains(&(text.len() / 20_000)), "{}", text.len() / 20_000);
    }
}
