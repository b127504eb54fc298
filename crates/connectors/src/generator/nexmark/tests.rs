use std::collections::BTreeSet;

use arrow::array::{Array, AsArray};

use super::*;
use crate::generator::load::Timeline;

fn events() -> Events {
    Events::new(7, Shape::default(), Timeline::Scheduled { start_ms: 1_700_000_000_000, rate: 10_000 })
}

#[test]
fn rows_and_events_correspond() {
    for kind in [EventKind::Person, EventKind::Auction, EventKind::Bid] {
        for row in 0..200 {
            let event = kind.event_of_row(row, &Shape::default());
            assert_eq!(kind.rows_within(event, &Shape::default()), row, "{kind:?}");
            assert_eq!(kind.rows_within(event + 1, &Shape::default()), row + 1, "{kind:?}");
        }
    }
    let all =
        [EventKind::Person, EventKind::Auction, EventKind::Bid].map(|kind| kind.rows_within(5000, &Shape::default()));
    assert_eq!(all, [100, 300, 4600]);
}

#[test]
fn persons_and_auctions_are_numbered_without_gaps() {
    let shape = Shape::default();
    for row in 0..300 {
        assert_eq!(events().person_id(EventKind::Person.event_of_row(row, &shape)), 1000 + row as i64);
        assert_eq!(events().auction_id(EventKind::Auction.event_of_row(row, &shape)), 1000 + row as i64);
    }
}

#[test]
fn references_lead_to_what_exists_or_soon_will() {
    let shape = Shape::default();
    for row in 0..20_000 {
        let event = EventKind::Bid.event_of_row(row, &shape);
        let bid = events().bid(event);
        let (auctions, persons) =
            (EventKind::Auction.rows_within(event, &shape) as i64, EventKind::Person.rows_within(event, &shape) as i64);
        assert!((1000..1000 + auctions + 11).contains(&bid.auction), "{}", bid.auction);
        assert!((1000..1000 + persons + 11).contains(&bid.bidder), "{}", bid.bidder);
        assert!((100..=100_000_000).contains(&bid.price()));
    }
    for row in 0..2000 {
        let event = EventKind::Auction.event_of_row(row, &shape);
        let auction = events().auction(event);
        let persons = EventKind::Person.rows_within(event, &shape) as i64;
        assert!((1000..1000 + persons + 11).contains(&auction.seller), "{}", auction.seller);
        assert!((10..15).contains(&auction.category));
        assert!(auction.expires_ms > events().time_ms(event) && auction.reserve > auction.initial_bid);
    }
}

#[test]
fn half_of_the_bids_are_for_hot_auctions() {
    let shape = Shape::default();
    let bids = (20_000..40_000).map(|row| events().bid(EventKind::Bid.event_of_row(row, &shape)));
    let hot = bids.filter(|bid| bid.auction % 100 == 0).count();
    assert!((9_500..10_900).contains(&hot), "{hot} of 20000");
}

#[test]
fn a_channel_has_one_address() {
    let shape = Shape::default();
    let mut addresses = BTreeSet::new();
    let mut channels = BTreeSet::new();
    for row in 0..5000 {
        let bid = events().bid(EventKind::Bid.event_of_row(row, &shape));
        let (mut channel, mut url) = (String::new(), String::new());
        bid.channel.name(&mut channel);
        events().url(bid.channel, &mut url);
        assert!(url.starts_with("https://www.nexmark.com/"), "{url}");
        channels.insert(channel.clone());
        addresses.insert((channel, url));
    }
    assert_eq!(channels.len(), addresses.len());
}

#[test]
fn proportions_are_kept() {
    let shape = Shape { persons: 3, auctions: 2, bids: 5, ..Shape::default() };
    let events = Events::new(7, shape.clone(), Timeline::At(0));
    for row in 0..200 {
        assert_eq!(events.person_id(EventKind::Person.event_of_row(row, &shape)), 1000 + row as i64);
        assert_eq!(events.auction_id(EventKind::Auction.event_of_row(row, &shape)), 1000 + row as i64);
    }
    let all = [EventKind::Person, EventKind::Auction, EventKind::Bid].map(|kind| kind.rows_within(1000, &shape));
    assert_eq!(all, [300, 200, 500]);
}

fn table(options: &[(&str, &str)]) -> Result<options::NexmarkTable> {
    read(&ConnectorSpec::new("nexmark", options))
}

#[test]
fn published_options_are_taken() {
    let published = [("first-event.rate", "500"), ("next-event.rate", "500"), ("events.num", "70")];
    let load = table(&published).unwrap().load;
    assert_eq!((load.rate, load.time_rate, load.events), (None, 500, Some(70)));
    let times = load.timeline(0, 0);
    assert_eq!(times.time_ms(1000) - times.time_ms(0), 2000);
    assert_eq!(table(&[("events.num", "0")]).unwrap().load.events, None);
    let paced = table(&[("max-emit-speed", "false")]).unwrap().load;
    assert_eq!((paced.rate, paced.start_ms), (Some(10_000), None));
    let other = table(&[("bid.hot-ratio.auctions", "100"), ("bid.avg-size", "1kb")]).unwrap();
    assert_eq!((other.shape.hot_auctions, other.shape.bid_bytes), (100, 1024));
    // A checkpoint of a table with other events is not resumed.
    assert_ne!(other.load.identity(), table(&[]).unwrap().load.identity());
    for (wrong, expected) in [
        ([("events.num", "5"), ("number-of-rows", "5")], "options of both kinds"),
        ([("first-event.rate", "5"), ("next-event.rate", "6")], "'next-event.rate' is 6"),
        ([("bid.hot-ratio.bidders", "0"), ("seed", "1")], "'bid.hot-ratio.bidders' is 0"),
        ([("bid.avg-size", "1 gb"), ("seed", "1")], "'bid.avg-size' is 1073741824 bytes"),
    ] {
        let error = table(&wrong).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn fields_that_are_read_alone_are_those_of_the_rows() {
    let (all, shape) = (all_kinds_fields(), Shape::default());
    let (numbers, texts): (Vec<u64>, _) = ((100..400).collect(), Texts::new());
    let columns = |wanted: &[usize]| all_kinds_columns(&events(), &texts, &shape, &numbers, wanted).unwrap();
    let wanted: Vec<usize> = (0..all.fields().len()).collect();
    let together = columns(&wanted);
    for (index, field) in all.fields().iter().enumerate() {
        assert_eq!(&columns(&[index])[0], &together[index], "{field}");
        if let Some((row, name)) = field.name().split_once('.') {
            let rows = together[all.index_of(row).unwrap()].as_struct();
            assert_eq!(rows.column_by_name(name).unwrap(), &together[index], "{field}");
            assert_eq!(rows.logical_nulls(), together[index].logical_nulls(), "{field}");
        }
    }
}
