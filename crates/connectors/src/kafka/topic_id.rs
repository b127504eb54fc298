//! The identity of a topic (KIP-516). A topic that is deleted and created again has the same name and another
//! identity: offsets of one mean nothing in the other.

use std::fmt;

/// The digits of Kafka's text form, which is base 64 for URLs.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Digits of six bits each, the last of two.
const LENGTH: u32 = 22;

/// An identity, as brokers since version 2.8 give one to each topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicId(u128);

impl TopicId {
    /// From the two halves that the client gives. Zero is no identity.
    pub(super) fn from_halves(most: i64, least: i64) -> Option<TopicId> {
        let id = (u128::from(most.cast_unsigned()) << 64) | u128::from(least.cast_unsigned());
        (id != 0).then_some(TopicId(id))
    }

    /// From Kafka's text form.
    pub(super) fn parse(text: &str) -> Option<TopicId> {
        if text.len() != LENGTH as usize {
            return None;
        }
        let mut id = 0_u128;
        for (place, byte) in (1..).zip(text.bytes()) {
            let digit = DIGITS.iter().position(|digit| *digit == byte)? as u128;
            id = match place {
                LENGTH if digit.is_multiple_of(16) => (id << 2) | (digit / 16),
                LENGTH => return None,
                _ => (id << 6) | digit,
            };
        }
        (id != 0).then_some(TopicId(id))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |place: u32| match place {
            LENGTH => (self.0 << 4) & 63,
            _ => (self.0 >> (128 - 6 * place)) & 63,
        };
        (1..=LENGTH).try_for_each(|place| write!(f, "{}", char::from(DIGITS[digit(place) as usize])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_written_as_kafka_does() {
        // What Kafka's tools print for these bits.
        let id = TopicId::from_halves(0x0123_4567_89ab_cdef, 0x0011_2233_4455_66f7).unwrap();
        assert_eq!(id.to_string(), "ASNFZ4mrze8AESIzRFVm9w");
        for id in [id, TopicId(1), TopicId(u128::MAX), TopicId::from_halves(-1, 0).unwrap()] {
            assert_eq!(TopicId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(TopicId::from_halves(0, 0), None);
        for wrong in
            ["", "ASNFZ4mrze8AESIzRFVm9", "ASNFZ4mrze8AESIzRFVm9x", "ASNFZ4mrze8AESIzRFVm9w=", "ASNFZ4mrze8AESIzRFVm+w"]
        {
            assert_eq!(TopicId::parse(wrong), None, "{wrong}");
        }
    }
}
