//! Reads one value into its column.

use std::borrow::Cow;

use arrow::array::make_view;

use super::base64;
use super::column::ColumnId;
use super::datetime::{Timestamp, parse_date};
use super::fault::{Fault, Read, shown};
use super::kind::ValueKind;
use super::number::{integer, number, scaled};
use super::parser::{Parser, Presence};
use super::text::{Span, string, unescape};
use super::trace::Shape;
use crate::format::view::INPUT;

/// The text of a scalar: a number, a word, or the content of a string.
struct Scalar<'a> {
    text: Cow<'a, [u8]>,
    quoted: bool,
    shape: Shape,
}

impl<'a> Parser<'a> {
    /// Reads the value at the position into `slot` of `id`.
    pub(super) fn value(&mut self, id: ColumnId, slot: usize) -> Read<Presence> {
        let (start, depth) = (self.pos, self.depth);
        match self.fitting_value(id, slot) {
            Err(fault) if self.ignores_errors && self.columns.column(id).nullable => {
                (self.pos, self.depth, self.ignored) = (start, depth, true);
                // The record must be JSON.
                self.skip().map_err(|_| fault)?;
                self.columns.set_null(id, slot);
                Ok(Presence::Null)
            }
            read => read,
        }
    }

    fn fitting_value(&mut self, id: ColumnId, slot: usize) -> Read<Presence> {
        let start = self.pos;
        if self.peek() == Some(b'n') {
            self.word(b"null")?;
            // If the column must not be null, the caller reports the fault.
            self.columns.set_null(id, slot);
            self.note(start, Some(id), Shape::Other);
            return Ok(Presence::Null);
        }
        let kind = self.columns.column(id).kind;
        let shape = match kind {
            ValueKind::Struct => {
                if self.peek() != Some(b'{') {
                    return Err(self.expected(kind.name()));
                }
                // Its fields are recorded one by one.
                self.object(id, slot)?;
                return Ok(Presence::Value);
            }
            ValueKind::List => {
                if self.peek() != Some(b'[') {
                    return Err(self.expected(kind.name()));
                }
                let trace = self.trace.take();
                self.list(id, slot)?;
                self.trace = trace;
                Shape::Other
            }
            ValueKind::Map => {
                if self.peek() != Some(b'{') {
                    return Err(self.expected(kind.name()));
                }
                let trace = self.trace.take();
                self.map(id, slot)?;
                self.trace = trace;
                Shape::Other
            }
            ValueKind::Text | ValueKind::OwnedText => self.text(id, slot, kind)?,
            ValueKind::Binary | ValueKind::BinaryView => self.binary(id, slot, kind)?,
            ValueKind::Boolean => self.boolean(id, slot)?,
            ValueKind::Integer { min, max } => self.integer(id, slot, i128::from(min), i128::from(max))?,
            ValueKind::Unsigned64 => self.integer(id, slot, 0, i128::from(u64::MAX))?,
            ValueKind::Float32 | ValueKind::Float64 => self.float(id, slot, kind)?,
            ValueKind::Decimal { precision, scale } => self.decimal(id, slot, precision, scale)?,
            ValueKind::Date => self.quoted_value(id, slot, kind, |text| parse_date(text).map(i64::from))?,
            ValueKind::Time(time) => self.quoted_value(id, slot, kind, |text| time.parse(text))?,
            ValueKind::Timestamp(timestamp) => self.timestamp(id, slot, timestamp)?,
        };
        self.note(start, Some(id), shape);
        Ok(Presence::Value)
    }

    fn list(&mut self, id: ColumnId, slot: usize) -> Read<()> {
        let Some((element, mut end)) = self.columns.list(id, slot) else { return Err(self.expected("no array")) };
        let mut more = self.enter(b']')?;
        while more {
            let at = self.pos;
            let presence = self.value(element, end).map_err(|fault| fault.in_column(element))?;
            if presence == Presence::Null && !self.columns.column(element).nullable {
                return Err(Fault::new(at, "an element must not be null, but is").in_column(element));
            }
            end += 1;
            more = self.next(b']')?;
        }
        self.depth -= 1;
        self.columns.set_list(id, slot, end);
        Ok(())
    }

