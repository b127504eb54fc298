// The frame of a job's screens: its name and state, the tabs, and the time line below.
import { useEffect } from "preact/hooks";
import { ago, dateTime } from "../format";
import { now } from "../live";
import { past } from "../past";
import { href, route } from "../route";
import { server } from "../server";
import { StateBadge, Verdict } from "../ui/figure";
import { ErrorBox, Loading, Stale } from "../ui/error";
import { lazy } from "../ui/lazy";
import { Text } from "../ui/text";
import { JobActions } from "./actions";
import { live, pastError, shownNow, view } from "./model";
import { backToNow } from "./moment";
import { TimeLine } from "./timeline";

const TABS: { tab: string; name: string; changes?: boolean; Screen: ReturnType<typeof lazy<{ name: string }>> }[] = [
  { tab: "flow", name: "Flow", Screen: lazy(() => import("../screens/flow")) },
  { tab: "why", name: "Why no output", Screen: lazy(() => import("../screens/why")) },
  { tab: "latency", name: "Latency", Screen: lazy(() => import("../screens/latency")) },
  { tab: "checkpoints", name: "Checkpoints", Screen: lazy(() => import("../screens/checkpoints")) },
  { tab: "state", name: "State", Screen: lazy(() => import("../screens/state")) },
  { tab: "workers", name: "Workers", Screen: lazy(() => import("../screens/tasks")) },
  { tab: "notices", name: "Notices and changes", Screen: lazy(() => import("../screens/notices")) },
  { tab: "change", name: "Change", changes: true, Screen: lazy(() => import("../screens/change")) },
];

export function JobFrame({ name, tab }: { name: string; tab: string }) {
  const at = route.value.query.get("at");
  useEffect(() => {
    // An address may name a moment, so that it can be shown to others.
    if (at !== null && Number.isFinite(Number(at))) past.value = Number(at);
  }, [at]);
  const found = TABS.find((one) => one.tab === tab);
  const readsOnly = server.value?.reads_only ?? true;
  return (
    <div class={past.value === null ? "job" : "job is-past"}>
      <JobHeader name={name} tab={tab} />
      <nav class="tabs" aria-label="Screens of the job">
        {TABS.filter((one) => !(one.changes && readsOnly)).map((one) => (
          <a key={one.tab} href={href(["job", name, one.tab], { at: past.value })} {...(one.tab === tab ? { "aria-current": "page" as const } : {})}>{one.name}</a>
        ))}
      </nav>
      <PastBanner />
      <main id="content" tabIndex={-1}>
        <JobMissing />
        {found === undefined ? <p class="empty">There is no such screen.</p> : found.changes && past.value !== null ? <NotInThePast /> : <found.Screen key={name + tab} name={name} />}
      </main>
      <TimeLine />
    </div>
  );
}

function NotInThePast() {
  return <p class="empty">The past is shown. Go back to now to change the job.</p>;
}

function JobHeader({ name, tab }: { name: string; tab: string }) {
  const doc = view.value;
  return (
    <section class="job-header" aria-label="The job">
      <h1><a class="crumb" href="#/">Jobs</a> <span aria-hidden="true" class="dim">/</span> <Text of={name} max={80} /></h1>
      {doc !== null && <StateBadge state={doc.job.state} />}
      {doc?.job.changing ? <span class="tag">{typeof doc.job.changing === "string" ? <Text of={doc.job.changing} max={60} /> : "is being changed"}</span> : null}
      {doc !== null && tab !== "why" && <JobVerdict name={name} />}
      <JobActions name={name} />
    </section>
  );
}

function JobVerdict({ name }: { name: string }) {
  const doc = view.value;
  if (doc === null) return null;
  const { job, why } = doc;
  const text = job.failure || job.waits_for || job.why || why?.text || null;
  if (text === null) return null;
  return (
    <p class="job-verdict">
      <a class="why-link" href={href(["job", name, "why"], { at: past.value })}><Verdict verdict={job.failure != null ? "failed" : (job.verdict ?? why?.verdict ?? "waiting")} text={<Text of={text} max={300} message />} /></a>
    </p>
  );
}

function JobMissing() {
  const link = live.link.value;
  if (past.value !== null) return pastError.value === null ? null : <ErrorBox error={pastError.value} />;
  if (link.kind === "ended") return <p class="banner warn" role="status">The job is no longer followed: <Text of={link.reason} max={300} /> <a href="#/">To the jobs</a></p>;
  if (link.kind === "broken" && (live.doc.value !== null || (link.error?.status ?? 0) !== 0)) return <Stale error={link.error} />;
  return link.kind === "connecting" && live.doc.value === null ? <Loading what="the job" /> : null;
}

function PastBanner() {
  if (past.value === null) return null;
  const seconds = view.value?.seconds;
  return (
    <div class="past-banner" role="status">
      <strong>Past: {dateTime(shownNow.value)} UTC</strong>
      <span class="dim">{ago(now.value - shownNow.value)}{seconds !== undefined && seconds > 1 ? `, one picture for ${seconds} s` : ""}. Nothing can be changed here.</span>
      <button type="button" onClick={backToNow}>Back to now</button>
    </div>
  );
}

