//! Journals that are cut off, damaged, of other versions, of another boot, or in a folder of another user.

use std::os::unix::fs::PermissionsExt;

use super::contents::Wrote;
use super::*;
use crate::kernel::{Class, Hierarchy, Policy, Quota};

fn header() -> Header {
    Header { version: contents::VERSION, pid: 7, start: 8, boot: "b".into(), label: "osched-7-8".into() }
}

fn thread() -> ThreadId {
    ThreadId { pid: 100, process_start: 5, tid: 101, start: 900 }
}

fn of_thread(value: ThreadValue) -> Change {
    Change::Thread { thread: thread(), value }
}

fn lines() -> Vec<Line> {
    let group = GroupPath { hierarchy: Hierarchy::V2, path: "/job/osched-7-8.g.a".into() };
    let usual = Usual { nice: Some(0), class: None, slice_ns: Some(3_000_000) };
    let quota = GroupValue::Quota(Quota { quota_us: None, period_us: 100_000 });
    let class = Class { policy: Policy::Fifo(3), resets_on_fork: true };
    vec![
        Line::OschedJournal(header()),
        Line::Claim(Claim { pid: 100, start: 5, name: "java".into(), at: 800, usual }),
        Line::Restore(Change::Remove { group: group.clone() }),
        Line::Restore(Change::Group { group: group.parent(), value: GroupValue::CpuControl(false) }),
        Line::Restore(of_thread(ThreadValue::Group(group.parent()))),
        Line::Restore(of_thread(ThreadValue::Nice(-3))),
        Line::Restore(of_thread(ThreadValue::Class(class))),
        Line::Restored(of_thread(ThreadValue::Nice(-3))),
        Line::Restore(Change::Group { group, value: quota }),
        Line::Wrote(Wrote { pid: 100, start: 5, value: ThreadValue::Nice(10) }),
    ]
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).expect("JSON") + "\n").collect()
}

fn parse(text: &str) -> Result<Option<Contents>> {
    Contents::parse(text, Path::new("/run/x.journal"))
}

/// The format is frozen: a journal of this version must be restorable by all later programs.
#[test]
fn the_format_of_version_1_stays() {
    let fixture = include_str!("version_1.journal");
    assert_eq!(text(&lines()), fixture);
    let contents = parse(fixture).expect("a journal").expect("a header");
    assert_eq!((contents.restores.len(), contents.claims.len()), (5, 1), "what was restored does not count");
    assert_eq!(text(&contents.lines()).lines().count(), 8);
}

#[test]
fn a_journal_that_is_cut_anywhere_says_what_was_complete() {
    let whole = text(&lines());
    for cut in 0..=whole.len() {
        let contents = parse(&whole[..cut]).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let complete = whole[..cut].matches('\n').count();
        let expected = lines()[..complete].iter().skip(1).fold(Contents::new(header()), |mut contents, line| {
            contents.add(line.clone());
            contents
        });
        match contents {
            None => assert_eq!(complete, 0, "cut at {cut}"),
            Some(contents) => assert_eq!(text(&contents.lines()), text(&expected.lines()), "cut at {cut}"),
        }
    }
}

#[test]
fn what_is_damaged_or_of_another_version_is_refused_with_a_remedy() {
    let mut broken = text(&lines()).replace("\"remove\"", "\"remoev\"");
    let error = parse(&broken).expect_err("a damaged line");
    assert!(error.to_string().starts_with("/run/x.journal: line 3: not a line of a journal"), "{error}");
    assert!(error.help().is_some());
    broken = text(&lines()[1..]);
    assert!(parse(&broken).expect_err("no header").to_string().contains("line 1: the first line is not"));
    broken = text(&lines()).replace("\"version\":1", "\"version\":2");
    let error = parse(&broken).expect_err("a later version");
    assert!(error.help().is_some_and(|help| help.contains("with the program that wrote it")), "{error}");
}

#[test]
fn a_value_counts_as_inherited_only_if_osched_wrote_it_before() {
    let contents = parse(&text(&lines())).expect("a journal").expect("a header");
    let replaced = |thread: ThreadId, value: ThreadValue| {
        let mut value = value;
        contents.replace_inherited(thread, &mut value);
        value
    };
    let nice = ThreadValue::Nice;
    assert_eq!(replaced(thread(), nice(10)), nice(0));
    assert_eq!(replaced(thread(), nice(9)), nice(9), "its own");
    assert_eq!(replaced(ThreadId { start: 799, ..thread() }, nice(10)), nice(10), "it was there before the claim");
    assert_eq!(replaced(ThreadId { process_start: 6, ..thread() }, nice(10)), nice(10), "another process");
    // The class was not written, and threads had different ones.
    let class = ThreadValue::Class(Class { policy: Policy::Batch, resets_on_fork: false });
    assert_eq!(replaced(thread(), class.clone()), class);
}

#[test]
fn a_journal_of_another_boot_restores_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = Proc::new().expect("/proc");
    let path = folder.path().join("x.journal");
    std::fs::write(&path, text(&lines())).expect("a file");
    let undone = restore(&path, &kernel).expect("an undo").expect("a journal");
    assert_eq!((undone.restored, undone.unchanged, undone.gone, undone.failed.len()), (0, 0, 0, 0));
    assert!(!path.exists());
    assert!(restore(&path, &kernel).expect("an undo").is_none(), "a second time there is nothing");
}

#[test]
fn a_rewritten_journal_is_smaller_and_still_held() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.journal");
    let mut file = LockedFile::create(path.clone(), &lines()[..2]).expect("a file");
    for _ in 0..100 {
        file.append(&lines()[5..8]).expect("lines");
    }
    let contents = parse(&file.text().expect("text")).expect("a journal").expect("a header");
    let large = file.len();
    let mut file = file.rewrite(&contents.lines()).expect("a new file");
    assert!(file.len() < large / 10 && LockedFile::is_held(&path).expect("a file"));
    file.append(&lines()[9..]).expect("a line");
    assert_eq!(std::fs::read_to_string(&path).expect("text").lines().count(), 4);
    drop(file);
    assert!(!LockedFile::is_held(&path).expect("a file"));
    assert!(LockedFile::open(&path).expect("a file").is_some());
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    let temporary = tempfile::tempdir().expect("a folder");
    let path = temporary.path().join("state");
    StateFolder::open(&path).expect("a new folder");
    let mode = |path: &Path| std::fs::metadata(path).expect("a folder").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let error = StateFolder::open(&path).expect_err("others can write it");
    assert!(error.help().is_some_and(|help| help.contains("chmod 700")), "{error}");
    // A link that another user has laid is not followed.
    let link = temporary.path().join("link");
    std::os::unix::fs::symlink(temporary.path(), &link).expect("a link");
    assert!(StateFolder::open(&link).is_err());
    assert_eq!(StateFolder::usual(0, Some(Path::new("/x"))), Path::new("/run/anabranch-osched"));
    assert_eq!(StateFolder::usual(5, Some(Path::new("/x"))), Path::new("/x/anabranch-osched"));
    assert_eq!(StateFolder::usual(5, None), Path::new("/tmp/anabranch-osched-5"));
}
