"""The queries of Nexmark in DuckDB's words, over views `person`, `auction` and `bid`."""

from __future__ import annotations

#: The windows of a bid: five of 10 s, which begin every 2 s.
HOPS = """SELECT auction, time_bucket(INTERVAL '2 seconds', "dateTime", TIMESTAMP '1970-01-01') - to_seconds(2 * k) AS starts
  FROM bid, (SELECT unnest([0, 1, 2, 3, 4]) AS k)"""
#: Of a time, its window of 10 s.
TEN = """time_bucket(INTERVAL '10 seconds', "dateTime", TIMESTAMP '1970-01-01')"""
DAY = """strftime("dateTime", '%Y-%m-%d')"""
LOW, MIDDLE, HIGH = "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"


def ranks(what: str) -> str:
    """The same count of all bids and of those with some price."""
    return f"{what}, " + ", ".join(f"{what} FILTER (WHERE {of})" for of in (LOW, MIDDLE, HIGH))


COUNTS = ", ".join(ranks(what) for what in ("count(*)", "count(DISTINCT bidder)", "count(DISTINCT auction)"))
WINNING = """SELECT A.*, B.auction, B.bidder, B.price, B."dateTime" AS bid_dateTime, B.extra AS bid_extra
  FROM auction A JOIN bid B ON A.id = B.auction AND B."dateTime" BETWEEN A."dateTime" AND A.expires"""
CHANNEL_ID = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
#: Rows that are equal in ORDER BY are in the order of their columns.
EQUAL = 'auction, bidder, price, channel, url, "dateTime", extra'

QUERIES = {
    0: 'SELECT auction, bidder, price, "dateTime", extra FROM bid',
    1: 'SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)), "dateTime", extra FROM bid',
    2: "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    3: """SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
      WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    4: f"""SELECT category, sum(final) // count(*) FROM (
      SELECT category, id, max(price) AS final FROM ({WINNING}) GROUP BY id, category) GROUP BY category""",
    5: f"""WITH counts AS (SELECT auction, starts, count(*) AS num FROM ({HOPS}) GROUP BY auction, starts)
      SELECT auction, num FROM counts c WHERE num >= (SELECT max(num) FROM counts m WHERE m.starts = c.starts)""",
    7: f"""SELECT B.auction, B.bidder, B.price, B."dateTime", B.extra
      FROM bid B JOIN (SELECT max(price) AS best, {TEN} + INTERVAL '10 seconds' AS ends FROM bid GROUP BY ends) M
      ON B.price = M.best AND B."dateTime" BETWEEN M.ends - INTERVAL '10 seconds' AND M.ends""",
    8: f"""SELECT P.id, P.name, P.starts
      FROM (SELECT DISTINCT id, name, {TEN} AS starts FROM person) P
      JOIN (SELECT DISTINCT seller, {TEN} AS starts FROM auction) A ON P.id = A.seller AND P.starts = A.starts""",
    9: f"""SELECT * FROM ({WINNING}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bid_dateTime) <= 1""",
    10: f"""SELECT auction, bidder, price, "dateTime", extra, {DAY}, strftime("dateTime", '%H:%M') FROM bid""",
    11: """SELECT bidder, count(*), min("dateTime"), max("dateTime") + INTERVAL '10 seconds' FROM (
        SELECT *, sum(opens) OVER (PARTITION BY bidder ORDER BY "dateTime") AS session FROM (
          SELECT *, CAST(coalesce("dateTime" - lag("dateTime") OVER (PARTITION BY bidder ORDER BY "dateTime")
            > INTERVAL '10 seconds', true) AS INT) AS opens FROM bid))
      GROUP BY bidder, session""",
    12: "SELECT bidder, count(*) FROM bid GROUP BY bidder",
    13: """SELECT auction, bidder, price, "dateTime", 'value ' || auction % 10000 FROM bid WHERE auction % 10000 < 1200""",
    14: """SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)),
        CASE WHEN hour("dateTime") BETWEEN 8 AND 18 THEN 'dayTime'
          WHEN hour("dateTime") <= 6 OR hour("dateTime") >= 20 THEN 'nightTime' ELSE 'otherTime' END,
        "dateTime", extra, len(extra) - len(replace(extra, 'c', ''))
      FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    15: f"SELECT {DAY} AS day, {COUNTS} FROM bid GROUP BY day",
    16: f"""SELECT channel, {DAY} AS day, max(strftime("dateTime", '%H:%M')), {COUNTS} FROM bid GROUP BY channel, day""",
    17: f"""SELECT auction, {DAY} AS day, {ranks("count(*)")}, min(price), max(price), sum(price) // count(price), sum(price)
      FROM bid GROUP BY auction, day""",
    18: f"""SELECT {EQUAL} FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY "dateTime" DESC) <= 1""",
    19: f"""SELECT {EQUAL}, row_number() OVER (PARTITION BY auction ORDER BY price DESC, {EQUAL}) AS n FROM bid QUALIFY n <= 10""",
    20: """SELECT auction, bidder, price, channel, url, B."dateTime", B.extra,
        itemName, description, initialBid, reserve, A."dateTime", expires, seller, category, A.extra
      FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    21: f"""SELECT * FROM (SELECT auction, bidder, price, channel, CASE lower(channel)
        WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE {CHANNEL_ID} END AS id FROM bid) WHERE id IS NOT NULL""",
    22: """SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6)
      FROM bid""",
    23: """SELECT bidder, price, channel, url, B.extra, P.id, name, emailAddress, creditCard, city, state, P.extra,
        itemName, description, initialBid, reserve, A."dateTime", expires, seller, category, A.extra
      FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder""",
}