    /// Reads a map. Entries with equal keys are all kept here; the finished column keeps one of them.
    fn map(&mut self, id: ColumnId, slot: usize) -> Read<()> {
        let Some((key, value, mut end)) = self.columns.map(id, slot) else { return Err(self.expected("no object")) };
        let mut more = self.enter(b'}')?;
        while more {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in quotes"));
            }
            self.value(key, end)?;
            self.colon()?;
            let at = self.pos;
            let presence = self.value(value, end).map_err(|fault| fault.in_column(value))?;
            if presence == Presence::Null && !self.columns.column(value).nullable {
                return Err(Fault::new(at, "a value must not be null, but is").in_column(value));
            }
            end += 1;
            more = self.next(b'}')?;
        }
        self.depth -= 1;
        self.columns.set_list(id, slot, end);
        Ok(())
    }

    fn quoted(&mut self, kind: ValueKind) -> Read<Span> {
        if self.peek() != Some(b'"') {
            return Err(self.expected(kind.name()));
        }
        let span = string(self.bytes, self.pos)?;
        self.pos = span.end + 1;
        Ok(span)
    }

    fn text(&mut self, id: ColumnId, slot: usize, kind: ValueKind) -> Read<Shape> {
        if self.peek() != Some(b'"') {
            return self.other_text(id, slot, kind);
        }
        let span = self.quoted(kind)?;
        let bytes = self.bytes;
        if matches!(kind, ValueKind::Text) && !span.escaped {
            let view = make_view(&bytes[span.start..span.end], INPUT, (self.offset + span.start) as u32);
            self.columns.set_view(id, slot, view);
        } else {
            self.columns.set_bytes(id, slot, |out| unescape(bytes, span, out))?;
        }
        Ok(Shape::Text)
    }

    /// Reads a value that is not a string as its JSON text, without the white space between its tokens.
    fn other_text(&mut self, id: ColumnId, slot: usize, kind: ValueKind) -> Read<Shape> {
        let start = self.pos;
        if !self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"{[-".contains(&byte)) {
            return Err(self.expected(kind.name()));
        }
        let trace = self.trace.take();
        self.skip()?;
        self.trace = trace;
        let mut value = &self.bytes[start..self.pos];
        self.columns.set_bytes(id, slot, |out| -> Read<()> {
            while let Some(first) = value.first() {
                let part = match first {
                    b'"' => string(value, 0)?.end + 1,
                    _ => value.iter().position(|byte| *byte == b'"').unwrap_or(value.len()),
                };
                let (part, rest) = value.split_at(part);
                match first {
                    b'"' => out.extend_from_slice(part),
                    _ => out.extend(part.iter().filter(|byte| !byte.is_ascii_whitespace())),
                }
                value = rest;
            }
            Ok(())
        })?;
        Ok(Shape::Other)
    }

    fn binary(&mut self, id: ColumnId, slot: usize, kind: ValueKind) -> Read<Shape> {
        let span = self.quoted(kind)?;
        let bytes = self.bytes;
        let mut unescaped = Vec::new();
        let text = if span.escaped {
            unescape(bytes, span, &mut unescaped)?;
            &unescaped[..]
        } else {
            &bytes[span.start..span.end]
        };
        self.columns.set_bytes(id, slot, |out| {
            base64::decode(text, out).map_err(|wrong| {
                let at = if span.escaped { span.start } else { span.start + wrong };
                Fault::new(at, format!("expected {}: invalid character", kind.name()))
            })
        })?;
        Ok(Shape::Other)
    }

    /// Reads a number, a word or a string that contains one.
    fn scalar(&mut self, kind: ValueKind) -> Read<Scalar<'a>> {
        let start = self.pos;
        match self.peek() {
            Some(b'"') => {
                let span = string(self.bytes, start)?;
                let mut text = Cow::Borrowed(&self.bytes[span.start..span.end]);
                if span.escaped {
                    let mut unescaped = Vec::new();
                    unescape(self.bytes, span, &mut unescaped)?;
                    text = Cow::Owned(unescaped);
                }
                self.pos = span.end + 1;
                Ok(Scalar { text, quoted: true, shape: Shape::Other })
            }
            Some(b't') => self.word(b"true").map(|shape| self.unquoted(start, shape)),
            Some(b'f') => self.word(b"false").map(|shape| self.unquoted(start, shape)),
            _ => {
                let Some(number) = number(self.bytes, start) else { return Err(self.expected(kind.name())) };
                self.pos = number.end;
                Ok(self.unquoted(start, if number.integer { Shape::Integer } else { Shape::Other }))
            }
        }
    }

    fn unquoted(&self, start: usize, shape: Shape) -> Scalar<'a> {
        Scalar { text: Cow::Borrowed(&self.bytes[start..self.pos]), quoted: false, shape }
    }

    fn boolean(&mut self, id: ColumnId, slot: usize) -> Read<Shape> {
        let start = self.pos;
        let scalar = self.scalar(ValueKind::Boolean)?;
        let value = match &*scalar.text {
            b"true" => true,
            b"false" => false,
            _ => return Err(self.wrong(start, ValueKind::Boolean)),
        };
        self.columns.set_integer(id, slot, i64::from(value));
        Ok(Shape::Other)
    }

    fn integer(&mut self, id: ColumnId, slot: usize, min: i128, max: i128) -> Read<Shape> {
        let start = self.pos;
        let kind = self.columns.column(id).kind;
        let scalar = self.scalar(kind)?;
        let Some(found) = self.number_in(&scalar) else { return Err(self.wrong(start, kind)) };
        let value = if found {
            integer(&scalar.text)
        } else {
            match scaled(&scalar.text, 0) {
                Some(scaled) if !scaled.exact => return Err(self.wrong(start, kind)),
                scaled => scaled.map(|scaled| scaled.value),
            }
        };
        let Some(value) = value.filter(|value| (min..=max).contains(value)) else {
            return Err(self.out_of_range(start, &format!("{min} to {max}")));
        };
        // An unsigned value keeps its bits.
        self.columns.set_integer(id, slot, value as i64);
        Ok(scalar.shape)
    }

    /// Whether the scalar is an integer; `None` if it is not a number.
    fn number_in(&self, scalar: &Scalar<'_>) -> Option<bool> {
        number(&scalar.text, 0).filter(|number| number.end == scalar.text.len()).map(|number| number.integer)
    }

    fn float(&mut self, id: ColumnId, slot: usize, kind: ValueKind) -> Read<Shape> {
        let start = self.pos;
        let scalar = self.scalar(kind)?;
        let named = match &*scalar.text {
            b"NaN" => Some(f64::NAN),
            b"Infinity" => Some(f64::INFINITY),
            b"-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        };
        if let Some(value) = named.filter(|_| scalar.quoted) {
            self.columns.set_float(id, slot, value);
            return Ok(Shape::Other);
        }
        let text = str::from_utf8(&scalar.text).ok().filter(|_| self.number_in(&scalar).is_some());
        let value = text.and_then(|text| match kind {
            // Rounded once, not first to 64 bits.
            ValueKind::Float32 => text.parse::<f32>().ok().map(f64::from),
            _ => text.parse().ok(),
        });
        let Some(value) = value else { return Err(self.wrong(start, kind)) };
        if value.is_infinite() {
            return Err(self.out_of_range(start, "of floating-point numbers"));
        }
        self.columns.set_float(id, slot, value);
        Ok(Shape::Other)
    }

    fn decimal(&mut self, id: ColumnId, slot: usize, precision: u8, scale: i8) -> Read<Shape> {
        let start = self.pos;
        let kind = ValueKind::Decimal { precision, scale };
        let scalar = self.scalar(kind)?;
        if self.number_in(&scalar).is_none() {
            return Err(self.wrong(start, kind));
        }
        let limit = 10_u128.pow(u32::from(precision).min(38));
        match scaled(&scalar.text, scale).filter(|scaled| scaled.value.unsigned_abs() < limit) {
            Some(scaled) => self.columns.set_decimal(id, slot, scaled.value),
            None => return Err(self.out_of_range(start, &format!("of DECIMAL({precision}, {scale})"))),
        }
        Ok(Shape::Other)
    }

    /// Reads a date or a time of day, which is always in quotes.
    fn quoted_value(
        &mut self,
        id: ColumnId,
        slot: usize,
        kind: ValueKind,
        parse: impl FnOnce(&[u8]) -> Option<i64>,
    ) -> Read<Shape> {
        let start = self.pos;
        let scalar = self.scalar(kind)?;
        let Some(value) = parse(&scalar.text).filter(|_| scalar.quoted) else { return Err(self.wrong(start, kind)) };
        self.columns.set_integer(id, slot, value);
        Ok(Shape::Other)
    }

    fn timestamp(&mut self, id: ColumnId, slot: usize, timestamp: Timestamp) -> Read<Shape> {
        let start = self.pos;
        let kind = ValueKind::Timestamp(timestamp);
        let scalar = self.scalar(kind)?;
        let value = match self.number_in(&scalar) {
            Some(true) => {
                let epoch_ms = integer(&scalar.text).and_then(|value| i64::try_from(value).ok());
                let Some(value) = epoch_ms.and_then(|epoch_ms| timestamp.of_epoch_ms(epoch_ms)) else {
                    return Err(self.out_of_range(start, "of epoch milliseconds, the years 0 to 9999"));
                };
                value
            }
            Some(false) => return Err(self.wrong(start, kind)),
            None => match timestamp.parse(&scalar.text, self.format) {
                Some(value) if scalar.quoted => value,
                _ => return Err(self.wrong(start, kind)),
            },
        };
        self.columns.set_integer(id, slot, value);
        Ok(scalar.shape)
    }

    #[cold]
    fn wrong(&self, start: usize, kind: ValueKind) -> Box<Fault> {
        Fault::new(start, format!("expected {}, found {}", kind.name(), shown(self.bytes, start)))
    }

    #[cold]
    fn out_of_range(&self, start: usize, range: &str) -> Box<Fault> {
        Fault::new(start, format!("{} is out of the range {range}", shown(self.bytes, start)))
    }
}
