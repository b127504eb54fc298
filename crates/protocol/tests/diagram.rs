//! The documents of the machines match the tables in the code. `UPDATE_GOLDEN=1` writes them.

use std::fs;
use std::path::Path;

use anabranch_protocol::{agree, change, coordinator, hold, membership, worker};

#[test]
fn the_documents_show_the_transition_tables() {
    let documents = [
        ("coordinator", coordinator::document()),
        ("worker", worker::document()),
        ("membership", membership::document()),
        ("change", change::document()),
        ("hold", hold::document()),
        ("agree", agree::document()),
    ];
    for (name, document) in documents {
        let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo"))
            .join(format!("../../docs/protocol/{name}.md"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("docs/protocol");
            fs::write(&path, &document).expect("docs/protocol");
        }
        let shown = fs::read_to_string(&path).unwrap_or_default();
        assert!(shown == document, "{} is outdated: run the tests with UPDATE_GOLDEN=1", path.display());
    }
}

#[test]
fn every_state_can_be_reached_from_the_first_of_its_machine() {
    let machines = [
        coordinator::MACHINES,
        worker::MACHINES,
        membership::MACHINES,
        change::MACHINES,
        hold::MACHINES,
        agree::MACHINES,
    ];
    for (name, _, transitions) in machines.concat() {
        let mut reached = vec![transitions[0].state];
        if name == "group size" {
            reached.push("fixed");
        }
        for _ in 0..transitions.len() {
            for transition in transitions {
                if reached.contains(&transition.state) && !reached.contains(&transition.next) {
                    reached.push(transition.next);
                }
            }
        }
        for transition in transitions {
            assert!(reached.contains(&transition.state), "{name}: {} is out of reach", transition.state);
        }
    }
}
