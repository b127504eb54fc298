//! The identity of a topic (KIP-516). A topic that is deleted and created again has the same name and another
//! identity: offsets of one mean nothing in the other.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// An identity, as brokers since version 2.8 give one to each topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicId(u128);

impl TopicId {
    /// From the two halves that the client gives. Zero is no identity.
    pub(super) fn from_halves(most: i64, least: i64) -> Option<TopicId> {
        let id = (u128::from(most.cast_unsigned()) << 64) | u128::from(least.cast_unsigned());
        (id != 0).then_some(TopicId(id))
    }

    /// From Kafka's text form, which is base64 for URLs.
    pub(super) fn parse(text: &str) -> Option<TopicId> {
        let id = u128::from_be_bytes(URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?);
        (id != 0).then_some(TopicId(id))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0.to_be_bytes()))
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
