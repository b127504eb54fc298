// Latency: where time goes between the reading of a row and its result.
import { useComputed } from "@preact/signals";
import { jobPath } from "../api";
import type { Task } from "../docs";
import { duration, grouped, percent } from "../format";
import { shownPlan, view } from "../job/model";
import { stageTimes } from "../job/path";
import { past } from "../past";
import { useResource } from "../resource";
import { href } from "../route";
import { Empty, ErrorBox, Loading } from "../ui/error";
import { Figure, Figures, Meter } from "../ui/figure";
import { lazy } from "../ui/lazy";
import { Text } from "../ui/text";

const JobCharts = lazy<{ only?: ("rates" | "latency" | "lag" | "busiest")[] }>(() => import("../charts/job-charts"));

export default function Latency({ name }: { name: string }) {
  const doc = view.value;
  if (doc === null) return null;
  return (
    <div class="screen">
      <h2>Latency</h2>
      <p class="lead">From the reading of a row by its source until what follows from it. A stage adds the time that rows wait in its queue and the time that it works on them.</p>
      <Figures label="Latency of results">
        <Figure name="Results after, p50" value={duration(doc.job.result_p50_ms)} />
        <Figure name="p99" value={duration(doc.job.result_p99_ms)} />
        <Figure name="Coordination" value={percent(doc.job.coordination_share)} hint="Share of the time that coordination takes" />
        <Figure name="Epochs in a group" value={grouped(doc.job.group_epochs)} />
      </Figures>
      <h3>Stage by stage, p99</h3>
      <Stages name={name} />
      {past.value === null && <Sinks name={name} />}
      <JobCharts only={["latency", "lag"]} />
    </div>
  );
}

function Stages({ name }: { name: string }) {
  const times = useComputed(() => {
    const stages = view.value?.stages ?? {};
    const numbers = Object.keys(stages).map(Number).sort((a, b) => a - b);
    return stageTimes(numbers, shownPlan.value?.exchanges ?? [], (stage) => stages[String(stage)]?.p99_ms);
  }).value;
  if (times.length === 0) return <Empty>No stage has processed a row yet.</Empty>;
  const most = Math.max(...times.map((time) => time.until_ms), 1e-9);
  const worst = times.reduce((a, b) => (b.added_ms > a.added_ms ? b : a));
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Latency by stage">
        <table class="data">
          <thead>
            <tr><th scope="col">Stage</th><th scope="col" class="wide-cell">From reading to here</th><th scope="col" class="n">Until here</th><th scope="col" class="n">Adds</th><th scope="col" class="n">Oldest queued</th><th scope="col">Queue</th><th scope="col">Busiest task</th></tr>
          </thead>
          <tbody>
            {times.map(({ stage, until_ms, added_ms }) => {
              const fields = view.value?.stages[String(stage)];
              const begin = ((until_ms - added_ms) / most) * 100;
              return (
                <tr key={stage} class={stage === worst.stage && added_ms > 0 ? "is-worst" : ""}>
                  <th scope="row"><a href={href(["job", name, "flow"], { stage, at: past.value })}><span class="node-id">{stage}</span><Text of={fields?.name} max={40} /></a></th>
                  <td>
                    <svg class="waterfall" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={`${duration(until_ms - added_ms)} before, ${duration(added_ms)} here`}>
                      <rect class="share-none" width="100" height="8" />
                      <rect class="share-idle" y="3" width={begin.toFixed(2)} height="2" />
                      <rect class="share-busy" x={begin.toFixed(2)} width={Math.max(0.5, (added_ms / most) * 100).toFixed(2)} height="8" />
                    </svg>
                  </td>
                  <td class="n">{duration(until_ms)}</td>
                  <td class="n">{duration(added_ms)}{stage === worst.stage && added_ms > 0 && <span class="tag">most</span>}</td>
                  <td class="n">{duration(fields?.oldest_queued_ms)}</td>
                  <td><Meter share={fields?.queue_share} kind="queue" label="queue" /></td>
                  <td><Meter share={fields?.busiest} label="busiest task" /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="hint">Percentiles of different stages are of different rows, so the parts need not add up exactly.</p>
    </>
  );
}

function Sinks({ name }: { name: string }) {
  const tasks = useResource<{ tasks: Task[] }>(jobPath(name, "/tasks"), 3000);
  if (tasks.error !== null && tasks.data === null) return <ErrorBox error={tasks.error} />;
  if (tasks.data === null) return <Loading what="the tasks" />;
  const sinks = tasks.data.tasks.filter((task) => task.writes_table && task.result_latency.rows > 0);
  if (sinks.length === 0) return null;
  return (
    <>
      <h3>Results of each sink task</h3>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Results of each sink task">
        <table class="data">
          <thead><tr><th scope="col">Sink task</th><th scope="col">Worker</th><th scope="col" class="n">Results</th><th scope="col" class="n">p50</th><th scope="col" class="n">p99</th><th scope="col" class="n">p99.9</th><th scope="col" class="n">Largest</th></tr></thead>
          <tbody>
            {sinks.map(({ stage, stage_name, task, worker, result_latency: of }) => (
              <tr key={`${stage}.${task}`}><th scope="row"><span class="node-id">{stage}.{task}</span><Text of={stage_name} max={40} /></th><td><Text of={worker} max={30} /></td><td class="n">{grouped(of.rows)}</td><td class="n">{duration(of.p50_ms)}</td><td class="n">{duration(of.p99_ms)}</td><td class="n">{duration(of.p999_ms)}</td><td class="n">{duration(of.max_ms)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">Since the start of each task.</p>
    </>
  );
}
