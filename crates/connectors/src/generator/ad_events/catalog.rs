//! The data that events refer to: users, pages, advertisements and their campaigns, all from the seed.

use std::fmt::Write;

use anabranch_model::Rng;
use arrow::array::StringViewArray;

/// Advertisements.
pub(super) const ADS: usize = 1000;
/// Advertisements of one campaign.
const ADS_PER_CAMPAIGN: usize = 10;
/// Users, who have an address each, and pages.
const USERS: usize = 100;

pub(super) const AD_TYPES: [&str; 5] = ["banner", "modal", "sponsored-search", "mail", "mobile"];
pub(super) const EVENT_TYPES: [&str; 3] = ["view", "click", "purchase"];

/// Everything that events refer to.
pub(super) struct Catalog {
    pub(super) ads: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) pages: Vec<String>,
    /// One per user.
    pub(super) addresses: Vec<String>,
    campaigns: Vec<String>,
}

impl Catalog {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut ids = |count: usize| (0..count).map(|_| uuid(&mut rng)).collect();
        Catalog {
            campaigns: ids(ADS / ADS_PER_CAMPAIGN),
            ads: ids(ADS),
            users: ids(USERS),
            pages: ids(USERS),
            addresses: (0..USERS).map(|_| address(&mut rng)).collect(),
        }
    }

    /// The texts of each column of the events.
    pub(super) fn texts(&self) -> [StringViewArray; 7] {
        let owned = |values: &[String]| StringViewArray::from_iter_values(values);
        [
            owned(&self.users),
            owned(&self.pages),
            owned(&self.ads),
            StringViewArray::from(AD_TYPES.to_vec()),
            StringViewArray::from(EVENT_TYPES.to_vec()),
            owned(&[]),
            owned(&self.addresses),
        ]
    }

    pub(super) fn campaign_of(&self, ad: usize) -> &String {
        &self.campaigns[ad / ADS_PER_CAMPAIGN]
    }
}

/// A random identifier in the form of a UUID of version 4.
fn uuid(rng: &mut Rng) -> String {
    let (high, low) = (rng.next_u64(), rng.next_u64());
    let mut text = String::with_capacity(36);
    let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, (high & 0x0fff) | 0x4000);
    let (fourth, fifth) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    // Writing to a string cannot fail.
    let _ = write!(text, "{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{fifth:012x}");
    text
}

/// An IPv4 address.
fn address(rng: &mut Rng) -> String {
    let [a, b, c, d, ..] = rng.next_u64().to_le_bytes();
    format!("{}.{b}.{c}.{d}", 1 + a % 223)
}
