// What a change would do, as a graph: the stages of the new plan and those that would be gone, each part with a sign and a word.
import { useMemo } from "preact/hooks";
import type { Fate, Plan } from "../docs";
import { plural } from "../format";
import { markOf, markOfKind, sizeOf } from "../job/fates";
import { cut, shown } from "../shown";
import { foreseen, type ForeseenNode } from "./foreseen";
import { NODE, type PlacedEdge, type Point } from "./layout";
import { GraphPane, type Keys } from "./pane";

/** Parts that have room in a node. */
const ROOM = 3;

interface Props {
  /** The plan that the job would go on by. */
  plan: Plan;
  /** The plan that runs. */
  present: Plan | null;
  changes: readonly Fate[];
  /** The node whose parts are listed alone. */
  chosen: number | null;
  onChoose: (id: number, changes: Fate[], title: string) => void;
}

export default function ChangeGraph({ plan, present, changes, chosen, onChoose }: Props) {
  const graph = useMemo(() => foreseen(plan, present, changes), [plan, present, changes]);
  const tasks = new Map(plan.stages.map((stage) => [stage.stage, stage.parallelism]));
  const worst = graph.nodes.find((node) => node.kind === "lost") ?? graph.nodes.find((node) => node.kind === "loaded");
  return (
    <GraphPane
      graph={graph}
      label="Graph of the new plan"
      prefix="part-"
      begin={() => (worst ?? graph.nodes[0])?.id}
      tools={() => <Legend />}
      line={(edge) => <path key={edge.key} class={`edge${edge.side || edge.isGone ? " is-side" : ""}`} d={edge.path} marker-end="url(#arrow)" />}
      title={(edge) => <Title key={edge.key} edge={edge} />}
      node={(node, keys) => <Stage key={node.id} node={node} keys={keys} tasks={node.isGone ? null : (tasks.get(node.stage) ?? null)} isChosen={node.id === chosen} onChoose={onChoose} />}
    />
  );
}

function Title({ edge }: { edge: PlacedEdge }) {
  const text = `${shown(edge.kind)}${edge.side ? ", read to its end first" : ""}`;
  return <div class="edge-label" title={text} style={{ left: `${edge.label.x}px`, top: `${edge.label.y}px` }}>{cut(text, 12)}</div>;
}

interface StageProps {
  node: ForeseenNode & Point;
  keys: Keys;
  /** Null: the stage would be gone. */
  tasks: number | null;
  isChosen: boolean;
  onChoose: Props["onChoose"];
}

function Stage({ node, keys, tasks, isChosen, onChoose }: StageProps) {
  const title = node.isGone ? `Stage ${node.stage} of the running plan, ${shown(node.name)}, which would be gone` : `Stage ${node.stage}, ${shown(node.name)}: ${plural(tasks ?? 0, "task")}`;
  const more = node.changes.length - ROOM;
  const drawn = node.changes.slice(0, more > 0 ? ROOM - 1 : ROOM);
  return (
    <button
      type="button"
      id={`part-${node.id}`}
      class={`node change-node ${node.kind}${node.isGone ? " is-gone" : ""}${isChosen ? " is-open" : ""}`}
      style={{ left: `${node.x}px`, top: `${node.y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` }}
      aria-label={`${title}. ${node.changes.length === 0 ? "It keeps nothing" : node.changes.map(said).join(", ")}`}
      aria-pressed={isChosen}
      tabIndex={keys.tabIndex}
      onClick={() => {
        keys.onFocus();
        onChoose(node.id, node.changes, title);
      }}
      onKeyDown={keys.onKey}
    >
      <span class="node-name"><span class="node-id">{node.stage}</span><span class="text" title={shown(node.name)}>{cut(shown(node.name), 60)}</span></span>
      <span class="node-folded" title={shown(node.folded)}>{node.isGone ? "of the running plan" : `${plural(tasks ?? 0, "task")}, ${cut(shown(node.folded), 60)}`}</span>
      {drawn.map((change, at) => {
        const { kind, sign } = markOf(change);
        return <span key={at} class={`node-part fate ${kind}`} title={said(change)}><span aria-hidden="true">{sign} </span>{said(change)}</span>;
      })}
      {more > 0 && <span class="node-part dim">and {more + 1} more</span>}
      {node.changes.length === 0 && <span class="node-part dim">keeps nothing</span>}
    </button>
  );
}

/** `state loaded elsewhere, 1.20 MB`. */
function said(change: Fate): string {
  const size = sizeOf(change);
  return `${shown(change.part)} ${markOf(change).word}${size === "" ? "" : `, ${size}`}`;
}

const LEGEND = ["kept", "handed-over", "loaded", "lost", "new"].map(markOfKind);

function Legend() {
  return <span class="legend">{LEGEND.map(({ kind, sign, word }) => <span key={kind} class={`legend-item fate ${kind}`}><span aria-hidden="true">{sign} </span>{word}</span>)}</span>;
}
