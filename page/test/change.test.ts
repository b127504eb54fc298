import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fate, Plan } from "../src/docs";
import { allowed, needsOf, needsOfRefusal, NO_FORMS, orderOf } from "../src/editor/change/order";
import { Session } from "../src/editor/change/session";
import { allSettings, changedSettings, rowsOf } from "../src/editor/settings";
import { foreseen } from "../src/graph/foreseen";
import { byGravity, counted, markOf, placesOf, sizeOf, sizesOf } from "../src/job/fates";
import { live } from "../src/job/model";

test("an order has only what is changed", () => {
  const rows = rowsOf({ parallelism: "2", "state-bytes": "1 gb" });
  assert.equal(orderOf("a", "a", { ...NO_FORMS, rows }), null);
  assert.deepEqual(orderOf("a", "b", { ...NO_FORMS, rows }), { sql: "b" });
  const changed = [{ ...rows[0]!, removed: true }, { ...rows[1]!, value: "2 gb" }, { name: " x ", value: "1", was: null, removed: false }, { name: "", value: "1", was: null, removed: false }];
  assert.deepEqual(changedSettings(changed), { parallelism: null, "state-bytes": "2 gb", x: "1" });
  assert.deepEqual(allSettings(changed), { "state-bytes": "2 gb", x: "1" });
  const tasks = (stage: number | null, number: string) => orderOf("a", "a", { ...NO_FORMS, tasks: { stage, number } });
  assert.deepEqual(tasks(1, "4"), { parallelism: 4, stage: 1 });
  assert.deepEqual(tasks(null, "4"), { parallelism: 4 });
  for (const wrong of ["", "0", "-1", "1.5", "x"]) assert.equal(tasks(1, wrong), null);
});

test("what has to be allowed follows from the dry run or the refusal", () => {
  const late = { fate: "kept", what: "source a: positions in 2 partitions; its event time has changed, and event time has passed 2026-01-02T00:00: its rows before that are late" };
  assert.deepEqual(needsOf([{ fate: "kept", what: "sink a" }]), { lostState: false, late: false });
  assert.deepEqual(needsOf([{ fate: "lost", what: "state of aggregate" }, late]), { lostState: true, late: true });
  assert.deepEqual(needsOfRefusal("the job would lose x", "or allow the loss (--allow-lost-state)"), { lostState: true, late: false });
  assert.deepEqual(needsOfRefusal("rows would be late: x", null), { lostState: false, late: true });
  assert.deepEqual(allowed({ sql: "b" }, { ...NO_FORMS, allowLostState: true }), { sql: "b", allow_lost_state: true });
});

function part(fate: string, more: Partial<Fate> = {}): Fate {
  return { fate, what: "", part: "state", number: 0, stage: null, next_stage: null, how: null, bytes: null, loaded_bytes: null, loads: [], ...more };
}

test("what is lost comes first, and what moves before what stays", () => {
  const fates = ["kept", "new", "lost", "other", "gone", "kept"].map((fate) => part(fate));
  assert.deepEqual(byGravity(fates).map((line) => line.fate), ["lost", "gone", "new", "kept", "kept", "other"]);
  assert.equal(counted(fates), "1 lost, 1 gone, 1 new, 2 kept, 1 other");
  const moved = ["in-place", "handed-over", "loaded", "reopened", null].map((how) => part("kept", { how }));
  assert.equal(counted(moved), "1 loaded elsewhere, 1 opened again, 1 handed over, 2 kept");
});

