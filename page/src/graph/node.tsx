// A stage in the graph. Its figures are signals that change text and attributes in place: no component is drawn again each second.
import { useComputed } from "@preact/signals";
import { cut, shown } from "../shown";
import { duration, grouped, percent, plural, rate } from "../format";
import { lagOf } from "../job/frames";
import { openStage, view } from "../job/model";
import { ShareBar } from "../ui/figure";
import { chain } from "./chain";
import { type GraphNode, NODE, type Point } from "./layout";
import type { Keys } from "./pane";
import { useSeen, useWhileSeen } from "./seen";

interface Props {
  node: GraphNode & Point;
  keys: Keys;
  onOpen: (id: number) => void;
}

export function Node({ node, keys, onOpen }: Props) {
  const [element, seen] = useSeen<HTMLButtonElement>();
  const stage = useWhileSeen(seen, () => view.value?.stages[String(node.id)]);
  const moment = useWhileSeen(seen, () => view.value?.at_ms ?? 0);
  const busy = useComputed(() => stage.value?.busy);
  const blocked = useComputed(() => stage.value?.backpressured);
  const idle = useComputed(() => stage.value?.idle);
  const shares = useComputed(() => `${percent(busy.value)} busy, ${percent(blocked.value)} blocked, ${percent(idle.value)} idle`);
  const behind = useComputed(() => {
    const watermark = stage.value?.watermark_ms;
    return watermark === "end" ? "event time at its end" : watermark == null ? "no event time" : `${duration(lagOf(watermark, moment.value))} behind`;
  });
  const losses = useComputed(() => {
    const { late_rows: late = 0, malformed_rows: malformed = 0 } = stage.value ?? {};
    return [...(late > 0 ? [`${grouped(late)} late`] : []), ...(malformed > 0 ? [`${grouped(malformed)} malformed`] : [])].join(", ");
  });
  const tasks = useComputed(() => plural(stage.value?.tasks ?? 0, "task"));
  const link = useComputed(() => chain.value.of.get(node.id));
  const mark = useComputed(() => {
    const of = link.value;
    return of === undefined ? "" : of.cause ? `${chain.value.isCalm ? "○" : "▲ Cause:"} ${cut(shown(of.text), 90)}` : `◂ ${cut(shown(of.text), 90)}`;
  });
  const title = useComputed(() => shown(link.value?.text ?? ""));
  const className = useComputed(() => {
    const of = link.value;
    const hot = (stage.value?.busiest ?? 0) >= 0.9 ? " is-hot" : "";
    return `node${of === undefined ? "" : chain.value.isCalm ? " is-calm" : of.cause ? " is-cause" : " is-chained"}${openStage.value === node.id ? " is-open" : ""}${hot}`;
  });
  const name = useComputed(
    () => `Stage ${node.id}, ${cut(shown(node.name), 80)}: ${tasks.value}, ${rate(stage.value?.rows_in_per_second)} in, ${shares.value}, ${behind.value}${losses.value === "" ? "" : `, ${losses.value}`}${mark.value === "" ? "" : `. ${mark.value}`}`,
  );
  const expanded = useComputed(() => (openStage.value === node.id ? "true" : "false"));
  return (
    <button
      ref={element}
      type="button"
      id={`stage-${node.id}`}
      class={className}
      style={{ left: `${node.x}px`, top: `${node.y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` }}
      aria-label={name}
      aria-expanded={expanded}
      tabIndex={keys.tabIndex}
      onClick={() => {
        keys.onFocus();
        onOpen(node.id);
      }}
      onKeyDown={keys.onKey}
    >
      <span class="node-name"><span class="node-id">{node.id}</span><span class="text" title={shown(node.name)}>{cut(shown(node.name), 60)}</span></span>
      <span class="node-folded" title={shown(node.folded)}>{cut(shown(node.folded), 80)}</span>
      <ShareBar busy={busy} blocked={blocked} idle={idle} label={shares} />
      <span class="node-shares">{shares}</span>
      <span class="node-foot"><span>{tasks}</span><span>{behind}</span></span>
      <span class="node-losses">{losses}</span>
      <span class="node-mark" title={title}>{mark}</span>
    </button>
  );
}
