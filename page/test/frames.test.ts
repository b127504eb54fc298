import assert from "node:assert/strict";
import { test } from "node:test";
import type { Frame } from "../src/docs";
import { appended, columns, frameAt, lagOf, mergeFrames, nextMark, runs, stepped } from "../src/job/frames";
import { inOrder, stageTimes } from "../src/job/path";

const frame = (at_ms: number, rows = 0, seconds = 1): Frame => ({ at_ms, seconds, state: "running", rows_read_per_second: rows, rows_written_per_second: 0, lag_ms: null, result_p99_ms: null, busiest: null, verdict: "well" });
const times = (frames: Frame[]): number[] => frames.map((one) => one.at_ms);

test("frames are appended in order and merged by their time", () => {
  const list = [frame(1000), frame(2000)];
  assert.deepEqual(times(appended(list, frame(3000))), [1000, 2000, 3000]);
  assert.equal(appended(list, frame(1500)), list);
  assert.deepEqual(times(mergeFrames([frame(1000), frame(2000), frame(4000)], [frame(2000), frame(3000)])), [1000, 2000, 3000, 4000]);
  assert.deepEqual(times(mergeFrames(list, [])), [1000, 2000]);
});

test("a moment belongs to the frame before it", () => {
  const list = [frame(1000), frame(2000), frame(3000)];
  assert.deepEqual([500, 1000, 2500, 9000].map((at) => frameAt(list, at)), [-1, 0, 1, 2]);
  assert.deepEqual([stepped(list, 2500, -1), stepped(list, 1000, -1), stepped(list, 3000, 5)], [1000, 1000, 3000]);
});

test("marks are found before and after a moment", () => {
  const marks = [{ at_ms: 1, kind: "restart", text: "" }, { at_ms: 5, kind: "change", text: "" }];
  assert.equal(nextMark(marks, 1, 1)?.at_ms, 5);
  assert.equal(nextMark(marks, 5, -1)?.at_ms, 1);
  assert.equal(nextMark(marks, 5, 1), null);
});

test("columns keep the peaks, and a coarse frame covers its time", () => {
  const list = columns([frame(1000, 5), frame(2700, 9), frame(9000, 3, 3)], 0, 10_000, 10, (one) => one.rows_read_per_second);
  assert.deepEqual(list.map((column) => column?.value ?? null), [5, 9, 9, null, null, null, 3, 3, 3, 3]);
  assert.deepEqual(runs(list, () => "a"), [[0, 3, "a"], [6, 10, "a"]]);
  assert.deepEqual(columns([frame(1)], 5, 5, 2, () => 1), [null, null]);
});

test("event time is behind by the clock of the server", () => {
  assert.equal(lagOf(1000, 4000), 3000);
  assert.equal(lagOf("end", 4000), null);
  assert.equal(lagOf(null, 4000), null);
});

test("a stage adds what the slowest stage before it had not", () => {
  const p99 = (stage: number): number | null => [2, 10, 25, null][stage] ?? null;
  const found = stageTimes([0, 1, 2, 3], [{ from: 0, to: 2 }, { from: 1, to: 2 }, { from: 2, to: 3 }], p99);
  assert.deepEqual(found.map((one) => [one.stage, one.until_ms, one.added_ms]), [[0, 2, 2], [1, 10, 10], [2, 25, 15]]);
  assert.deepEqual(inOrder([0, 1, 2], [{ from: 2, to: 0 }, { from: 0, to: 1 }]), [2, 0, 1]);
});
