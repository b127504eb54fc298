// How grave a verdict or a state is, and its sign.

export type Severity = "well" | "calm" | "warn" | "bad";

export function severity(verdict: string | null | undefined): Severity {
  switch (verdict) {
    case null:
    case undefined:
    case "":
    case "well":
      return "well";
    case "starting":
    case "over":
    case "window-open":
    case "sink-waits-for-checkpoint":
      return "calm";
    case "failed":
    case "checkpoint-waits":
    case "all-dropped":
      return "bad";
    default:
      return "warn";
  }
}

const RANK: Record<Severity, number> = { bad: 0, warn: 1, well: 2, calm: 2 };

/** What needs somebody comes first; all else stays in the order of names, so that rows do not jump about. */
export function urgency(state: string, verdict: string | null | undefined): number {
  if (state === "failed") return 0;
  if (isOver(state)) return 3;
  return RANK[severity(verdict)];
}

export function isOver(state: string): boolean {
  return state === "ended" || state === "stopped" || state === "failed" || state === "cancelled";
}

/** A sign and a class for a state. */
export function stateSign(state: string): [string, Severity] {
  switch (state) {
    case "running":
      return ["●", "well"];
    case "failed":
      return ["✕", "bad"];
    case "restarting":
    case "waiting":
      return ["▲", "warn"];
    case "ended":
    case "stopped":
    case "cancelled":
      return ["■", "calm"];
    default:
      return ["◌", "calm"];
  }
}
