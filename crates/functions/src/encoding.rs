//! Hashes and encodings.

use std::fmt::Write;

use arrow::array::ArrayRef;
use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use datafusion_common::Result;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use crate::arguments::{Arguments, bytes, texts};
use crate::definition::{Definition, Kind, Returns, failure, function};

const TEXT: &[&[Kind]] = &[&[Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("md5", TEXT, Returns::Text, hash::<Md5>).never_fails(),
    function("sha1", TEXT, Returns::Text, hash::<Sha1>).never_fails(),
    function("sha224", TEXT, Returns::Text, hash::<Sha224>).never_fails(),
    function("sha256", TEXT, Returns::Text, hash::<Sha256>).never_fails(),
    function("sha384", TEXT, Returns::Text, hash::<Sha384>).never_fails(),
    function("sha512", TEXT, Returns::Text, hash::<Sha512>).never_fails(),
    function("sha2", &[&[Kind::Text, Kind::Integer]], Returns::Text, sha2),
    function("to_base64", TEXT, Returns::Text, to_base64).never_fails(),
    function("from_base64", TEXT, Returns::Text, from_base64),
    function("hex", &[&[Kind::Integer], &[Kind::TextOrBytes]], Returns::Text, hex).never_fails(),
    function("unhex", TEXT, Returns::Bytes, unhex).never_fails(),
    function("bin", &[&[Kind::Integer]], Returns::Text, bin).never_fails(),
];

/// Hashes in hexadecimal digits, in lower case.
fn hash<D: Digest>(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    texts(arguments, |row, out| {
        write_hash::<D>(text.get(row)?, out);
        Some(())
    })
}

fn write_hash<D: Digest>(text: &str, out: &mut String) {
    write_hex(&D::digest(text.as_bytes()), b"0123456789abcdef", out);
}

fn write_hex(bytes: &[u8], digits: &[u8; 16], out: &mut String) {
    for byte in bytes {
        out.push(char::from(digits[usize::from(byte >> 4)]));
        out.push(char::from(digits[usize::from(byte & 15)]));
    }
}

fn sha2(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, length) = (arguments.text(0), arguments.integer(1));
    let mut wrong = None;
    let hashes = texts(arguments, |row, out| {
        let (text, length) = (text.get(row)?, length.get(row)?);
        match length {
            224 => write_hash::<Sha224>(text, out),
            256 => write_hash::<Sha256>(text, out),
            384 => write_hash::<Sha384>(text, out),
            512 => write_hash::<Sha512>(text, out),
            other => wrong = Some(other),
        }
        Some(())
    })?;
    match wrong {
        None => Ok(hashes),
        Some(other) => Err(failure(format!("SHA2 has no length of {other} bits; use one of: 224, 256, 384, 512"))),
    }
}

fn to_base64(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    texts(arguments, |row, out| {
        STANDARD.encode_string(text.get(row)?, out);
        Some(())
    })
}

/// Padding may be omitted; bytes that are not text are shown as U+FFFD.
fn from_base64(arguments: &Arguments) -> Result<ArrayRef> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::GeneralPurposeConfig::new()
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let text = arguments.text(0);
    let mut decoded = Vec::new();
    let mut wrong = None;
    let values = texts(arguments, |row, out| {
        let text = text.get(row)?;
        decoded.clear();
        match LENIENT.decode_vec(text, &mut decoded) {
            Ok(()) => out.push_str(&String::from_utf8_lossy(&decoded)),
            Err(error) => wrong = Some(format!("FROM_BASE64: '{text}' is not base64: {error}")),
        }
        Some(())
    })?;
    wrong.map_or(Ok(values), |message| Err(failure(message)))
}

/// For a number, without leading zeros; for text, of its UTF-8 bytes.
fn hex(arguments: &Arguments) -> Result<ArrayRef> {
    if arguments.array(0).data_type().is_integer() {
        let number = arguments.integer(0);
        return texts(arguments, |row, out| write!(out, "{:X}", number.get(row)?).ok());
    }
    let value = arguments.bytes(0);
    texts(arguments, |row, out| {
        write_hex(value.get(row)?, b"0123456789ABCDEF", out);
        Some(())
    })
}

/// NULL if a digit is not hexadecimal.
fn unhex(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    bytes(arguments.rows, |row, out| {
        let digits = text.get(row)?.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (first, pairs) = digits.split_at(digits.len() % 2);
        for byte in first {
            out.push(digit(*byte)?);
        }
        for pair in pairs.chunks_exact(2) {
            out.push(digit(pair[0])? << 4 | digit(pair[1])?);
        }
        Some(())
    })
}

fn bin(arguments: &Arguments) -> Result<ArrayRef> {
    let number = arguments.integer(0);
    texts(arguments, |row, out| write!(out, "{:b}", number.get(row)?).ok())
}
