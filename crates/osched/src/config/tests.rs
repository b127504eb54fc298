use super::*;

const TARGET: &str = "[[target]]\nname = \"ads\"\nengine = \"anabranch\"\nurl = \"http://127.0.0.1:8080\"\n";

fn refused(text: &str) -> String {
    Config::parse(text).expect_err("refused").to_string()
}

#[test]
fn a_file_says_what_is_scheduled_and_how() {
    let text = format!(
        "{TARGET}[[policy]]\ngroup = \"query\"\n[[policy]]\nname = \"inside\"\ntargets = [\"ads\"]\npriority = \"highest-rate\"\n\
         period = \"500 ms\"\nwhen = \"pressure > 0.05\"\nworst = 15\nscale = \"ladder\"\n"
    );
    let config = Config::parse(&text).expect("a configuration");
    let [group, inside] = &config.policies[..] else { panic!("two policies: {config:?}") };
    assert_eq!((group.name.as_str(), group.translator(), group.period), ("policy-1", "groups", PERIOD));
    assert_eq!((inside.translator(), inside.range(), inside.period.as_millis()), ("nice", Some((0, 15)), 500));
    assert_eq!((group.scale, inside.scale), (None, Some(Scale::Ladder)));
    assert_eq!(group.targets, ["ads"], "all targets");
    assert!(!config.other_cpusets);
    assert!(Config::parse(&format!("other-cpusets = true\n{text}")).expect("a configuration").other_cpusets);
}

#[test]
fn an_address_has_a_policy_that_waits_for_a_backlog() {
    let config = Config::of_address(Engine::Flink, "http://127.0.0.1:8081").expect("a configuration");
    let [policy] = &config.policies[..] else { panic!("one policy: {config:?}") };
    assert_eq!(policy.when.as_ref().map(Condition::text), Some(BACKLOG));
    assert_eq!((policy.priority.as_deref(), &policy.targets[0]), (Some("highest-rate"), &config.targets[0].name));
}

const POLICY: &str = "[[policy]]\npriority = \"drain\"\n";

/// Each remedy is followed: the file is then taken.
#[test]
fn mistakes_are_named_with_their_line_and_a_remedy_that_helps() {
    let both = |target: &str, policy: &str| format!("{target}{policy}");
    let more = |lines: &str| format!("{TARGET}{POLICY}{lines}\n");
    let mended = both(TARGET, POLICY);
    let second = both(&TARGET.replace("ads", "two"), "");
    for (text, expected, followed) in [
        (
            format!("token-file = \"token\"\n{mended}"),
            "add listen = \"127.0.0.1:7070\"",
            format!("token-file = \"token\"\nlisten = \"127.0.0.1:7070\"\n{mended}"),
        ),
        (POLICY.to_owned(), "add [[target]] with name, engine and url", mended.clone()),
        (TARGET.to_owned(), "add [[policy]] with priority = \"drain\"", mended.clone()),
        (both(&TARGET.replace("engine", "engin"), POLICY), "did you mean 'engine'?", mended.clone()),
        (both(&TARGET.replace("anabranch", "anabransh"), POLICY), "did you mean 'anabranch'?", mended.clone()),
        (both(&TARGET.replace("url =", "# url ="), POLICY), "target 'ads' has no 'url'", mended.clone()),
        (format!("{TARGET}{TARGET}{POLICY}"), "rename one of them", format!("{TARGET}{second}{POLICY}")),
        (both(&format!("{TARGET}graphite = \"127.0.0.1:1\"\n"), POLICY), "leave it out", mended.clone()),
        (both(&format!("{TARGET}inputs.a = [\"b\"]\n"), POLICY), "'inputs' has no effect", mended.clone()),
        (both(TARGET, &POLICY.replace("priority", "prioriti")), "line 6", mended.clone()),
        (more("targets = [\"adz\"]"), "did you mean 'ads'?", more("targets = [\"ads\"]")),
        (more("period = \"5 ms\""), "use 20 ms to 600 s", more("period = \"20 ms\"")),
        (more("period = \"601 s\""), "use 20 ms to 600 s", more("period = \"10 min\"")),
        (more("period = \"5 weeks\""), "use for example '250 ms'", more("period = \"250 ms\"")),
        (more("command = [\"x\"]"), "keep one of them", both(TARGET, "[[policy]]\ncommand = [\"x\"]\n")),
        (
            format!("{TARGET}{second}[[policy]]\ncommand = [\"x\"]\n"),
            "name it: targets = [\"...\"], and add a policy for each other target",
            format!(
                "{TARGET}{second}[[policy]]\ncommand = [\"x\"]\ntargets = [\"ads\"]\n{POLICY}targets = [\"two\"]\n"
            ),
        ),
        (
            both(TARGET, "[[policy]]\ngroup = \"queries\"\n"),
            "use one of: query, branch, task",
            both(TARGET, "[[policy]]\ngroup = \"query\"\n"),
        ),
        (both(TARGET, "[[policy]]\n"), "add priority = \"drain\"", mended),
        (
            more("translator = \"slice\"\nbest = -5"),
            "leave them out, or use translator = \"nice\"",
            more("translator = \"nice\"\nbest = -5"),
        ),
        (more("translator = \"slice\"\nworst = 5"), "leave them out", more("translator = \"slice\"")),
        (more("translator = \"real-time\"\nscale = \"ladder\""), "leave it out", more("translator = \"real-time\"")),
    ] {
        let error = refused(&text);
        assert!(error.contains(expected), "{text}\n{error}");
        Config::parse(&followed).unwrap_or_else(|error| panic!("{expected}: {followed}\n{error}"));
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
