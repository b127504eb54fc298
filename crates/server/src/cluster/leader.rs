//! Which of the coordinators with the same store leads: the one that has written the last entry of a list
//! there.
//!
//! A coordinator that starts reads the last entry. If the coordinator that wrote it answers, the new one
//! stands by. It knows the workers too, because they connect to every coordinator, and it watches the leader
//! over a connection. When that connection breaks or falls silent, and no worker hears the leader either, it
//! writes the next entry and leads. If two write at once, the store accepts one entry. A leader that was
//! wrongly taken for dead reads the later entry, and stands by.
//!
//! The list decides only which coordinator tries to run jobs. The job's own log decides which one owns a job,
//! so two coordinators that both lead for a moment do no harm.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

use anabranch_model::{Error, ErrorKind, Result};
use anabranch_runtime::messages::MESSAGES_VERSION;
use anabranch_state::Store;
use serde::{Deserialize, Serialize};

use super::members::{Members, SILENCE};
use super::messages::{FromCluster, FromProcess, Leader};
use super::versions::Versions;
use crate::Engine;
use crate::control::{Event, Security, connect};

const FOLDER: &str = "coordinators";
/// Version of the entries.
const FORMAT: u32 = 1;
/// A leader that is silent for so long is taken for dead. Its workers' tasks run on for longer.
pub(super) const PATIENCE: Duration = Duration::from_millis(SILENCE.as_millis() as u64 * 3 / 8);
/// How often workers are asked before the leader is.
const LOOKS: u32 = 12;
/// Time to connect to the leader.
const CONNECT: Duration = Duration::from_millis(500);

/// An entry of the list: what a coordinator announces of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    format: u32,
    /// Where workers and standbys connect.
    pub(super) address: SocketAddr,
    /// Where commands connect.
    pub(super) url: String,
    /// A number that no other coordinator's process has, so no two entries are equal.
    pub(super) owner: u64,
}

/// The list.
#[derive(Clone)]
pub(super) struct Leaders {
    entries: Versions,
}

/// Why a coordinator that stands by does not watch the leader any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// The leader does not answer, or leads no more.
    Gone,
    /// The watch was to end, whatever the leader does.
    Ended,
}

impl Entry {
    pub(super) fn new(address: SocketAddr, url: impl Into<String>, owner: u64) -> Entry {
        Entry { format: FORMAT, address, url: url.into(), owner }
    }
}

impl Leaders {
    pub(super) fn new(store: Store) -> Leaders {
        Leaders { entries: Versions::new(store, FOLDER, "") }
    }

    /// The last entry, if any coordinator ever led.
    pub(super) fn last(&self) -> Result<Option<(Leader, Entry)>> {
        let Some(last) = self.entries.last()? else { return Ok(None) };
        let entry = last.content_of(FORMAT, "entry of a coordinator", "remove the file, if no coordinator runs")?;
        Ok(Some((Leader(last.number), entry)))
    }

    /// Whether this one leads still.
    pub(super) fn is_last(&self, leader: Leader) -> Result<bool> {
        self.entries.is_last(leader.0)
    }

    /// The coordinator that announces itself so leads from now on, unless another one was faster.
    pub(super) fn claim(&self, after: Option<Leader>, own: &Entry) -> Result<Option<Leader>> {
        let last = after.map_or(0, |Leader(number)| number);
        let text = serde_json::to_vec(own);
        let text = text.map_err(|error| Error::internal(format!("an entry cannot be written: {error}")))?;
        Ok(self.entries.write(last, &text)?.then_some(Leader(last + 1)))
    }
}

/// An error if no coordinator has ever led at this place: the process does not reach the right one.
pub fn check_place(engine: &Engine, place: &str) -> Result<()> {
    let has_led = match Store::open_existing(place, engine.access()) {
        Ok(store) => Leaders::new(store).entries.last()?.is_some(),
        // There is no such directory on this machine.
        Err(error) if error.kind() == ErrorKind::User => false,
        Err(error) => return Err(error),
    };
    if has_led {
        return Ok(());
    }
    let error = Error::user("this machine finds nothing that a coordinator has written there");
    Err(error.at(format!("the store {place}")).remedy(
        "give the coordinator a store that all its workers reach under the same name: a shared folder, or an object store",
    ))
}

/// Watches a leader as long as it answers and `go_on` returns true. An error if it refuses this coordinator.
pub(super) fn watch(
    (leader, entry): (Leader, &Entry),
    security: &Security,
    members: &Members,
    go_on: &dyn Fn() -> bool,
) -> Result<Watched> {
    while attend((leader, entry), security, go_on)? == Watched::Gone {
        if !is_heard(leader, members, go_on) {
            return Ok(if go_on() { Watched::Gone } else { Watched::Ended });
        }
    }
    Ok(Watched::Ended)
}

