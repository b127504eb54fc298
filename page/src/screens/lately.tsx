// What changed lately in all jobs: marks of their histories, the newest first.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { jobPath, request } from "../api";
import type { History, Mark } from "../docs";
import { ago, moment, words } from "../format";
import { jobs } from "../jobs";
import { now } from "../live";
import { href } from "../route";
import { Empty } from "../ui/error";
import { Text } from "../ui/text";

const MOST_JOBS = 12;
const MOST_MARKS = 12;
const AGAIN_MS = 20_000;

type JobMark = Mark & { job: string };

export function Lately({ names }: { names: string[] }) {
  const list = useSignal<JobMark[] | null>(null);
  // What a mark would tell of: then the histories are worth another look.
  const all = jobs.doc.value?.jobs ?? {};
  const sign = names.map((name) => `${name} ${all[name]?.state} ${all[name]?.restarts} ${all[name]?.plan_version}`).join("\n");
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async (): Promise<void> => {
      const since = now.peek() - 3_600_000;
      const histories = await Promise.allSettled(
        names.slice(0, MOST_JOBS).map(async (job) => {
          const answer = (await request(jobPath(job, `/history?from=${since}`), { signal: abort.signal })) as History;
          return answer.marks.map((mark) => ({ ...mark, job }));
        }),
      );
      if (abort.signal.aborted) return;
      const marks = histories.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
      list.value = marks.sort((a, b) => b.at_ms - a.at_ms).slice(0, MOST_MARKS);
      timer = setTimeout(() => void load(), AGAIN_MS);
    };
    timer = setTimeout(() => void load(), 300);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [sign]);
  if (list.value === null) return <Empty>…</Empty>;
  if (list.value.length === 0) return <Empty>Nothing in the last hour.</Empty>;
  return (
    <ul class="events">
      {list.value.map((mark) => (
        <li key={`${mark.job} ${mark.at_ms} ${mark.kind} ${mark.text}`}>
          <span class="event-time" title={ago(now.value - mark.at_ms)}>{moment(mark.at_ms, now.value)}</span>
          <span class="event-what">
            <a href={href(["job", mark.job, "flow"], { at: mark.at_ms })}><Text of={mark.job} max={40} /></a> <span class={`kind ${mark.kind}`}>{words(mark.kind)}</span> <Text of={mark.text} max={200} message />
          </span>
        </li>
      ))}
    </ul>
  );
}
