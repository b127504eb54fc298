//! The general parser: any record, one value after the other.
//!
//! It alone decides which records are malformed; the fast path only recognizes. It checks everything by the
//! grammar of JSON, including values that the query does not need, so that the malformed records do not
//! depend on the columns that a query reads.

use super::column::{ColumnId, Columns, ROOT};
use super::datetime::TimestampFormat;
use super::fault::{Fault, Read, shown};
use super::number::number;
use super::text::{string, unescape};
use super::trace::{Leaf, Shape, Trace};

/// How deep objects and arrays may nest: each level takes some of the thread's stack.
pub(super) const DEPTH_MAX: usize = 128;

/// A record being read.
pub(super) struct Parser<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) pos: usize,
    /// Offset of the record in the input, for views.
    pub(super) offset: usize,
    pub(super) columns: &'a mut Columns,
    pub(super) format: TimestampFormat,
    /// Records where the values are, if the layout is to be learned.
    pub(super) trace: Option<&'a mut Trace>,
    pub(super) depth: usize,
    /// Values that do not fit their columns are NULL.
    pub(super) ignores_errors: bool,
    /// There was such a value.
    pub(super) ignored: bool,
}

/// Whether a value was present or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Value,
    Null,
}

impl<'a> Parser<'a> {
    /// Reads the values of `bytes` from `pos` on. The record is at `offset` of the input.
    pub(super) fn new(
        bytes: &'a [u8],
        pos: usize,
        offset: usize,
        columns: &'a mut Columns,
        format: TimestampFormat,
    ) -> Self {
        Parser { bytes, pos, offset, columns, format, trace: None, depth: 0, ignores_errors: false, ignored: false }
    }

