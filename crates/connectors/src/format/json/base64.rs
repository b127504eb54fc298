//! Binary as text: base64 of RFC 4648, padded, as Flink and Jackson write it.

use base64::engine::general_purpose::STANDARD_NO_PAD;
use base64::{DecodeError, Engine};

/// Appends the bytes of `text`; the padding may be missing. Returns the position of an error.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), usize> {
    let mut letters = text;
    if text.len().is_multiple_of(4) {
        letters = letters.strip_suffix(b"=").unwrap_or(letters);
        letters = letters.strip_suffix(b"=").unwrap_or(letters);
    }
    if letters.len() % 4 == 1 {
        return Err(letters.len());
    }
    STANDARD_NO_PAD.decode_vec(letters, out).map_err(|error| match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol { offset: at, .. } => at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => {
            letters.iter().position(|letter| *letter == b'=').unwrap_or(letters.len())
        }
    })
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

    use super::decode;

    #[test]
    fn what_was_encoded_is_decoded() {
        let mut rng = Rng::new(7);
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            for text in [STANDARD.encode(&bytes), STANDARD_NO_PAD.encode(&bytes)] {
                let mut back = Vec::new();
                decode(text.as_bytes(), &mut back).unwrap();
                assert_eq!(back, bytes);
            }
        }
    }

    #[test]
    fn wrong_texts_are_refused_with_the_place() {
        for (text, place) in [
            ("Z", 1),
            ("Zg=", 2),
            ("Zh==", 1),
            ("Zm9v!", 5),
            ("Zm9v!a", 4),
            ("Zm9=", 2),
            ("Z===", 1),
            ("====", 0),
            ("Zg==Zg==", 2),
            ("Zm9vZg=!", 6),
        ] {
            assert_eq!(decode(text.as_bytes(), &mut Vec::new()), Err(place), "{text}");
        }
    }
}
