// The layout by dagre. Loaded with the graph.
import { Graph, layout as dagreLayout } from "@dagrejs/dagre";
import { LABEL, NODE, type Direction, type Graph as PlanGraph, type Layout, type Point } from "./layout";

export const layout: Layout = (graph: PlanGraph, direction: Direction) => {
  const laid = new Graph({ multigraph: true });
  laid.setGraph({ rankdir: direction, nodesep: 22, ranksep: direction === "LR" ? 48 : 30, edgesep: 16, marginx: 0, marginy: 0 });
  laid.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) laid.setNode(String(node.id), { width: NODE.width, height: NODE.height });
  for (const edge of graph.edges) laid.setEdge(String(edge.from), String(edge.to), { width: LABEL.width, height: LABEL.height, labelpos: "c" }, edge.key);
  dagreLayout(laid);
  const nodes = new Map<number, Point>(graph.nodes.map((node) => [node.id, point(laid.node(String(node.id)))]));
  const found = graph.edges.map((edge) => [edge.key, laid.edge({ v: String(edge.from), w: String(edge.to), name: edge.key })] as const);
  return {
    nodes,
    edges: new Map(found.map(([key, edge]) => [key, (edge?.points ?? []).map(point)])),
    labels: new Map(found.flatMap(([key, edge]) => (edge === undefined || edge.x === undefined ? [] : [[key, point(edge)] as const]))),
  };
};

function point(of: { x?: number; y?: number } | undefined): Point {
  return { x: Math.round(of?.x ?? 0), y: Math.round(of?.y ?? 0) };
}
