//! Expressions in the syntax of Flink's `faker`: text with calls, `user_#{numerify
//! '##'}@#{Internet.domainName}`.
//!
//! A call names a provider and has arguments in quotes, separated by commas or spaces. The results of
//! providers are in `words.txt`, as lists of expressions, and in [`call`](super::call) if a list cannot
//! describe them.

use anabranch_model::{Error, Result, Rng};

use super::call::Call;
use super::words;

/// Limit of the nesting of expressions.
const DEPTH_MAX: u32 = 12;

/// An expression for a text.
#[derive(Clone, Debug)]
pub(in crate::generator) struct Expression {
    pub(super) parts: Vec<Segment>,
}

#[derive(Clone, Debug)]
pub(super) enum Segment {
    Text(String),
    /// One of these.
    OneOf(Vec<Expression>),
    Call(Call),
}

impl Expression {
    pub(super) fn parse(text: &str) -> Result<Expression> {
        Self::parse_at(text, 0)
    }

    pub(super) fn parse_at(text: &str, depth: u32) -> Result<Expression> {
        if depth > DEPTH_MAX {
            return Err(Error::user("expressions are nested too deeply").remedy("write the inner ones out"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("#{") {
            if at > 0 {
                parts.push(Segment::Text(rest[..at].to_owned()));
            }
            let inside = &rest[at + 2..];
            let Some(end) = call_end(inside) else {
                return Err(Error::user(format!("'{}' has no closing brace", &rest[at..]))
                    .remedy("end each call with }: '#{Name.fullName}'"));
            };
            parts.push(read_call(&inside[..end], depth)?);
            rest = &inside[end + 1..];
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(Segment::Text(rest.to_owned()));
        }
        Ok(Expression { parts })
    }

    /// Appends a random value.
    pub(super) fn write(&self, random: &mut Rng, time_ms: i64, out: &mut String) {
        for part in &self.parts {
            match part {
                Segment::Text(text) => out.push_str(text),
                Segment::OneOf(choices) => {
                    choices[random.below(choices.len() as u64) as usize].write(random, time_ms, out);
                }
                Segment::Call(call) => call.write(random, time_ms, out),
            }
        }
    }

    /// The call, if the expression is a single call.
    pub(super) fn only_call(&self) -> Option<&Call> {
        match self.parts.as_slice() {
            [Segment::Call(call)] => Some(call),
            [Segment::OneOf(choices)] if choices.len() == 1 => choices[0].only_call(),
            _ => None,
        }
    }
}

/// Where a call ends: its arguments may have braces within quotes.
fn call_end(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    text.bytes().position(|byte| {
        is_quoted ^= byte == b'\'';
        byte == b'}' && !is_quoted
    })
}

/// Reads `number.numberBetween '0','10'`.
fn read_call(text: &str, depth: u32) -> Result<Segment> {
    let text = text.trim();
    let name_end = text.find(|c: char| c.is_whitespace() || c == '\'').unwrap_or(text.len());
    let (name, given) = text.split_at(name_end);
    let arguments = arguments(given)?;
    let arguments: Vec<&str> = arguments.iter().map(|argument| &**argument).collect();
    if let Some(choices) = Call::choices(name, &arguments) {
        return Ok(Segment::OneOf(choices));
    }
    if let Some(call) = Call::read(name, &arguments, depth)? {
        return Ok(Segment::Call(call));
    }
    let Some(choices) = words::choices(name) else { return Err(words::unknown(name)) };
    if !arguments.is_empty() {
        return Err(Error::user(format!("'{name}' has {} arguments, but takes none", arguments.len()))
            .remedy(format!("write #{{{name}}}")));
    }
    let choices = choices.map(|choice| Expression::parse_at(choice, depth + 1)).collect::<Result<Vec<_>>>()?;
    Ok(Segment::OneOf(choices))
}

/// The texts in quotes. Users' examples occasionally end with a closing parenthesis.
fn arguments(text: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(quoted) = rest.strip_prefix('\'') {
        let Some(end) = quoted.find('\'') else { break };
        found.push(quoted[..end].to_owned());
        rest = quoted[end + 1..].trim_start_matches([',', ' ', '\t', '\n']);
    }
    match rest.trim() {
        "" | ")" => Ok(found),
        other => Err(Error::user(format!("'{other}' is no argument in quotes"))
            .remedy("write arguments as ''1'',''10'': within a text of SQL each quote is doubled")),
    }
}
