//! The options of a lookup table: Flink's `lookup.*`.

use std::collections::BTreeMap;

use anabranch_dataflow::{ConnectorSpec, LookupCache, Lookups, PartialCache};
use anabranch_model::{Error, Result, nearest};

use crate::settings::parse_duration;

const PREFIX: &str = "lookup.";
const CACHE: &str = "lookup.cache";
const RETRIES: &str = "lookup.max-retries";
const ROWS: &str = "lookup.partial-cache.max-rows";
const AFTER_WRITE: &str = "lookup.partial-cache.expire-after-write";
const AFTER_ACCESS: &str = "lookup.partial-cache.expire-after-access";
const MISSING: &str = "lookup.partial-cache.cache-missing-key";
const STRATEGY: &str = "lookup.full-cache.reload-strategy";
const INTERVAL: &str = "lookup.full-cache.periodic-reload.interval";
const ALL: [&str; 8] = [CACHE, RETRIES, ROWS, AFTER_WRITE, AFTER_ACCESS, MISSING, STRATEGY, INTERVAL];
/// Flink's former names of the cache options, from before the cache had a name itself.
const FORMER: [(&str, &str); 3] =
    [("lookup.cache.max-rows", ROWS), ("lookup.cache.ttl", AFTER_WRITE), ("lookup.cache.caching-missing-key", MISSING)];

/// The lifetime of cached rows with the former options, unless they set it.
const FORMER_TIME: &str = "10 s";

/// The default number of retries.
const RETRIES_DEFAULT: u32 = 3;

/// The lookup settings of a table.
#[derive(Debug)]
pub(crate) struct LookupOptions {
    pub(crate) cache: LookupCache,
    pub(crate) max_retries: u32,
    /// One of the given options, for errors.
    given: Option<String>,
}

impl Default for LookupOptions {
    fn default() -> Self {
        LookupOptions { cache: LookupCache::None, max_retries: RETRIES_DEFAULT, given: None }
    }
}

/// The options of one table. Each is removed when it is read.
struct Given(BTreeMap<String, String>);

impl Given {
    /// Renames former options. As in Flink, they enable a cache if they give a number of rows and a time
    /// above 0. Without a time it is [`FORMER_TIME`].
    fn rename_former(&mut self) -> Result<()> {
        let mut former = BTreeMap::new();
        for (of, name) in FORMER {
            let Some(value) = self.0.remove(of) else { continue };
            if self.0.contains_key(name) {
                return Err(Error::user(format!("options '{of}' and '{name}' are the same")).remedy("omit one of them"));
            }
            former.insert(name.to_owned(), value);
        }
        if former.is_empty() {
            return Ok(());
        }
        if !self.0.contains_key(CACHE) {
            let time = former.entry(AFTER_WRITE.to_owned()).or_insert_with(|| FORMER_TIME.to_owned());
            let time = parse_duration(time.trim());
            let rows = former.get(ROWS).map_or("-1", |rows| rows.trim()).parse::<i64>();
            // An unreadable value is refused under the present name.
            let can_be_read = time.is_ok() && rows.is_ok();
            if can_be_read && (time.is_ok_and(|time| time.is_zero()) || rows.is_ok_and(|rows| rows <= 0)) {
                return Ok(());
            }
            self.0.insert(CACHE.to_owned(), "PARTIAL".to_owned());
        }
        self.0.extend(former);
        Ok(())
    }

    fn parsed<T>(&mut self, name: &str, remedy: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.0.remove(name) else { return Ok(None) };
        let wrong = || Error::user(format!("option '{name}' is '{text}'")).remedy(remedy);
        parse(text.trim()).map(Some).ok_or_else(wrong)
    }

    fn ms(&mut self, name: &str) -> Result<Option<u64>> {
        let parse = |text: &str| {
            let time = parse_duration(text).ok()?;
            u64::try_from(time.as_millis()).ok().filter(|ms| *ms > 0)
        };
        self.parsed(name, "write a time of at least 1 ms, such as '10 min'", parse)
    }

    /// Fails if an option is left, because it has no effect with this cache. `needed`: the option that would
    /// give it one.
    fn check_unused(&self, needed: &str) -> Result<()> {
        let Some(name) = self.0.keys().next() else { return Ok(()) };
        if ALL.contains(&name.as_str()) {
            return Err(Error::user(format!("option '{name}' has no effect without {needed}"))
                .remedy(format!("add {needed}, or omit the option")));
        }
        let guess = nearest(name, ALL).map(|near| format!("did you mean '{near}'? ")).unwrap_or_default();
        Err(Error::user(format!("unknown option '{name}'")).remedy(format!("{guess}use one of: {}", ALL.join(", "))))
    }
}