/// Whether a leader answers once, or workers hear it.
pub(super) fn answers((leader, entry): (Leader, &Entry), security: &Security, members: &Members) -> Result<bool> {
    let answers = Cell::new(0);
    let once = || answers.replace(answers.get() + 1) == 0;
    // It ends with the first answer.
    let seen = attend((leader, entry), security, &once)?;
    Ok(seen == Watched::Ended || is_heard(leader, members, &|| true))
}

/// Whether workers still hear a leader to which this coordinator has no link. Their heartbeats tell it a
/// moment later.
fn is_heard(leader: Leader, members: &Members, go_on: &dyn Fn() -> bool) -> bool {
    (0..LOOKS).all(|_| {
        anabranch_model::pause(PATIENCE / 8);
        go_on() && members.leader() == Some(leader)
    })
}

/// Connects to a leader, and listens to it while `go_on` returns true; it is called before each answer.
fn attend((leader, entry): (Leader, &Entry), security: &Security, go_on: &dyn Fn() -> bool) -> Result<Watched> {
    // This is no address to connect to: the reports of workers decide.
    if entry.address.ip().is_unspecified() {
        return Ok(Watched::Gone);
    }
    let (sender, events) = channel();
    let on_event = move |event: Event<FromCluster>| {
        // Nobody listens any more.
        let _ = sender.send(event);
    };
    let connection = match connect(entry.address, security, CONNECT, on_event) {
        Ok(connection) => connection,
        // One whose certificate cannot be checked may well be alive.
        Err(error) if error.kind() != ErrorKind::Outside || error.message().contains("certificate") => {
            return Err(error);
        }
        Err(_) => return Ok(Watched::Gone),
    };
    let hello = || FromProcess::StandsBy { version: MESSAGES_VERSION, release: env!("CARGO_PKG_VERSION").to_owned() };
    connection.send(&hello());
    while go_on() {
        match events.recv_timeout(PATIENCE) {
            // The leader must hear from a standby to count it.
            Ok(Event::Message(FromCluster::Leads { leader: Some(other) })) if other >= leader => {
                connection.send(&hello());
            }
            Ok(Event::Message(FromCluster::Refused { why })) => {
                return Err(Error::outside(why).at(format!("the coordinator at {}", entry.address)));
            }
            Ok(Event::Message(FromCluster::Leads { .. }) | Event::Closed(_)) | Err(_) => return Ok(Watched::Gone),
            Ok(Event::Message(_)) => {}
        }
    }
    Ok(Watched::Ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_a_coordinator_is_recognized() {
        let folder = tempfile::tempdir().expect("folder");
        let engine = Engine::default();
        let place = folder.path().to_str().expect("text");
        for place in [place.to_owned(), format!("{place}/missing")] {
            let error = check_place(&engine, &place).expect_err("nothing is there").to_string();
            assert!(error.contains("a shared folder, or an object store"), "{error}");
        }
        let store = Store::open(place, engine.access()).expect("a store");
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let own = Entry::new(address, "", 1);
        Leaders::new(store).claim(None, &own).expect("written").expect("it leads");
        check_place(&engine, place).expect("a coordinator was there");
    }

    #[test]
    fn two_coordinators_that_announce_the_same_address_are_not_taken_for_one() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().to_str().expect("text"), Engine::default().access()).expect("a store");
        let leaders = Leaders::new(store);
        let own = |owner| Entry::new(SocketAddr::from(([0, 0, 0, 0], 1)), "http://0.0.0.0:2", owner);
        assert_eq!(leaders.claim(None, &own(1)).expect("written"), Some(Leader(1)));
        assert_eq!(leaders.claim(None, &own(1)).expect("an answer that was lost"), Some(Leader(1)));
        assert_eq!(leaders.claim(None, &own(2)).expect("refused"), None);
        let (last, entry) = leaders.last().expect("read").expect("an entry");
        assert_eq!((last, entry.owner), (Leader(1), 1));
    }

    /// The text of a format is written once, by its first version, and never again.
    #[test]
    fn entries_of_each_format_are_read_forever() {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::open(folder.path().to_str().expect("text"), Engine::default().access()).expect("a store");
        let first = r#"{"format":1,"address":"10.0.0.1:7077","url":"http://10.0.0.1:8080","owner":9}"#;
        let last = |text: String| {
            store.put("coordinators/0000000007.json", text.into_bytes().into()).expect("written");
            Leaders::new(store.clone()).last()
        };
        let (leader, entry) = last(first.into()).expect("read").expect("an entry");
        assert_eq!((leader, entry.owner, entry.url.as_str()), (Leader(7), 9, "http://10.0.0.1:8080"));
        let error = last(first.replace(":1,", ":2,")).expect_err("another format").to_string();
        assert!(error.contains("has format 2, and this release reads 1"), "{error}");
        assert!(error.contains("or remove the file, if no coordinator runs"), "{error}");
    }
}
