//! The document of the coordinator's machines matches the tables in the code. `UPDATE_GOLDEN=1` writes it.

use std::fs;
use std::path::Path;

use anabranch_protocol::coordinator::{MACHINES, document};

#[test]
fn the_document_shows_the_transition_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol/coordinator.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("docs/protocol");
        fs::write(&path, document()).expect("docs/protocol/coordinator.md");
    }
    let shown = fs::read_to_string(&path).unwrap_or_default();
    assert!(shown == document(), "{} is outdated: run the tests with UPDATE_GOLDEN=1", path.display());
}

#[test]
fn every_state_can_be_reached_from_the_first_of_its_machine() {
    for (name, _, transitions) in MACHINES {
        let mut reached = vec![transitions[0].state];
        if *name == "group size" {
            reached.push("fixed");
        }
        for _ in 0..transitions.len() {
            for transition in *transitions {
                if reached.contains(&transition.state) && !reached.contains(&transition.next) {
                    reached.push(transition.next);
                }
            }
        }
        for transition in *transitions {
            assert!(reached.contains(&transition.state), "{name}: {} is out of reach", transition.state);
        }
    }
}
