//! The arguments, the result and a description of each function of SQL, for documents and for people at a
//! shell.
//!
//! `catalog.tsv` has a line for each function: its names, its calls, its result, what it does, an example,
//! and the example's value. A test runs each example, and writes its value with `UPDATE_GOLDEN=1`.

use std::sync::LazyLock;

/// The text of the catalogue.
const TEXT: &str = include_str!("catalog.tsv");

/// The description of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDoc {
    /// In upper case, or the words of a form such as `FLOOR TO`.
    pub name: &'static str,
    /// Other names of the same function.
    pub aliases: Vec<&'static str>,
    /// Its family, such as `Numbers`.
    pub family: &'static str,
    /// The ways to call it.
    pub signatures: Vec<&'static str>,
    /// The type of its result.
    pub returns: &'static str,
    /// One sentence, without a full stop.
    pub summary: &'static str,
    /// What stands after `SELECT`; empty where a call needs a table of its own.
    pub example: &'static str,
    /// The value of the example, as the shell shows it.
    pub result: &'static str,
}

impl FunctionDoc {
    /// Its name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// All functions, family by family.
#[must_use]
pub fn catalog() -> &'static [FunctionDoc] {
    static CATALOG: LazyLock<Vec<FunctionDoc>> = LazyLock::new(|| parse(TEXT));
    &CATALOG
}

/// The function of a name or an alias, in either case.
#[must_use]
pub fn describe(name: &str) -> Option<&'static FunctionDoc> {
    catalog().iter().find(|doc| doc.names().any(|of| of.eq_ignore_ascii_case(name)))
}

fn parse(text: &'static str) -> Vec<FunctionDoc> {
    let mut family = "";
    let mut docs = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            family = title;
            continue;
        }
        if let [names, calls, returns, summary, example, result] = line.split('\t').collect::<Vec<_>>()[..] {
            let mut names = names.split(", ");
            let Some(name) = names.next() else { continue };
            let (aliases, signatures) = (names.collect(), calls.split("; ").collect());
            docs.push(FunctionDoc { name, aliases, family, signatures, returns, summary, example, result });
        }
    }
    docs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_line_is_a_function_of_a_family() {
        let lines = TEXT.lines().filter(|line| !line.starts_with("# ")).count();
        assert_eq!(catalog().len(), lines, "each line has six fields");
        let names: Vec<&str> = catalog().iter().flat_map(FunctionDoc::names).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "each name is there once");
        for doc in catalog() {
            assert!(!doc.family.is_empty() && !doc.summary.is_empty() && !doc.returns.is_empty(), "{doc:?}");
            assert_eq!(doc.example.is_empty(), doc.result.is_empty(), "{} has an example with its value", doc.name);
        }
        assert_eq!(describe("pow").map(|doc| doc.name), Some("POWER"));
        assert_eq!(describe("nothing"), None);
    }

    const INNER: &str = "\
        approx_median approx_percentile_cont approx_percentile_cont_with_weight arrow_cast arrow_field arrow_metadata arrow_try_cast \
        arrow_typeof as_char cast_to_type ceil_to ceil_to_in current_unix_timestamp date_part \
        datepart datetrunc ends_with extract_century extract_decade extract_epoch extract_isodow \
        extract_isoyear extract_microsecond extract_millennium extract_millisecond extract_nanosecond file_row_index floor_to \
        floor_to_in from_unixtime_in get_field input_file_name instant_in_zone item length \
        make_array make_map map_equal named_struct nth_value percentile_cont quantile_cont \
        regexp_like regexp_match regr_avgx regr_avgy regr_count regr_intercept regr_r2 \
        regr_slope regr_sxx regr_sxy regr_syy starts_with struct time_in_zone \
        timestamp_add timestamp_add_time timestamp_diff timestamp_of_seconds to_char to_local_time to_time \
        to_timestamp_micros to_timestamp_millis to_timestamp_nanos to_timestamp_seconds to_unixtime today try_cast_to_type \
        union_extract union_tag unix_timestamp_in version with_metadata";

    /// The planner calls these by itself, or they speak of types of the library.
    fn is_inner(name: &str) -> bool {
        name.starts_with('$') || INNER.split_whitespace().any(|inner| inner == name)
    }

    #[test]
    fn each_function_is_described() {
        let missing: Vec<&String> =
            crate::scalar_functions().keys().filter(|name| describe(name).is_none() && !is_inner(name)).collect();
        assert!(missing.is_empty(), "catalog.tsv lacks {missing:?}");
    }
}