test("what moves has a size and places", () => {
  const loads = [{ worker: "one", tasks: 2, key_groups: 64, bytes: 1024 }, { worker: "two", tasks: 1, key_groups: 1, bytes: 0 }];
  const loaded = part("kept", { how: "loaded", bytes: 4096, loaded_bytes: 1024, loads });
  const plain = (text: string) => text.replaceAll("\u00a0", " ");
  assert.deepEqual([sizeOf(loaded), sizesOf(loaded)].map(plain), ["1.00 KB", "1.00 KB of 4.00 KB"]);
  assert.equal(plain(sizesOf({ ...loaded, loaded_bytes: 4096 })), "4.00 KB");
  assert.equal(plain(sizesOf(part("lost", { bytes: 1024 }))), "1.00 KB");
  assert.deepEqual([sizeOf(part("kept", { how: "reopened" })), sizeOf({ ...loaded, loaded_bytes: null })], ["", ""]);
  assert.equal(plain(placesOf(loaded)), "2 tasks at one, 64 key groups; 1 task at two, 1 key group");
  assert.deepEqual([markOf(loaded).word, markOf(part("gone")).word], ["loaded elsewhere", "gone"]);
});

function plan(names: string[], exchanges: [number, number][]): Plan {
  const stage = (name: string, number: number) => ({ stage: number, name, parallelism: 1, source: null, operators: [], sink: null, window_step_ms: null, window_offset_ms: null, sql: { source: [], operators: [], sink: [] } });
  return { version: 1, scheduling: null, text: "", stages: names.map(stage), exchanges: exchanges.map(([from, to]) => ({ from, to, kind: "hash", static_side_of: null })) };
}

test("stages that would be gone are drawn beside those of the new plan", () => {
  // source 0 -> filter 1 -> count 2 and sum 3; afterwards source 0 -> sum 1, max 2.
  const present = plan(["source", "filter", "count", "sum"], [[0, 1], [1, 2], [1, 3]]);
  const next = plan(["source", "sum", "max"], [[0, 1], [0, 2]]);
  const changes = [
    part("kept", { part: "source", stage: 0, next_stage: 0, how: "in-place" }),
    part("lost", { stage: 2 }),
    part("kept", { stage: 3, next_stage: 1, how: "loaded" }),
    part("new", { next_stage: 2 }),
    part("gone", { part: "sink", stage: 2 }),
    part("gone", { part: "sink", stage: 3 }),
  ];
  const { nodes, edges } = foreseen(next, present, changes);
  assert.deepEqual(nodes.map(({ name, kind, isGone, changes: of }) => [name, kind, isGone, of.length]), [
    ["source", "kept", false, 1],
    // The stage goes on, so what it loses is shown there.
    ["sum", "gone", false, 2],
    ["max", "new", false, 1],
    ["count", "lost", true, 2],
  ]);
  const ghost = nodes.at(-1)!.id;
  assert.deepEqual(edges.filter((edge) => edge.isGone).map((edge) => [edge.from, edge.to]), [[0, ghost]], "past the filter, which has no part");
  assert.equal(foreseen(next, null, changes).nodes.length, 3);
});

interface Answers {
  version: number;
  sql: string;
  settings: Record<string, string>;
  reconfigure: (order: Record<string, unknown>) => [number, unknown];
}

/** A server that has one job. */
function serve(answers: Answers): void {
  globalThis.fetch = (async (path: string, init: { body?: string }) => {
    const order = init.body === undefined ? {} : (JSON.parse(init.body) as Record<string, unknown>);
    const isChange = path.endsWith("/reconfigure");
    const [status, body] = isChange ? answers.reconfigure(order) : [200, path.endsWith("/sql") ? { version: answers.version, sql: answers.sql, settings: answers.settings, options: [] } : { changing: false, step: null, changes: [] }];
    return new Response(JSON.stringify(body), { status });
  }) as unknown as typeof fetch;
}

const done = (version: number) => ({ version, unchanged: false, took_ms: 5, copied_bytes: 0, changes: [], ahead: null });

function running(answers: Answers, version: number): void {
  answers.version = version;
  live.doc.value = { number: version, at_ms: 0, job: { state: "running", ready: true, started_at_ms: 0, plan_version: version }, stages: {} };
}

