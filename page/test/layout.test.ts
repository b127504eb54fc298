import assert from "node:assert/strict";
import { test } from "node:test";
import type { Plan } from "../src/docs";
import { layout } from "../src/graph/dagre";
import { chainEdges, folded, graphOf, neighbour, NODE, pathOf, placed, shortOperator } from "../src/graph/layout";

function plan(count: number, exchanges: [number, number][]): Plan {
  const stage = (number: number) => ({ stage: number, name: `stage ${number}`, parallelism: 1, source: null, operators: [], sink: null, window_step_ms: null, window_offset_ms: null, sql: { source: [], operators: [], sink: [] } });
  return { version: 1, scheduling: null, text: "", stages: Array.from({ length: count }, (_, number) => stage(number)), exchanges: exchanges.map(([from, to]) => ({ from, to, kind: "hash", static_side_of: null })) };
}

test("operators are folded to their first words", () => {
  assert.equal(shortOperator("filter (#1 = 'view'), keep [#0]"), "filter");
  assert.equal(shortOperator("Partial aggregate, window tumble 10000 ms"), "Partial aggregate");
  assert.equal(shortOperator("static join Inner on #0 = build #0"), "static join");
  assert.equal(folded({ source: "ads", operators: ["filter a", "filter b", "project [#0]"], sink: "out" }), "source → filter → project → sink");
});

test("no two stages overlap, and all is within the picture", () => {
  const edges: [number, number][] = Array.from({ length: 199 }, (_, index) => [Math.floor(index / 2), index + 1]);
  for (const direction of ["LR", "TB"] as const) {
    const { nodes, width, height, edges: lines } = placed(graphOf(plan(200, edges)), direction, layout);
    assert.equal(lines.length, 199);
    for (const a of nodes) {
      assert.ok(a.x >= 0 && a.y >= 0 && a.x + NODE.width <= width && a.y + NODE.height <= height);
      for (const b of nodes) if (a.id < b.id) assert.ok(Math.abs(a.x - b.x) >= NODE.width || Math.abs(a.y - b.y) >= NODE.height, `${a.id} ${b.id}`);
    }
  }
});

test("the same plan has the same places", () => {
  const graph = () => graphOf(plan(5, [[0, 2], [1, 2], [2, 3], [2, 4], [2, 4]]));
  assert.deepEqual(placed(graph(), "LR", layout), placed(graph(), "LR", layout));
});

test("an exchange of unknown stages is left out, two between the same stages are both drawn", () => {
  const { edges } = graphOf(plan(2, [[0, 1], [0, 1], [0, 7]]));
  assert.equal(edges.length, 2);
  const paths = placed({ ...graphOf(plan(2, [[0, 1], [0, 1]])) }, "LR", layout).edges.map((edge) => edge.path);
  assert.notEqual(paths[0], paths[1]);
});

test("paths begin and end at their ends", () => {
  assert.equal(pathOf([]), "");
  assert.equal(pathOf([{ x: 0, y: 0 }, { x: 4, y: 2 }]), "M0 0L4 2");
  assert.equal(pathOf([{ x: 0, y: 0 }, { x: 2, y: 2 }, { x: 6, y: 2 }, { x: 8, y: 0 }]), "M0 0Q2 2 4 2Q6 2 8 0");
});

test("arrow keys go to the nearest stage in their direction", () => {
  const node = (id: number, x: number, y: number) => ({ id, name: "", folded: "", x, y });
  const nodes = [node(0, 0, 0), node(1, 300, 20), node(2, 600, 0), node(3, 300, 200)];
  assert.equal(neighbour(nodes, 0, "ArrowRight"), 1);
  assert.equal(neighbour(nodes, 1, "ArrowDown"), 3);
  assert.equal(neighbour(nodes, 0, "ArrowLeft"), null);
  assert.equal(neighbour(nodes, 0, "Enter"), null);
});

test("the chain goes along edges against the stream", () => {
  const { edges } = graphOf(plan(4, [[0, 1], [1, 2], [3, 2]]));
  assert.deepEqual([...chainEdges(edges, [2, 1, 0, null])].sort(), ["0", "1"]);
});
