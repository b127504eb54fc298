// A stage: its tasks as rows of strips, its operators, its last minutes.
import { useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { TaskFields } from "../docs";
import { count, duration, grouped, percent, rate } from "../format";
import { lagOf } from "../job/frames";
import { shownPlan, view } from "../job/model";
import { past } from "../past";
import { Empty, Loading } from "../ui/error";
import { Figure, Figures, Meter, ShareBar } from "../ui/figure";
import { lazy } from "../ui/lazy";
import { Text } from "../ui/text";
import { Operators } from "./stage-operators";

const StageCharts = lazy(() => import("../charts/stage-charts"));

export function StagePanel({ stage, onClose }: { stage: number; onClose: () => void }) {
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  const fields = useComputed(() => view.value?.stages[String(stage)]).value;
  const planned = shownPlan.value?.stages.find((one) => one.stage === stage);
  return (
    <aside class="panel" aria-labelledby="panel-title" onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <header>
        <h2 id="panel-title" ref={title} tabIndex={-1}><span class="node-id">{stage}</span><Text of={fields?.name ?? planned?.name ?? ""} max={60} /></h2>
        <button type="button" class="quiet" aria-label="Close the stage" onClick={onClose}>✕</button>
      </header>
      {fields === undefined ? <Empty>The job has no such stage.</Empty> : (
        <>
          <Figures label="Figures of the stage">
            <Figure name="In" value={rate(fields.rows_in_per_second)} />
            <Figure name="Out" value={rate(fields.rows_out_per_second)} />
            <Figure name="Rows in" value={count(fields.rows_in)} />
            <Figure name="Queue" value={percent(fields.queue_share)} hint={`${grouped(fields.queue_rows)} rows`} />
            <Figure name="Oldest queued" value={duration(fields.oldest_queued_ms)} />
            <Figure name="Processed after, p99" value={duration(fields.p99_ms)} />
            <Figure name="Event time behind" value={fields.watermark_ms === "end" ? "end" : duration(lagOf(fields.watermark_ms, view.value?.at_ms ?? 0))} />
            <Figure name="Busiest task" value={percent(fields.busiest)} />
            <Figure name="Processor" value={percent(fields.cpu_share)} />
          </Figures>
          <h3>Tasks</h3>
          <Tasks />
          {planned !== undefined && <Operators stage={planned} />}
          <StageCharts stage={stage} />
        </>
      )}
    </aside>
  );
}

/** How the rate of a task compares with the mean of its stage: `×1.8`. */
function skew(tasks: TaskFields[], task: TaskFields): string {
  const mean = tasks.reduce((sum, one) => sum + (one.rows_in_per_second ?? 0), 0) / Math.max(1, tasks.length);
  return mean <= 0 ? "–" : `×${((task.rows_in_per_second ?? 0) / mean).toFixed(1)}`;
}

function Tasks() {
  const numbers = useComputed(() => Object.keys(view.value?.tasks ?? {}).sort((a, b) => Number(a) - Number(b)).join(" "));
  if (view.value?.tasks === undefined) return past.value === null ? <Loading what="the tasks" /> : <Empty>Tasks of that moment are not known.</Empty>;
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Tasks of the stage">
      <table class="data tasks">
        <thead>
          <tr><th scope="col" class="n">Task</th><th scope="col">Time</th><th scope="col" class="n" title="Rows per second, compared with the mean of the tasks">In, skew</th><th scope="col">Queue</th><th scope="col" class="n">p99</th><th scope="col">Worker</th></tr>
        </thead>
        <tbody>{numbers.value.split(" ").filter((task) => task !== "").map((task) => <TaskRow key={task} task={task} />)}</tbody>
      </table>
    </div>
  );
}

function TaskRow({ task }: { task: string }) {
  const fields = useComputed(() => view.value?.tasks?.[task]);
  const busy = useComputed(() => fields.value?.busy);
  const blocked = useComputed(() => fields.value?.backpressured);
  const idle = useComputed(() => fields.value?.idle);
  const shares = useComputed(() => `${percent(busy.value)} busy, ${percent(blocked.value)} blocked, ${percent(idle.value)} idle`);
  const text = (of: (fields: TaskFields) => string) => useComputed(() => (fields.value === undefined ? "–" : of(fields.value)));
  const queue = useComputed(() => fields.value?.queue_share);
  const rows = text((of) => rate(of.rows_in_per_second));
  const skewed = text((of) => skew(Object.values(view.value?.tasks ?? {}), of));
  const busyText = text((of) => `${percent(of.busy)} busy`);
  const p99 = text((of) => duration(of.p99_ms));
  const worker = useComputed(() => fields.value?.worker ?? "");
  return (
    <tr>
      <th scope="row" class="n">{task}</th>
      <td><ShareBar busy={busy} blocked={blocked} idle={idle} label={shares} /><small>{busyText}</small></td>
      <td class="n">{rows}<small>{skewed}</small></td>
      <td><Meter share={queue.value} kind="queue" label="queue" /></td>
      <td class="n">{p99}</td>
      <td><Text of={worker.value} max={24} /></td>
    </tr>
  );
}
