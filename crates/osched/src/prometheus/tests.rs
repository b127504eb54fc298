use std::time::Duration;

use anabranch_model::Rng;

use super::*;
use crate::http::HttpOptions;
use crate::http::tests::{Answer, Server};

fn samples(text: &str) -> (Vec<(String, String, f64)>, Parsed) {
    let mut found = Vec::new();
    let parsed = parse(
        text.as_bytes(),
        |_| true,
        |sample| {
            found.push((sample.family.to_owned(), sample.labels.0.to_owned(), sample.value));
        },
    );
    (found, parsed)
}

#[test]
fn samples_have_labels_and_values() {
    let text = "# HELP rows_in Rows.\n# TYPE rows_in counter\n\
                rows_in{task=\"a (1/2)\",note=\"x}\\\"\\\\\\n\",} 12.5 1700000000000\n\
                up 1\r\nnan NaN\nlow{a=\"b\"} -Inf\nhigh +Inf\nlarge 1.7E9\n\n";
    let (found, parsed) = samples(text);
    assert_eq!(parsed, Parsed { samples: 6, skipped: 0, rubbish: 0 });
    let values: Vec<f64> = found.iter().map(|(_, _, value)| *value).collect();
    assert_eq!(values[..2], [12.5, 1.0]);
    assert!(values[2].is_nan());
    assert_eq!(values[3..], [f64::NEG_INFINITY, f64::INFINITY, 1.7e9]);
    let labels = Labels(&found[0].1);
    assert_eq!(labels.get("task").as_deref(), Some("a (1/2)"));
    assert_eq!(labels.get("note").as_deref(), Some("x}\"\\\n"));
    assert_eq!((labels.get("tas"), labels.get("x")), (None, None));
}

#[test]
fn unwanted_families_are_not_read() {
    let mut count = 0;
    let text = b"a_total 1\na 2\nb{a=\"1\"} not a number\n";
    let parsed = parse(text, |family| family == "a", |_| count += 1);
    assert_eq!((parsed, count), (Parsed { samples: 1, skipped: 2, rubbish: 0 }, 1));
}

#[test]
fn rubbish_is_counted_and_the_rest_is_read() {
    let text = "good 1\nno value\nbroken{a=\"1\" 2\n{a=\"1\"} 3\n1up 2\ntwo 1 2 3\ntimed 1 soon\n\u{fffd} 3\ngood 2";
    let (found, parsed) = samples(text);
    assert_eq!(parsed, Parsed { samples: 2, skipped: 0, rubbish: 7 });
    assert_eq!(found.iter().map(|(_, _, value)| *value).collect::<Vec<_>>(), [1.0, 2.0]);
    let parsed = parse(b"bytes{a=\"\xff\"} 1\n\xff 2\n", |_| true, |_| ());
    assert_eq!(parsed.rubbish, 2);
}

/// Labels of any characters come back as they were written.
#[test]
fn what_is_written_is_read() {
    let mut rng = Rng::new(0x9e37);
    println!("seed 0x9e37");
    let alphabet: Vec<char> = "ab\"\\\n{},= é#".chars().collect();
    for _ in 0..2_000 {
        let value: String =
            (0..rng.below(12)).map(|_| alphabet[usize::try_from(rng.below(12)).expect("small")]).collect();
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let text = format!("m{{first=\"{escaped}\",second=\"2\"}} 7\n");
        let mut count = 0;
        let parsed = parse(
            text.as_bytes(),
            |_| true,
            |sample| {
                assert_eq!(sample.labels.get("first").as_deref(), Some(value.as_str()), "{text}");
                assert_eq!(sample.labels.get("second").as_deref(), Some("2"), "{text}");
                count += 1;
            },
        );
        assert_eq!((parsed.samples, count), (1, 1), "{text}");
    }
}

/// No text makes it panic.
#[test]
fn any_bytes_are_survived() {
    let mut rng = Rng::new(77);
    println!("seed 77");
    let alphabet = b"a1_{}=\",\\ \n\t#.\xff";
    for _ in 0..5_000 {
        let length = rng.below(40);
        let pick = |rng: &mut Rng| alphabet[usize::try_from(rng.below(alphabet.len() as u64)).expect("small")];
        let text: Vec<u8> = (0..length).map(|_| pick(&mut rng)).collect();
        parse(&text, |_| true, |sample| drop(sample.labels.get("a")));
    }
}

#[test]
fn a_scrape_takes_the_default_path_and_refuses_other_documents() {
    assert_eq!(Scraper::new("http://h:1").url, "http://h:1/metrics");
    assert_eq!(Scraper::new("http://h:1/").url, "http://h:1/metrics");
    assert_eq!(Scraper::new("http://h:1/prom").url, "http://h:1/prom");
    let server = Server::start(|path, _| match path {
        "/metrics" => Answer::Ok(b"a 1\nb 2\n".to_vec()),
        "/empty" => Answer::Ok(Vec::new()),
        _ => Answer::Ok(b"<html>\n<body>hello</body>\n</html>".to_vec()),
    });
    let http =
        Http::new(HttpOptions { deadline: Duration::from_secs(60), ..HttpOptions::default() }).expect("a client");
    let mut scraper = Scraper::new(&server.url);
    let mut sum = 0.0;
    let parsed = scraper.scrape(&http, |_| true, |sample| sum += sample.value).expect("an answer");
    assert_eq!((parsed.samples, sum, scraper.size()), (2, 3.0, 8));
    let empty = Scraper::new(&format!("{}/empty", server.url)).scrape(&http, |_| true, |_| ());
    assert_eq!(empty.expect("no metric yet"), Parsed::default());
    let error = Scraper::new(&format!("{}/web", server.url)).scrape(&http, |_| true, |_| ()).expect_err("no metrics");
    assert!(error.to_string().contains("/web: ") && error.help().is_some(), "{error}");
}
