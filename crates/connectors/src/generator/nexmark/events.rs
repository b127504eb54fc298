//! The content of each event: a function of the seed and the event's number.

use std::fmt::Write;

use anabranch_model::Rng;

use super::names::{CITIES, FIRST_NAMES, HOT_CHANNELS, LAST_NAMES, STATES};
use crate::generator::load::Timeline;

/// Number of consecutive events of which one is a person and three are auctions.
pub(super) const EVENTS_IN_TURN: u64 = 50;
pub(super) const PERSONS_IN_TURN: u64 = 1;
pub(super) const AUCTIONS_IN_TURN: u64 = 3;
pub(super) const BIDS_IN_TURN: u64 = EVENTS_IN_TURN - PERSONS_IN_TURN - AUCTIONS_IN_TURN;

const FIRST_ID: u64 = 1000;
const FIRST_CATEGORY: u64 = 10;
const CATEGORIES: u64 = 5;
/// Auctions that are open at the same time, and persons who act at the same time.
const AUCTIONS_IN_FLIGHT: u64 = 100;
const ACTIVE_PERSONS: u64 = 1000;
/// How far an event may refer to future auctions or persons.
const LEAD: u64 = 10;
/// One of this number of auctions, sellers or bidders is hot.
const HOT_SPACING: u64 = 100;
/// All but one of this number of bids are for a hot auction.
const HOT_AUCTION_RATIO: u64 = 2;
const HOT_SELLER_RATIO: u64 = 4;
const HOT_BIDDER_RATIO: u64 = 4;
const HOT_CHANNEL_RATIO: u64 = 2;
const CHANNELS: u64 = 10_000;
/// Sizes that events have on average, reached by padding in `extra`.
const PERSON_BYTES: usize = 200;
const AUCTION_BYTES: usize = 500;
const BID_BYTES: usize = 100;

/// The stream of events.
pub(super) struct Events {
    pub(super) seed: u64,
    pub(super) timeline: Timeline,
}

pub(super) struct Person {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) email: String,
    pub(super) credit_card: String,
    pub(super) city: &'static str,
    pub(super) state: &'static str,
    pub(super) time_ms: i64,
    pub(super) extra: String,
}

pub(super) struct Auction {
    pub(super) id: i64,
    pub(super) item: String,
    pub(super) description: String,
    pub(super) initial_bid: i64,
    pub(super) reserve: i64,
    pub(super) time_ms: i64,
    pub(super) expires_ms: i64,
    pub(super) seller: i64,
    pub(super) category: i64,
    pub(super) extra: String,
}

/// Bids are most of the stream, so their texts are generated only if a query needs them.
pub(super) struct Bid {
    pub(super) auction: i64,
    pub(super) bidder: i64,
    pub(super) price: i64,
    channel: Channel,
    pub(super) time_ms: i64,
    texts: Rng,
}

/// The channel of a bid.
#[derive(Clone, Copy)]
enum Channel {
    Hot(usize),
    Numbered(u64),
}

