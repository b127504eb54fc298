//! The commands of the documents, as a reader pastes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broker;
use crate::document::Session;

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_first_hour() {
    let broker = broker::shared();
    let session = Session::of("docs/first-hour.md", &[]);
    let session = session.replace_port(8790).replace_port(8791).replace("127.0.0.1:9092", broker.servers());
    session.paste("");
}

#[test]
fn the_readme() {
    Session::of("README.md", &["Try it", "A query"]).paste("");
}

#[test]
fn a_cluster() {
    let session = Session::of("docs/cluster.md", &["A first cluster"]).replace_port(8790).replace_port(8791);
    let store = session.folder().join("store");
    let session = session.replace("/tmp/anabranch", store.to_str().expect("text"));
    // The job may run before the second worker has joined.
    session.paste(
        "until anabranch jobs > listed && grep -q 'ads.*running' listed && grep -q '^one' listed && grep -q '^two' listed
         do :; done",
    );
}

#[test]
fn several_coordinators() {
    let session = Session::of("docs/cluster.md", &["Several coordinators"]);
    let session = session.replace_port(8790).replace_port(8791).replace_port(8792).replace_port(8793);
    let store = session.folder().join("store");
    let session = session.replace("/tmp/anabranch", store.to_str().expect("text"));
    let jobs = session.paste("until anabranch jobs | grep -q one; do :; done; anabranch jobs");
    assert!(jobs.contains("one"), "{jobs}");
}

/// One machine stands for all of them: a worker has the folder in which the coordinator's certificate is.
#[test]
fn other_machines() {
    let session = Session::of("docs/cluster.md", &["Other machines", "State near the tasks"]);
    let store = session.folder().join("store");
    let session = session.replace_port(8790).replace_port(8791);
    let session = session.replace("10.0.0.1", "127.0.0.1").replace("0.0.0.0", "127.0.0.1");
    let session = session.replace("s3://BUCKET/anabranch", store.to_str().expect("text"));
    let state = session.folder().join("state");
    let session = session.replace("/var/lib/anabranch", state.to_str().expect("text"));
    let jobs = session.paste(
        "until anabranch jobs --token-file token --tls-ca ca.pem | grep -q 'ads.*running'; do :; done
         anabranch jobs --token-file token --tls-ca ca.pem",
    );
    assert!(jobs.contains("ads") && jobs.contains("one"), "{jobs}");
}

#[test]
fn the_orders_of_the_first_hour_are_made_by_their_script() {
    let folder = tempfile::tempdir().expect("folder");
    let option = format!("orders.path={}", folder.path().display());
    let script = example("first-hour/make_orders.sql");
    let made = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["run", &script, "--quiet", "--parallelism", "1", "--option", &option])
        .output()
        .expect("runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = std::fs::read_dir(folder.path()).expect("listed").next().expect("a file").expect("listed").path();
    let (made, there) = (read(&file), read(Path::new(&example("first-hour/orders.csv"))));
    assert!(made == there && there.len() < 300_000, "orders.csv is not what make_orders.sql makes");
}

/// A block of SQL is part of a file that the document runs.
#[test]
fn the_queries_of_the_first_hour_are_those_of_its_files() {
    let files = std::fs::read_dir(example("first-hour")).expect("listed").map(|file| file.expect("listed").path());
    let files: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|end| end == "sql"))
        .map(|path| std::fs::read_to_string(path).expect("read"))
        .collect();
    for query in Session::of("docs/first-hour.md", &[]).sql() {
        assert!(files.iter().any(|file| file.contains(&query)), "no file has:\n{query}");
    }
}

/// As GitHub names the place of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// The headings of a document.
fn headings(text: &str) -> Vec<String> {
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    outside.filter(|line| line.starts_with("##")).map(|line| line.trim_start_matches('#').trim().to_owned()).collect()
}

/// Where links into a document lead: its headings, and places that have a name.
fn places(text: &str) -> Vec<String> {
    let named = text.split("<a name=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    headings(text).iter().map(|heading| anchor(heading)).chain(named).collect()
}

/// The documents of a folder, and those of the folders in it.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("listed").path();
        if path.is_dir() {
            found.extend(documents(&path));
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    found
}

#[test]
fn links_of_the_documents_lead_somewhere_and_contents_are_complete() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md"];
    for document in documents(&root.join("docs")).into_iter().chain(others.map(|name| root.join(name))) {
        let (text, shown) = (std::fs::read_to_string(&document).expect("read"), document.display());
        let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.contains(':')) {
            let (file, place) = link.split_once('#').map_or((link, None), |(file, place)| (file, Some(place)));
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            assert!(target.exists(), "{shown}: there is no {link}");
            if let Some(place) = place {
                let places = places(&std::fs::read_to_string(&target).expect("read"));
                assert!(places.iter().any(|other| other == place), "{shown}: no heading has the place {link}");
            }
        }
        let contents = text.split_once("\nContents: ").and_then(|(_, rest)| rest.split("\n\n").next());
        for heading in headings(&text) {
            let link = format!("(#{})", anchor(&heading));
            assert!(contents.is_none_or(|contents| contents.contains(&link)), "{shown}: its contents lack {heading}");
        }
    }
}
