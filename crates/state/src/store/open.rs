//! From the text of a place to its store: a directory, or a prefix in a bucket of an S3-compatible store.
//!
//! Credentials, the region and other settings come from the environment variables that every client of S3
//! reads (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, ...). The place
//! itself may contain an endpoint: `http://minio:9000/bucket/prefix`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};

use super::directory::make_folders;
use super::requests::Requests;
use super::{Objects, OsDisk, Store, failed};

/// Time limit of one request, unless `AWS_TIMEOUT` sets another. Larger objects are written and read in
/// parts.
const REQUEST: &str = "30s";
const CONNECT: &str = "5s";
/// Requests that fail for temporary reasons are retried for this time, with growing pauses. Jobs restart
/// after longer failures.
const RETRY: Duration = Duration::from_secs(30);
const RETRIES: usize = 20;
const BACKOFF: BackoffConfig =
    BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(5), base: 3.0 };
const PLACES: &str =
    "use a directory, s3://BUCKET/PREFIX, or http(s)://HOST:PORT/BUCKET/PREFIX of an S3-compatible store";

/// Access to object stores, by the usual environment variables of S3 clients.
#[derive(Clone, Default)]
pub struct Access {
    options: Vec<(AmazonS3ConfigKey, String)>,
}

impl Access {
    /// From the environment of this process.
    #[must_use]
    pub fn from_environment() -> Access {
        let text =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Access::new(text)
    }

    /// From variables with their values. Variables that do not concern S3 are ignored.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Access {
        let known = |(name, value): (String, String)| {
            let key = name.starts_with("AWS_").then(|| name.to_ascii_lowercase().parse().ok())??;
            Some((key, value))
        };
        Access { options: variables.into_iter().filter_map(known).collect() }
    }
}

/// Omits the values, some of which are secret.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.options.iter().map(|(key, _)| key.as_ref())).finish()
    }
}

impl Store {
    /// The store at a place. A local directory is created if it does not exist.
    pub fn open(place: &str, access: &Access) -> Result<Store> {
        let path = match Location::parse(place)? {
            Location::Directory(path) => path,
            Location::Bucket(bucket) => return bucket.open(place, access),
        };
        let path = make(&path).map_err(|error| {
            Error::outside(format!("the directory cannot be created: {error}"))
                .at(place.to_owned())
                .remedy("use a writable directory")
        })?;
        Ok(Store::on_disk(Arc::new(OsDisk), path))
    }

    /// The store at a place, for reading: nothing is created.
    pub fn open_existing(place: &str, access: &Access) -> Result<Store> {
        match Location::parse(place)? {
            Location::Bucket(bucket) => bucket.open(place, access),
            Location::Directory(path) => {
                let found = path.canonicalize().ok().filter(|path| path.is_dir());
                let found = found
                    .ok_or_else(|| Error::user("there is no such directory").at(place.to_owned()).remedy(PLACES))?;
                Ok(Store::on_disk(Arc::new(OsDisk), found))
            }
        }
    }
}

/// Creates a directory durably, if it does not exist. Returns its absolute path.
fn make(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find(|folder| folder.is_dir()).unwrap_or(&path).to_owned();
    make_folders(&OsDisk, &there, &path)?;
    path.canonicalize()
}

#[derive(Debug, PartialEq)]
enum Location {
    Directory(PathBuf),
    Bucket(Bucket),
}

/// A prefix in a bucket.
#[derive(Debug, PartialEq)]
struct Bucket {
    /// Scheme, host and port, if the place contains them.
    endpoint: Option<String>,
    name: String,
    prefix: String,
}

impl Location {
    fn parse(place: &str) -> Result<Location> {
        // The text before an @ may be a secret: messages never contain such a place.
        let Some((scheme, rest)) = place.split_once("://") else { return Ok(Location::Directory(place.into())) };
        let (head, path) = rest.split_once('/').unwrap_or((rest, ""));
        if head.contains('@') {
            return Err(Error::user("a place for checkpoints cannot contain credentials")
                .remedy("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"));
        }
        let bucket = |endpoint: Option<String>, name: &str, prefix: &str| {
            let prefix = prefix.trim_matches('/').to_owned();
            if name.is_empty() || (endpoint.is_some() && head.is_empty()) || rest.contains(['?', '#']) {
                return Err(Error::user("this does not name a bucket").at(place.to_owned()).remedy(PLACES));
            }
            Ok(Location::Bucket(Bucket { endpoint, name: name.to_owned(), prefix }))
        };
        match scheme {
            "file" => Ok(Location::Directory(rest.into())),
            "s3" | "s3a" => bucket(None, head, path),
            "http" | "https" => {
                let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
                bucket(Some(format!("{scheme}://{head}")), name, prefix)
            }
            _ => {
                Err(Error::user(format!("checkpoints cannot be kept at {place}: unknown scheme '{scheme}'"))
                    .remedy(PLACES))
            }
        }
    }
}

