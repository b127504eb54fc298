//! Records and entries in a directory whose disk fails at any operation, so that the answer to a write may be
//! lost, and whose lists are older than what another coordinator does meanwhile.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anabranch_model::Rng;
use anabranch_state::{Disk, DiskEntry, DiskFault, ModelDisk};

use super::*;
use crate::cluster::leader::Entry;

const PLACE: &str = "/store";

/// What happens after a list was made and before it arrives.
type Meanwhile = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
struct Delayed(Arc<ModelDisk>, Arc<Mutex<Option<Meanwhile>>>);

impl std::fmt::Debug for Delayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Disk for Delayed {
    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.0.write_file(path, content)
    }

    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.0.write_private(path, content)
    }

    fn make_private(&self, path: &Path) -> io::Result<()> {
        self.0.make_private(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.0.make_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.0.sync_folder(path)
    }

    fn read(&self, path: &Path, content: &mut Vec<u8>) -> io::Result<()> {
        self.0.read(path, content)
    }

    fn written_ms(&self, path: &Path) -> io::Result<i64> {
        self.0.written_ms(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<DiskEntry>> {
        let listed = self.0.list(folder);
        let meanwhile = self.1.lock().expect("no panic").take();
        meanwhile.into_iter().for_each(|run| run());
        listed
    }
}

/// A coordinator that leads, or did, and what it has of the job.
#[derive(Clone)]
struct Leading {
    leader: Leader,
    record: Record,
}

/// The job's text has the number of each change.
fn with(record: &Record, change: u64) -> Record {
    let mut changed = record.clone();
    changed.order.sql.push_str(&format!("{change};"));
    changed
}

fn changes(record: &Record) -> BTreeSet<u64> {
    record.order.sql.split_terminator(';').map(|change| change.parse().expect("a number")).collect()
}

/// Takes the job over, as often as the store must be asked.
fn claim(records: &Records, leader: Leader) -> Leading {
    loop {
        let Ok(Some(mut record)) = records.of("ads") else { continue };
        if let Ok(true) = records.write(&mut record, leader) {
            return Leading { leader, record };
        }
    }
}

/// Whatever is lost: what the store has confirmed to the last leader is there, what a former one writes is
/// not, and the last leader can write.
#[test]
fn a_record_has_what_was_confirmed_and_can_be_written_whatever_answers_are_lost() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let disk = Arc::new(ModelDisk::new(&[Path::new(PLACE)]));
        let meanwhile = Arc::new(Mutex::new(None));
        let delayed = Delayed(Arc::clone(&disk), Arc::clone(&meanwhile));
        let records = Records::new(Store::on_disk(Arc::new(delayed), PLACE));
        let mut first = Record::new(JobOrder { name: "ads".into(), ..JobOrder::default() }, 1, 0);
        assert!(records.write(&mut first, Leader(1)).expect("written"));
        let mut present = Leading { leader: Leader(1), record: first };
        let mut former: Vec<Leading> = Vec::new();
        let mut confirmed = BTreeSet::new();
        for change in 0..30 {
            if rng.below(3) > 0 {
                disk.set_fault(disk.operations() + rng.below(12), DiskFault::Device);
            }
            match rng.below(8) {
                0 => {
                    let next = Leader(present.leader.0 + 1);
                    former.push(std::mem::replace(&mut present, claim(&records, next)));
                }
                1 if !former.is_empty() => {
                    let late = rng.below(former.len() as u64) as usize;
                    let mut record = with(&former[late].record, change);
                    let written = records.write(&mut record, former[late].leader);
                    assert!(!matches!(written, Ok(true)), "seed {seed}: a former coordinator has written");
                }
                // Another coordinator takes over while the list of the present one is on its way.
                2 => {
                    let (next, taken) = (Leader(present.leader.0 + 1), Arc::new(Mutex::new(None)));
                    let (there, store) = (Arc::clone(&taken), records.clone());
                    let run = move || *there.lock().expect("no panic") = Some(claim(&store, next));
                    *meanwhile.lock().expect("no panic") = Some(Box::new(run));
                    let mut record = with(&present.record, change);
                    if let Ok(true) = records.write(&mut record, present.leader) {
                        present.record = record;
                        confirmed.insert(change);
                    }
                    *meanwhile.lock().expect("no panic") = None;
                    if let Some(next) = taken.lock().expect("no panic").take() {
                        former.push(std::mem::replace(&mut present, next));
                    }
                }
                _ => {
                    let mut record = with(&present.record, change);
                    match records.write(&mut record, present.leader) {
                        Ok(true) => {
                            present.record = record;
                            confirmed.insert(change);
                        }
                        Ok(false) => panic!("seed {seed}: the coordinator that leads is taken for another one"),
                        // The next write has what was changed before, and this change only if the caller
                        // repeats it.
                        Err(_) => {}
                    }
                }
            }
        }
        disk.set_fault(u64::MAX, DiskFault::Device);
        let mut record = with(&present.record, 99);
        assert!(records.write(&mut record, present.leader).expect("written"), "seed {seed}: the record is wedged");
        confirmed.insert(99);
        let found = changes(&records.of("ads").expect("read").expect("a record"));
        assert!(found.is_superset(&confirmed), "seed {seed}: {found:?} lacks some of {confirmed:?}");
    }
}

/// Coordinators that announce one address, and try to lead at a store that loses answers: each number has one
/// leader, and somebody can lead after any failure.
#[test]
fn one_coordinator_leads_under_each_number_whatever_answers_are_lost() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let disk = Arc::new(ModelDisk::new(&[Path::new(PLACE)]));
        let leaders = Leaders::new(Store::on_disk(Arc::<ModelDisk>::clone(&disk), PLACE));
        let own = |owner| Entry::new(([0, 0, 0, 0], 7077).into(), "http://0.0.0.0:8080", owner);
        let mut led: std::collections::BTreeMap<Leader, u64> = std::collections::BTreeMap::new();
        for _ in 0..30 {
            if rng.below(3) > 0 {
                disk.set_fault(disk.operations() + rng.below(10), DiskFault::Device);
            }
            let owner = 1 + rng.below(3);
            let Ok(last) = leaders.last() else { continue };
            if let Ok(Some(leader)) = leaders.claim(last.map(|(leader, _)| leader), &own(owner)) {
                let before = led.insert(leader, owner);
                assert!(before.is_none_or(|before| before == owner), "seed {seed}: two lead as {leader:?}");
            }
        }
        disk.set_fault(u64::MAX, DiskFault::Device);
        let last = leaders.last().expect("read").map(|(leader, _)| leader);
        assert!(leaders.claim(last, &own(1)).expect("written").is_some(), "seed {seed}: nobody can lead any more");
    }
}
