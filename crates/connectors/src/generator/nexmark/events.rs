//! The content of each event: a function of the seed and the event's number.

use std::fmt::Write;

use anabranch_model::Rng;

use super::names::{CITIES, FIRST_NAMES, HOT_CHANNELS, LAST_NAMES, STATES};
use crate::generator::fraction;
use crate::generator::load::Timeline;

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
const HOT_CHANNEL_RATIO: u64 = 2;
const CHANNELS: u64 = 10_000;

/// The kinds of events, and how they refer to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// A turn of consecutive events begins with so many persons. Then come `auctions` auctions, and then
    /// `bids` bids.
    pub(super) persons: u64,
    pub(super) auctions: u64,
    pub(super) bids: u64,
    /// All but one of this number of bids are for a hot auction, and by a hot bidder.
    pub(super) hot_auctions: u64,
    pub(super) hot_bidders: u64,
    /// All but one of this number of auctions are of a hot seller.
    pub(super) hot_sellers: u64,
    /// Average sizes of events, reached by padding in `extra`.
    pub(super) person_bytes: usize,
    pub(super) auction_bytes: usize,
    pub(super) bid_bytes: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            persons: 1,
            auctions: 3,
            bids: 46,
            hot_auctions: 2,
            hot_bidders: 4,
            hot_sellers: 4,
            person_bytes: 200,
            auction_bytes: 500,
            bid_bytes: 100,
        }
    }
}

impl Shape {
    /// Number of events in a turn, which has each kind in its proportion.
    pub(super) fn turn(&self) -> u64 {
        self.persons + self.auctions + self.bids
    }

    /// Number of the latest person when `event` happens.
    fn last_person(&self, event: u64) -> u64 {
        let (turn, at) = (event / self.turn(), event % self.turn());
        turn * self.persons + at.min(self.persons.saturating_sub(1))
    }

    /// Number of the latest auction when `event` happens; 0 before the first.
    fn last_auction(&self, event: u64) -> u64 {
        let (turn, at) = (event / self.turn(), event % self.turn());
        let begun = (at + 1).saturating_sub(self.persons).min(self.auctions);
        (turn * self.auctions + begun).saturating_sub(1)
    }

    /// One of the persons who act now, or of the next ones.
    fn any_person(&self, rng: &mut Rng, event: u64) -> u64 {
        let persons = self.last_person(event) + 1;
        let active = persons.min(ACTIVE_PERSONS);
        persons - active + rng.below(active + LEAD)
    }

    /// One of the auctions in flight, or of the next ones.
    fn any_auction(&self, rng: &mut Rng, event: u64) -> u64 {
        let last = self.last_auction(event);
        let first = last.saturating_sub(AUCTIONS_IN_FLIGHT);
        first + rng.below(last - first + 1 + LEAD)
    }
}

/// The stream of events.
pub(super) struct Events {
    /// The seed of the random numbers of each event.
    origin: u64,
    shape: Shape,
    pub(super) timeline: Timeline,
}

/// A person's texts.
pub(super) struct Person {
    pub(super) name: String,
    pub(super) email: String,
    pub(super) credit_card: String,
    pub(super) city: &'static str,
    pub(super) state: &'static str,
    pub(super) extra: String,
}

/// An auction's numbers. Its texts are generated only if a query needs them.
pub(super) struct Auction {
    pub(super) initial_bid: i64,
    pub(super) reserve: i64,
    pub(super) expires_ms: i64,
    pub(super) seller: i64,
    pub(super) category: i64,
    texts: Rng,
}

pub(super) struct AuctionTexts {
    pub(super) item: String,
    pub(super) description: String,
    pub(super) extra: String,
}

/// Bids are most of the stream, so their costly values are generated only if a query needs them.
pub(super) struct Bid {
    pub(super) auction: i64,
    pub(super) bidder: i64,
    price: u64,
    pub(super) channel: Channel,
    texts: Rng,
}

/// The channel of a bid.
#[derive(Clone, Copy)]
pub(super) struct Channel(u64);

impl Events {
    pub(super) fn new(seed: u64, shape: Shape, timeline: Timeline) -> Self {
        Events { origin: Rng::new(seed).next_u64(), shape, timeline }
    }

