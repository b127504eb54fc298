use anabranch_model::Rng;

use super::*;

/// Partition, key and value.
type Given<'a> = (i32, Option<&'a [u8]>, Option<&'a [u8]>);
type Found = (i32, Option<Vec<u8>>, Option<Vec<u8>>);

fn held(records: &[Given<'_>]) -> Vec<u8> {
    let mut held = Held::new("results", false);
    records.iter().for_each(|(partition, key, value)| held.push(*partition, &plain(*key, *value)));
    held.take().unwrap()
}

fn plain<'a>(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Outgoing<'a> {
    Outgoing { key, value, attached: Attached::default() }
}

/// A record with a time and one with headers.
fn attached() -> [Outgoing<'static>; 3] {
    let headers = vec![("trace", Some(b"7".as_slice())), ("empty", Some(b"".as_slice())), ("none", None)];
    let with = |time_ms, headers| Outgoing { attached: Attached { time_ms, headers }, ..plain(Some(b"k"), Some(b"v")) };
    [with(Some(0), Vec::new()), with(None, headers), plain(None, None)]
}

fn held_attached() -> Vec<u8> {
    let mut held = Held::new("results", true);
    attached().iter().for_each(|record| held.push(-1, record));
    held.take().unwrap()
}

fn read(content: &[u8]) -> Result<(String, Vec<Found>)> {
    let content = HeldRecords::parse(content)?;
    let own = |record: Record<'_>| {
        let (key, value) = (record.content.key, record.content.value);
        (record.partition, key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec))
    };
    Ok((content.topic.to_owned(), content.records().map(own).collect()))
}

#[test]
fn records_come_back_as_they_were() {
    let long = vec![b'x'; 40_000];
    let content = held(&[(-1, None, Some(b"a")), (0, Some(b""), None), (i32::MAX, Some(b"key"), Some(&long))]);
    let (topic, records) = read(&content).unwrap();
    assert_eq!(topic, "results");
    assert_eq!(records[0], (-1, None, Some(b"a".to_vec())));
    assert_eq!(records[1], (0, Some(Vec::new()), None));
    assert_eq!(records[2], (i32::MAX, Some(b"key".to_vec()), Some(long)));
    assert_eq!(records.len(), 3);
}

#[test]
fn what_is_taken_is_not_taken_again() {
    let mut held = Held::new("results", false);
    assert_eq!(held.take(), None);
    held.push(3, &plain(None, Some(b"a")));
    let first = held.take().unwrap();
    assert_eq!(held.take(), None);
    held.push(3, &plain(None, Some(b"a")));
    assert_eq!(held.take(), Some(first));
}

#[test]
fn version_1_is_frozen() {
    let content = held(&[(2, Some(b"k"), Some(b"value")), (-1, None, None)]);
    let expected =
        b"ABKR\x01\x07results\x03\x02k\x06value\x00\x00\x00\x02\0\0\0\0\0\0\0\x2e\x7d\x52\x7b\x6b\xcf\xb1\xc2";
    assert_eq!(content[..content.len() - 8], expected[..expected.len() - 8]);
    assert_eq!(content, expected, "{:02x?}", &content[content.len() - 8..]);
}

#[test]
fn version_2_is_frozen() {
    let content = held_attached();
    let expected = b"ABKR\x02\x07results\x00\x02k\x02v\x01\x00\
        \x00\x02k\x02v\x00\x03\x05trace\x027\x05empty\x01\x04none\x00\x00\x00\x00\x00\x00\x03\0\0\0\0\0\0\0";
    assert_eq!(content[..content.len() - 8], expected[..]);
    let read = HeldRecords::parse(&content).unwrap();
    let records: Vec<Outgoing<'_>> = read.records().map(|record| record.content).collect();
    assert_eq!(records, attached());
}

#[test]
fn damage_is_noticed() {
    for content in [held(&[(2, Some(b"key"), Some(b"value")), (-1, None, Some(b"another value"))]), held_attached()] {
        check_damage(content);
    }
}

fn check_damage(content: Vec<u8>) {
    for length in 0..content.len() {
        assert!(read(&content[..length]).is_err(), "cut off after {length} bytes");
    }
    for bit in 0..content.len() * 8 {
        let mut damaged = content.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&damaged).is_err(), "bit {bit} is wrong");
    }
    let mut later = content;
    later[4] = 3;
    let error = read(&later).unwrap_err().to_string();
    assert!(error.contains("version 3, known are 1 and 2"), "{error}");
}

#[test]
fn wrong_lengths_under_a_right_checksum_are_noticed() {
    let seed = 7;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let content = held(&[(2, Some(b"key"), Some(b"value")), (-1, None, Some(b"another value"))]);
    let body = content.len() - 8;
    for _ in 0..20_000 {
        let mut damaged = content[..body].to_vec();
        let at = 5 + rng.below(body as u64 - 5) as usize;
        damaged[at] = rng.next_u64() as u8;
        damaged.extend_from_slice(&hash_bytes(HASH_SEED, &damaged).to_le_bytes());
        // Whatever is read, reading ends, and the number of records is right.
        if let Ok((_, records)) = read(&damaged) {
            assert_eq!(records.len(), 2);
        }
    }
}
