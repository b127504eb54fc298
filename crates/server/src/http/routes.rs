//! The routes: which request goes where.

use hyper::Method;

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Health,
    Readiness,
    Metrics,
    Description,
    Jobs,
    Job,
    Plan,
    Tasks,
    Checkpoints,
    Notices,
    Workers,
    Counters,
    Submit,
    Stop,
    Cancel,
    Remove,
    AbortChange,
    Savepoint,
    Reconfigure,
    Changes,
    Drain,
    Undrain,
    Functions,
    Autoscale,
    Observations,
    Page,
    PageFile,
    Server,
    Live,
    JobLive,
    Why,
    History,
    Script,
    State,
    Check,
    Complete,
    Preview,
    Demo,
}

/// A route. A segment `{name}` of its path takes any value.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) target: Target,
}

const fn get(path: &'static str, target: Target) -> Route {
    Route { method: Method::GET, path, target }
}

const fn post(path: &'static str, target: Target) -> Route {
    Route { method: Method::POST, path, target }
}

pub(super) static ROUTES: [Route; 38] = [
    get("/healthz", Target::Health),
    get("/readyz", Target::Readiness),
    get("/metrics", Target::Metrics),
    get("/api/v1/openapi.json", Target::Description),
    get("/", Target::Page),
    get("/page/{name}", Target::PageFile),
    get("/api/v1/server", Target::Server),
    get("/api/v1/live", Target::Live),
    get("/api/v1/jobs/{name}/live", Target::JobLive),
    get("/api/v1/jobs/{name}/why", Target::Why),
    get("/api/v1/jobs/{name}/history", Target::History),
    get("/api/v1/jobs/{name}/sql", Target::Script),
    get("/api/v1/jobs/{name}/state", Target::State),
    post("/api/v1/sql/check", Target::Check),
    post("/api/v1/sql/complete", Target::Complete),
    post("/api/v1/sql/preview", Target::Preview),
    post("/api/v1/demo", Target::Demo),
    get("/api/v1/jobs", Target::Jobs),
    get("/api/v1/jobs/{name}", Target::Job),
    get("/api/v1/jobs/{name}/plan", Target::Plan),
    get("/api/v1/jobs/{name}/tasks", Target::Tasks),
    get("/api/v1/jobs/{name}/checkpoints", Target::Checkpoints),
    get("/api/v1/jobs/{name}/notices", Target::Notices),
    get("/api/v1/jobs/{name}/counters", Target::Counters),
    get("/api/v1/jobs/{name}/changes", Target::Changes),
    get("/api/v1/jobs/{name}/autoscale", Target::Autoscale),
    get("/api/v1/jobs/{name}/observations", Target::Observations),
    get("/api/v1/workers", Target::Workers),
    post("/api/v1/jobs", Target::Submit),
    post("/api/v1/jobs/{name}/stop", Target::Stop),
    post("/api/v1/jobs/{name}/cancel", Target::Cancel),
    post("/api/v1/jobs/{name}/remove", Target::Remove),
    post("/api/v1/jobs/{name}/savepoint", Target::Savepoint),
    post("/api/v1/jobs/{name}/reconfigure", Target::Reconfigure),
    post("/api/v1/jobs/{name}/changes/abort", Target::AbortChange),
    post("/api/v1/functions", Target::Functions),
    post("/api/v1/workers/{name}/drain", Target::Drain),
    post("/api/v1/workers/{name}/undrain", Target::Undrain),
];

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
    fn the_description_has_every_route_and_no_other() {
        let description: serde_json::Value = serde_json::from_str(include_str!("openapi.json")).expect("JSON");
        let paths = description["paths"].as_object().expect("paths");
        let methods = |path: &str| paths[path].as_object().expect("methods").keys().map(|name| name.to_uppercase());
        let mut described: Vec<_> = paths.keys().flat_map(|path| methods(path).map(|m| (path.clone(), m))).collect();
        let mut routes: Vec<_> = ROUTES.iter().map(|route| (route.path.to_owned(), route.method.to_string())).collect();
        described.sort();
        routes.sort();
        assert_eq!(routes, described);
    }

    #[test]
    fn requests_find_their_routes() {
        let found = |method: Method, path: &str| find(&method, path);
        let job = |name: &str| Matched::Target(Target::Job, name.into());
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
