// The graph of a plan. Laid out once for each version of the plan; figures move, nodes do not.
import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Plan } from "../docs";
import { chain } from "./chain";
import { EdgeLabel, EdgeLine } from "./edge";
import { chainEdges, graphOf } from "./layout";
import { Node } from "./node";
import { GraphPane } from "./pane";

export default function GraphView({ plan, onOpen }: { plan: Plan; onOpen: (stage: number) => void }) {
  const graph = useMemo(() => graphOf(plan), [plan]);
  const chained = useComputed(() => chainEdges(graph.edges, chain.value.links.map((link) => link.stage ?? null)));
  return (
    <GraphPane
      graph={graph}
      label="Stages of the job"
      prefix="stage-"
      begin={() => chain.peek().cause ?? plan.stages[0]?.stage}
      tools={(focus) => <><ToCause onFocus={focus} /><Legend /></>}
      line={(edge) => <EdgeLine key={edge.key} edge={edge} chained={chained} />}
      title={(edge) => <EdgeLabel key={edge.key} edge={edge} />}
      node={(node, keys) => <Node key={node.id} node={node} keys={keys} onOpen={onOpen} />}
    />
  );
}

function ToCause({ onFocus }: { onFocus: (stage: number) => void }) {
  const cause = useComputed(() => chain.value.cause).value;
  return cause === null ? null : <button type="button" class="small" onClick={() => onFocus(cause)}>To the cause</button>;
}

function Legend() {
  const sample = (name: string, text: string) => (
    <span class="legend-item"><svg viewBox="0 0 14 8" aria-hidden="true"><rect class="share-none" width="14" height="8" /><rect class={`share-${name}`} width="14" height={name === "idle" ? 2 : 8} y={name === "idle" ? 3 : 0} /></svg>{text}</span>
  );
  return <span class="legend">{sample("busy", "busy: processing")}{sample("blocked", "blocked: waits for room downstream")}{sample("idle", "idle: waits for input")}</span>;
}
