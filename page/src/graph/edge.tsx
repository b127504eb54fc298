// An exchange in the graph: rows per second, and how full the queue of its receiver is.
import { type ReadonlySignal, useComputed } from "@preact/signals";
import { percent, rate } from "../format";
import { view } from "../job/model";
import { cut, shown } from "../shown";
import type { PlacedEdge } from "./layout";
import { useSeen, useWhileSeen } from "./seen";

export function EdgeLine({ edge, chained }: { edge: PlacedEdge; chained: ReadonlySignal<Set<string>> }) {
  // Half steps: lines do not change their width with each small change of a rate.
  const width = useComputed(() => {
    const rows = view.value?.stages[String(edge.from)]?.rows_out_per_second ?? 0;
    return rows <= 0 ? 1 : Math.min(5, Math.round(2 + Math.log10(1 + rows) * 1.2) / 2);
  });
  const className = useComputed(() => `edge${edge.side ? " is-side" : ""}${chained.value.has(edge.key) ? " is-chained" : ""}`);
  return <path class={className} d={edge.path} stroke-width={width} marker-end="url(#arrow)" />;
}

export function EdgeLabel({ edge }: { edge: PlacedEdge }) {
  const [element, seen] = useSeen<HTMLDivElement>();
  const from = useWhileSeen(seen, () => view.value?.stages[String(edge.from)]);
  const to = useWhileSeen(seen, () => view.value?.stages[String(edge.to)]);
  const rows = useComputed(() => rate(from.value?.rows_out_per_second));
  const full = useComputed(() => `queue ${percent(to.value?.queue_share)}`);
  const width = useComputed(() => Math.round(100 * Math.min(1, to.value?.queue_share ?? 0)));
  return (
    <div
      ref={element}
      class="edge-label"
      title={shown(edge.kind) + (edge.side ? ", read to its end first" : "")}
      style={{ left: `${edge.label.x}px`, top: `${edge.label.y}px` }}
    >
      <span class="edge-rate">{rows}</span>
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="share-none" width="100" height="8" /><rect class="share-queue" width={width} height="8" /></svg>
      <span class="edge-queue">{full}</span>
      <span class="visually-hidden">{cut(shown(edge.kind), 60)} from stage {edge.from} to stage {edge.to}</span>
    </div>
  );
}
