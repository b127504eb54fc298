import assert from "node:assert/strict";
import { test } from "node:test";
import { href, parseRoute } from "../src/route";
import { EventParser } from "../src/sse";

test("events come whole, however they arrive", () => {
  const text = "id: 7\nevent: whole\ndata: {\"a\":1}\n\n:\n\nid: 8\r\nevent: difference\r\ndata: {\ndata: }\n\n";
  for (const size of [1, 3, 1000]) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(events, [{ id: "7", event: "whole", data: '{"a":1}' }, { id: "8", event: "difference", data: "{\n}" }]);
    assert.equal(parser.comments, 1);
  }
});

test("addresses go there and back", () => {
  const address = href(["job", "a/b ü", "flow"], { stage: 2, at: null });
  assert.equal(address, "#/job/a%2Fb%20%C3%BC/flow?stage=2");
  const { parts, query } = parseRoute(address);
  assert.deepEqual(parts, ["job", "a/b ü", "flow"]);
  assert.equal(query.get("stage"), "2");
  assert.deepEqual(parseRoute("#/job/%E0%A4%A/flow").parts, ["job", "%E0%A4%A", "flow"]);
});
