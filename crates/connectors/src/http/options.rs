//! The options of a table.

use std::time::Duration;

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Error, Result, Secrets};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::template::Template;
use crate::Options;

const TIMEOUT: Duration = Duration::from_secs(10);
const CONCURRENCY: usize = 8;
const CONCURRENCY_MAX: usize = 256;
const KEYS: usize = 500;

/// The options in `WITH (...)`.
#[derive(Clone)]
pub(super) struct HttpTable {
    pub(super) url: Template,
    pub(super) headers: HeaderMap,
    /// Secrets that messages must not contain.
    pub(super) secrets: Secrets,
    /// Time limit of a request.
    pub(super) timeout: Duration,
    /// Concurrent requests of a task.
    pub(super) concurrency: usize,
    /// Limit of the keys of a request.
    pub(super) keys_max: usize,
}

impl HttpTable {
    pub(super) fn read(spec: &ConnectorSpec) -> Result<HttpTable> {
        let mut options = Options::new(spec);
        let url = Template::parse(options.required("url")?)?;
        options.choice("format", &[("json", ())])?;
        let mut headers = HeaderMap::new();
        for (name, value) in options.prefixed("header.") {
            let wrong = || {
                Error::user(format!("option 'header.{name}' is no header of a request"))
                    .remedy("use letters, digits and hyphens in its name, and printable characters in its value")
            };
            let parsed = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
            let (Ok(name), Ok(mut value)) = parsed else { return Err(wrong()) };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        if let Some(token) = options.string("token") {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::user("option 'token' has characters that no header may have"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let timeout = options.duration("request.timeout")?.unwrap_or(TIMEOUT);
        let concurrency = options.number("request.max-concurrent")?.unwrap_or(CONCURRENCY);
        let keys = options.number("request.max-keys")?;
        options.finish()?;
        if !(1..=CONCURRENCY_MAX).contains(&concurrency) || keys == Some(0) || timeout.is_zero() {
            return Err(Error::user(
                "option 'request.max-concurrent', 'request.max-keys' or 'request.timeout' is out of range",
            )
            .remedy(format!("use 1 to {CONCURRENCY_MAX} requests, at least 1 key, and more than 0 s")));
        }
        if keys.is_some() && url.columns().next().is_some() {
            return Err(Error::user(
                "option 'request.max-keys' has no effect: the url has a column, so a request has one key",
            )
            .remedy("omit it, or omit {column} from the url"));
        }
        let secrets = Secrets::of_options(&spec.options);
        Ok(HttpTable { url, headers, secrets, timeout, concurrency, keys_max: keys.unwrap_or(KEYS) })
    }
}
