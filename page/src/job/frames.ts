// Pure functions on frames and marks of a job's history.
import type { Frame, Mark } from "../docs";

/** How far event time is behind `now`. Null: there is none yet, or all of it has passed. */
export function lagOf(watermark: number | "end" | null | undefined, now: number): number | null {
  return typeof watermark === "number" ? now - watermark : null;
}

const SPAN_MS = 300_000;
/** Coarser frames lie further apart than the seconds of the span: then more time is shown. */
const COARSE_SPAN_MS = 3_600_000;

/** What charts show: the last minutes, or the time around a moment. */
export function spanAround(at: number | null, present: number): { from: number; to: number } {
  const span = at !== null && present - at > SPAN_MS ? COARSE_SPAN_MS : SPAN_MS;
  const to = at === null ? present : Math.min(present, at + span / 2);
  return { from: to - span, to };
}

/** The frames with one more at the end. One of the same moment is replaced, an older one is ignored. */
export function appended(frames: Frame[], frame: Frame): Frame[] {
  const last = frames.at(-1);
  if (last === undefined || frame.at_ms > last.at_ms) return [...frames, frame];
  return frames;
}

/** Known frames, replaced by newer ones from the moment on at which these begin. */
export function mergeFrames<T extends { at_ms: number }>(known: T[], more: T[]): T[] {
  const first = more[0];
  if (first === undefined) return known;
  const before = known.filter((frame) => frame.at_ms < first.at_ms);
  const newest = more.at(-1)?.at_ms ?? first.at_ms;
  return [...before, ...more, ...known.filter((frame) => frame.at_ms > newest)];
}

/** The index of the last frame at or before a moment; -1 if there is none. */
export function frameAt(frames: Frame[], at: number): number {
  let [low, high] = [0, frames.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((frames[middle]?.at_ms ?? Infinity) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The moment `steps` frames away, within the frames. */
export function stepped(frames: Frame[], at: number, steps: number): number {
  const index = Math.max(0, Math.min(frames.length - 1, frameAt(frames, at) + steps));
  return frames[index]?.at_ms ?? at;
}

/** The next mark after (`1`) or before (`-1`) a moment. */
export function nextMark(marks: Mark[], at: number, direction: 1 | -1): Mark | null {
  const found = direction === 1 ? marks.find((mark) => mark.at_ms > at) : marks.findLast((mark) => mark.at_ms < at);
  return found ?? null;
}

export interface Column {
  /** Largest value within the column; null if nothing was measured. */
  value: number | null;
  verdict: string | null;
  state: string;
}

/** Frames as columns of a picture: each column has the largest value of its time, so that no peak is lost. */
export function columns(frames: Frame[], from: number, to: number, count: number, of: (frame: Frame) => number | null): (Column | null)[] {
  const result: (Column | null)[] = new Array<Column | null>(count).fill(null);
  const width = (to - from) / count;
  if (!(width > 0)) return result;
  let before: Frame | null = null;
  for (const frame of frames) {
    // A frame of a minute covers all columns of that minute. A sample that comes a little late leaves no gap.
    const span = frame.seconds * 1000;
    const start: number = before !== null && frame.at_ms - before.at_ms < 2 * span ? before.at_ms : frame.at_ms - span;
    before = frame;
    const begin = Math.max(0, Math.floor((start - from) / width));
    const end = Math.min(count - 1, Math.floor((frame.at_ms - from) / width));
    const value = of(frame);
    for (let index = begin; index <= end; index += 1) {
      const known = result[index]?.value ?? null;
      const most = known === null ? value : value === null ? known : Math.max(known, value);
      result[index] = { value: most, verdict: frame.verdict, state: frame.state };
    }
  }
  return result;
}

/** Runs of columns with the same class: `[first, end, class]`. */
export function runs<T>(columns: (T | null)[], classOf: (column: T) => string): [number, number, string][] {
  const result: [number, number, string][] = [];
  columns.forEach((column, index) => {
    if (column === null) return;
    const name = classOf(column);
    const last = result.at(-1);
    if (last !== undefined && last[1] === index && last[2] === name) last[1] = index + 1;
    else result.push([index, index + 1, name]);
  });
  return result;
}