test("the text of somebody else is not overwritten without a word", async () => {
  const answers: Answers = { version: 1, sql: "one", settings: { parallelism: "1" }, reconfigure: () => [200, done(9)] };
  serve(answers);
  running(answers, 1);
  const session = new Session("job");
  await session.load();
  assert.equal(session.text.value, "one");
  session.text.value = "mine";
  answers.sql = "theirs";
  running(answers, 2);
  await session.load();
  assert.deepEqual([session.text.value, session.other.value?.sql, session.base.value?.sql], ["mine", "theirs", "one"]);
  session.keepMine();
  assert.deepEqual([session.text.value, session.other.value, session.base.value?.sql], ["mine", null, "theirs"]);
  answers.sql = "theirs again";
  running(answers, 3);
  await session.load();
  session.takeNew();
  assert.deepEqual([session.text.value, session.order.value], ["theirs again", null]);
  assert.deepEqual([...session.texts.value], [[1, "one"], [2, "theirs"], [3, "theirs again"]]);
});

test("options that others change come in beside those that the user changes", async () => {
  const answers: Answers = { version: 1, sql: "one", settings: { parallelism: "1", x: "1" }, reconfigure: () => [200, done(9)] };
  serve(answers);
  running(answers, 1);
  const session = new Session("job");
  await session.load();
  session.text.value = "mine";
  answers.settings = { parallelism: "4", x: "1" };
  running(answers, 2);
  await session.load();
  assert.deepEqual([session.other.value, session.order.value], [null, { sql: "mine" }]);
  assert.ok(session.said.value.includes("parallelism"));
  session.setForms({ rows: session.forms.value.rows.map((row) => (row.name === "x" ? { ...row, value: "mine" } : row)) });
  answers.settings = { parallelism: "4", x: "theirs" };
  running(answers, 3);
  await session.load();
  assert.notEqual(session.other.value, null);
  session.keepMine();
  assert.deepEqual(session.order.value, { sql: "mine", settings: { x: "mine" } });
});

test("a change that is made becomes the running text, and one that is refused leaves what was typed", async () => {
  const answers: Answers = { version: 1, sql: "one", settings: {}, reconfigure: () => [409, { error: "the job would lose state", place: null, remedy: "allow the loss (--allow-lost-state)" }] };
  serve(answers);
  running(answers, 1);
  const session = new Session("job");
  await session.load();
  session.text.value = "two";
  await session.apply();
  assert.deepEqual([session.outcome.value?.kind, session.text.value, session.needs.value.lostState], ["failed", "two", true]);
  const sent: Record<string, unknown>[] = [];
  answers.reconfigure = (order) => (sent.push(order), Object.assign(answers, { sql: "two", version: 2 }), [200, done(2)]);
  session.setForms({ allowLostState: true });
  await session.apply();
  assert.deepEqual(sent, [{ sql: "two", allow_lost_state: true, if_version: 1 }]);
  assert.deepEqual([session.outcome.value?.kind, session.base.value?.sql, session.order.value], ["done", "two", null]);
  assert.deepEqual([...session.texts.value], [[1, "one"], [2, "two"]]);
});

test("a change for another version than runs gives the two choices", async () => {
  const answers: Answers = { version: 1, sql: "one", settings: {}, reconfigure: () => [409, { error: "the job runs version 2 of its plan, and the change is for version 1: somebody else has changed it", place: null, remedy: null }] };
  serve(answers);
  running(answers, 1);
  const session = new Session("job");
  await session.load();
  session.text.value = "mine";
  // The live document does not have it yet.
  Object.assign(answers, { sql: "theirs", version: 2 });
  await session.apply();
  assert.deepEqual([session.outcome.value, session.text.value, session.other.value?.sql], [null, "mine", "theirs"]);
  session.keepMine();
  const sent: Record<string, unknown>[] = [];
  answers.reconfigure = (order) => (sent.push(order), Object.assign(answers, { sql: "mine", version: 3 }), [200, done(3)]);
  await session.apply();
  assert.deepEqual(sent, [{ sql: "mine", if_version: 2 }]);
});
