//! Positions as text: the functions that sources share to write and read them.
//!
//! Positions are stored for as long as a job lives and are read by users, so they consist of words and
//! numbers: `byte 1733 line 18`, `end`. A position that does not fit the table is an error, never a guess:
//! reading from a wrong position loses or repeats rows.

use std::str::FromStr;

use anabranch_model::{Error, Result};
use anabranch_operators::Positions;

use crate::guarantee::START_OVER;

/// The position of a partition that was read to its end.
pub(crate) const END: &str = "end";

/// The numbers of a position such as `byte 1733 line 18`, whose words are `words`.
pub(crate) fn numbers<T: FromStr, const N: usize>(text: &str, words: [&str; N]) -> Option<[T; N]> {
    let mut parts = text.split(' ');
    let mut found = Vec::with_capacity(N);
    for word in words {
        if parts.next() != Some(word) {
            return None;
        }
        found.push(number(parts.next()?)?);
    }
    if parts.next().is_some() { None } else { found.try_into().ok() }
}

/// A number in the form of positions: digits only.
pub(crate) fn number<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The name of a numbered partition. It contains the number of partitions, because the partitions' contents
/// depend on it.
pub(crate) fn numbered(partition: u32, partitions: u32) -> String {
    format!("partition {partition} of {partitions}")
}

/// Fails if a name in `from` is not that of one of `partitions` numbered partitions.
pub(crate) fn check_numbered(from: Option<&Positions>, table: &str, partitions: u32) -> Result<()> {
    let fits = |name: &str| {
        let (partition, count) = name.strip_prefix("partition ")?.split_once(" of ")?;
        let (partition, count): (u32, u32) = (number(partition)?, number(count)?);
        (count == partitions && partition < count).then_some(())
    };
    match from.into_iter().flatten().find(|(name, _)| fits(name).is_none()) {
        None => Ok(()),
        Some((name, _)) => Err(foreign(table, name, &format!("it has {partitions} partitions"))),
    }
}

/// The error of a position that cannot be read.
pub(crate) fn unreadable(table: &str, partition: &str, position: &str, expected: &str) -> Error {
    Error::user(format!("the position '{position}' cannot be read; expected: {expected}"))
        .at(partition)
        .at(format!("table {table}"))
        .remedy(format!("start the job from a checkpoint that was taken with this table, or {START_OVER}"))
}

/// The error of a position of a partition that the table does not have.
pub(crate) fn foreign(table: &str, partition: &str, reason: &str) -> Error {
    Error::user(format!("there is a position of '{partition}', which is not a partition of the table: {reason}"))
        .at(format!("table {table}"))
        .remedy(format!("declare the table as it was when the checkpoint was taken, or {START_OVER}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        assert_eq!(numbers("byte 17 line 3", ["byte", "line"]), Some([17_u64, 3]));
        for wrong in [
            "",
            "byte",
            "byte 17",
            "byte 17 line",
            "byte 17 line 3 x",
            "byte -1 line 3",
            "row 17 line 3",
            "byte  17 line 3",
        ] {
            assert_eq!(numbers::<u64, 2>(wrong, ["byte", "line"]), None, "{wrong}");
        }
        assert_eq!(number::<u32>("+1"), None);
        assert_eq!(number::<u32>(""), None);
        assert_eq!(number::<u8>("256"), None);
    }

    #[test]
    fn partitions_are_known_by_name_and_number() {
        let check = |name: &str| check_numbered(Some(&[(name.to_owned(), "0".to_owned())].into()), "t", 4);
        assert_eq!(numbered(3, 4), "partition 3 of 4");
        check("partition 3 of 4").unwrap();
        for foreign in ["partition 4 of 4", "partition 3 of 5", "3", "ads/3", "partition x of 4"] {
            let error = check(foreign).unwrap_err().to_string();
            assert!(error.contains(&format!("'{foreign}', which is not a partition of the table")), "{error}");
            assert!(error.contains("table t"), "{error}");
        }
    }
}
