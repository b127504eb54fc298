import assert from "node:assert/strict";
import { test } from "node:test";
import type { Plan, TextRange } from "../src/docs";
import { excerpt, originsAt, originsOf, rangeOf, rangeText, spanOf } from "../src/editor/parts";

const SQL = "INSERT INTO r\nSELECT '😀', a\n  + 1 FROM t\nWHERE a > 2";

function range(from: [number, number], to: [number, number]): TextRange {
  return { from: { line: from[0], column: from[1] }, to: { line: to[0], column: to[1] } };
}

const SUM = range([2, 13], [3, 6]);
const CONDITION = range([4, 7], [4, 12]);

function plan(): Plan {
  const stage = {
    stage: 3, name: "source t", parallelism: 1, source: "t (kafka)", operators: ["filter #0 > 2", "project [#0 + 1]"], sink: "r (kafka)", window_step_ms: null, window_offset_ms: null,
    sql: { source: [range([3, 12], [3, 13])], operators: [[CONDITION], [SUM, range([2, 8], [3, 6])]], sink: [range([1, 13], [1, 14])] },
  };
  return { version: 1, scheduling: null, text: "", exchanges: [], stages: [stage] };
}

test("a part is counted in characters and cut in UTF-16 units", () => {
  assert.equal(excerpt(SQL, SUM), "a + 1");
  assert.equal(excerpt(SQL, range([2, 8], [2, 11])), "'😀'");
  assert.equal(spanOf(SQL, range([9, 1], [9, 2])), null);
  assert.equal(spanOf(SQL, range([4, 7], [4, 7])), null);
});

test("an address names a part", () => {
  assert.equal(rangeText(CONDITION), "4:7-4:12");
  assert.deepEqual(rangeOf("4:7-4:12"), CONDITION);
  for (const wrong of [null, "", "4:7", "4:7-4", "a:7-4:12", "-4:7-4:12"]) assert.equal(rangeOf(wrong), null);
});

test("a place has the operators that come from it, the closest first", () => {
  const origins = originsOf(plan(), SQL);
  assert.equal(origins.length, 5);
  const at = (part: string) => originsAt(origins, SQL.indexOf(part)).map((origin) => origin.operator);
  assert.deepEqual(at("> 2"), ["filter #0 > 2"]);
  assert.deepEqual(at("+ 1"), ["project [#0 + 1]"]);
  assert.deepEqual(at("'😀'"), ["project [#0 + 1]"]);
  assert.deepEqual(at("t\nWHERE"), ["t (kafka)"]);
  assert.deepEqual(at("INSERT"), []);
  assert.equal(originsAt(origins, SQL.indexOf("+ 1"))[0]?.from, SQL.indexOf("a\n"));
});
