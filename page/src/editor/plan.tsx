// A plan before it runs: its stages as a graph, and the text of EXPLAIN.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Plan, PlanStage } from "../docs";
import { plural } from "../format";
import { folded, graphOf, type Layout, NODE, placed } from "../graph/layout";
import { cut, shown } from "../shown";
import { Lines } from "../ui/text";

/** Stages that are drawn. Of more, the text has to do. */
const DRAWN = 60;
/** Characters that have room in a node. */
const ROOM = 30;

export function PlanView({ plan }: { plan: Plan }) {
  return (
    <>
      {plan.stages.length <= DRAWN && <PlanGraph plan={plan} />}
      <Lines of={plan.text} />
    </>
  );
}

/** The layout is loaded when a plan is first drawn. */
function PlanGraph({ plan }: { plan: Plan }) {
  const layout = useSignal<Layout | null>(null);
  useEffect(() => {
    // Without it, the text says the same.
    import("../graph/dagre").then((part) => (layout.value = part.layout), () => undefined);
  }, []);
  return layout.value === null ? null : <Drawn plan={plan} layout={layout.value} />;
}

function Drawn({ plan, layout }: { plan: Plan; layout: Layout }) {
  const direction = innerWidth < 720 ? "TB" : "LR";
  const graph = useMemo(() => placed(graphOf(plan), direction, layout), [plan, direction]);
  const stages = new Map(plan.stages.map((stage) => [stage.stage, stage]));
  const label = plan.stages.map((stage) => `stage ${stage.stage}: ${shown(stage.name)}, ${plural(stage.parallelism, "task")}`).join("; ");
  return (
    <div class="plan-graph" tabIndex={0} role="img" aria-label={`Graph of the plan: ${label}`}>
      <svg viewBox={`0 0 ${graph.width} ${graph.height}`} width={graph.width} height={graph.height} aria-hidden="true">
        <defs><marker id="plan-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5L8 4L0 7.5z" /></marker></defs>
        {graph.edges.map((edge) => (
          <g key={edge.key}>
            <path class={edge.side ? "edge side" : "edge"} d={edge.path} marker-end="url(#plan-arrow)" />
            <text class="dim kind" x={edge.label.x} y={edge.label.y} text-anchor="middle">{cut(shown(edge.kind), 16)}{edge.side ? ", static" : ""}</text>
          </g>
        ))}
        {graph.nodes.map((node) => {
          const stage = stages.get(node.id);
          return stage === undefined ? null : <Stage key={node.id} stage={stage} x={node.x} y={node.y} />;
        })}
      </svg>
    </div>
  );
}

function Stage({ stage, x, y }: { stage: PlanStage; x: number; y: number }) {
  const lines = [stage.source === null ? null : `reads ${stage.source}`, folded(stage), stage.sink === null ? null : `writes ${stage.sink}`];
  return (
    <g transform={`translate(${x} ${y})`}>
      <rect width={NODE.width} height={NODE.height} rx="6" />
      <text class="name" x="12" y="24">{stage.stage} {cut(shown(stage.name), ROOM - 8)}</text>
      <text class="dim" x="12" y="44">{plural(stage.parallelism, "task")}</text>
      {lines.filter((line) => line !== null).map((line, at) => <text key={at} x="12" y={66 + 18 * at}>{cut(shown(line), ROOM)}</text>)}
    </g>
  );
}
