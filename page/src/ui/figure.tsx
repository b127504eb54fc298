// Figures with their names, states with their signs, shares as bars: the small parts that all screens are made of.
import { type ReadonlySignal, Signal, useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { severity, stateSign } from "../verdict";
import { percent, words } from "../format";

type Value = ComponentChildren | ReadonlySignal<string>;

/** A name and a value. To be used in `<Figures>`. */
export function Figure({ name, value, hint }: { name: string; value: Value; hint?: string | undefined }) {
  return (
    <div class="figure" title={hint}>
      <dt>{name}</dt>
      <dd>{value instanceof Signal ? value : (value as ComponentChildren)}</dd>
    </div>
  );
}

export function Figures({ children, label }: { children: ComponentChildren; label?: string }) {
  return <dl class="figures" aria-label={label}>{children}</dl>;
}

/** The state of a job: a sign and its word, so that colour is never all. */
export function StateBadge({ state }: { state: string }) {
  const [sign, kind] = stateSign(state);
  return <span class={`badge ${kind}`}><span aria-hidden="true">{sign} </span>{words(state)}</span>;
}

export function Verdict({ verdict, text }: { verdict: string | null | undefined; text: ComponentChildren }) {
  const kind = severity(verdict);
  const sign = { well: "●", calm: "○", warn: "▲", bad: "✕" }[kind];
  return <span class={`verdict ${kind}`}><span aria-hidden="true">{sign} </span>{text}</span>;
}

/** Where time goes: busy, back-pressured, idle, as parts of one bar. SVG, because widths as attributes need no style. */
export function ShareBar({ busy, blocked, idle, label }: { busy: Share; blocked: Share; idle: Share; label?: ReadonlySignal<string> | string }) {
  const busyWidth = useComputed(() => width(busy.value));
  const blockedWidth = useComputed(() => width(blocked.value));
  const idleWidth = useComputed(() => width(idle.value));
  const blockedAt = useComputed(() => width(busy.value));
  const idleAt = useComputed(() => Math.min(100, width(busy.value) + width(blocked.value)));
  return (
    <svg class="shares" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={label ?? "shares of time"}>
      <rect class="share-none" width="100" height="8" />
      <rect class="share-busy" width={busyWidth} height="8" />
      <rect class="share-blocked" x={blockedAt} width={blockedWidth} height="8" />
      <rect class="share-idle" x={idleAt} y="3" width={idleWidth} height="2" />
    </svg>
  );
}

type Share = ReadonlySignal<number | null | undefined>;

function width(share: number | null | undefined): number {
  return Math.max(0, Math.min(100, Math.round((share ?? 0) * 100)));
}

/** A single share as a bar with its text. */
export function Meter({ share, kind = "busy", label }: { share: number | null | undefined; kind?: "busy" | "blocked" | "queue"; label: string }) {
  const text = percent(share);
  return (
    <span class="meter">
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={`${label} ${text}`}>
        <rect class="share-none" width="100" height="8" />
        <rect class={`share-${kind}`} width={width(share)} height="8" />
      </svg>
      <span class="meter-text">{text}</span>
    </span>
  );
}
