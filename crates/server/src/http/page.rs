//! The page: files that are part of the program. They have no data, so they need no token.

#[path = "../../page/files.rs"]
mod files;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

use super::answers::{Answer, Answered, refused};
pub(super) use files::BUILD;
use files::{FILES, INDEX};

/// A built file, compressed.
struct File {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

impl File {
    const fn gzip(name: &'static str, content_type: &'static str, bytes: &'static [u8]) -> File {
        File { name, content_type, bytes }
    }
}

/// The document.
pub(super) fn index() -> Answer {
    served(INDEX, "text/html; charset=utf-8", "no-cache")
}

/// A file by its name, which has a hash of the content: it never changes.
pub(super) fn file(name: &str) -> Answered {
    let file = FILES.iter().find(|file| file.name == name).ok_or_else(|| {
        let error = anabranch_model::Error::user(format!("the page has no file '{name}'"));
        refused(StatusCode::NOT_FOUND, &error.remedy("load the page again: the program may be a newer one"))
    })?;
    let mut answer = served(file.bytes, file.content_type, "public, max-age=31536000, immutable");
    answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Ok(answer)
}

fn served(bytes: &'static [u8], content_type: &'static str, kept: &'static str) -> Answer {
    let mut answer = Answer::new(Bytes::from_static(bytes).into());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_its_build_and_only_files_that_exist() {
        let text = std::str::from_utf8(INDEX).expect("a text");
        assert!(text.contains(BUILD), "the build");
        let named = text.split("/page/").skip(1).map(|rest| rest.split(['"', '\'']).next().expect("a name"));
        let named: Vec<&str> = named.collect();
        assert!(!named.is_empty());
        for name in named {
            assert!(FILES.iter().any(|file| file.name == name), "{name}");
        }
        assert!(!text.contains("<style") && !text.contains("style="), "the policy forbids styles in the document");
    }
}