impl LookupOptions {
    /// Extracts the lookup options from the options of a table.
    pub(crate) fn extract(all: &mut BTreeMap<String, String>) -> Result<LookupOptions> {
        let (own, others) = std::mem::take(all).into_iter().partition(|(name, _)| name.starts_with(PREFIX));
        *all = others;
        let mut own = Given(own);
        own.rename_former()?;
        let given = own.0.keys().next().cloned();
        let whole = |text: &str| text.parse::<u32>().ok();
        let max_retries = own.parsed(RETRIES, "write a whole number, such as '3'", whole)?.unwrap_or(RETRIES_DEFAULT);
        let word = own.0.remove(CACHE);
        let cache = match word.as_deref().map(str::to_ascii_uppercase).as_deref() {
            None | Some("NONE") => {
                let needed =
                    if own.0.keys().any(|name| name.starts_with("lookup.full-cache.")) { "FULL" } else { "PARTIAL" };
                own.check_unused(&format!("'{CACHE}' = '{needed}'"))?;
                LookupCache::None
            }
            Some("PARTIAL") => partial(&mut own)?,
            Some("FULL") => full(&mut own)?,
            Some(_) => {
                let word = word.unwrap_or_default();
                return Err(
                    Error::user(format!("option '{CACHE}' is '{word}'")).remedy("use 'NONE', 'PARTIAL' or 'FULL'")
                );
            }
        };
        Ok(LookupOptions { cache, max_retries, given })
    }

    /// Fails if the options have no effect on tables of the connector.
    pub(crate) fn check(&self, lookups: Lookups, spec: &ConnectorSpec) -> Result<()> {
        let Some(given) = &self.given else { return Ok(()) };
        match (lookups, &self.cache) {
            (Lookups::None, _) => Err(Error::user(format!(
                "option '{given}' has no effect: tables of connector '{spec}' cannot be looked up"
            ))
            .remedy(
                "omit it; tables of 'jdbc' and 'http' are looked up by key, and files that are not followed are read again",
            )),
            (Lookups::Whole, LookupCache::None | LookupCache::Partial(_)) => Err(Error::user(format!(
                "option '{given}' needs lookups by key, which connector '{spec}' does not support"
            ))
            .remedy(format!("use '{CACHE}' = 'FULL', or omit the option to read the table once"))),
            _ => Ok(()),
        }
    }
}

fn partial(own: &mut Given) -> Result<LookupCache> {
    let rows = |text: &str| text.parse::<u64>().ok().filter(|rows| *rows > 0);
    let truth = |text: &str| text.to_ascii_lowercase().parse::<bool>().ok();
    let cache = PartialCache {
        rows_max: own.parsed(ROWS, "write a whole number above 0, such as '10000'", rows)?,
        expire_after_write_ms: own.ms(AFTER_WRITE)?,
        expire_after_access_ms: own.ms(AFTER_ACCESS)?,
        keeps_missing: own.parsed(MISSING, "use 'true' or 'false'", truth)?.unwrap_or(true),
    };
    own.check_unused(&format!("'{CACHE}' = 'FULL'"))?;
    if (cache.rows_max, cache.expire_after_write_ms, cache.expire_after_access_ms) == (None, None, None) {
        return Err(Error::user(format!("'{CACHE}' = 'PARTIAL' has no bound"))
            .remedy(format!("add '{ROWS}', '{AFTER_WRITE}' or '{AFTER_ACCESS}'")));
    }
    Ok(LookupCache::Partial(cache))
}

fn full(own: &mut Given) -> Result<LookupCache> {
    if let Some(word) = own.0.remove(STRATEGY).filter(|word| !word.eq_ignore_ascii_case("PERIODIC")) {
        return Err(Error::user(format!("option '{STRATEGY}' is '{word}'"))
            .remedy("use 'PERIODIC'; nothing else is supported yet"));
    }
    let interval_ms = own.ms(INTERVAL)?;
    own.check_unused(&format!("'{CACHE}' = 'PARTIAL'"))?;
    let interval_ms = interval_ms.ok_or_else(|| {
        Error::user(format!("'{CACHE}' = 'FULL' does not say how often the table is read"))
            .remedy(format!("add '{INTERVAL}' = '10 min'"))
    })?;
    Ok(LookupCache::Full { interval_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_names_make_a_cache_as_in_flink() {
        let cache = |options: &[(&str, &str)]| {
            let mut options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            LookupOptions::extract(&mut options).map(|options| options.cache)
        };
        let partial = |rows_max, expire_after_write_ms, keeps_missing| {
            let rows_max = Some(rows_max);
            let expire_after_write_ms = Some(expire_after_write_ms);
            LookupCache::Partial(PartialCache {
                rows_max,
                expire_after_write_ms,
                expire_after_access_ms: None,
                keeps_missing,
            })
        };
        let (rows, time) = ("lookup.cache.max-rows", "lookup.cache.ttl");
        for (options, expected) in [
            (&[(rows, "5")][..], partial(5, 10_000, true)),
            (&[(rows, "5"), (time, "1 min"), ("lookup.cache.caching-missing-key", "false")], partial(5, 60_000, false)),
            (&[(CACHE, "PARTIAL"), (ROWS, "5"), (time, "1 min")], partial(5, 60_000, true)),
            (&[(rows, "-1"), (time, "1 min")], LookupCache::None),
            (&[(rows, "5"), (time, "0 s")], LookupCache::None),
            (&[(time, "1 min")], LookupCache::None),
        ] {
            assert_eq!(cache(options).expect("options"), expected, "{options:?}");
        }
        for (options, error) in [
            (&[(time, "soon")][..], "option 'lookup.partial-cache.expire-after-write' is 'soon'"),
            (&[(rows, "many")], "option 'lookup.partial-cache.max-rows' is 'many'"),
            (
                &[(rows, "5"), (ROWS, "6")],
                "options 'lookup.cache.max-rows' and 'lookup.partial-cache.max-rows' are the same",
            ),
        ] {
            let found = cache(options).expect_err("an error").to_string();
            assert!(found.contains(error), "{found}");
        }
    }
}
