// Rewind: the time line below all screens of a job. Its handle chooses the moment that they show.
import { computed, signal, useComputed } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Mark } from "../docs";
import { ago, dateTime, rate, timeOfDay, words } from "../format";
import { now } from "../live";
import { past } from "../past";
import { severity } from "../verdict";
import { Text } from "../ui/text";
import { backToNow } from "./moment";
import { columns, frameAt, nextMark, runs, stepped } from "./frames";
import { frames, historyError, marks } from "./history";

const COLUMNS = 300;
const SPANS: [number, string][] = [[300_000, "5 min"], [3_600_000, "1 h"], [86_400_000, "24 h"]];

const span = signal(300_000);

/** The interval that is shown: it ends now, or later than the chosen moment if that is older than the span. */
const interval = computed<[number, number]>(() => {
  // Whole steps, so that the picture moves once a second and not at each reading of the clock.
  const end = Math.ceil(now.value / 1000) * 1000;
  const at = past.value;
  return at !== null && at < end - span.value ? [at - span.value / 2, at + span.value / 2] : [end - span.value, end];
});

const MARK_SIGN: Record<string, string> = { restart: "↻", change: "Δ", "checkpoint-failed": "✕", notice: "!", state: "○" };

export function TimeLine() {
  return (
    <section class="timeline" aria-label="Time line">
      <TimeControls />
      <Strip />
    </section>
  );
}

function TimeControls() {
  const at = past.value;
  const move = (direction: 1 | -1) => () => {
    const mark = nextMark(marks.value, at ?? now.value, direction);
    if (mark !== null) past.value = mark.at_ms;
  };
  return (
    <div class="time-controls">
      <strong class="time-now">{at === null ? "Now" : `${timeOfDay(at)} UTC`}</strong>
      <span class="dim time-ago">{at === null ? "drag to look back" : ago(now.value - at)}</span>
      <span class="spacer" />
      <button type="button" class="small" onClick={move(-1)} disabled={nextMark(marks.value, at ?? now.value, -1) === null} title="The event before">‹ event</button>
      <button type="button" class="small" onClick={move(1)} disabled={at === null || nextMark(marks.value, at, 1) === null} title="The event after">event ›</button>
      <label class="small-select"><span class="visually-hidden">Span of the time line</span>
        <select value={String(span.value)} onChange={(event) => (span.value = Number(event.currentTarget.value))}>
          {SPANS.map(([ms, text]) => <option key={ms} value={String(ms)}>{text}</option>)}
        </select>
      </label>
      <button type="button" class="small" disabled={at === null} onClick={backToNow}>Now</button>
    </div>
  );
}

/** A moment by the place of the pointer. At the right edge it is now. */
function momentAt(element: Element, x: number): number | null {
  const box = element.getBoundingClientRect();
  const share = Math.max(0, Math.min(1, (x - box.left) / box.width));
  const [from, to] = interval.peek();
  const at = from + share * (to - from);
  return share > 0.995 && to >= now.peek() ? null : Math.round(at);
}

function onKey(event: KeyboardEvent): void {
  const at = past.peek() ?? now.peek();
  const list = frames.peek();
  const step = event.shiftKey ? 10 : 1;
  const last = list.at(-1)?.at_ms ?? at;
  let next: number | null | undefined;
  if (event.key === "ArrowLeft" || event.key === "ArrowDown") next = stepped(list, at, -step);
  else if (event.key === "ArrowRight" || event.key === "ArrowUp") next = past.peek() === null || stepped(list, at, step) >= last ? null : stepped(list, at, step);
  else if (event.key === "PageUp") next = nextMark(marks.peek(), at, 1)?.at_ms ?? null;
  else if (event.key === "PageDown") next = nextMark(marks.peek(), at, -1)?.at_ms;
  else if (event.key === "Home") next = list[0]?.at_ms;
  else if (event.key === "End" || event.key === "Escape") next = null;
  else return;
  event.preventDefault();
  if (next === null) backToNow();
  else if (next !== undefined) past.value = next;
}

