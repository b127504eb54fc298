// The history of the open job: frames and marks. Fetched, and moved on by the live document in between.
import { batch, effect, signal } from "@preact/signals";
import { type ApiError, isAbort, jobPath, request } from "../api";
import type { Frame, History, JobDocument, Mark } from "../docs";
import { appended, lagOf, mergeFrames } from "./frames";
import { toApiError } from "../resource";
import { jobName, live, turn } from "./model";

export const frames = signal<Frame[]>([]);
export const marks = signal<Mark[]>([]);
export const historyError = signal<ApiError | null>(null);

const AGAIN_MS = 15_000;

let running: AbortController | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
let loadedOf: string | null = null;

effect(() => {
  const name = jobName.value;
  turn.value;
  running?.abort();
  clearTimeout(timer);
  if (name !== loadedOf) {
    batch(() => {
      frames.value = [];
      marks.value = [];
      historyError.value = null;
    });
    loadedOf = name;
  }
  // A short wait: several reasons to fetch come at the same time.
  if (name !== null) timer = setTimeout(() => void load(name), 150);
});

async function load(name: string): Promise<void> {
  const abort = (running = new AbortController());
  const from = frames.peek().at(-20)?.at_ms;
  // Frames become coarser as they age: now and then all are fetched.
  const isWhole = from === undefined || frames.peek().length > 2500;
  try {
    const path = jobPath(name, `/history${isWhole ? "" : `?from=${from}`}`);
    const answer = (await request(path, { signal: abort.signal })) as History;
    if (abort.signal.aborted) return;
    batch(() => {
      frames.value = isWhole ? answer.frames : mergeFrames(frames.peek(), answer.frames);
      marks.value = isWhole ? answer.marks : mergeMarks(marks.peek(), answer.marks);
      historyError.value = null;
    });
  } catch (failure) {
    if (isAbort(failure)) return;
    historyError.value = toApiError(failure);
  }
  timer = setTimeout(() => void load(name), AGAIN_MS);
}

function mergeMarks(known: Mark[], more: Mark[]): Mark[] {
  const key = (mark: Mark): string => `${mark.at_ms} ${mark.kind} ${mark.text}`;
  const all = new Map([...known, ...more].map((mark) => [key(mark), mark]));
  return [...all.values()].sort((a, b) => a.at_ms - b.at_ms);
}

function frameOf(doc: JobDocument): Frame {
  const busiest = Object.values(doc.stages).reduce<number | null>((most, stage) => {
    const share = stage.busiest ?? stage.busy ?? null;
    return share === null ? most : Math.max(most ?? 0, share);
  }, null);
  return {
    at_ms: doc.at_ms,
    seconds: 1,
    state: doc.job.state,
    rows_read_per_second: doc.job.rows_read_per_second ?? null,
    rows_written_per_second: doc.job.rows_written_per_second ?? null,
    lag_ms: lagOf(doc.job.watermark_ms, doc.at_ms),
    result_p99_ms: doc.job.result_p99_ms ?? null,
    busiest,
    verdict: doc.job.verdict ?? doc.why?.verdict ?? null,
  };
}

effect(() => {
  const doc = live.doc.value;
  if (doc === null || loadedOf === null || frames.peek().length === 0) return;
  frames.value = appended(frames.peek(), frameOf(doc));
});
