// All jobs: is all well, and what needs somebody?
import { useComputed, useSignal } from "@preact/signals";
import { type ApiError, request } from "../api";
import type { JobFields } from "../docs";
import { ago, bytes, duration, grouped, moment, plural, rate } from "../format";
import { jobs } from "../jobs";
import { lagOf } from "../job/frames";
import { now } from "../live";
import { toApiError } from "../resource";
import { go, href } from "../route";
import { mayChange, server } from "../server";
import { ErrorBox, Loading, Stale } from "../ui/error";
import { StateBadge, Verdict } from "../ui/figure";
import { Text } from "../ui/text";
import { isOver, urgency } from "../verdict";
import { Lately } from "./lately";
import { WorkerTable } from "./worker-table";

export function Jobs() {
  const doc = jobs.doc.value;
  const link = jobs.link.value;
  if (doc === null) {
    return (
      <div class="screen">
        <h1>Jobs</h1>
        {link.kind === "broken" && link.error !== null ? <ErrorBox error={link.error} /> : <Loading what="the jobs" />}
      </div>
    );
  }
  const names = Object.keys(doc.jobs);
  return (
    <div class="screen">
      <h1>Jobs</h1>
      {link.kind === "broken" && <Stale error={link.error} />}
      {names.length === 0 ? <Begin /> : <JobTable />}
      <div class="columns">
        <section>
          <h2>What changed lately</h2>
          <Lately />
        </section>
        <section>
          <h2>Workers</h2>
          <WorkerTable workers={doc.workers} brief />
        </section>
      </div>
    </div>
  );
}

/** The sentence above the table. */
function Summary() {
  const text = useComputed(() => {
    const all = Object.values(jobs.doc.value?.jobs ?? {});
    const running = all.filter((job) => !isOver(job.state)).length;
    const urgent = all.filter((job) => urgency(job.state, job.verdict) < 2).length;
    if (urgent === 0) return running === 0 ? "No job runs." : `${plural(running, "job")} run${running === 1 ? "s" : ""}. All is well.`;
    return `${plural(running, "job")} run${running === 1 ? "s" : ""}. ${urgent === 1 ? "One needs" : `${urgent} need`} attention.`;
  });
  return <p class="summary">{text}</p>;
}

function JobTable() {
  const order = useComputed(() => {
    const all = Object.entries(jobs.doc.value?.jobs ?? {});
    return all.sort(([a, x], [b, y]) => urgency(x.state, x.verdict) - urgency(y.state, y.verdict) || (a < b ? -1 : 1)).map(([name]) => name).join("\n");
  });
  return (
    <>
      <Summary />
      <table class="data cards">
        <caption class="visually-hidden">Jobs, those that need attention first</caption>
        <thead>
          <tr>
            <th scope="col">Job</th><th scope="col">State</th><th scope="col" class="n">Read</th><th scope="col" class="n">Written</th>
            <th scope="col" class="n" title="Event time behind the clock">Behind</th>
            <th scope="col" class="n" title="From the reading of a row until the sink has the result">Results p50 / p99</th>
            <th scope="col" class="n">Last checkpoint</th><th scope="col" class="n">Restarts</th>
          </tr>
        </thead>
        <tbody>{order.value.split("\n").map((name) => <JobRow key={name} name={name} />)}</tbody>
      </table>
    </>
  );
}

function JobRow({ name }: { name: string }) {
  const job = useComputed(() => jobs.doc.value?.jobs[name]).value;
  if (job === undefined) return null;
  const cell = (label: string, value: preact.ComponentChildren) => <td class="n" data-label={label}>{value}</td>;
  return (
    <tr>
      <th scope="row" class="job-cell">
        <a class="job-name" href={href(["job", name, "flow"])}><Text of={name} max={60} /></a>
        <JobSentence name={name} job={job} />
      </th>
      <td data-label="State"><StateBadge state={job.state} />{job.changing ? <span class="tag">changing</span> : null}</td>
      {cell("Read", rate(job.rows_read_per_second))}
      {cell("Written", rate(job.rows_written_per_second))}
      {cell("Behind", job.watermark_ms === "end" ? "end" : <Behind job={job} />)}
      {cell("Results p50 / p99", `${duration(job.result_p50_ms)} / ${duration(job.result_p99_ms)}`)}
      {cell("Last checkpoint", <LastCheckpoint job={job} />)}
      {cell("Restarts", grouped(job.restarts))}
    </tr>
  );
}

// Of their own, because they change with the clock and not with the job.
function Behind({ job }: { job: JobFields }) {
  return <>{duration(lagOf(job.watermark_ms, jobs.doc.value?.at_ms ?? 0))}</>;
}

function LastCheckpoint({ job }: { job: JobFields }) {
  if (job.checkpoint_at_ms == null) return <>none yet</>;
  return <span title={`took ${duration(job.checkpoint_took_ms)}, ${bytes(job.checkpoint_bytes)}`}>{ago(now.value - job.checkpoint_at_ms)}</span>;
}

function JobSentence({ name, job }: { name: string; job: JobFields }) {
  if (job.failure != null) return <p class="sentence"><Verdict verdict="failed" text={<Text of={job.failure} max={300} message />} /></p>;
  const text = job.waits_for || job.why;
  if (text) {
    return (
      <p class="sentence">
        <a class="why-link" href={href(["job", name, "why"])}><Verdict verdict={job.verdict ?? "waiting"} text={<Text of={text} max={300} message />} /></a>
      </p>
    );
  }
  if (isOver(job.state)) return <p class="sentence dim">Since {moment(job.since_ms ?? job.started_at_ms, now.value)} UTC</p>;
  return <p class="sentence"><Verdict verdict="well" text="All is well" /></p>;
}

/** Nothing runs yet: how to begin. */
function Begin() {
  const error = useSignal<ApiError | null>(null);
  const busy = useSignal(false);
  const demo = async (): Promise<void> => {
    busy.value = true;
    error.value = null;
    try {
      const answer = (await request("/api/v1/demo", { method: "POST" })) as { name: string };
      go(href(["job", answer.name, "flow"]));
    } catch (failure) {
      error.value = toApiError(failure);
    }
    busy.value = false;
  };
  const info = server.value;
  return (
    <section class="begin" aria-label="How to begin">
      <h2>No job runs here yet</h2>
      <p>A job is a running query: SQL that reads tables, and writes its results into others, for as long as rows come.</p>
      {info?.demo === true && mayChange.value && (
        <div class="begin-way">
          <button type="button" class="primary" disabled={busy.value} onClick={() => void demo()}>Start the demo</button>
          <span>A small job with made-up rows. It needs nothing outside this process.</span>
        </div>
      )}
      {error.value !== null && <ErrorBox error={error.value} />}
      {info?.takes_jobs === true && mayChange.value && (
        <div class="begin-way"><a class="button" href="#/sql">Write a query</a><span>With a plan while you type, and a preview of its rows.</span></div>
      )}
      <div class="begin-way"><code class="command">anabranch submit my.sql</code><span>sends a file with statements from a terminal.</span></div>
    </section>
  );
}