    fn rng(&self, event: u64) -> Rng {
        Rng::new(self.origin.wrapping_add(event.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    pub(super) fn time_ms(&self, event: u64) -> i64 {
        self.timeline.time_ms(event)
    }

    pub(super) fn person_id(&self, event: u64) -> i64 {
        (FIRST_ID + self.shape.last_person(event)) as i64
    }

    pub(super) fn auction_id(&self, event: u64) -> i64 {
        (FIRST_ID + self.shape.last_auction(event)) as i64
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
        let mut extra = String::new();
        padding(&mut rng, used, self.shape.person_bytes, &mut extra);
        Person { name, email, credit_card, city, state, extra }
    }

    pub(super) fn auction(&self, event: u64) -> Auction {
        let (mut rng, shape) = (self.rng(event), &self.shape);
        let seller = if rng.below(shape.hot_sellers) > 0 {
            shape.last_person(event) / HOT_SPACING * HOT_SPACING
        } else {
            shape.any_person(&mut rng, event)
        };
        let category = FIRST_CATEGORY + rng.below(CATEGORIES);
        let initial_bid = price(rng.next_u64());
        let reserve = initial_bid + price(rng.next_u64());
        let time_ms = self.time_ms(event);
        // On average, `AUCTIONS_IN_FLIGHT` further auctions are created while this one is open.
        let future = self.time_ms(event + AUCTIONS_IN_FLIGHT * shape.turn() / shape.auctions.max(1));
        let length_ms = 1 + rng.below((2 * future.abs_diff(time_ms)).max(1)) as i64;
        Auction {
            initial_bid,
            reserve,
            expires_ms: time_ms + length_ms,
            seller: (FIRST_ID + seller) as i64,
            category: category as i64,
            texts: rng,
        }
    }

    pub(super) fn auction_texts(&self, auction: &Auction) -> AuctionTexts {
        let mut rng = auction.texts.clone();
        let (mut item, mut description, mut extra) = (String::new(), String::new(), String::new());
        some_letters(&mut rng, 20, &mut item);
        some_letters(&mut rng, 100, &mut description);
        padding(&mut rng, 8 * 7 + item.len() + description.len(), self.shape.auction_bytes, &mut extra);
        AuctionTexts { item, description, extra }
    }

    pub(super) fn bid(&self, event: u64) -> Bid {
        let (mut rng, shape) = (self.rng(event), &self.shape);
        let auction = if rng.below(shape.hot_auctions) > 0 {
            shape.last_auction(event) / HOT_SPACING * HOT_SPACING
        } else {
            shape.any_auction(&mut rng, event)
        };
        let bidder = if rng.below(shape.hot_bidders) > 0 {
            shape.last_person(event) / HOT_SPACING * HOT_SPACING + 1
        } else {
            shape.any_person(&mut rng, event)
        };
        let price = rng.next_u64();
        let hot = HOT_CHANNELS.len() as u64;
        let channel = if rng.below(HOT_CHANNEL_RATIO) > 0 { rng.below(hot) } else { hot + rng.below(CHANNELS) };
        Bid {
            auction: (FIRST_ID + auction) as i64,
            bidder: (FIRST_ID + bidder) as i64,
            price,
            channel: Channel(channel),
            texts: rng,
        }
    }

    pub(super) fn bid_extra(&self, bid: &Bid, text: &mut String) {
        padding(&mut bid.texts.clone(), 32, self.shape.bid_bytes, text);
    }

    /// The address of a channel: the same for all of its bids.
    pub(super) fn url(&self, channel: Channel, text: &mut String) {
        let mut rng = self.rng(u64::MAX - channel.0);
        text.push_str("https://www.nexmark.com/");
        for _ in 0..3 {
            letters(&mut rng, 5, text);
            text.push('/');
        }
        text.push_str("item.htm?query=1");
        if let Some(number) = channel.number()
            && rng.below(10) > 0
        {
            // Writing to a string cannot fail.
            let _ = write!(text, "&channel_id={}", channel_id(number));
        }
    }
}

impl Bid {
    pub(super) fn price(&self) -> i64 {
        price(self.price)
    }
}

impl Channel {
    /// All channels, in the order of [`Channel::index`].
    pub(super) fn all() -> impl Iterator<Item = Channel> {
        (0..HOT_CHANNELS.len() as u64 + CHANNELS).map(Channel)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// The number of a channel that is not hot.
    fn number(self) -> Option<u64> {
        self.0.checked_sub(HOT_CHANNELS.len() as u64)
    }

    pub(super) fn name(self, text: &mut String) {
        match self.number() {
            None => text.push_str(HOT_CHANNELS[self.0 as usize]),
            Some(number) => {
                // Writing to a string cannot fail.
                let _ = write!(text, "channel-{number}");
            }
        }
    }
}

/// A number without resemblance to the channel's.
fn channel_id(number: u64) -> u32 {
    (number as u32).reverse_bits() & 0x7fff_ffff
}

/// A price in cents from a random number: its logarithm is evenly spread from 1 to a million.
fn price(random: u64) -> i64 {
    (10_f64.powf(fraction(random) * 6.0) * 100.0).round() as i64
}

fn choose(rng: &mut Rng, words: &[&'static str]) -> &'static str {
    words[rng.below(words.len() as u64) as usize]
}

/// Two lower-case letters for each number below 26².
const PAIRS: [[u8; 2]; 676] = {
    let mut pairs = [[0; 2]; 676];
    let mut index = 0;
    while index < pairs.len() {
        pairs[index] = [b'a' + (index % 26) as u8, b'a' + (index / 26) as u8];
        index += 1;
    }
    pairs
};

/// Exactly `count` lower-case letters.
fn letters(rng: &mut Rng, mut count: usize, text: &mut String) {
    text.reserve(count);
    while count > 0 {
        // 13 letters per draw: 26^13 is below 2^64.
        let mut random = rng.next_u64();
        let mut drawn = [0_u8; 14];
        for pair in drawn.chunks_exact_mut(2) {
            pair.copy_from_slice(&PAIRS[(random % 676) as usize]);
            random /= 676;
        }
        let taken = count.min(13);
        text.extend(drawn[..taken].iter().map(|letter| char::from(*letter)));
        count -= taken;
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
fn padding(rng: &mut Rng, used: usize, desired: usize, text: &mut String) {
    if used < desired {
        let missing = desired - used;
        let least = missing - missing / 5;
        let count = least + rng.below(2 * (missing / 5) as u64 + 1) as usize;
        letters(rng, count, text);
    }
}