impl Bucket {
    fn open(self, place: &str, access: &Access) -> Result<Store> {
        let retry = RetryConfig { backoff: BACKOFF, max_retries: RETRIES, retry_timeout: RETRY };
        let client = AmazonS3ConfigKey::Client;
        let mut builder = AmazonS3Builder::new()
            .with_config(client(ClientConfigKey::Timeout), REQUEST)
            .with_config(client(ClientConfigKey::ConnectTimeout), CONNECT);
        for (key, value) in &access.options {
            builder = builder.with_config(*key, value);
        }
        builder =
            builder.with_bucket_name(self.name).with_retry(retry).with_conditional_put(S3ConditionalPut::ETagMatch);
        if let Some(endpoint) = self.endpoint {
            // An http:// endpoint in the place is allowed; for endpoints from elsewhere AWS_ALLOW_HTTP=true
            // is needed.
            if endpoint.starts_with("http://") {
                builder = builder.with_allow_http(true);
            }
            builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
        }
        let objects = builder.build().map_err(|error| failed("opened", place, &error))?;
        let objects: Arc<dyn ObjectStore> = match self.prefix.as_str() {
            "" => Arc::new(objects),
            prefix => Arc::new(PrefixStore::new(objects, prefix)),
        };
        let place = place.trim_end_matches('/').to_owned();
        Ok(Store { objects: Objects::Store(objects, Requests::remote()?), copies: None, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_directories_or_prefixes_in_buckets() {
        let bucket = |endpoint: Option<&str>, name: &str, prefix: &str| {
            Location::Bucket(Bucket { endpoint: endpoint.map(str::to_owned), name: name.into(), prefix: prefix.into() })
        };
        for (text, expected) in [
            ("a/b", Location::Directory("a/b".into())),
            ("file:///a/b", Location::Directory("/a/b".into())),
            ("s3://bucket", bucket(None, "bucket", "")),
            ("s3a://bucket/jobs/ads/", bucket(None, "bucket", "jobs/ads")),
            ("http://h:9000/bucket/ads", bucket(Some("http://h:9000"), "bucket", "ads")),
            ("https://h/bucket/", bucket(Some("https://h"), "bucket", "")),
        ] {
            assert_eq!(Location::parse(text).expect(text), expected, "{text}");
        }
        for (text, said) in [
            ("ftp://there", "unknown scheme 'ftp'"),
            ("s3://", "does not name a bucket"),
            ("s3:///prefix", "does not name a bucket"),
            ("http://h:9000", "does not name a bucket"),
            ("http:///bucket", "does not name a bucket"),
            ("s3://bucket/a?versionId=1", "does not name a bucket"),
        ] {
            let error = Location::parse(text).expect_err(text).to_string();
            assert!(error.contains(said) && error.contains("help: use a directory"), "{error}");
        }
    }

    #[test]
    fn credentials_in_a_place_are_refused_and_not_repeated() {
        let error = Store::open("https://key:hush@host/bucket", &Access::default()).expect_err("refused").to_string();
        assert!(!error.contains("hush") && error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
    }

    #[test]
    fn what_is_printed_of_credentials_is_their_names() {
        let set = [("AWS_SECRET_ACCESS_KEY", "hush"), ("AWS_ACCESS_KEY_ID", "id"), ("PATH", "/bin")];
        let access = Access::new(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(format!("{access:?}"), "[\"aws_secret_access_key\", \"aws_access_key_id\"]");
        let store = Store::open("http://h:1/bucket/a", &access).expect("no request yet");
        assert_eq!(format!("{store:?}"), "Store { place: \"http://h:1/bucket/a\", .. }");
    }

    #[test]
    fn reading_a_place_creates_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let missing = folder.path().join("missing");
        let error =
            Store::open_existing(missing.to_str().expect("text"), &Access::default()).expect_err("missing").to_string();
        assert!(error.contains("there is no such directory") && !missing.exists(), "{error}");
    }
}
