use super::*;

const TARGET: &str = "[[target]]\nname = \"ads\"\nengine = \"anabranch\"\nurl = \"http://127.0.0.1:8080\"\n";

fn refused(text: &str) -> String {
    Config::parse(text).expect_err("refused").to_string()
}

#[test]
fn a_file_says_what_is_scheduled_and_how() {
    let text = format!(
        "{TARGET}[[policy]]\ngroup = \"query\"\n[[policy]]\nname = \"inside\"\ntargets = [\"ads\"]\npriority = \"highest-rate\"\n\
         period = \"500 ms\"\nwhen = \"pressure > 0.05\"\nworst = 15\n"
    );
    let config = Config::parse(&text).expect("a configuration");
    let [group, inside] = &config.policies[..] else { panic!("two policies: {config:?}") };
    assert_eq!((group.name.as_str(), group.translator(), group.period), ("policy-1", "groups", PERIOD));
    assert_eq!((inside.translator(), inside.range(), inside.period.as_millis()), ("nice", Some((-10, 15)), 500));
    assert_eq!(group.targets, ["ads"], "all targets");
}

#[test]
fn mistakes_are_named_with_their_line_and_the_nearest_name() {
    for (text, expected) in [
        (String::new(), "there is no target"),
        (TARGET.to_owned(), "there is no policy"),
        (TARGET.replace("engine", "engin"), "did you mean 'engine'?"),
        (TARGET.replace("anabranch", "anabransh"), "did you mean 'anabranch'?"),
        (TARGET.replace("url =", "# url =") + "[[policy]]\npriority = \"drain\"", "target 'ads' has no 'url'"),
        (format!("{TARGET}{TARGET}[[policy]]\npriority = \"drain\""), "two of [[target]] are named 'ads'"),
        (format!("{TARGET}[[policy]]\nprioriti = \"drain\""), "line 6"),
        (format!("{TARGET}[[policy]]\npriority = \"drain\"\ntargets = [\"adz\"]"), "did you mean 'ads'?"),
        (format!("{TARGET}[[policy]]\npriority = \"drain\"\nperiod = \"5 ms\""), "20 ms to 600 s"),
        (format!("{TARGET}[[policy]]\npriority = \"drain\"\nperiod = \"5 weeks\""), "is not a duration"),
        (format!("{TARGET}[[policy]]\npriority = \"drain\"\ncommand = [\"x\"]"), "keep one of them"),
        (format!("{TARGET}[[policy]]\ngroup = \"queries\""), "use one of: query, branch, task"),
        (format!("{TARGET}[[policy]]\n"), "neither 'priority'"),
    ] {
        let error = refused(&text);
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

#[test]
fn a_policy_after_one_for_the_same_threads_that_always_decides_is_refused() {
    let both = |one: &str, other: &str| {
        format!("{TARGET}[[policy]]\npriority = \"drain\"\n{one}\n[[policy]]\npriority = \"queue-size\"\n{other}\n")
    };
    assert!(refused(&both("", "")).contains("both decide about the threads of target 'ads'"));
    assert!(refused(&both("", "when = \"pressure > 0.5\"")).contains("give 'policy-1' a condition"));
    Config::parse(&both("when = \"pressure > 0.5\"", "")).expect("the second one decides while there is no pressure");
    Config::parse(&both("", "translator = \"slice\"")).expect("another property");
}
