// A stage over the last minutes, or around the chosen moment.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ApiError, isAbort, jobPath, request } from "../api";
import type { Frame, History, StageFields } from "../docs";
import { percent, rate } from "../format";
import { mergeFrames, spanAround } from "../job/frames";
import { jobName, live, turn } from "../job/model";
import { now } from "../live";
import { past } from "../past";
import { toApiError } from "../resource";
import { ErrorBox } from "../ui/error";
import Chart from "./chart";

/** While the time line is dragged, only where it rests is fetched. */
const REST_MS = 150;

type Sample = Pick<Frame, "at_ms" | "stage">;

export default function StageCharts({ stage }: { stage: number }) {
  const samples = useSignal<Sample[]>([]);
  const error = useSignal<ApiError | null>(null);
  const [name, at] = [jobName.value, past.value];
  useEffect(() => {
    if (name === null) return;
    const abort = new AbortController();
    const load = async (): Promise<void> => {
      const { from, to } = spanAround(at, now.peek());
      try {
        const query = `?from=${Math.floor(from)}&to=${Math.ceil(to)}&stage=${stage}`;
        const answer = (await request(jobPath(name, `/history${query}`), { signal: abort.signal })) as History;
        if (abort.signal.aborted) return;
        samples.value = at === null ? mergeFrames(samples.peek(), answer.frames) : answer.frames;
        error.value = null;
      } catch (failure) {
        if (!isAbort(failure)) error.value = toApiError(failure);
      }
    };
    const timer = setTimeout(() => void load(), at === null ? 0 : REST_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [name, stage, at, turn.value]);
  useSignalEffect(() => {
    const doc = live.doc.value;
    if (doc === null || past.peek() !== null || doc.at_ms <= (samples.peek().at(-1)?.at_ms ?? 0)) return;
    const { from } = spanAround(null, doc.at_ms);
    samples.value = [...samples.peek().filter((one) => one.at_ms >= from), { at_ms: doc.at_ms, stage: doc.stages[String(stage)] ?? null }];
  });
  const list = samples.value;
  const { from, to } = spanAround(at, at === null ? (list.at(-1)?.at_ms ?? 0) : now.peek());
  const common = { times: list.map((one) => one.at_ms / 1000), at: at === null ? null : at / 1000, from: from / 1000, to: to / 1000 };
  const values = (of: (stage: StageFields) => number | null | undefined) => list.map((one) => (one.stage == null ? null : (of(one.stage) ?? null)));
  return (
    <>
      <h3>{at === null ? "The last minutes" : "Around this moment"}</h3>
      {error.value !== null && <ErrorBox error={error.value} />}
      <div class="charts">
        <Chart {...common} title="Rows" format={rate} series={[{ name: "in", values: values((of) => of.rows_in_per_second) }, { name: "out", values: values((of) => of.rows_out_per_second) }]} />
        <Chart {...common} title="Time" format={percent} most={1} series={[{ name: "busy", values: values((of) => of.busy) }, { name: "blocked", values: values((of) => of.backpressured) }]} />
        <Chart {...common} title="Queue" format={percent} most={1} series={[{ name: "full", values: values((of) => of.queue_share) }]} />
      </div>
    </>
  );
}
