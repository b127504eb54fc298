import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, shortened } from "../src/editor/difference";
import { draftsOf, withDraft } from "../src/editor/drafts";
import { EXAMPLES } from "../src/editor/examples";
import { Latest } from "../src/editor/latest";
import { markOf, offsetOf } from "../src/editor/places";
import { changesOf, KEPT, Results } from "../src/editor/results";

test("a line and a column are an offset in UTF-16 units", () => {
  assert.equal(offsetOf("ab\ncd", 2, 2), 4);
  assert.equal(offsetOf("😀 x", 1, 3), 3);
  assert.equal(offsetOf("ab", 3, 1), null);
  assert.equal(offsetOf("ab\ncd", 1, 99), 2);
});

test("an error is marked at its place, which may be only in its words", () => {
  const sql = "SELECT a\nFROM nothing";
  const mark = markOf(sql, { error: "there is no table", line: 2, column: 6, length: 7, remedy: "declare it" });
  assert.deepEqual(mark && [sql.slice(mark.from, mark.to), mark.remedy], ["nothing", "declare it"]);
  const told = markOf(sql, { error: "line 2, column 6: there is no table", place: null });
  assert.equal(told && sql.slice(told.from, told.to), "nothing");
  assert.equal(markOf(sql, { error: "the disk is full" }), null);
  const end = markOf("SELECT", { error: "unexpected end", line: 1, column: 7 });
  assert.deepEqual(end && [end.from, end.to], [5, 6]);
  assert.deepEqual(markOf("", { error: "nothing", line: 1, column: 1 })?.to, 0);
});

test("an older answer never overwrites a newer one", async () => {
  const waiting = new Map<string, (answer: string) => void>();
  const taken: string[] = [];
  const latest = new Latest<string, string>(
    (input) => new Promise((answer) => waiting.set(input, answer)),
    (output) => taken.push(output),
    () => taken.push("failed"),
  );
  latest.now("first");
  latest.now("second");
  waiting.get("second")?.("2");
  await Promise.resolve();
  waiting.get("first")?.("1");
  await new Promise((go) => setTimeout(go, 5));
  assert.deepEqual(taken, ["2"]);
  latest.now("third");
  latest.stop();
  waiting.get("third")?.("3");
  await new Promise((go) => setTimeout(go, 5));
  assert.deepEqual(taken, ["2"]);
});

test("a question is asked once typing has stopped", async () => {
  const asked: string[] = [];
  const latest = new Latest<string, null>(async (input) => (asked.push(input), null), () => undefined, () => undefined);
  latest.after(20, "a");
  latest.after(20, "ab");
  await new Promise((go) => setTimeout(go, 60));
  assert.deepEqual(asked, ["ab"]);
});

const columns = [{ name: "name", type: "STRING", numeric: false }, { name: "n", type: "BIGINT", numeric: true }];
const change = (weight: number, name: string, n: string) => ({ weight, values: [name, n] });
const table = (results: Results) => results.rows().map((row) => row.values.join(" "));

test("the newest values are where the old ones were", () => {
  const results = new Results(columns);
  results.apply([change(1, "a", "1"), change(1, "b", "1")]);
  results.apply([change(-1, "b", "1"), change(-1, "a", "1"), change(1, "a", "2"), change(1, "b", "5")]);
  assert.deepEqual(table(results), ["a 2", "b 5"]);
  results.apply([change(-1, "a", "2"), change(1, "c", "1")]);
  assert.deepEqual(table(results), ["c 1", "b 5"]);
  assert.ok(results.isUpdated);
  assert.equal(results.logged().length, 8);
});

test("equal rows are there as often as they came, and a row that was taken back early does not come", () => {
  const results = new Results(columns);
  results.apply([change(1, "a", "1"), change(1, "a", "1"), change(-1, "z", "9")]);
  results.apply([change(-1, "a", "1"), change(1, "z", "9")]);
  assert.deepEqual(table(results), ["a 1"]);
});

test("a million rows leave as many as are kept", () => {
  const results = new Results(columns);
  const start = performance.now();
  for (let at = 0; at < 1000; at += 1) {
    results.apply(Array.from({ length: 1000 }, (_, row) => change(1, `k${at * 1000 + row}`, "1")));
  }
  assert.equal(results.rows().length, KEPT);
  assert.equal(results.logged().length, KEPT);
  assert.equal(results.changes, 1_000_000);
  assert.equal(results.rows().at(-1)?.values[0], "k999999");
  assert.ok(performance.now() - start < 20_000);
});

test("what is not a row of a preview is left out", () => {
  assert.deepEqual(changesOf([{ weight: -1, values: [null, 4] }, {}, 7, null]), [{ weight: -1, values: [null, "4"] }]);
  assert.deepEqual(changesOf({}), []);
});

test("a difference has the lines of both texts in order", () => {
  const [a, b] = ["1\n2\n3\n4\n5", "1\n2\nx\n4\ny\n5"];
  const lines = difference(a, b);
  assert.equal(lines.filter((line) => line.kind !== "added").map((line) => line.text).join("\n"), a);
  assert.equal(lines.filter((line) => line.kind !== "removed").map((line) => line.text).join("\n"), b);
  assert.deepEqual(lines.filter((line) => line.kind !== "same").map((line) => line.kind[0] + line.text), ["r3", "ax", "ay"]);
});

test("a difference of any texts gives both back", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 300; round += 1) {
    const text = () => Array.from({ length: random(12) }, () => String(random(4))).join("\n");
    const [a, b] = [text(), text()];
    const lines = difference(a, b);
    assert.equal(lines.filter((line) => line.kind !== "added").map((line) => line.text).join("\n"), a);
    assert.equal(lines.filter((line) => line.kind !== "removed").map((line) => line.text).join("\n"), b);
  }
  const large = (word: string) => Array.from({ length: 20_000 }, (_, at) => `${word} ${at}`).join("\n");
  assert.equal(difference(large("a"), large("b")).length, 40_000);
});

test("equal lines far from a difference are left out", () => {
  const before = Array.from({ length: 30 }, (_, at) => `line ${at}`).join("\n");
  const lines = shortened(difference(before, before.replace("line 15", "other")));
  assert.deepEqual([lines[0], lines.at(-1), lines.length], [12, 11, 10]);
});

test("drafts are read from what another release has stored", () => {
  assert.deepEqual(draftsOf({}), []);
  const read = draftsOf([{ name: "a", text: "1" }, { name: "", text: "2" }, { name: "b", text: 3 }, null]);
  assert.deepEqual(read, [{ name: "a", text: "1", at_ms: 0 }]);
  const saved = withDraft(read, { name: "a", text: "2", at_ms: 5 });
  assert.deepEqual(saved.map((draft) => draft.text), ["2"]);
});

test("the examples have names and texts of their own", () => {
  assert.equal(new Set(EXAMPLES.map((example) => example.name)).size, 3);
  for (const { text } of EXAMPLES) assert.match(text, /'connector' = 'datagen'[^]*SELECT/);
});
