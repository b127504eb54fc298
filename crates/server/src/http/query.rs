//! The parameters of a request's address.

use std::collections::BTreeMap;
use std::str::FromStr;

use anabranch_model::Error;
use hyper::StatusCode;

use super::answers::{Answer, refused};
use super::routes::decoded;

#[derive(Debug, Default)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Of what stands behind the question mark.
    pub(super) fn of(query: Option<&str>) -> Parameters {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(&value.replace('+', " "))?))
        };
        Parameters(pairs.filter_map(pair).collect())
    }

    /// A parameter as a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A parameter as a number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Box<Answer>> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let error = Error::user(format!("'{text}' is not a number for the parameter '{name}'"));
            refused(StatusCode::BAD_REQUEST, &error.remedy("give a number, or leave the parameter out"))
        })
    }
}
