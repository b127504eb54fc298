//! The options of a table: the options of all generators, or those of the generator that the Nexmark project
//! publishes for Flink.

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Error, Result};

use super::events::Shape;
use super::tables::EventKind;
use crate::Options;
use crate::generator::load::{DEFAULT_START_MS, Load};

/// The published generator's default of events per second.
const PUBLISHED_RATE: u64 = 10_000;
/// Largest size of an event.
const MOST_BYTES: u64 = 1 << 20;

pub(super) struct NexmarkTable {
    pub(super) load: Load,
    pub(super) shape: Shape,
    /// The kind of event if the table has only one.
    pub(super) kind: Option<EventKind>,
}

/// The table that the options describe.
pub(super) fn read(spec: &ConnectorSpec) -> Result<NexmarkTable> {
    let mut options = Options::new(spec);
    let mut load = Load::read(&mut options)?;
    let kinds = [("person", EventKind::Person), ("auction", EventKind::Auction), ("bid", EventKind::Bid)];
    let kind = options.choice("table", &kinds)?;
    pace(&mut options, &mut load)?;
    let shape = shape(&mut options)?;
    options.finish()?;
    if shape != Shape::default() {
        load.variant = format!("{} {shape:?}", load.variant);
    }
    Ok(NexmarkTable { load, shape, kind })
}

/// Applies the published options for numbers and times. Unless 'max-emit-speed' is 'false', such a table
/// generates events as fast as the query takes them. Their event times follow the given rate in any case.
fn pace(options: &mut Options<'_>, load: &mut Load) -> Result<()> {
    let own = [options.string("rows-per-second"), options.string("number-of-rows")].iter().any(Option::is_some);
    let events: Option<u64> = options.number("events.num")?;
    let first: Option<u64> = options.number("first-event.rate")?;
    let next: Option<u64> = options.number("next-event.rate")?;
    let fast = options.boolean("max-emit-speed")?;
    if events.is_none() && first.is_none() && next.is_none() && fast.is_none() {
        return Ok(());
    }
    if own {
        return Err(Error::user(
            "the table has options of both kinds: 'rows-per-second' or 'number-of-rows', and those of the published generator",
        )
        .remedy("give 'first-event.rate', 'next-event.rate', 'max-emit-speed' and 'events.num', or none of them"));
    }
    if let (Some(first), Some(next)) = (first, next)
        && first != next
    {
        return Err(Error::user(format!("option 'next-event.rate' is {next}, but 'first-event.rate' is {first}"))
            .remedy("give the same rate twice: the rate does not change"));
    }
    let rate = first.or(next).unwrap_or(PUBLISHED_RATE);
    if rate == 0 {
        return Err(Error::user("option 'first-event.rate' is 0").remedy("give at least 1"));
    }
    load.events = events.filter(|events| *events > 0);
    if fast.unwrap_or(true) {
        load.rate = None;
        load.time_rate = rate;
        load.start_ms = load.start_ms.or(Some(DEFAULT_START_MS));
        load.variant = format!(" first-event.rate {rate}");
    } else {
        load.rate = Some(rate);
    }
    Ok(())
}

fn shape(options: &mut Options<'_>) -> Result<Shape> {
    let usual = Shape::default();
    let mut number = |name, usual| Ok::<u64, Error>(options.number(name)?.unwrap_or(usual));
    let mut shape = Shape {
        persons: number("person.proportion", usual.persons)?,
        auctions: number("auction.proportion", usual.auctions)?,
        bids: number("bid.proportion", usual.bids)?,
        hot_auctions: number("bid.hot-ratio.auctions", usual.hot_auctions)?,
        hot_bidders: number("bid.hot-ratio.bidders", usual.hot_bidders)?,
        hot_sellers: number("auction.hot-ratio.sellers", usual.hot_sellers)?,
        ..usual
    };
    let mut bytes = |name, usual: usize| match options.bytes(name)? {
        Some(size) if size > MOST_BYTES => {
            Err(Error::user(format!("option '{name}' is {size} bytes")).remedy("give at most 1 mb"))
        }
        size => Ok(size.map_or(usual, |size| size as usize)),
    };
    shape.person_bytes = bytes("person.avg-size", shape.person_bytes)?;
    shape.auction_bytes = bytes("auction.avg-size", shape.auction_bytes)?;
    shape.bid_bytes = bytes("bid.avg-size", shape.bid_bytes)?;
    let parts = [shape.persons, shape.auctions, shape.bids];
    if parts.iter().sum::<u64>() == 0 || parts.iter().any(|part| *part > 1_000_000) {
        return Err(Error::user("the proportions of persons, auctions and bids are all 0, or one is above 1000000")
            .remedy("give 'person.proportion', 'auction.proportion', 'bid.proportion' as 1, 3, 46 or so"));
    }
    for (name, ratio) in [
        ("bid.hot-ratio.auctions", shape.hot_auctions),
        ("bid.hot-ratio.bidders", shape.hot_bidders),
        ("auction.hot-ratio.sellers", shape.hot_sellers),
    ] {
        if ratio == 0 {
            return Err(Error::user(format!("option '{name}' is 0")).remedy("give 1 if no event is hot, or more"));
        }
    }
    Ok(shape)
}
