// The graph of a plan that a change would bring: its stages, and those of the running plan that would be gone. Pure.
import type { Fate, Plan } from "../docs";
import { byGravity, markOf } from "../job/fates";
import { folded, type Graph, type GraphEdge, type GraphNode, graphOf } from "./layout";

export interface ForeseenNode extends GraphNode {
  /** Its number in the new plan, or in the running one if it would be gone. */
  stage: number;
  isGone: boolean;
  /** What becomes of its parts, what matters most first. */
  changes: Fate[];
  /** The class of its colour: that of the first part. */
  kind: string;
}

/** Stages that would be gone have ids behind those of the new plan. */
const GONE = 1_000_000;

export function foreseen(next: Plan, present: Plan | null, changes: readonly Fate[]): Graph<ForeseenNode> {
  const graph = graphOf(next);
  // Where a stage of the running plan goes on, by the parts that are kept.
  const goesOn = new Map<number, number>();
  for (const { stage, next_stage: to } of changes) if (stage !== null && to !== null && !goesOn.has(stage)) goesOn.set(stage, to);
  const idOf = (change: Fate): number | null => {
    const { stage, next_stage: to } = change;
    return to ?? (stage === null ? null : (goesOn.get(stage) ?? GONE + stage));
  };
  const of = new Map<number, Fate[]>();
  for (const change of changes) {
    const id = idOf(change);
    if (id !== null) of.set(id, [...(of.get(id) ?? []), change]);
  }
  const nodeOf = (node: GraphNode, stage: number, isGone: boolean): ForeseenNode => {
    const parts = byGravity(of.get(node.id) ?? []);
    return { ...node, stage, isGone, changes: parts, kind: parts[0] === undefined ? "" : markOf(parts[0]).kind };
  };
  const nodes = graph.nodes.map((node) => nodeOf(node, node.id, false));
  const gone = (present?.stages ?? []).filter((stage) => of.has(GONE + stage.stage));
  const ghosts = gone.map((stage) => nodeOf({ id: GONE + stage.stage, name: stage.name, folded: folded(stage) }, stage.stage, true));
  return { nodes: [...nodes, ...ghosts], edges: [...graph.edges, ...edgesOf(present, new Set(gone.map((stage) => stage.stage)), goesOn)] };
}

/** Edges to and from stages that would be gone, past stages of the running plan that have no part. */
function edgesOf(present: Plan | null, gone: Set<number>, goesOn: Map<number, number>): GraphEdge[] {
  const exchanges = present?.exchanges ?? [];
  const idOf = (stage: number): number | null => (gone.has(stage) ? GONE + stage : (goesOn.get(stage) ?? null));
  const ends = (stage: number, along: "from" | "to"): number[] => {
    const id = idOf(stage);
    if (id !== null) return [id];
    const back = along === "from" ? "to" : "from";
    return exchanges.filter((exchange) => exchange[back] === stage).flatMap((exchange) => ends(exchange[along], along));
  };
  const found = new Map<string, GraphEdge>();
  for (const { from, to, kind, static_side_of: side } of exchanges) {
    if (!gone.has(from) && !gone.has(to)) continue;
    for (const begin of ends(from, "from")) {
      for (const end of ends(to, "to")) {
        const key = `gone ${begin} ${end}`;
        if (begin !== end) found.set(key, { key, from: begin, to: end, kind, side: side !== null, isGone: true });
      }
    }
  }
  return [...found.values()];
}
