//! What the name of a thread of Flink says: `VERTEX (2/4)#0` runs a task, `OutputFlusher for VERTEX (2/4)#0`
//! works for it.

/// A task that the name of a thread names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    /// The name of the vertex, with what stands before it.
    pub(super) vertex: &'a str,
    /// From 0.
    pub(super) subtask: usize,
    pub(super) parallelism: usize,
    /// Whether nothing stands behind the task's name.
    pub(super) is_end: bool,
}

/// Finds the last `VERTEX (i/p)` in a name.
pub(super) fn named(name: &str) -> Option<Named<'_>> {
    let mut end = name.len();
    while let Some(open) = name[..end].rfind(" (") {
        if let Some((subtask, parallelism, rest)) = numbers(&name[open + 2..]) {
            // `#0` is the attempt.
            let rest =
                rest.strip_prefix('#').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
            return Some(Named { vertex: &name[..open], subtask: subtask - 1, parallelism, is_end: rest.is_empty() });
        }
        end = open;
    }
    None
}

/// Reads `2/4)`.
fn numbers(text: &str) -> Option<(usize, usize, &str)> {
    let (numbers, rest) = text.split_once(')')?;
    let (subtask, parallelism) = numbers.split_once('/')?;
    let (subtask, parallelism): (usize, usize) = (subtask.parse().ok()?, parallelism.parse().ok()?);
    (1..=parallelism).contains(&subtask).then_some((subtask, parallelism, rest))
}

/// As the kernel has the name of a thread, by the JVM's version: cut after 15 bytes, or with its end.
pub(super) fn cut(name: &str) -> [String; 2] {
    let bytes = name.as_bytes();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if bytes.len() <= 15 {
        return [name.to_owned(), name.to_owned()];
    }
    [text(&bytes[..15]), format!("{}..{}", text(&bytes[..7]), text(&bytes[bytes.len() - 6..]))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_their_helpers_are_told() {
        let read = |name| named(name).map(|found| (found.vertex, found.subtask, found.parallelism, found.is_end));
        assert_eq!(read("slow (1/2)#0"), Some(("slow", 0, 2, true)));
        assert_eq!(read("slow (2/2)"), Some(("slow", 1, 2, true)));
        assert_eq!(read("OutputFlusher for a (x) (3/4)#17"), Some(("OutputFlusher for a (x)", 2, 4, true)));
        assert_eq!(read("Channel writer a (1/1)#0 - 3"), Some(("Channel writer a", 0, 1, false)));
        for other in ["flink-metrics-5", "", " (", "a (0/2)#0", "a (3/2)#0", "a (1/2", "a (x/y)#0", "a (1)#0"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn cut_names_keep_their_beginning() {
        assert_eq!(cut("slow (1/2)#0"), ["slow (1/2)#0".to_owned(), "slow (1/2)#0".to_owned()]);
        let long = cut("Source: numbers (1/2)#0");
        assert_eq!(long, ["Source: numbers".to_owned(), "Source:..1/2)#0".to_owned()]);
        assert_eq!(cut("é23456789é23456")[0].chars().count(), 13, "15 bytes, two of them for each é");
    }
}
