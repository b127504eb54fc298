// Notices and changes: what the job told, what was changed and what became of it.
import { useSignal } from "@preact/signals";
import { type ApiError, jobPath, request } from "../api";
import type { ChangeList, ChangeRecord, Mark, Notice } from "../docs";
import { ago, dateTime, duration, grouped, moment, words } from "../format";
import { OUTCOMES } from "../job/fates";
import { marks } from "../job/history";
import { shownNow, turn } from "../job/model";
import { past } from "../past";
import { toApiError, useResource } from "../resource";
import { mayChange } from "../server";
import { Empty, ErrorBox, Loading } from "../ui/error";
import { Fates } from "../ui/fates";
import { Text } from "../ui/text";

interface Autoscale {
  mode: string;
  decisions: { at_ms: number; tasks: number | null; text: string }[];
}

function until<T extends { at_ms: number }>(list: T[]): T[] {
  const at = past.value;
  return at === null ? list : list.filter((one) => one.at_ms <= at);
}

export default function Notices({ name }: { name: string }) {
  const notices = useResource<{ notices: Notice[] }>(jobPath(name, "/notices"), 3000, turn.value);
  const changes = useResource<ChangeList>(jobPath(name, "/changes"), 1500, turn.value);
  const autoscale = useResource<Autoscale>(jobPath(name, "/autoscale"), 10_000, turn.value);
  return (
    <div class="screen">
      <h2>Notices and changes</h2>
      <div class="columns">
        <section>
          <h3>Notices</h3>
          {notices.error !== null && notices.data === null ? <ErrorBox error={notices.error} again={notices.again} /> : notices.data === null ? <Loading what="the notices" /> : <NoticeList notices={until(notices.data.notices)} />}
        </section>
        <section>
          <h3>Changes</h3>
          {changes.data?.changing === true && past.value === null && <UnderWay name={name} step={changes.data.step} />}
          {changes.error !== null && changes.data === null ? <ErrorBox error={changes.error} again={changes.again} /> : changes.data === null ? <Loading what="the changes" /> : <Changes changes={until(changes.data.changes)} />}
          {autoscale.data !== null && autoscale.data.mode !== "off" && <Decisions autoscale={autoscale.data} />}
        </section>
      </div>
      <section>
        <h3>What happened</h3>
        <Happened list={until(marks.value)} />
      </section>
    </div>
  );
}

function NoticeList({ notices }: { notices: Notice[] }) {
  if (notices.length === 0) return <Empty>The job has told nothing.</Empty>;
  return (
    <ul class="events">
      {notices.toReversed().map((notice) => (
        <li key={notice.number}>
          <span class="event-time" title={`${dateTime(notice.at_ms)} UTC`}>{moment(notice.at_ms, shownNow.value)}</span>
          <span class="event-what"><Text of={notice.text} max={1000} message />{notice.times > 1 && <span class="tag">{grouped(notice.times)} times</span>}</span>
        </li>
      ))}
    </ul>
  );
}

function UnderWay({ name, step }: { name: string; step: string | null }) {
  const error = useSignal<ApiError | null>(null);
  const abort = (): void => {
    error.value = null;
    request(jobPath(name, "/changes/abort"), { method: "POST" }).catch((failure: unknown) => (error.value = toApiError(failure)));
  };
  return (
    <div class="banner" role="status">
      <span>A change is under way: <Text of={step ?? "it begins"} max={200} /></span>
      {mayChange.value && <button type="button" onClick={abort}>Do not carry it out</button>}
      {error.value !== null && <ErrorBox error={error.value} />}
    </div>
  );
}

function Changes({ changes }: { changes: ChangeRecord[] }) {
  if (changes.length === 0) return <Empty>The job was not changed since this process runs it.</Empty>;
  return (
    <ul class="events">
      {changes.toReversed().map((change) => {
        const [sign, kind] = OUTCOMES[change.outcome] ?? ["•", "calm"];
        return (
          <li key={`${change.at_ms} ${change.request}`}>
            <span class="event-time" title={`${dateTime(change.at_ms)} UTC`}>{moment(change.at_ms, shownNow.value)}</span>
            <div class="event-what">
              <span class={`verdict ${kind}`}><span aria-hidden="true">{sign} </span>{change.outcome}</span> <Text of={change.request} max={300} />
              <span class="dim"> {change.version === null ? "" : `version ${change.version}`}{change.took_ms === null ? "" : `, ${duration(change.took_ms)}`}</span>
              {change.reason !== null && <p><Text of={change.reason} max={1000} message /></p>}
              {change.changes.length > 0 && <details><summary>What became of each part</summary><Fates changes={change.changes} label="What became of each part" /></details>}
            </div>
          </li>
        );
      })}
    </ul>
  );
}

function Decisions({ autoscale }: { autoscale: Autoscale }) {
  const decisions = until(autoscale.decisions).slice(-20).reverse();
  return (
    <>
      <h3>Number of tasks that follows the load: {autoscale.mode}</h3>
      {decisions.length === 0 ? <Empty>Nothing was decided yet.</Empty> : (
        <ul class="events">
          {decisions.map((decision) => (
            <li key={decision.at_ms}><span class="event-time">{moment(decision.at_ms, shownNow.value)}</span><span class="event-what"><Text of={decision.text} max={1000} message /></span></li>
          ))}
        </ul>
      )}
    </>
  );
}

function Happened({ list }: { list: Mark[] }) {
  if (list.length === 0) return <Empty>Nothing in the time that is kept.</Empty>;
  return (
    <ul class="events">
      {list.slice(-100).reverse().map((mark) => (
        <li key={`${mark.at_ms} ${mark.kind} ${mark.text}`}>
          <span class="event-time" title={ago(shownNow.value - mark.at_ms)}>{moment(mark.at_ms, shownNow.value)}</span>
          <span class="event-what"><span class={`kind ${mark.kind}`}>{words(mark.kind)}</span> <Text of={mark.text} max={400} message /> <button type="button" class="small quiet" onClick={() => (past.value = mark.at_ms)} aria-label={`Show the job at ${moment(mark.at_ms, shownNow.value)}`}>Show this moment</button></span>
        </li>
      ))}
    </ul>
  );
}
