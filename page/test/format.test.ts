import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, bytes, count, dateTime, duration, grouped, moment, percent, plural, rate, words } from "../src/format";

const plain = (text: string): string => text.replace(/\u00a0/g, " ");

test("counts and rates have three digits and a unit", () => {
  const cases: [number | null, string][] = [[0, "0"], [7, "7"], [7.25, "7.30"], [-0, "0"], [999, "999"], [1000, "1.00 k"], [9999.6, "10.0 k"], [1234, "1.23 k"], [12_345, "12.3 k"], [999_960, "1.00 M"], [1_234_567, "1.23 M"], [null, "–"]];
  for (const [value, text] of cases) assert.equal(plain(count(value)), text, String(value));
  assert.equal(plain(rate(12_345)), "12.3 k/s");
  assert.equal(rate(undefined), "–");
});

test("whole numbers are grouped", () => {
  assert.equal(grouped(1_234_567), "1,234,567");
  assert.equal(grouped(-1234), "-1,234");
  assert.equal(grouped(12), "12");
});

test("bytes are in steps of 1,024", () => {
  assert.equal(plain(bytes(512)), "512 B");
  assert.equal(plain(bytes(2048)), "2.00 KB");
  assert.equal(plain(bytes(23_000_000)), "21.9 MB");
});

test("durations have the units in which one thinks of them", () => {
  const cases: [number, string][] = [[0, "0 ms"], [0.123, "0.12 ms"], [9.4, "9.40 ms"], [850, "850 ms"], [3200, "3.20 s"], [59_960, "1 min"], [250_000, "4 min 10 s"], [7_500_000, "2 h 5 min"], [273_600_000, "3 d 4 h"], [-1500, "-1.50 s"]];
  for (const [value, text] of cases) assert.equal(plain(duration(value)), text, String(value));
});

test("times are of the clock that is given", () => {
  const at = Date.UTC(2026, 10, 30, 3, 12, 7);
  assert.equal(dateTime(at), "2026-11-30 03:12:07");
  assert.equal(moment(at, at + 3_600_000), "03:12:07");
  assert.equal(moment(at, at + 100_000_000), "2026-11-30 03:12:07");
  assert.equal(dateTime(8.7e15), "–");
  assert.equal(plain(ago(12_300)), "12 s ago");
  assert.equal(ago(-5), "now");
});

test("small words", () => {
  assert.equal(plain(percent(0.876)), "88 %");
  assert.equal(plain(plural(1, "task")), "1 task");
  assert.equal(plain(plural(1200, "task")), "1,200 tasks");
  assert.equal(words("held-back-by-alignment"), "held back by alignment");
});
