// The frame of all screens: the bar at the top, the screen of the address, and the form for the token.
import { effect, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { JobFrame } from "./job/frame";
import { follow, live as jobLive, jobName } from "./job/model";
import { jobs } from "./jobs";
import type { Link } from "./live";
import { now } from "./live";
import { timeOfDay } from "./format";
import { href, route } from "./route";
import { Jobs } from "./screens/jobs";
import { shown } from "./shown";
import { checkServer, outdated, server } from "./server";
import { toApiError } from "./resource";
import type { ApiError } from "./api";
import { ErrorBox } from "./ui/error";
import { lazy } from "./ui/lazy";
import { TokenForm } from "./ui/token";

const Workers = lazy(() => import("./screens/workers"));
const Sql = lazy(() => import("./screens/sql"));

/** Follows what the address names. Requests begin with it, so the token must be known. */
export function followRoute(): void {
  // One stream at a time: that of the open job, or that of all jobs.
  effect(() => {
    const [kind, name] = route.value.parts;
    const job = kind === "job" && name !== undefined ? name : null;
    follow(job);
    if (job === null) jobs.open("/api/v1/live", true);
    else jobs.close();
  });
  effect(() => {
    document.title = jobName.value === null ? "Anabranch" : `${shown(jobName.value).slice(0, 80)} – Anabranch`;
  });
}

export function App() {
  const error = useSignal<ApiError | null>(null);
  useEffect(() => {
    const start = (): void => {
      checkServer().then(
        () => (error.value = null),
        (failure: unknown) => {
          error.value = toApiError(failure);
          setTimeout(start, 3000);
        },
      );
    };
    start();
  }, []);
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>To the content</a>
      <TopBar />
      {outdated.value && (
        <p class="banner warn" role="status">This page is of another version than the server. Load it again without the browser's cache.</p>
      )}
      {error.value !== null && server.value === null && <ErrorBox error={error.value} />}
      <Screen />
      <TokenForm />
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function Screen() {
  const [kind = "", name, tab] = route.value.parts;
  if (kind === "job" && name !== undefined) return <JobFrame key={name} name={name} tab={tab ?? "flow"} />;
  return (
    <main id="content" tabIndex={-1}>
      {kind === "" ? <Jobs /> : kind === "workers" ? <Workers /> : kind === "sql" ? <Sql /> : <NoScreen />}
    </main>
  );
}

function NoScreen() {
  return <div class="screen"><h1>There is no such screen</h1><p><a href="#/">To the jobs</a></p></div>;
}

function TopBar() {
  const kind = route.value.parts[0] ?? "";
  const current = (of: string): { "aria-current"?: "page" } => (kind === of ? { "aria-current": "page" } : {});
  return (
    <header class="top">
      <a class="wordmark" href="#/" aria-label="Anabranch, all jobs">
        <svg viewBox="0 0 24 16" aria-hidden="true"><path d="M1 8h3c4 0 4-5 8-5s4 5 8 5h3" /><path d="M4 8c4 0 4 5 8 5s4-5 8-5" class="second" /></svg>
        Anabranch
      </a>
      <nav aria-label="Screens">
        <a href="#/" {...(kind === "" || kind === "job" ? { "aria-current": kind === "" ? "page" : "true" } : {})}>Jobs</a>
        <a href={href(["workers"])} {...current("workers")}>Workers</a>
        <a href={href(["sql"])} {...current("sql")}>SQL</a>
      </nav>
      <Connection link={jobName.value === null ? jobs.link.value : jobLive.link.value} />
    </header>
  );
}

/** Whether what is on the screen is of now. Only a change of the kind is announced, not each second. */
function Connection({ link }: { link: Link }) {
  const reads = server.value?.reads_only === true ? <span class="tag">read only</span> : null;
  if (link.kind === "live") {
    return <div class="connection">{reads}<span class="link well"><span aria-hidden="true">● </span>live</span> <span class="dim clock">{timeOfDay(now.value)} UTC</span></div>;
  }
  const text =
    link.kind === "connecting" ? "connecting" : link.kind === "ended" ? "ended" : link.since_ms === null ? "not connected" : `disconnected since ${timeOfDay(link.since_ms)} UTC`;
  return (
    <div class="connection">
      {reads}
      <span class={`link ${link.kind === "broken" ? "bad" : "calm"}`} role="status"><span aria-hidden="true">{link.kind === "broken" ? "✕ " : "◌ "}</span>{text}</span>
    </div>
  );
}
