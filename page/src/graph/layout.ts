// From a plan to places on the screen. Pure; the layout itself is given, so that it is loaded with the screen that needs it.
import type { Plan } from "../docs";

export type Direction = "LR" | "TB";

export interface GraphNode {
  id: number;
  name: string;
  folded: string;
}

export interface GraphEdge {
  key: string;
  from: number;
  to: number;
  kind: string;
  side: boolean;
  /** It is of another plan than the graph. */
  isGone?: boolean;
}

export interface Graph<N extends GraphNode = GraphNode> {
  nodes: N[];
  edges: GraphEdge[];
}

export interface Point {
  x: number;
  y: number;
}

export type PlacedEdge = GraphEdge & { path: string; label: Point };

export interface Placed<N extends GraphNode = GraphNode> {
  direction: Direction;
  width: number;
  height: number;
  nodes: (N & Point)[];
  edges: PlacedEdge[];
}

export const NODE = { width: 236, height: 118 };
export const LABEL = { width: 66, height: 32 };
const MARGIN = 20;

/** The first words of an operator: `Partial aggregate, window tumble ...` is `Partial aggregate`. */
export function shortOperator(operator: string): string {
  const first = /^[A-Za-z]+(?: (?:aggregate|join|table|over|window|by keys))?/.exec(operator.trim());
  return first === null ? operator.slice(0, 16) : first[0];
}

/** What a stage does, in one line: `source → filter → aggregate`. */
export function folded(stage: { source: string | null; operators: string[]; sink: string | null }): string {
  const parts = [...(stage.source === null ? [] : ["source"]), ...stage.operators.map(shortOperator), ...(stage.sink === null ? [] : ["sink"])];
  return parts.filter((part, index) => part !== parts[index - 1]).join(" → ");
}

export function graphOf(plan: Plan): Graph {
  const nodes = plan.stages.map((stage) => ({ id: stage.stage, name: stage.name, folded: folded(stage) }));
  const known = new Set(nodes.map((node) => node.id));
  const edges = plan.exchanges
    .filter((exchange) => known.has(exchange.from) && known.has(exchange.to))
    .map((exchange, index) => ({ key: String(index), from: exchange.from, to: exchange.to, kind: exchange.kind, side: exchange.static_side_of !== null }));
  return { nodes, edges };
}

/** Lays out a graph. The answer depends on the graph and the direction only. */
export type Layout = (graph: Graph, direction: Direction) => { nodes: Map<number, Point>; edges: Map<string, Point[]>; labels: Map<string, Point> };

export function placed<N extends GraphNode>(graph: Graph<N>, direction: Direction, layout: Layout): Placed<N> {
  const found = layout(graph, direction);
  const corners = graph.nodes.map((node) => {
    const centre = found.nodes.get(node.id) ?? { x: 0, y: 0 };
    return { ...node, x: Math.round(centre.x - NODE.width / 2), y: Math.round(centre.y - NODE.height / 2) };
  });
  const bends = [...found.edges.values()].flat();
  // Edges may run outside of all nodes.
  const left = Math.min(0, ...corners.map((node) => node.x), ...bends.map((point) => point.x)) - MARGIN;
  const top = Math.min(0, ...corners.map((node) => node.y), ...bends.map((point) => point.y)) - MARGIN;
  const move = (point: Point): Point => ({ x: Math.round(point.x - left), y: Math.round(point.y - top) });
  const nodes = corners.map((node) => ({ ...node, ...move(node) }));
  const edges = graph.edges.map((edge) => {
    const points = (found.edges.get(edge.key) ?? []).map(move);
    const middle = points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 };
    const label = found.labels.get(edge.key);
    return { ...edge, path: pathOf(points), label: label === undefined ? middle : move(label) };
  });
  const right = Math.max(0, ...nodes.map((node) => node.x + NODE.width), ...bends.map((point) => point.x - left));
  const bottom = Math.max(0, ...nodes.map((node) => node.y + NODE.height), ...bends.map((point) => point.y - top));
  return { direction, nodes, edges, width: Math.round(right + MARGIN), height: Math.round(bottom + MARGIN) };
}

/** A smooth line that begins and ends at the ends and bends near the points between. */
export function pathOf(points: Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  const last = rest.at(-1);
  if (last === undefined) return `M${first.x} ${first.y}`;
  const bends = rest.slice(0, -1);
  const curves = bends.map((bend, index) => {
    const next = bends[index + 1];
    const end = next === undefined ? last : { x: (bend.x + next.x) / 2, y: (bend.y + next.y) / 2 };
    return `Q${bend.x} ${bend.y} ${end.x} ${end.y}`;
  });
  return `M${first.x} ${first.y}${bends.length === 0 ? `L${last.x} ${last.y}` : curves.join("")}`;
}

/** The nearest node in the direction of an arrow key; null if there is none. */
export function neighbour(nodes: readonly (GraphNode & Point)[], from: number, key: string): number | null {
  const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const start = nodes.find((node) => node.id === from);
  if (direction === undefined || start === undefined) return null;
  const [dx = 0, dy = 0] = direction;
  let best: { id: number; cost: number } | null = null;
  for (const node of nodes) {
    const [x, y] = [node.x - start.x, node.y - start.y];
    const ahead = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (node.id === from || ahead <= 0) continue;
    const cost = ahead + 3 * aside;
    if (best === null || cost < best.cost) best = { id: node.id, cost };
  }
  return best?.id ?? null;
}

/** The edges that the chain from the sink to the cause goes along, by their keys. */
export function chainEdges(edges: readonly GraphEdge[], chain: readonly (number | null)[]): Set<string> {
  const stages = chain.filter((stage): stage is number => stage !== null);
  const found = new Set<string>();
  for (let index = 1; index < stages.length; index += 1) {
    // The chain goes against the stream.
    for (const edge of edges) if (edge.from === stages[index] && edge.to === stages[index - 1]) found.add(edge.key);
  }
  return found;
}
