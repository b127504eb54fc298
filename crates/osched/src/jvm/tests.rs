use std::io::Read as _;

use super::dump::parse;

mod real;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).expect(name)
}

#[test]
fn recorded_dumps_name_their_threads() {
    let names = parse(&fixture("flink-2.3/dump.txt")[..]).expect("whole");
    assert_eq!(names[&0x342e], "slow (1/2)#0");
    assert_eq!(names[&0x342f], "OutputFlusher for slow (1/2)#0");
    assert_eq!(names[&0x335b], "GC Thread#0");
    let storm = parse(&fixture("storm-2.8/dump.txt")[..]).expect("whole");
    assert_eq!(storm.values().filter(|name| name.ends_with("-executor[7, 8]")).count(), 2);
}

#[test]
fn names_of_all_kinds_and_numbers_of_all_versions_are_read() {
    let text = "Full thread dump\n\n\
        \"main\" #1 prio=5 os_prio=0 tid=0x00 nid=0x1a waiting\n\tat a.B.c(nid=5)\n\
        \"new \"quoted\" nid=3\" #2 [27] daemon prio=5 tid=0x00 nid=27 runnable [0x0]\n\
        \"two\nlines\" #3 prio=5 tid=0x00 nid=0x1c runnable\n   java.lang.Thread.State: RUNNABLE\n\
        \"\" #4 nid=0x1d runnable\n\
        \"no number\" #5 nid=zz runnable\n\
        \"endless\n\"VM Thread\" os_prio=0 nid=0x1e runnable";
    let names = parse(text.as_bytes()).expect("whole");
    let expected =
        [(0x1a, "main"), (0x1b, "new \"quoted\" nid=3"), (0x1c, "two\nlines"), (0x1d, ""), (0x1e, "VM Thread")];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected.map(|(id, name)| (id, name.to_owned())));
}

#[test]
fn rubbish_is_no_thread_and_needs_little_memory() {
    let lines = "\"x\n".repeat(100_000);
    assert!(parse(lines.as_bytes()).expect("read").is_empty());
    let one = std::io::repeat(b'"').take(10 << 20);
    assert!(parse(one).expect("read").is_empty());
}