    /// Reads the whole record into `slot` of the root's fields.
    pub(super) fn record(&mut self, slot: usize) -> Read<()> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(ROOT, slot)?,
            None => return Err(Fault::new(self.pos, "the record is empty: an object is missing")),
            Some(_) => return Err(self.expected("an object")),
        }
        let end = self.pos;
        if let Some(trace) = &mut self.trace {
            trace.end = end;
        }
        self.skip_space();
        if self.pos < self.bytes.len() {
            return Err(self.expected("the end of the record"));
        }
        Ok(())
    }

    /// Reads the object at the position into the fields of `id`.
    pub(super) fn object(&mut self, id: ColumnId, slot: usize) -> Read<()> {
        let mut more = self.enter(b'}')?;
        self.columns.begin_object(id);
        let mut key = Vec::new();
        while more {
            let field = self.key(id, &mut key)?;
            match field.and_then(|field| Some((field, self.columns.mark_seen(id, field, true)?))) {
                Some((field, (child, seen_before))) => {
                    if seen_before && let Some(trace) = &mut self.trace {
                        trace.repeatable = false;
                    }
                    let presence = self.value(child, slot).map_err(|fault| fault.in_column(child))?;
                    if presence == Presence::Null && !self.columns.column(child).nullable {
                        self.columns.mark_seen(id, field, false);
                    }
                }
                None => self.skip()?,
            }
            more = self.next(b'}')?;
        }
        self.absent(id, slot)?;
        self.depth -= 1;
        Ok(())
    }

    /// Sets the fields of `id` to null that the object just read did not have.
    fn absent(&mut self, id: ColumnId, slot: usize) -> Read<()> {
        let mut field = 0;
        while let Some((child, seen)) = self.columns.seen(id, field) {
            if !seen {
                if !self.columns.column(child).nullable {
                    let what = "the value must not be null, but is null or missing in the object that ends";
                    return Err(Fault::new(self.pos.saturating_sub(1), what).in_column(child));
                }
                self.columns.set_null(child, slot);
                if let Some(trace) = &mut self.trace {
                    trace.absent.push(child);
                }
            }
            field += 1;
        }
        self.columns.set_valid(id, slot);
        if let Some(trace) = &mut self.trace {
            trace.present.push(id);
        }
        Ok(())
    }

    /// Reads a key and the colon, and finds the key's field.
    fn key(&mut self, id: ColumnId, unescaped: &mut Vec<u8>) -> Read<Option<usize>> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in quotes"));
        }
        let span = string(self.bytes, self.pos)?;
        let field = if span.escaped {
            unescaped.clear();
            unescape(self.bytes, span, unescaped)?;
            self.columns.field(id, unescaped)
        } else {
            self.columns.field(id, &self.bytes[span.start..span.end])
        };
        self.pos = span.end + 1;
        self.colon()?;
        Ok(field)
    }

    pub(super) fn colon(&mut self) -> Read<()> {
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.expected("':'"));
        }
        self.pos += 1;
        self.skip_space();
        Ok(())
    }

    /// Skips a value that no column needs.
    pub(super) fn skip(&mut self) -> Read<()> {
        let start = self.pos;
        let shape = match self.peek() {
            Some(b'"') => {
                self.skip_string()?;
                Shape::Text
            }
            Some(b'{') => return self.skip_object(),
            Some(b'[') => {
                let trace = self.trace.take();
                self.skip_array()?;
                self.trace = trace;
                Shape::Other
            }
            Some(b't') => self.word(b"true")?,
            Some(b'f') => self.word(b"false")?,
            Some(b'n') => self.word(b"null")?,
            _ => {
                let Some(number) = number(self.bytes, self.pos) else { return Err(self.expected("a value")) };
                self.pos = number.end;
                if number.integer { Shape::Integer } else { Shape::Other }
            }
        };
        self.note(start, None, shape);
        Ok(())
    }

    fn skip_string(&mut self) -> Read<()> {
        let span = string(self.bytes, self.pos)?;
        if span.escaped {
            unescape(self.bytes, span, &mut Vec::new())?;
        }
        self.pos = span.end + 1;
        Ok(())
    }

    fn skip_object(&mut self) -> Read<()> {
        let mut more = self.enter(b'}')?;
        while more {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in quotes"));
            }
            self.skip_string()?;
            self.colon()?;
            self.skip()?;
            more = self.next(b'}')?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn skip_array(&mut self) -> Read<()> {
        let mut more = self.enter(b']')?;
        while more {
            self.skip()?;
            more = self.next(b']')?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Records a value that ends at the current position.
    pub(super) fn note(&mut self, start: usize, target: Option<ColumnId>, shape: Shape) {
        if let Some(trace) = &mut self.trace {
            trace.note(Leaf { place: start..self.pos, target, shape, depth: self.depth });
        }
    }

    /// Reads `true`, `false` or `null`, whose first letter was seen.
    pub(super) fn word(&mut self, word: &'static [u8]) -> Read<Shape> {
        let rest = &self.bytes[self.pos..];
        if !rest.starts_with(word) || rest.get(word.len()).is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.expected("a value"));
        }
        self.pos += word.len();
        Ok(Shape::Other)
    }

    /// Enters an object or an array: returns whether there is an element before `close`, and skips `close`
    /// otherwise.
    pub(super) fn enter(&mut self, close: u8) -> Read<bool> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::new(self.pos, format!("objects and arrays are nested more than {DEPTH_MAX} deep")));
        }
        self.pos += 1;
        self.skip_space();
        if self.peek() == Some(close) {
            self.pos += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// After an element: returns whether there is another, and skips `close` otherwise.
    pub(super) fn next(&mut self, close: u8) -> Read<bool> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.pos += 1;
                self.skip_space();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.pos += 1;
                Ok(false)
            }
            _ => Err(self.expected(if close == b'}' { "',' or '}'" } else { "',' or ']'" })),
        }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.pos += 1;
        }
    }

    #[cold]
    pub(super) fn expected(&self, what: &str) -> Box<Fault> {
        Fault::new(self.pos, format!("expected {what}, found {}", shown(self.bytes, self.pos)))
    }
}