impl Events {
    fn rng(&self, event: u64) -> Rng {
        Rng::new(Rng::new(self.seed).next_u64().wrapping_add(event.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    pub(super) fn person(&self, event: u64) -> Person {
        let mut rng = self.rng(event);
        let name = format!("{} {}", choose(&mut rng, &FIRST_NAMES), choose(&mut rng, &LAST_NAMES));
        let mut email = String::new();
        letters(&mut rng, 7, &mut email);
        email.push('@');
        letters(&mut rng, 5, &mut email);
        email.push_str(".com");
        let mut group = || rng.below(10_000);
        let credit_card = format!("{:04} {:04} {:04} {:04}", group(), group(), group(), group());
        let (city, state) = (choose(&mut rng, &CITIES), choose(&mut rng, &STATES));
        let used = 8 + name.len() + email.len() + credit_card.len() + city.len() + state.len() + 8;
        Person {
            id: (FIRST_ID + last_person(event)) as i64,
            time_ms: self.timeline.time_ms(event),
            extra: padding(&mut rng, used, PERSON_BYTES),
            name,
            email,
            credit_card,
            city,
            state,
        }
    }

    pub(super) fn auction(&self, event: u64) -> Auction {
        let mut rng = self.rng(event);
        let seller = if rng.below(HOT_SELLER_RATIO) > 0 {
            last_person(event) / HOT_SPACING * HOT_SPACING
        } else {
            any_person(&mut rng, event)
        };
        let category = FIRST_CATEGORY + rng.below(CATEGORIES);
        let initial_bid = price(&mut rng);
        let reserve = initial_bid + price(&mut rng);
        let time_ms = self.timeline.time_ms(event);
        // On average, as many auctions as are in flight are created while this one is open.
        let future = self.timeline.time_ms(event + AUCTIONS_IN_FLIGHT * EVENTS_IN_TURN / AUCTIONS_IN_TURN);
        let length_ms = 1 + rng.below((2 * future.abs_diff(time_ms)).max(1)) as i64;
        let (mut item, mut description) = (String::new(), String::new());
        some_letters(&mut rng, 20, &mut item);
        some_letters(&mut rng, 100, &mut description);
        let used = 8 * 7 + item.len() + description.len();
        Auction {
            id: (FIRST_ID + last_auction(event)) as i64,
            initial_bid,
            reserve,
            time_ms,
            expires_ms: time_ms + length_ms,
            seller: (FIRST_ID + seller) as i64,
            category: category as i64,
            extra: padding(&mut rng, used, AUCTION_BYTES),
            item,
            description,
        }
    }

    pub(super) fn bid(&self, event: u64) -> Bid {
        let mut rng = self.rng(event);
        let auction = if rng.below(HOT_AUCTION_RATIO) > 0 {
            last_auction(event) / HOT_SPACING * HOT_SPACING
        } else {
            any_auction(&mut rng, event)
        };
        let bidder = if rng.below(HOT_BIDDER_RATIO) > 0 {
            last_person(event) / HOT_SPACING * HOT_SPACING + 1
        } else {
            any_person(&mut rng, event)
        };
        let price = price(&mut rng);
        let channel = if rng.below(HOT_CHANNEL_RATIO) > 0 {
            Channel::Hot(rng.below(HOT_CHANNELS.len() as u64) as usize)
        } else {
            Channel::Numbered(rng.below(CHANNELS))
        };
        Bid {
            auction: (FIRST_ID + auction) as i64,
            bidder: (FIRST_ID + bidder) as i64,
            price,
            channel,
            time_ms: self.timeline.time_ms(event),
            texts: rng,
        }
    }

    /// The address of a channel: the same for all of its bids.
    pub(super) fn url(&self, bid: &Bid, text: &mut String) {
        let number = match bid.channel {
            Channel::Hot(hot) => hot as u64,
            Channel::Numbered(number) => HOT_CHANNELS.len() as u64 + number,
        };
        let mut rng = self.rng(u64::MAX - number);
        text.push_str("https://www.nexmark.com/");
        for _ in 0..3 {
            letters(&mut rng, 5, text);
            text.push('/');
        }
        text.push_str("item.htm?query=1");
        if let Channel::Numbered(number) = bid.channel
            && rng.below(10) > 0
        {
            // Writing to a string cannot fail.
            let _ = write!(text, "&channel_id={}", channel_id(number));
        }
    }
}

impl Bid {
    pub(super) fn channel(&self, text: &mut String) {
        match self.channel {
            Channel::Hot(hot) => text.push_str(HOT_CHANNELS[hot]),
            Channel::Numbered(number) => {
                // Writing to a string cannot fail.
                let _ = write!(text, "channel-{number}");
            }
        }
    }

    pub(super) fn extra(&self, text: &mut String) {
        let mut rng = self.texts.clone();
        text.push_str(&padding(&mut rng, 32, BID_BYTES));
    }
}

/// A number without resemblance to the channel's.
fn channel_id(number: u64) -> u32 {
    (number as u32).reverse_bits() & 0x7fff_ffff
}

/// Number of the latest person when `event` happens.
fn last_person(event: u64) -> u64 {
    event / EVENTS_IN_TURN * PERSONS_IN_TURN
}

/// Number of the latest auction when `event` happens; 0 before the first.
fn last_auction(event: u64) -> u64 {
    let (turn, at) = (event / EVENTS_IN_TURN, event % EVENTS_IN_TURN);
    let begun = at.saturating_sub(PERSONS_IN_TURN - 1).min(AUCTIONS_IN_TURN);
    (turn * AUCTIONS_IN_TURN + begun).saturating_sub(1)
}

/// One of the persons who act now, or of the next ones.
fn any_person(rng: &mut Rng, event: u64) -> u64 {
    let persons = last_person(event) + 1;
    let active = persons.min(ACTIVE_PERSONS);
    persons - active + rng.below(active + LEAD)
}

/// One of the auctions in flight, or of the next ones.
fn any_auction(rng: &mut Rng, event: u64) -> u64 {
    let last = last_auction(event);
    let first = last.saturating_sub(AUCTIONS_IN_FLIGHT);
    first + rng.below(last - first + 1 + LEAD)
}

/// A price in cents: its logarithm is evenly spread from 1 to a million.
fn price(rng: &mut Rng) -> i64 {
    let even = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (10_f64.powf(even * 6.0) * 100.0).round() as i64
}

fn choose(rng: &mut Rng, words: &[&'static str]) -> &'static str {
    words[rng.below(words.len() as u64) as usize]
}

/// Exactly `count` lower-case letters.
fn letters(rng: &mut Rng, count: usize, text: &mut String) {
    // 13 letters per draw: 26^13 is below 2^64.
    let mut random = 0;
    for index in 0..count {
        if index % 13 == 0 {
            random = rng.next_u64();
        }
        text.push(char::from(b'a' + (random % 26) as u8));
        random /= 26;
    }
}

/// From 3 to `most` letters, with occasional spaces.
fn some_letters(rng: &mut Rng, most: u64, text: &mut String) {
    let count = 3 + rng.below(most - 2);
    let mut random = 0;
    for index in 0..count {
        if index % 12 == 0 {
            random = rng.next_u64();
        }
        let letter = (random % 27) as u8;
        text.push(if letter == 26 && index > 0 { ' ' } else { char::from(b'a' + letter % 26) });
        random /= 27;
    }
}

/// Letters that extend an event from `used` bytes to about `desired`, within a fifth.
fn padding(rng: &mut Rng, used: usize, desired: usize) -> String {
    let mut text = String::new();
    if used < desired {
        let missing = desired - used;
        let least = missing - missing / 5;
        let count = least + rng.below(2 * (missing / 5) as u64 + 1) as usize;
        letters(rng, count, &mut text);
    }
    text
}
