//! Scans the text of a JSON document without building a tree, and finds the values that a path selects. The
//! whole document is checked. What follows the document is not read, as in Flink.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::path::Step;
use super::write::{Key, same_key};

/// Levels of a document at most.
const DEPTH_MAX: usize = 1000;
/// Characters of a number at most.
const NUMBER_MAX: usize = 1000;

/// The text is no JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What kind of value a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Scalar,
    Array,
    Object,
}

/// The kind of a value, by its first character.
pub(super) fn kind(value: &str) -> Kind {
    match value.as_bytes().first() {
        Some(b'n') => Kind::Null,
        Some(b'[') => Kind::Array,
        Some(b'{') => Kind::Object,
        _ => Kind::Scalar,
    }
}

/// A place in a document.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// What a path selects in one document.
#[derive(Default)]
pub(super) struct Selection<'a> {
    pub(super) values: Vec<&'a str>,
    /// Whether a step had nothing to be applied to, before the path had any choice.
    pub(super) failed: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Scanner { text, at: 0, depth: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// The next character that is no blank, which must be there.
    pub(super) fn next(&mut self) -> Result<u8, Malformed> {
        self.blanks();
        self.peek().ok_or(Malformed)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.next()? != byte {
            return Err(Malformed);
        }
        self.at += 1;
        Ok(())
    }

    /// The text of the document.
    pub(super) fn document(&mut self) -> Result<&'a str, Malformed> {
        let document = self.value()?;
        self.end_of_document(document)
    }

    /// A number or a word ends at a blank or at the end.
    fn end_of_document(&self, document: &'a str) -> Result<&'a str, Malformed> {
        let last = document.as_bytes()[document.len() - 1];
        let joined = match self.peek() {
            None => false,
            Some(next) if last.is_ascii_digit() => !matches!(next, b' ' | b'\n' | b'\r' | b'\t'),
            Some(next) => last.is_ascii_alphabetic() && is_part_of_word(next),
        };
        if joined { Err(Malformed) } else { Ok(document) }
    }

    /// The text of the value at this place; the place after it is the new one.
    pub(super) fn value(&mut self) -> Result<&'a str, Malformed> {
        let first = self.next()?;
        let start = self.at;
        match first {
            b'{' => self.members(|scanner, _| scanner.skip())?,
            b'[' => self.items(|scanner, _| scanner.skip())?,
            b'"' => {
                self.string()?;
            }
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number()?,
        }
        Ok(&self.text[start..self.at])
    }

    /// Goes over the value at this place.
    fn skip(&mut self) -> Result<(), Malformed> {
        self.value().map(|_| ())
    }

    /// Calls `visit` with each key, as it is written, at the place of its value, which `visit` goes over.
    pub(super) fn members(
        &mut self,
        mut visit: impl FnMut(&mut Self, &'a str) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.open(b'{')?;
        if self.next()? != b'}' {
            loop {
                if self.next()? != b'"' {
                    return Err(Malformed);
                }
                let key = self.string()?;
                self.expect(b':')?;
                self.next()?;
                visit(self, key)?;
                if self.next()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.depth -= 1;
        self.expect(b'}')
    }

    /// Calls `visit` with the number of each item, from 0, at its place; `visit` goes over it.
    pub(super) fn items(
        &mut self,
        mut visit: impl FnMut(&mut Self, usize) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.open(b'[')?;
        if self.next()? != b']' {
            for index in 0.. {
                self.next()?;
                visit(self, index)?;
                if self.next()? != b',' {
                    break;
                }
                self.at += 1;
            }
        }
        self.depth -= 1;
        self.expect(b']')
    }

    fn open(&mut self, bracket: u8) -> Result<(), Malformed> {
        self.expect(bracket)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Malformed) } else { Ok(()) }
    }

    /// What is between the quotes, as it is written.
    fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        loop {
            match *bytes.get(at).ok_or(Malformed)? {
                b'"' => break,
                b'\\' => at += escape_length(&bytes[at..])?,
                0..0x20 => return Err(Malformed),
                _ => at += 1,
            }
        }
        self.at = at + 1;
        Ok(&self.text[start..at])
    }

    fn word(&mut self, word: &str) -> Result<(), Malformed> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && leading_zero {
            return Err(Malformed);
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            // Exponents of more digits are beyond every number of Java.
            if self.digits()? > 9 {
                return Err(Malformed);
            }
        }
        if self.at - start > NUMBER_MAX { Err(Malformed) } else { Ok(()) }
    }

    /// One digit or more; how many.
    fn digits(&mut self) -> Result<usize, Malformed> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(Malformed) } else { Ok(self.at - start) }
    }

    /// Adds what `steps` select in the whole document.
    pub(super) fn select_document(
        &mut self,
        steps: &[Step],
        selection: &mut Selection<'a>,
    ) -> Result<&'a str, Malformed> {
        self.next()?;
        let start = self.at;
        self.select(steps, true, selection)?;
        self.end_of_document(&self.text[start..self.at])
    }

    /// Adds what `steps` select in the value at this place, and goes over it. `definite` says that the steps
    /// before these select one value at most.
    fn select(&mut self, steps: &[Step], definite: bool, selection: &mut Selection<'a>) -> Result<(), Malformed> {
        let Some((step, rest)) = steps.split_first() else {
            let value = self.value()?;
            selection.values.push(value);
            return Ok(());
        };
        match (step, self.next()?) {
            (Step::Property(name), b'{') => {
                let (before, mut found) = (selection.values.len(), false);
                self.members(|scanner, key| {
                    if !same_key(key, name) {
                        return scanner.skip();
                    }
                    // The last one of equal keys counts.
                    selection.values.truncate(before);
                    selection.failed &= !definite;
                    found = true;
                    scanner.select(rest, definite, selection)
                })?;
                selection.failed |= definite && !found;
                Ok(())
            }
            (Step::Index(wanted), b'[') if *wanted >= 0 => self.items(|scanner, index| {
                if i64::try_from(index) == Ok(*wanted) {
                    return scanner.select(rest, definite, selection);
                }
                scanner.skip()
            }),
            (Step::Wildcard, b'{') => {
                let members = self.member_places()?;
                self.select_at(members, rest, selection)
            }
            (Step::Wildcard, b'[') => {
                let items = self.item_places()?;
                self.select_at(items, rest, selection)
            }
            (Step::Index(_) | Step::Indices(_) | Step::Slice(..), b'[') => {
                let items = self.item_places()?;
                let chosen: Vec<usize> = step.chosen(items.len()).map(|index| items[index]).collect();
                match step {
                    Step::Index(_) => self.revisit(chosen, |scanner| scanner.select(rest, definite, selection)),
                    _ => self.select_at(chosen, rest, selection),
                }
            }
            (Step::Wildcard, _) => self.skip(),
            _ => {
                selection.failed |= definite;
                self.skip()
            }
        }
    }

    fn select_at(
        &mut self,
        places: impl IntoIterator<Item = usize>,
        steps: &[Step],
        selection: &mut Selection<'a>,
    ) -> Result<(), Malformed> {
        self.revisit(places, |scanner| scanner.select(steps, false, selection))
    }

    /// Calls `visit` at each place, and comes back to this one.
    fn revisit(
        &mut self,
        places: impl IntoIterator<Item = usize>,
        mut visit: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let end = self.at;
        for place in places {
            self.at = place;
            visit(self)?;
        }
        self.at = end;
        Ok(())
    }

    fn item_places(&mut self) -> Result<Vec<usize>, Malformed> {
        let mut places = Vec::new();
        self.items(|scanner, _| {
            places.push(scanner.at);
            scanner.skip()
        })?;
        Ok(places)
    }

    /// The places of the members' values, in the order of the keys' first places. Of equal keys, the last
    /// value counts.
    fn member_places(&mut self) -> Result<Vec<usize>, Malformed> {
        let mut places: Vec<usize> = Vec::new();
        let mut known: BTreeMap<Key, usize> = BTreeMap::new();
        self.members(|scanner, key| {
            match known.entry(Key(key)) {
                Entry::Occupied(first) => places[*first.get()] = scanner.at,
                Entry::Vacant(new) => {
                    new.insert(places.len());
                    places.push(scanner.at);
                }
            }
            scanner.skip()
        })?;
        Ok(places)
    }
}

fn is_part_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// Bytes of the escape that begins here.
fn escape_length(bytes: &[u8]) -> Result<usize, Malformed> {
    match bytes.get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        Some(b'u') if bytes.get(2..6).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) => Ok(6),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_large_object_are_found_in_one_pass() {
        let members: Vec<String> = (0..200_000).map(|number| format!("\"{number}\":{number}")).collect();
        let document = format!("{{{},\"\\u0030\":\"last\"}}", members.join(","));
        let mut selection = Selection::default();
        let found = Scanner::new(&document).select_document(&[Step::Wildcard], &mut selection);
        assert!(found.is_ok());
        assert_eq!((selection.values.len(), selection.values[0]), (200_000, "\"last\""));
    }
}
