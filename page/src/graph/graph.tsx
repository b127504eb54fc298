// The graph of a plan. Laid out once for each version of the plan; figures move, nodes do not.
import { type Signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Plan } from "../docs";
import { chain } from "./chain";
import { layout } from "./dagre";
import { EdgeLabel, EdgeLine } from "./edge";
import { chainEdges, type Direction, graphOf, neighbour, NODE, placed } from "./layout";
import { Node } from "./node";
import { Sight, SightContext } from "./seen";

const ZOOMS = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5];
const NARROW_PX = 720;

function fitting(space: number, width: number): number {
  const fits = ZOOMS.filter((zoom) => zoom <= 1 && width * zoom <= space);
  // Below 80 % texts are hard to read: then the graph scrolls.
  return Math.max(0.8, fits.at(-1) ?? 0);
}

export default function GraphView({ plan, onOpen }: { plan: Plan; onOpen: (stage: number) => void }) {
  const pane = useRef<HTMLDivElement>(null);
  const direction = useSignal<Direction>(innerWidth < NARROW_PX ? "TB" : "LR");
  const graph = useMemo(() => placed(graphOf(plan), direction.value, layout), [plan, direction.value]);
  const zoom = useSignal(1);
  const focused = useSignal(plan.stages[0]?.stage ?? 0);
  const chained = useComputed(() => chainEdges(graph.edges, chain.value.links.map((link) => link.stage ?? null)));
  const fit = (): void => {
    zoom.value = fitting((pane.current?.clientWidth ?? graph.width) - 2, graph.width);
  };
  const sight = useMemo(() => new Sight(), []);
  useEffect(() => {
    if (pane.current !== null) sight.begin(pane.current);
    return () => sight.end();
  }, [sight]);
  /** A large graph begins at the cause, or at its first stage, and not in an empty corner. */
  const show = (): void => {
    const node = graph.nodes.find((one) => one.id === (chain.peek().cause ?? plan.stages[0]?.stage));
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
    document.getElementById(`stage-${id}`)?.focus();
  };
  const onKey = (event: KeyboardEvent, id: number): void => {
    const next = neighbour(graph.nodes, id, event.key);
    if (next === null) return;
    event.preventDefault();
    focus(next);
  };
  const first = plan.stages.some((stage) => stage.stage === focused.value) ? focused.value : plan.stages[0]?.stage;
  return (
    <section class="graph" aria-label="Stages of the job">
      <Tools zoom={zoom} onFit={fit} onFocus={focus} />
      <div class="graph-pane" ref={pane}>
        <div class="graph-size" style={{ width: `${Math.ceil(graph.width * zoom.value)}px`, height: `${Math.ceil(graph.height * zoom.value)}px` }}>
          <div class="graph-canvas" style={{ width: `${graph.width}px`, height: `${graph.height}px`, transform: `scale(${zoom.value})` }}>
            <svg class="edges" width={graph.width} height={graph.height} aria-hidden="true">
              <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5L8 4L0 7.5z" /></marker></defs>
              {graph.edges.map((edge) => <EdgeLine key={edge.key} edge={edge} chained={chained} />)}
            </svg>
            <SightContext.Provider value={sight}>
              {graph.edges.map((edge) => <EdgeLabel key={edge.key} edge={edge} />)}
              {graph.nodes.map((node) => <Node key={node.id} node={node} isFirst={node.id === first} onOpen={(id) => { focused.value = id; onOpen(id); }} onKey={onKey} />)}
            </SightContext.Provider>
          </div>
        </div>
      </div>
    </section>
  );
}

function Tools({ zoom, onFit, onFocus }: { zoom: Signal<number>; onFit: () => void; onFocus: (stage: number) => void }) {
  const cause = useComputed(() => chain.value.cause).value;
  const step = (by: 1 | -1) => (): void => {
    const next = by === 1 ? ZOOMS.find((one) => one > zoom.value) : ZOOMS.findLast((one) => one < zoom.value);
    if (next !== undefined) zoom.value = next;
  };
  return (
    <div class="graph-tools" role="group" aria-label="Size of the graph">
      <button type="button" class="small" aria-label="Smaller" onClick={step(-1)}>−</button>
      <span class="zoom">{Math.round(zoom.value * 100)} %</span>
      <button type="button" class="small" aria-label="Larger" onClick={step(1)}>+</button>
      <button type="button" class="small" onClick={onFit}>Fit</button>
      {cause !== null && <button type="button" class="small" onClick={() => onFocus(cause)}>To the cause</button>}
      <Legend />
    </div>
  );
}

function Legend() {
  const sample = (name: string, text: string) => (
    <span class="legend-item"><svg viewBox="0 0 14 8" aria-hidden="true"><rect class="share-none" width="14" height="8" /><rect class={`share-${name}`} width="14" height={name === "idle" ? 2 : 8} y={name === "idle" ? 3 : 0} /></svg>{text}</span>
  );
  return <span class="legend">{sample("busy", "busy: processing")}{sample("blocked", "blocked: waits for room downstream")}{sample("idle", "idle: waits for input")}</span>;
}
