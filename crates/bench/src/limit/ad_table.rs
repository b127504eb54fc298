//! The static side of the main job's join: from an ad's identifier to its campaign, by linear probing.

use anabranch_model::{HASH_SEED, hash_bytes};

use crate::workload::Ad;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Compared before the identifier, so that a miss rarely reads one.
    hash: u64,
    ad: u32,
    campaign: u32,
}

const EMPTY: u32 = u32::MAX;

/// Hash table of ads, a quarter full.
#[derive(Debug)]
pub(crate) struct AdTable {
    slots: Vec<Slot>,
    shift: u32,
    ids: Vec<Box<[u8]>>,
}

impl AdTable {
    /// A table of these ads; of several with the same identifier the first counts.
    pub(crate) fn new(ads: &[Ad]) -> Self {
        let size = (ads.len() * 4).next_power_of_two().max(4);
        let slots = vec![Slot { hash: 0, ad: EMPTY, campaign: 0 }; size];
        let mut table = AdTable { slots, shift: 64 - size.trailing_zeros(), ids: Vec::with_capacity(ads.len()) };
        for ad in ads {
            let hash = hash_bytes(HASH_SEED, ad.id.as_bytes());
            let mut at = table.home(hash);
            while table.slots[at].ad != EMPTY {
                at = table.after(at);
            }
            table.slots[at] = Slot { hash, ad: table.ids.len() as u32, campaign: ad.campaign };
            table.ids.push(ad.id.as_bytes().into());
        }
        table
    }

    /// Campaign of the ad.
    #[inline]
    pub(crate) fn campaign(&self, id: &[u8]) -> Option<u32> {
        let hash = hash_bytes(HASH_SEED, id);
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot.ad == EMPTY {
                return None;
            }
            if slot.hash == hash && *self.ids[slot.ad as usize] == *id {
                return Some(slot.campaign);
            }
            at = self.after(at);
        }
    }

    fn home(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_ad_and_nothing_else() {
        let ads: Vec<Ad> = (0..1000).map(|i| Ad { id: format!("ad-{i}"), campaign: i / 10 }).collect();
        let table = AdTable::new(&ads);
        for ad in &ads {
            assert_eq!(table.campaign(ad.id.as_bytes()), Some(ad.campaign));
        }
        assert_eq!(table.campaign(b"ad-1000"), None);
        assert_eq!(AdTable::new(&[]).campaign(b"ad-1"), None);
    }
}
