//! What the planner asks about a call: whether it may fail because of a row's values, and what the session's
//! time zone changes. An expression with a call that may fail is evaluated only for the rows that other
//! conditions leave, which costs a copy of them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use arrow::datatypes::DataType;

use crate::FAMILIES;
use crate::arguments::{GROWTH, LONG_CONSTANT};

/// Whether a row's values may make a function fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fails {
    /// Some values do.
    Maybe,
    /// It gives a value or NULL for all arguments.
    Never,
    /// The constants among the arguments decide.
    If(fn(&Call<'_>) -> bool),
}

/// What the session's time zone changes in a call, where it is not UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUse {
    /// Nothing.
    None,
    /// The function reads an instant as a local time: it gets the local time instead.
    LocalTime,
    /// The call becomes one of this function, with the zone before its arguments.
    First(&'static str),
    /// A call with an instant becomes one of this function, with the zone after its arguments.
    Last(&'static str),
}

/// A call as far as it is known when it is planned.
pub(crate) struct Call<'a> {
    /// The texts of those arguments that are constant texts.
    constants: &'a [Option<&'a str>],
    pub(crate) returns: &'a DataType,
}

impl<'a> Call<'a> {
    /// Number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.constants.len()
    }

    /// The text of an argument. `None`: it is no constant text, or there is none.
    pub(crate) fn text(&self, index: usize) -> Option<&'a str> {
        self.constants.get(index).copied().flatten()
    }

    pub(crate) fn is_constant(&self, index: usize) -> bool {
        self.text(index).is_some()
    }

    /// Whether the arguments at even places are constants.
    pub(crate) fn keys_are_constant(&self) -> bool {
        self.constants.iter().step_by(2).all(Option::is_some)
    }

    /// Whether the argument, if it is there, is a constant so short that it can stand for each character, or
    /// each element, of another one.
    pub(crate) fn is_short(&self, index: usize) -> bool {
        index >= self.len() || self.text(index).is_some_and(|text| text.len() < GROWTH / 2)
    }

    /// Whether an argument says that an error stops the job.
    pub(crate) fn stops(&self, index: usize) -> bool {
        index < self.len() && self.text(index).is_none_or(|word| word.contains("ERROR"))
    }
}

/// What is known of a function of DataFusion's library. Other ones may fail, and do not depend on the zone.
struct Foreign {
    name: &'static str,
    fails: Fails,
    zone: ZoneUse,
}

impl Foreign {
    const fn never_fails(name: &'static str) -> Foreign {
        Foreign { name, fails: Fails::Never, zone: ZoneUse::None }
    }
}

const LIBRARY: [Foreign; 14] = [
    Foreign::never_fails("contains"),
    Foreign { name: "date_part", fails: Fails::Maybe, zone: ZoneUse::LocalTime },
    Foreign::never_fails("ends_with"),
    Foreign::never_fails("get_field"),
    Foreign::never_fails("isnan"),
    Foreign::never_fails("levenshtein"),
    Foreign::never_fails("lower"),
    Foreign::never_fails("named_struct"),
    Foreign::never_fails("nullif"),
    Foreign::never_fails("octet_length"),
    Foreign::never_fails("starts_with"),
    Foreign::never_fails("strpos"),
    Foreign { name: "to_char", fails: Fails::Maybe, zone: ZoneUse::LocalTime },
    Foreign::never_fails("upper"),
];

/// What is known of all functions, by their names.
fn known() -> &'static BTreeMap<&'static str, (Fails, ZoneUse)> {
    static KNOWN: LazyLock<BTreeMap<&'static str, (Fails, ZoneUse)>> = LazyLock::new(|| {
        let own = FAMILIES.into_iter().flatten().map(|of| (of.name, (of.fails, of.zone)));
        LIBRARY.iter().map(|of| (of.name, (of.fails, of.zone))).chain(own).collect()
    });
    &KNOWN
}

/// Whether a row's values may make a call fail. `constants` are the texts of those arguments that are
/// constant texts. A function that is not known counts as one that may.
#[must_use]
pub fn may_fail(function: &str, constants: &[Option<&str>], returns: &DataType) -> bool {
    let is_long = |text: &&str| text.len() > LONG_CONSTANT;
    if returns.is_string() && constants.iter().flatten().any(is_long) {
        return true;
    }
    match known().get(function) {
        Some((Fails::Never, _)) => false,
        Some((Fails::If(condition), _)) => condition(&Call { constants, returns }),
        Some((Fails::Maybe, _)) | None => true,
    }
}

/// What the session's time zone changes in calls of a function.
#[must_use]
pub fn zone_use(function: &str) -> ZoneUse {
    known().get(function).map_or(ZoneUse::None, |(_, zone)| *zone)
}

#[cfg(test)]
mod tests;
