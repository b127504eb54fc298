use std::collections::BTreeSet;

use super::*;
use crate::generator::load::Timeline;

fn events() -> Events {
    Events { seed: 7, timeline: Timeline::Scheduled { start_ms: 1_700_000_000_000, rate: 10_000 } }
}

#[test]
fn rows_and_events_correspond() {
    for kind in [Kind::Person, Kind::Auction, Kind::Bid] {
        for row in 0..200 {
            let event = kind.event_of_row(row);
            assert_eq!(kind.rows_within(event), row, "{kind:?}");
            assert_eq!(kind.rows_within(event + 1), row + 1, "{kind:?}");
        }
    }
    let all = [Kind::Person, Kind::Auction, Kind::Bid].map(|kind| kind.rows_within(5000));
    assert_eq!(all, [100, 300, 4600]);
}

#[test]
fn persons_and_auctions_are_numbered_without_gaps() {
    for row in 0..300 {
        assert_eq!(events().person(Kind::Person.event_of_row(row)).id, 1000 + row as i64);
        assert_eq!(events().auction(Kind::Auction.event_of_row(row)).id, 1000 + row as i64);
    }
}

#[test]
fn references_lead_to_what_exists_or_soon_will() {
    for row in 0..20_000 {
        let event = Kind::Bid.event_of_row(row);
        let bid = events().bid(event);
        let (auctions, persons) = (Kind::Auction.rows_within(event) as i64, Kind::Person.rows_within(event) as i64);
        assert!((1000..1000 + auctions + 11).contains(&bid.auction), "{}", bid.auction);
        assert!((1000..1000 + persons + 11).contains(&bid.bidder), "{}", bid.bidder);
        assert!((100..=100_000_000).contains(&bid.price));
    }
    for row in 0..2000 {
        let event = Kind::Auction.event_of_row(row);
        let auction = events().auction(event);
        let persons = Kind::Person.rows_within(event) as i64;
        assert!((1000..1000 + persons + 11).contains(&auction.seller), "{}", auction.seller);
        assert!((10..15).contains(&auction.category));
        assert!(auction.expires_ms > auction.time_ms && auction.reserve > auction.initial_bid);
    }
}

#[test]
fn half_of_the_bids_are_for_hot_auctions() {
    let bids = (20_000..40_000).map(|row| events().bid(Kind::Bid.event_of_row(row)));
    let hot = bids.filter(|bid| bid.auction % 100 == 0).count();
    assert!((9_500..10_900).contains(&hot), "{hot} of 20000");
}

#[test]
fn a_channel_has_one_address() {
    let mut addresses = BTreeSet::new();
    let mut channels = BTreeSet::new();
    for row in 0..5000 {
        let bid = events().bid(Kind::Bid.event_of_row(row));
        let (mut channel, mut url) = (String::new(), String::new());
        bid.channel(&mut channel);
        events().url(&bid, &mut url);
        assert!(url.starts_with("https://www.nexmark.com/"), "{url}");
        channels.insert(channel.clone());
        addresses.insert((channel, url));
    }
    assert_eq!(channels.len(), addresses.len());
}
