"""A job that reads from a real Kafka broker, which is stopped and comes back."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from page.outside import Broker
from page.serving import EVENTS, NOWHERE, Server, Visitor


def _topic(broker: Broker) -> str:
    return f"""CREATE TABLE clicks (ad_id STRING, event_time BIGINT) WITH ('connector' = 'kafka', 'topic' = 'clicks', 'format' = 'json',
      'properties.bootstrap.servers' = '{broker.servers}', 'connection.timeout' = '300 s', 'sink.delivery-guarantee' = 'at-least-once');
    """


def test_a_broker_that_is_away_is_the_reason_until_it_is_back(broker: Broker, visitor: Visitor, fresh: Callable[..., Server]) -> None:
    server = fresh()
    server.submit("filled", EVENTS + _topic(broker) + "INSERT INTO clicks SELECT ad_id, event_time FROM events;")
    first = visitor.open("#/", server)
    row = first.get_by_role("row")
    filled = row.filter(has=first.get_by_role("link", name="filled"))
    expect(filled.locator("[data-label=Written]")).to_have_text(re.compile(r"[1-9].*/s"))
    # The topic is there now.
    server.submit("read", _topic(broker) + NOWHERE + "INSERT INTO nowhere SELECT ad_id, event_time FROM clicks;")
    line = row.filter(has=first.get_by_role("link", name="read", exact=True))
    expect(line.locator("[data-label=Read]")).to_have_text(re.compile(r"[1-9].*/s"))
    expect(line.locator(".sentence")).to_contain_text("All is well")
    why = visitor.open("#/job/read/why", server)
    expect(why.locator(".why-text")).to_contain_text("All is well")

    broker.close()
    reason = f"'source clicks' reads no rows: topic clicks: no Kafka broker answers at {broker.servers}"
    expect(line.locator(".sentence")).to_contain_text(reason)
    # The job that writes says the same of its table.
    written = f"'source events' writes no rows: topic clicks: no Kafka broker answers at {broker.servers}"
    expect(filled.locator(".sentence")).to_contain_text(written)
    expect(first.locator(".summary")).to_contain_text("2 need attention")
    expect(why.locator(".why-text")).to_contain_text(reason)
    cause = why.locator(".chain .is-cause")
    expect(cause).to_contain_text("table clicks")
    expect(cause).to_contain_text("gives no rows")
    assert server.api("GET", "/api/v1/jobs/read/why")["verdict"] == "no-input"

    broker.start()
    expect(line.locator(".sentence")).to_contain_text("All is well")
    expect(filled.locator(".sentence")).to_contain_text("All is well")
    expect(line.locator("[data-label=Read]")).to_have_text(re.compile(r"[1-9].*/s"))
    expect(line.locator("[data-label=Restarts]")).to_have_text("0")
    expect(why.locator(".why-text")).to_contain_text("All is well")
    why.get_by_role("link", name="Notices and changes").click()
    told = f"the Kafka brokers at {broker.servers} answer again"
    expect(why.locator(".events").first.locator("li").filter(has_text=told)).to_have_count(1)
