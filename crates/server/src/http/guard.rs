//! Which requests may be answered: those with the token, if there is one, and none that a browser sends for a
//! page of another site.

use std::net::IpAddr;

use anabranch_model::Error;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Method, StatusCode};

use super::answers::{Answer, refusal, refused};
use super::security::{Access, Given, Tokens};

/// Where a browser says that a request comes from another site.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(super) struct Guard {
    tokens: Tokens,
    given: Given,
}

impl Guard {
    pub(super) fn new(tokens: Tokens, given: Given) -> Guard {
        Guard { tokens, given }
    }

    /// What a request may do; refuses one that may not be answered.
    pub(super) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<Access, Box<Answer>> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let host = text(HOST);
        // A browser sends a page's requests to other sites too, and names the page's site.
        let is_foreign = text(ORIGIN).is_some_and(|origin| host != origin.split_once("://").map(|(_, host)| host));
        if is_foreign || text(FETCH_SITE).is_some_and(|site| site == "cross-site") {
            let error = Error::user("a page of another site must not use this process");
            return Err(refused(StatusCode::FORBIDDEN, &error.remedy("send the request without a browser")));
        }
        if !self.tokens.are_needed() {
            return self.check_name(headers).map(|()| Access::Changes);
        }
        let of_changes = self.given.name("token-file");
        let Some(access) = self.tokens.access(headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)) else {
            let error = Error::user("the request needs the token of this process");
            let remedy = format!("send the header 'Authorization: Bearer TOKEN', with the content of {of_changes}");
            let mut answer = refusal(StatusCode::UNAUTHORIZED, &error.remedy(remedy));
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Err(Box::new(answer));
        };
        if access == Access::Reads && *method != Method::GET && *method != Method::HEAD {
            let error = Error::user("this token only reads, and the request may change something");
            let remedy = format!("use the token of {of_changes}, not that of {}", self.given.name("read-token-file"));
            return Err(refused(StatusCode::FORBIDDEN, &error.remedy(remedy)));
        }
        Ok(access)
    }

    /// Without a token, refuses a name that the owner of any site that a browser visits could make to mean
    /// this machine.
    pub(super) fn check_name(&self, headers: &HeaderMap) -> Result<(), Box<Answer>> {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok());
        if self.tokens.are_needed() || host.is_none_or(is_of_this_machine) {
            return Ok(());
        }
        let error = Error::user("without a token, the host must be an address or localhost");
        let remedy = format!("use http://127.0.0.1:PORT, or start with {}", self.given.name("token-file"));
        Err(refused(StatusCode::FORBIDDEN, &error.remedy(remedy)))
    }
}

fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}
