//! The routes: which request goes where, and how the API describes it.

mod table;

use hyper::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::documents::ErrorDocument;
pub(super) use table::ROUTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Health,
    Readiness,
    Metrics,
    Description,
    Jobs,
    View(View),
    Workers,
    Submit,
    Stop,
    Cancel,
    Remove,
    AbortChange,
    Savepoint,
    Reconfigure,
    Drain,
    Undrain,
    Functions,
    Page,
    PageFile,
    Server,
    Live,
    Script,
    State,
    Check,
    Complete,
    Preview,
    Demo,
}

/// What is shown of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Job,
    Plan,
    Tasks,
    Checkpoints,
    Counters,
    Changes,
    Autoscale,
    Observations,
    Notices,
    Live,
    Why,
    History,
}

/// A route. A segment `{name}` of its path takes any value.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) target: Target,
    /// Its name in clients that are generated from the description.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) token: Token,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<RequestBody>,
    /// What it answers, but for what follows from the other fields.
    pub(super) answers: Vec<Described>,
}

/// What a request needs, if the process has a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Needed,
    /// Without the token, the answer names no jobs.
    Optional,
    Unused,
}

/// A parameter of a route's address, which may be left out.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// In JSON Schema.
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
}

/// Adds the schema of a type to a generator, and returns a reference to it.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The body that a route takes, in JSON.
pub(super) struct RequestBody {
    pub(super) required: bool,
    pub(super) schema: SchemaOf,
}

/// An answer of a route.
pub(super) struct Described {
    pub(super) status: u16,
    pub(super) text: &'static str,
    pub(super) content: Content,
}

/// The content of an answer.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Json(SchemaOf),
    /// A text of this media type.
    Text(&'static str),
}

impl Route {
    fn new(method: Method, path: &'static str, target: Target, id: &'static str, summary: &'static str) -> Route {
        let (token, parameters, body, answers) = (Token::Needed, Vec::new(), None, Vec::new());
        Route { method, path, target, id, summary, token, parameters, body, answers }
    }

    fn token(self, token: Token) -> Route {
        Route { token, ..self }
    }

    fn number(self, name: &'static str, text: &'static str) -> Route {
        self.parameter(name, "integer", text)
    }

    fn parameter(mut self, name: &'static str, kind: &'static str, text: &'static str) -> Route {
        self.parameters.push(Parameter { name, kind, text });
        self
    }

    fn takes<T: JsonSchema>(self) -> Route {
        Route { body: Some(RequestBody { required: true, schema: SchemaGenerator::subschema_for::<T> }), ..self }
    }

    fn may_take<T: JsonSchema>(self) -> Route {
        Route { body: Some(RequestBody { required: false, schema: SchemaGenerator::subschema_for::<T> }), ..self }
    }

    fn gives<T: JsonSchema>(self, status: u16, text: &'static str) -> Route {
        self.answers(status, text, Content::Json(SchemaGenerator::subschema_for::<T>))
    }

    fn gives_text(self, media_type: &'static str, text: &'static str) -> Route {
        self.answers(200, text, Content::Text(media_type))
    }

    fn refuses(self, status: u16, text: &'static str) -> Route {
        self.gives::<ErrorDocument>(status, text)
    }

    fn answers(mut self, status: u16, text: &'static str, content: Content) -> Route {
        self.answers.push(Described { status, text, content });
        self
    }
}

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Matched {
    /// To this target, with the value of `{name}`, which is empty for paths without one.
    Target(Target, String),
    /// The path exists for other methods.
    OtherMethod(Vec<String>),
    /// No route has this path.
    Nothing,
}

/// Finds the route of a request. HEAD is answered as GET, without a body.
pub(super) fn find(method: &Method, path: &str) -> Matched {
    let matching = |route: &'static Route| Some((route, name_in(route.path, path)?));
    let matching: Vec<_> = ROUTES.iter().filter_map(matching).collect();
    let method = if method == Method::HEAD { &Method::GET } else { method };
    if let Some((route, name)) = matching.iter().find(|(route, _)| route.method == *method) {
        return Matched::Target(route.target, name.clone());
    }
    match matching.is_empty() {
        true => Matched::Nothing,
        false => Matched::OtherMethod(matching.into_iter().map(|(route, _)| route.method.to_string()).collect()),
    }
}

/// The value of `{name}` if the path fits to the route's.
fn name_in(route: &str, path: &str) -> Option<String> {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    let mut name = String::new();
    loop {
        match (route.next(), path.next()) {
            (None, None) => return Some(name),
            (Some("{name}"), Some(value)) if !value.is_empty() => name = decoded(value)?,
            (Some(expected), Some(given)) if expected == given => {}
            _ => return None,
        }
    }
}

/// A segment without percent-encoding; `None` if it is not valid.
pub(super) fn decoded(segment: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), segment.as_bytes());
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, others) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = others;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_find_their_routes() {
        let found = |method: Method, path: &str| find(&method, path);
        let job = |name: &str| Matched::Target(Target::View(View::Job), name.into());
        assert_eq!(found(Method::GET, "/api/v1/jobs/ads"), job("ads"));
        assert_eq!(found(Method::HEAD, "/api/v1/jobs/a%20b%2fc%C3%A4"), job("a b/cä"));
        assert_eq!(found(Method::POST, "/api/v1/jobs/ads"), Matched::OtherMethod(vec!["GET".into()]));
        assert_eq!(found(Method::GET, "/api/v1/jobs/ads/stop"), Matched::OtherMethod(vec!["POST".into()]));
        assert_eq!(found(Method::GET, "/api/v1/jobs"), Matched::Target(Target::Jobs, String::new()));
        for path in
            ["/x", "/api/v1/jobs/", "/api/v1/jobs/a/b", "/api/v1/jobs/%", "/api/v1/jobs/%+1", "/api/v1/jobs/%ff"]
        {
            assert_eq!(found(Method::GET, path), Matched::Nothing, "{path}");
        }
    }
}
