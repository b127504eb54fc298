//! The scalar functions of SQL. Functions with Flink's names give Flink's answers; the rest is DataFusion's
//! library.
//!
//! A function is a [`Definition`](definition::Definition): its name, the kinds of its arguments, its result's
//! type, and one function over whole columns. There is one file per family.

mod arguments;
mod array;
mod calendar;
mod call;
mod catalog;
mod charset;
mod date_pattern;
mod dates;
mod definition;
mod encoding;
mod extremes;
mod from_text;
mod item;
mod json;
mod kinds;
mod map;
mod math;
mod moment;
mod pad;
mod planned;
mod regex;
mod rounding;
mod search;
mod substring;
mod text;
mod trim;
mod url;
mod varying;
mod zone;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use datafusion_expr::ScalarUDF;

pub use self::call::{ZoneUse, may_fail, zone_use};
pub use self::catalog::{FunctionDoc, catalog, describe};
use self::definition::Definition;
pub use self::from_text::{parse_date, parse_decimal, parse_time, parse_timestamp, parse_whole, reads_texts_as};
pub use self::json::check_json_path;
pub use self::map::{has_map, map_type, parts as map_parts};
pub use self::moment::per_second;
pub use self::regex::{Matcher, check_library_regex, check_regex};
pub use self::zone::{INSTANT, LOCAL_TIME, Zone};

const FAMILIES: [&[Definition]; 22] = [
    array::DEFINITIONS,
    calendar::DEFINITIONS,
    charset::DEFINITIONS,
    dates::DEFINITIONS,
    encoding::DEFINITIONS,
    extremes::DEFINITIONS,
    item::DEFINITIONS,
    json::DEFINITIONS,
    kinds::DEFINITIONS,
    map::DEFINITIONS,
    math::DEFINITIONS,
    pad::DEFINITIONS,
    regex::DEFINITIONS,
    rounding::DEFINITIONS,
    search::DEFINITIONS,
    planned::DEFINITIONS,
    substring::DEFINITIONS,
    text::DEFINITIONS,
    trim::DEFINITIONS,
    url::DEFINITIONS,
    varying::DEFINITIONS,
    zone::DEFINITIONS,
];

/// All scalar functions by name in lower case. A function with Flink's name replaces DataFusion's function of
/// that name.
#[must_use]
pub fn scalar_functions() -> &'static BTreeMap<String, Arc<ScalarUDF>> {
    static LIBRARY: LazyLock<BTreeMap<String, Arc<ScalarUDF>>> = LazyLock::new(library);
    &LIBRARY
}

fn library() -> BTreeMap<String, Arc<ScalarUDF>> {
    let mut functions = BTreeMap::new();
    for function in datafusion_functions::all_default_functions() {
        for name in std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)) {
            functions.insert(name.to_lowercase(), Arc::clone(&function));
        }
    }
    for definition in FAMILIES.into_iter().flatten() {
        let function = Arc::new(ScalarUDF::new_from_impl(definition.clone()));
        for name in std::iter::once(&definition.name).chain(definition.aliases) {
            functions.insert((*name).to_owned(), Arc::clone(&function));
        }
    }
    functions
}

#[cfg(test)]
mod tests;
