// Flow: where is the bottleneck? The graph of the stages, the open stage, and the last minutes.
import { useComputed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { JobDocument } from "../docs";
import { ago, count, duration, grouped, rate } from "../format";
import GraphView from "../graph/graph";
import { lagOf } from "../job/frames";
import { openStage, planError, shownNow, shownPlan, shownPlanError, plan, view } from "../job/model";
import { route, setQuery } from "../route";
import { ErrorBox, Loading } from "../ui/error";
import { Figure, Figures } from "../ui/figure";
import { lazy } from "../ui/lazy";
import { StagePanel } from "./stage-panel";

// Charts come after the graph: what is looked at first is there first.
const JobCharts = lazy(() => import("../charts/job-charts"));

export default function Flow(_: { name: string }) {
  const wanted = route.value.query.get("stage");
  useEffect(() => {
    openStage.value = wanted === null || !/^\d+$/.test(wanted) ? null : Number(wanted);
  }, [wanted]);
  useEffect(() => () => { openStage.value = null; }, []);
  const open = (stage: number): void => setQuery({ stage: openStage.peek() === stage ? null : stage });
  const close = (): void => {
    const stage = openStage.peek();
    setQuery({ stage: null });
    if (stage !== null) document.getElementById(`stage-${stage}`)?.focus();
  };
  // Only whether it is there: the screen must not be drawn again each second.
  const there = useComputed(() => view.value !== null).value;
  const shownPlanNow = shownPlan.value;
  return (
    <div class="screen flow">
      <h2 class="visually-hidden">Flow</h2>
      {there && <JobFigures />}
      {planError.value !== null && plan.value === null && <ErrorBox error={planError.value} />}
      <div class={openStage.value === null ? "flow-split" : "flow-split has-panel"}>
        <div class="flow-graph">
          {shownPlanNow !== null ? <GraphView plan={shownPlanNow} onOpen={open} /> : shownPlanError.value !== null ? <ErrorBox error={shownPlanError.value} /> : planError.value === null && <Loading what="the plan" />}
          {there && <JobCharts />}
        </div>
        {openStage.value !== null && <StagePanel key={openStage.value} stage={openStage.value} onClose={close} />}
      </div>
    </div>
  );
}

function JobFigures() {
  const job = useComputed(() => view.value?.job);
  const text = (of: (job: JobDocument["job"]) => string) => useComputed(() => (job.value === undefined ? "–" : of(job.value)));
  const late = job.value?.late_rows ?? 0;
  const malformed = job.value?.malformed_rows ?? 0;
  const noTime = job.value?.rows_without_event_time ?? 0;
  const withNull = job.value?.rows_with_null ?? 0;
  return (
    <Figures label="Figures of the job">
      <Figure name="Read" value={text((of) => rate(of.rows_read_per_second))} hint={`${grouped(job.value?.rows_read)} rows`} />
      <Figure name="Written" value={text((of) => rate(of.rows_written_per_second))} hint={`${grouped(job.value?.rows_written)} rows`} />
      <Figure name="Rows read" value={text((of) => count(of.rows_read))} />
      <Figure name="Event time behind" value={text((of) => (of.watermark_ms === "end" ? "end" : duration(lagOf(of.watermark_ms, view.value?.at_ms ?? 0))))} />
      <Figure name="Results after, p50" value={text((of) => duration(of.result_p50_ms))} />
      <Figure name="p99" value={text((of) => duration(of.result_p99_ms))} />
      <Figure name="Checkpoint" value={job.value?.checkpoint_at_ms == null ? "none yet" : ago(shownNow.value - job.value.checkpoint_at_ms)} hint={`took ${duration(job.value?.checkpoint_took_ms)}`} />
      <Figure name="Epoch" value={text((of) => grouped(of.epoch))} />
      <Figure name="Restarts" value={text((of) => grouped(of.restarts))} />
      {late > 0 && <Figure name="Late rows" value={<span class="verdict warn"><span aria-hidden="true">▲ </span>{grouped(late)}</span>} />}
      {malformed > 0 && <Figure name="Malformed" value={<span class="verdict warn"><span aria-hidden="true">▲ </span>{grouped(malformed)}</span>} />}
      {noTime > 0 && <Figure name="Without event time" value={<span class="verdict warn"><span aria-hidden="true">▲ </span>{grouped(noTime)}</span>} />}
      {withNull > 0 && <Figure name="With NULL" value={<span class="verdict warn"><span aria-hidden="true">▲ </span>{grouped(withNull)}</span>} />}
    </Figures>
  );
}
