//! The documents of the repository.

use std::path::Path;

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

#[test]
fn links_of_the_documents_lead_somewhere_and_contents_are_complete() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let listed = std::fs::read_dir(root.join("docs")).expect("listed").map(|file| file.expect("listed").path());
    let documents = listed.filter(|path| path.extension().is_some_and(|end| end == "md"));
    for document in documents.chain([root.join("README.md")]) {
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
        let contents = text.split_once("Contents:").and_then(|(_, rest)| rest.split("\n\n#").next());
        for heading in headings(&text) {
            let link = format!("(#{})", anchor(&heading));
            assert!(contents.is_none_or(|contents| contents.contains(&link)), "{shown}: its contents lack {heading}");
        }
    }
}
