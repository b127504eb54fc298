import assert from "node:assert/strict";
import { test } from "node:test";
import { mergePatch } from "../src/patch";

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;

// The cases of RFC 7396, appendix A.
const CASES: [string, string, string][] = [
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', "{}"],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['["a","b"]', '["c","d"]', '["c","d"]'],
  ['{"a":"b"}', '["c"]', '["c"]'],
  ['{"a":"foo"}', "null", "null"],
  ['{"a":"foo"}', '"bar"', '"bar"'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ["[1,2]", '{"a":"b","c":null}', '{"a":"b"}'],
  ["{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
];

test("merge patches are those of RFC 7396", () => {
  for (const [target, patch, result] of CASES) assert.deepEqual(plain(mergePatch(JSON.parse(target), JSON.parse(patch))), JSON.parse(result), `${target} + ${patch}`);
});

test("what a patch does not name stays the same object, and the target is not changed", () => {
  const target = { stages: { "0": { busy: 1 }, "1": { busy: 2 } }, at_ms: 1 };
  const next = mergePatch(target, { stages: { "1": { busy: 3 } }, at_ms: 2 }) as typeof target;
  assert.equal(next.stages["0"], target.stages["0"]);
  assert.equal(target.stages["1"].busy, 2);
  assert.equal(next.stages["1"].busy, 3);
});

test("a name of the prototype is only a name", () => {
  const next = mergePatch({ jobs: {} }, JSON.parse('{"jobs":{"__proto__":{"state":"running"},"constructor":{"state":"failed"}}}')) as { jobs: Record<string, { state: string }> };
  assert.deepEqual(Object.keys(next.jobs).sort(), ["__proto__", "constructor"]);
  assert.equal(({} as Record<string, unknown>)["state"], undefined);
  assert.equal((mergePatch({ jobs: {} }, { at_ms: 1 }) as { jobs: Record<string, unknown> }).jobs["toString"] === undefined, false);
});