function Strip() {
  const element = useRef<HTMLDivElement>(null);
  const drag = (event: PointerEvent): void => {
    const box = element.current;
    if (box === null || (event.type === "pointermove" && (event.buttons & 1) === 0)) return;
    if (event.type === "pointerdown") {
      if (event.button !== 0) return;
      box.setPointerCapture(event.pointerId);
    }
    const at = momentAt(box, event.clientX);
    if (at === null) backToNow();
    else past.value = at;
  };
  const [from, to] = interval.value;
  const at = past.value ?? now.value;
  return (
    <div class="strip-box">
      <div
        ref={element}
        class="strip"
        role="slider"
        tabIndex={0}
        aria-label="Moment that is shown"
        aria-valuemin={Math.round(Math.min(frames.value[0]?.at_ms ?? from, from, at) / 1000)}
        aria-valuemax={Math.round(Math.max(to, at) / 1000)}
        aria-valuenow={Math.round(at / 1000)}
        aria-valuetext={past.value === null ? "now" : momentText(at)}
        onKeyDown={onKey}
        onPointerDown={drag}
        onPointerMove={drag}
      >
        <Picture />
        <Handle at={at} from={from} to={to} />
      </div>
      <Marks from={from} to={to} />
      <div class="strip-scale dim" aria-hidden="true"><span>{timeOfDay(from)}</span><span>{timeOfDay((from + to) / 2)}</span><span>{past.value === null || to >= now.value ? "now" : timeOfDay(to)}</span></div>
      {historyError.value !== null && <p class="hint">The history cannot be read: <Text of={historyError.value.error} /></p>}
    </div>
  );
}

function momentText(at: number): string {
  const frame = frames.value[frameAt(frames.value, at)];
  const what = frame === undefined ? "" : `, ${words(frame.verdict ?? frame.state)}, ${rate(frame.rows_read_per_second)} read`;
  return `${dateTime(at)} UTC${what}`;
}

function Handle({ at, from, to }: { at: number; from: number; to: number }) {
  const share = Math.max(0, Math.min(1, (at - from) / (to - from)));
  return <div class={past.value === null ? "handle" : "handle is-past"} style={{ left: `${(share * 100).toFixed(3)}%` }} />;
}

/** Rows read per second as an area, and below it a band that says when not all was well. */
function Picture() {
  const picture = useComputed(() => {
    const [from, to] = interval.value;
    const list = columns(frames.value, from, to, COLUMNS, (frame) => frame.rows_read_per_second);
    const most = Math.max(1, ...list.map((column) => column?.value ?? 0));
    const steps = list.map((column, index) => (column === null ? "" : `M${index} 30V${(30 - (28 * (column.value ?? 0)) / most).toFixed(1)}h1V30z`));
    return { area: steps.join(""), bands: runs(list, (column) => (column.state === "restarting" ? "bad" : severity(column.verdict))) };
  });
  return (
    <svg class="strip-picture" viewBox={`0 0 ${COLUMNS} 36`} preserveAspectRatio="none" aria-hidden="true">
      <path class="strip-area" d={picture.value.area} />
      {picture.value.bands.map(([begin, end, name]) => <rect key={begin} class={`band ${name}`} x={begin} y={name === "bad" ? 31 : name === "warn" ? 32 : 34} width={end - begin} height={name === "bad" ? 5 : name === "warn" ? 4 : 2} />)}
    </svg>
  );
}

function Marks({ from, to }: { from: number; to: number }) {
  const inside = marks.value.filter((mark) => mark.at_ms >= from && mark.at_ms <= to).slice(-60);
  return (
    <div class="marks" aria-hidden="true">
      {inside.map((mark) => <MarkSign key={`${mark.at_ms} ${mark.kind} ${mark.text}`} mark={mark} share={(mark.at_ms - from) / (to - from)} />)}
    </div>
  );
}

// Not in the order of the tab key: the buttons and keys of the time line go from event to event, and the notices list them.
function MarkSign({ mark, share }: { mark: Mark; share: number }) {
  return (
    <button type="button" tabIndex={-1} class={`mark ${mark.kind}`} style={{ left: `${(share * 100).toFixed(3)}%` }} title={`${timeOfDay(mark.at_ms)} ${words(mark.kind)}`} onClick={() => (past.value = mark.at_ms)}>
      {MARK_SIGN[mark.kind] ?? "•"}
    </button>
  );
}
