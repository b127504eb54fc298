// A graph in a pane: places, size, and arrow keys from stage to stage. What stages and exchanges look like is given.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { layout } from "./dagre";
import { type Direction, type Graph, type GraphNode, neighbour, NODE, placed, type PlacedEdge, type Point } from "./layout";
import { Sight, SightContext } from "./seen";

const ZOOMS = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5];
const NARROW_PX = 720;

function fitting(space: number, width: number): number {
  const fits = ZOOMS.filter((zoom) => zoom <= 1 && width * zoom <= space);
  // Below 80 % texts are hard to read: then the graph scrolls.
  return Math.max(0.8, fits.at(-1) ?? 0);
}

/** How a node takes part in the keys of the graph. */
export interface Keys {
  tabIndex: number;
  /** It was chosen. */
  onFocus: () => void;
  onKey: (event: KeyboardEvent) => void;
}

interface Props<N extends GraphNode> {
  graph: Graph<N>;
  label: string;
  /** What the ids of the nodes' elements begin with; their numbers follow. */
  prefix: string;
  /** The node that a large graph begins at. */
  begin: () => number | undefined;
  tools: (focus: (id: number) => void) => ComponentChildren;
  line: (edge: PlacedEdge) => ComponentChildren;
  title: (edge: PlacedEdge) => ComponentChildren;
  node: (node: N & Point, keys: Keys) => ComponentChildren;
}

export function GraphPane<N extends GraphNode>({ graph: given, label, prefix, begin, tools, line, title, node }: Props<N>) {
  const pane = useRef<HTMLDivElement>(null);
  const direction = useSignal<Direction>(innerWidth < NARROW_PX ? "TB" : "LR");
  const graph = useMemo(() => placed(given, direction.value, layout), [given, direction.value]);
  const zoom = useSignal(1);
  const focused = useSignal(graph.nodes[0]?.id ?? 0);
  const fit = (): void => {
    zoom.value = fitting((pane.current?.clientWidth ?? graph.width) - 2, graph.width);
  };
  const sight = useMemo(() => new Sight(), []);
  useEffect(() => {
    if (pane.current !== null) sight.begin(pane.current);
    return () => sight.end();
  }, [sight]);
  /** A large graph begins at a node, and not in an empty corner. */
  const show = (): void => {
    const first = begin();
    const node = graph.nodes.find((one) => one.id === first);
    const box = pane.current;
    if (node === undefined || box === null) return;
    box.scrollLeft = (node.x + NODE.width / 2) * zoom.peek() - box.clientWidth / 2;
    box.scrollTop = (node.y + NODE.height / 2) * zoom.peek() - box.clientHeight / 2;
  };
  useEffect(() => {
    fit();
    // After the size that follows from the zoom is drawn.
    requestAnimationFrame(show);
    const turn = (): void => {
      direction.value = innerWidth < NARROW_PX ? "TB" : "LR";
    };
    addEventListener("resize", turn);
    return () => removeEventListener("resize", turn);
  }, [graph]);
  const focus = (id: number): void => {
    focused.value = id;
    document.getElementById(`${prefix}${id}`)?.focus();
  };
  const first = graph.nodes.some((node) => node.id === focused.value) ? focused.value : graph.nodes[0]?.id;
  const keys = (id: number): Keys => ({
    tabIndex: id === first ? 0 : -1,
    onFocus: () => (focused.value = id),
    onKey: (event) => {
      const next = neighbour(graph.nodes, id, event.key);
      if (next === null) return;
      event.preventDefault();
      focus(next);
    },
  });
  const step = (by: 1 | -1) => (): void => {
    const next = by === 1 ? ZOOMS.find((one) => one > zoom.value) : ZOOMS.findLast((one) => one < zoom.value);
    if (next !== undefined) zoom.value = next;
  };
  return (
    <section class="graph" aria-label={label}>
      <div class="graph-tools" role="group" aria-label="Size of the graph">
        <button type="button" class="small" aria-label="Smaller" onClick={step(-1)}>−</button>
        <span class="zoom">{Math.round(zoom.value * 100)} %</span>
        <button type="button" class="small" aria-label="Larger" onClick={step(1)}>+</button>
        <button type="button" class="small" onClick={fit}>Fit</button>
        {tools(focus)}
      </div>
      <div class="graph-pane" ref={pane}>
        <div class="graph-size" style={{ width: `${Math.ceil(graph.width * zoom.value)}px`, height: `${Math.ceil(graph.height * zoom.value)}px` }}>
          <div class="graph-canvas" style={{ width: `${graph.width}px`, height: `${graph.height}px`, transform: `scale(${zoom.value})` }}>
            <svg class="edges" width={graph.width} height={graph.height} aria-hidden="true">
              <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5L8 4L0 7.5z" /></marker></defs>
              {graph.edges.map(line)}
            </svg>
            <SightContext.Provider value={sight}>
              {graph.edges.map(title)}
              {graph.nodes.map((one) => node(one, keys(one.id)))}
            </SightContext.Provider>
          </div>
        </div>
      </div>
    </section>
  );
}
