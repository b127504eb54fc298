// What becomes of the parts of a job by a change: a sign and a word for each, and their order. Colour is never all.
import type { Fate } from "../docs";
import { bytes, plural } from "../format";

/** By what matters most. */
const MARKS: Record<string, [sign: string, word: string]> = {
  lost: ["✕", "lost"],
  gone: ["−", "gone"],
  loaded: ["⇄", "loaded elsewhere"],
  reopened: ["↺", "opened again"],
  new: ["+", "new"],
  "handed-over": ["⇢", "handed over"],
  kept: ["✓", "kept"],
};

export interface FateMark {
  /** The class of its colour. */
  kind: string;
  sign: string;
  word: string;
}

export function markOfKind(kind: string): FateMark {
  const [sign, word] = MARKS[kind] ?? ["•", kind];
  return { kind, sign, word };
}

/** What happens to a part, in the word that says most. */
export function markOf({ fate, how }: Fate): FateMark {
  return markOfKind(fate === "kept" && how !== null && how in MARKS ? how : fate);
}

function rank(change: Fate): number {
  const at = Object.keys(MARKS).indexOf(markOf(change).kind);
  return at === -1 ? Object.keys(MARKS).length : at;
}

export function byGravity(changes: readonly Fate[]): Fate[] {
  return [...changes].sort((a, b) => rank(a) - rank(b));
}

/** `2 kept, 1 new`. */
export function counted(changes: readonly Fate[]): string {
  const counts = new Map<string, number>();
  for (const change of byGravity(changes)) counts.set(markOf(change).word, (counts.get(markOf(change).word) ?? 0) + 1);
  return [...counts].map(([word, number]) => `${number} ${word}`).join(", ");
}

/** How much of its state moves, or how much there is: `1.20 MB`. Nothing if there is no state. */
export function sizeOf(change: Fate): string {
  const size = markOf(change).kind === "loaded" ? change.loaded_bytes : change.bytes;
  return size === null ? "" : bytes(size);
}

/** The same, with how much there is of what moves: `1.20 MB of 4.00 MB`. */
export function sizesOf(change: Fate): string {
  const size = sizeOf(change);
  return size === "" || change.bytes === null || size === bytes(change.bytes) ? size : `${size} of ${bytes(change.bytes)}`;
}

/** Which workers load or open something: `2 tasks at one, 64 key groups`. */
export function placesOf(change: Fate): string {
  const place = ({ worker, tasks, key_groups: groups }: Fate["loads"][number]): string => `${plural(tasks, "task")} at ${worker}${groups > 0 ? `, ${plural(groups, "key group")}` : ""}`;
  return change.loads.map(place).join("; ");
}

/** Outcomes of changes. */
export const OUTCOMES: Record<string, [sign: string, kind: string]> = { running: ["◌", "calm"], settled: ["●", "well"], unchanged: ["○", "calm"], undone: ["↶", "warn"], refused: ["✕", "bad"] };
