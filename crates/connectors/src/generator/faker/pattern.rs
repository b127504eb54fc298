//! Texts that match a regular expression, with the syntax that is common in examples of `faker`: groups with
//! alternatives, classes, quantifiers, escapes.

use anabranch_model::{Error, Result, Rng};

/// Limit of the repetitions of `*` and `+`.
const REPEATED_MAX: u32 = 8;
/// The largest count in braces.
const COUNT_MAX: u32 = 1_000;

/// Limit of the characters of a text: counts of groups within groups multiply.
const TEXT_MAX: u64 = 1 << 20;

/// A regular expression.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Char(char),
    /// One of these.
    Class(Vec<char>),
    Sequence(Vec<Pattern>),
    OneOf(Vec<Pattern>),
    Repeated {
        what: Box<Pattern>,
        least: u32,
        most: u32,
    },
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Pattern> {
        let mut reader = Reader { rest: text.chars().peekable(), text };
        let pattern = reader.alternatives(0)?;
        match reader.rest.next() {
            None if pattern.longest() > TEXT_MAX => {
                Err(Error::user(format!("texts of the pattern '{text}' may have more than {TEXT_MAX} characters"))
                    .remedy("lower the counts in braces"))
            }
            None => Ok(pattern),
            Some(_) => Err(reader.wrong("it has a ')' too many")),
        }
    }

    /// The most characters of a text. A repetition of an empty text counts as one.
    fn longest(&self) -> u64 {
        match self {
            Pattern::Char(_) | Pattern::Class(_) => 1,
            Pattern::Sequence(parts) => parts.iter().map(Pattern::longest).fold(0, u64::saturating_add),
            Pattern::OneOf(choices) => choices.iter().map(Pattern::longest).max().unwrap_or(0),
            Pattern::Repeated { what, most, .. } => what.longest().max(1).saturating_mul(u64::from(*most)),
        }
    }

    pub(super) fn write(&self, random: &mut Rng, out: &mut String) {
        let pick = |random: &mut Rng, count: usize| random.below(count as u64) as usize;
        match self {
            Pattern::Char(c) => out.push(*c),
            Pattern::Class(chars) => out.push(chars[pick(random, chars.len())]),
            Pattern::Sequence(parts) => parts.iter().for_each(|part| part.write(random, out)),
            Pattern::OneOf(choices) => choices[pick(random, choices.len())].write(random, out),
            Pattern::Repeated { what, least, most } => {
                let count = u64::from(*least) + random.below(u64::from(most - least) + 1);
                (0..count).for_each(|_| what.write(random, out));
            }
        }
    }
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    text: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, why: &str) -> Error {
        Error::user(format!("the pattern '{}' cannot be read: {why}", self.text))
            .remedy("patterns have groups with alternatives, classes, counts and escapes: (red|green)-[0-9]{2,4}\\.")
    }

    fn alternatives(&mut self, depth: u32) -> Result<Pattern> {
        if depth > 50 {
            return Err(self.wrong("its groups are nested too deeply"));
        }
        let mut choices = vec![self.sequence(depth)?];
        while self.rest.next_if_eq(&'|').is_some() {
            choices.push(self.sequence(depth)?);
        }
        Ok(if choices.len() == 1 { choices.swap_remove(0) } else { Pattern::OneOf(choices) })
    }

    fn sequence(&mut self, depth: u32) -> Result<Pattern> {
        let mut parts = Vec::new();
        while let Some(c) = self.rest.next_if(|c| !matches!(c, '|' | ')')) {
            let one = match c {
                '(' => {
                    self.without_a_name();
                    let inner = self.alternatives(depth + 1)?;
                    self.rest.next_if_eq(&')').ok_or_else(|| self.wrong("a group has no ')'"))?;
                    inner
                }
                '[' => Pattern::Class(self.class()?),
                '.' => Pattern::Class(('a'..='z').chain('A'..='Z').chain('0'..='9').collect()),
                '^' | '$' => continue,
                '\\' => self.escape()?,
                '*' | '+' | '?' | '{' => return Err(self.wrong(&format!("nothing is before '{c}'"))),
                c => Pattern::Char(c),
            };
            parts.push(self.repeated(one)?);
        }
        Ok(Pattern::Sequence(parts))
    }

    /// Skips the `?:` of a group.
    fn without_a_name(&mut self) {
        if self.rest.next_if_eq(&'?').is_some() {
            let _ = self.rest.next_if_eq(&':');
        }
    }

    fn repeated(&mut self, what: Pattern) -> Result<Pattern> {
        let (least, most) = match self.rest.peek() {
            Some('?') => (0, 1),
            Some('*') => (0, REPEATED_MAX),
            Some('+') => (1, REPEATED_MAX),
            Some('{') => {
                let inside: String = self.rest.by_ref().skip(1).take_while(|c| *c != '}').collect();
                let (least, most) = inside.split_once(',').unwrap_or((&inside, &inside));
                let number = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count <= COUNT_MAX);
                let least = number(least).ok_or_else(|| self.wrong(&format!("'{{{inside}}}' is no count")))?;
                let most = if most.trim().is_empty() { Some(least + REPEATED_MAX) } else { number(most) };
                let most = most.filter(|most| *most >= least);
                let most = most.ok_or_else(|| self.wrong(&format!("'{{{inside}}}' is no count")))?;
                return Ok(Pattern::Repeated { what: Box::new(what), least, most });
            }
            _ => return Ok(what),
        };
        self.rest.next();
        Ok(Pattern::Repeated { what: Box::new(what), least, most })
    }

    fn class(&mut self) -> Result<Vec<char>> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut chars = Vec::new();
        loop {
            let Some(c) = self.rest.next() else { return Err(self.wrong("a class has no ']'")) };
            let from = match c {
                ']' => break,
                '\\' => match self.escape()? {
                    Pattern::Char(c) => c,
                    Pattern::Class(more) => {
                        chars.extend(more);
                        continue;
                    }
                    _ => continue,
                },
                c => c,
            };
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
            if !is_range {
                chars.push(from);
                continue;
            }
            self.rest.next();
            let to = self.rest.next().unwrap_or(from);
            if to < from {
                return Err(self.wrong(&format!("'{from}-{to}' is no range")));
            }
            chars.extend(from..=to);
        }
        if is_negated {
            chars = (' '..='~').filter(|c| !chars.contains(c)).collect();
        }
        if chars.is_empty() { Err(self.wrong("a class is empty")) } else { Ok(chars) }
    }

    fn escape(&mut self) -> Result<Pattern> {
        let word = || ('a'..='z').chain('A'..='Z').chain('0'..='9').chain(['_']).collect();
        Ok(match self.rest.next() {
            None => return Err(self.wrong("nothing follows the last backslash")),
            Some('d') => Pattern::Class(('0'..='9').collect()),
            Some('w') => Pattern::Class(word()),
            Some('s') => Pattern::Char(' '),
            Some('n') => Pattern::Char('\n'),
            Some('t') => Pattern::Char('\t'),
            Some(c) => Pattern::Char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_matches() {
        let patterns = [
            "(GET|POST|PUT|PATCH){1}",
            "(/search\\.html|cart\\.html){1}",
            "(男|女){1}",
            "(PL)[0-9]{5}",
            "[A-Za-z_-]{3,5}x?\\d+",
            "a{0,2}(?:b|)c",
            "[^a-z0-9 ]{4}",
            "",
        ];
        for text in patterns {
            let pattern = Pattern::parse(text).unwrap();
            let matches = regex::Regex::new(&format!("^(?:{text})$")).unwrap();
            for seed in 0..200 {
                let mut out = String::new();
                pattern.write(&mut Rng::new(seed), &mut out);
                assert!(matches.is_match(&out), "{out} of {text}");
            }
        }
    }

    #[test]
    fn patterns_that_cannot_be_read_are_refused() {
        for text in ["(a", "a)", "[a", "[]", "*a", "a{x}", "a{3,2}", "a{99999}", "[z-a]", "\\"] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("the pattern '{text}' cannot be read")), "{error}");
        }
        for text in ["((a{1000}){1000}){1000}", "(((){1000}){1000}){1000}"] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert!(error.contains("may have more than 1048576 characters"), "{error}");
        }
    }
}
