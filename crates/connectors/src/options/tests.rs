use super::*;

fn spec(options: &[(&str, &str)]) -> ConnectorSpec {
    ConnectorSpec::new("demo", options)
}

#[test]
fn values_are_read_with_their_types() {
    let spec = spec(&[("rows", "12"), ("every", "1 min"), ("on", "true"), ("mode", "b"), ("size", "64 kb")]);
    let mut options = Options::new(&spec);
    assert_eq!(options.number::<u64>("rows").unwrap(), Some(12));
    assert_eq!(options.duration("every").unwrap(), Some(Duration::from_secs(60)));
    assert_eq!(options.boolean("on").unwrap(), Some(true));
    assert_eq!(options.choice("mode", &[("a", 1), ("b", 2)]).unwrap(), Some(2));
    assert_eq!(options.bytes("size").unwrap(), Some(65_536));
    assert_eq!(options.string("absent"), None);
    options.finish().unwrap();
}

#[test]
fn an_unreadable_value_names_the_option_and_what_is_right() {
    let spec = spec(&[("rows", "many"), ("mode", "c")]);
    let mut options = Options::new(&spec);
    let error = options.number::<u32>("rows").unwrap_err().to_string();
    assert!(error.contains("option 'rows' is 'many'") && error.contains("give a number"), "{error}");
    let error = options.choice("mode", &[("a", 1), ("b", 2)]).unwrap_err().to_string();
    assert!(error.contains("use 'a' or 'b'"), "{error}");
    let error = options.required("path").unwrap_err().to_string();
    assert!(error.contains("connector 'demo' needs the option 'path'"), "{error}");
}

#[test]
fn an_unknown_option_is_refused_with_a_guess() {
    let spec = spec(&[("rows-per-secnd", "1")]);
    let mut options = Options::new(&spec);
    options.string("rows-per-second");
    options.string("seed");
    let error = options.finish().unwrap_err().to_string();
    assert!(error.contains("unknown option 'rows-per-secnd' of connector 'demo'"), "{error}");
    assert!(error.contains("did you mean 'rows-per-second'?"), "{error}");
    assert!(error.contains("known options: dead-letter.table, on-malformed"), "{error}");
}

#[test]
fn prefixes_plan_options_and_ignored_options_are_known() {
    let spec = spec(&[("properties.a.b", "1"), ("on-malformed", "skip"), ("sink.x", "1")]);
    let mut options = Options::new(&spec);
    assert_eq!(options.prefixed("properties."), [("a.b", "1")]);
    options.ignore(&["sink.x"]);
    options.finish().unwrap();
}
