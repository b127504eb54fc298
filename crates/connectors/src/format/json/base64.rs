//! Binary as text: base64 of RFC 4648, padded, as Flink and Jackson write it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NONE: u8 = 0xff;

const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut i = 0;
    while i < ALPHABET.len() {
        values[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    values
};

/// Appends the text of `bytes`.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().enumerate().fold(0_u32, |bits, (i, byte)| bits | u32::from(*byte) << (16 - 8 * i));
        for i in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i > chunk.len() { b'=' } else { letter });
        }
    }
}

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
    for (start, chunk) in letters.chunks(4).enumerate() {
        let mut bits = 0_u32;
        for (i, letter) in chunk.iter().enumerate() {
            let value = VALUES[usize::from(*letter)];
            if value == NONE {
                return Err(start * 4 + i);
            }
            bits |= u32::from(value) << (18 - 6 * i);
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (whole, rest) = bytes.split_at(chunk.len() - 1);
        if rest.iter().any(|byte| *byte != 0) {
            return Err(start * 4 + chunk.len() - 1);
        }
        out.extend_from_slice(whole);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;

    use super::{decode, encode};

    #[test]
    fn known_texts() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            let mut out = Vec::new();
            encode(bytes.as_bytes(), &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let mut rng = Rng::new(7);
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            let (mut text, mut back) = (Vec::new(), Vec::new());
            encode(&bytes, &mut text);
            decode(&text, &mut back).unwrap();
            assert_eq!(back, bytes);
            let bare = text.iter().copied().filter(|letter| *letter != b'=').collect::<Vec<_>>();
            back.clear();
            decode(&bare, &mut back).unwrap();
            assert_eq!(back, bytes);
        }
    }

    #[test]
    fn wrong_texts_are_refused() {
        for text in ["Z", "Zg=", "Zh==", "Zm9v!", "Zm9=", "Z===", "====", "Zg==Zg=="] {
            assert!(decode(text.as_bytes(), &mut Vec::new()).is_err(), "{text}");
        }
    }
}
