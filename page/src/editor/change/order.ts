// What a change asks of the server, made from the text and the forms.
import { changedSettings, type Row } from "../settings";

export interface Move {
  stage: number;
  task: number;
  to: string;
}

export interface Forms {
  rows: Row[];
  /** Tasks of all stages, or of one. */
  tasks: { stage: number | null; number: string };
  moves: Move[];
  allowLostState: boolean;
  allowLate: boolean;
}

export interface Order {
  sql?: string;
  settings?: Record<string, string | null>;
  parallelism?: number;
  stage?: number;
  moves?: Move[];
  allow_lost_state?: boolean;
  allow_late?: boolean;
}

export const NO_FORMS: Forms = { rows: [], tasks: { stage: null, number: "" }, moves: [], allowLostState: false, allowLate: false };

/** The order, or null if nothing is to be changed. `base` is the running text. */
export function orderOf(base: string, text: string, forms: Forms): Order | null {
  const order: Order = {};
  if (text !== base) order.sql = text;
  const settings = changedSettings(forms.rows);
  if (Object.keys(settings).length > 0) order.settings = settings;
  const tasks = Number(forms.tasks.number);
  if (forms.tasks.number.trim() !== "" && Number.isInteger(tasks) && tasks > 0) {
    order.parallelism = tasks;
    if (forms.tasks.stage !== null) order.stage = forms.tasks.stage;
  }
  if (forms.moves.length > 0) order.moves = forms.moves;
  return Object.keys(order).length === 0 ? null : order;
}

/** The order with what the user allows. */
export function allowed(order: Order, forms: Forms): Order {
  return { ...order, ...(forms.allowLostState ? { allow_lost_state: true } : {}), ...(forms.allowLate ? { allow_late: true } : {}) };
}

export interface FateLine {
  fate: string;
  what: string;
  /** State that is loaded elsewhere, if the server says so. */
  bytes?: number | null;
}

/** What the user has to allow before the change can be made. */
export interface Needs {
  lostState: boolean;
  late: boolean;
}

/** From what a dry run says. Its words are those of docs/changing.md. */
export function needsOf(fates: FateLine[]): Needs {
  const lostState = fates.some((line) => line.fate === "lost");
  const late = fates.some((line) => /windows have fired up to/.test(line.what));
  return { lostState, late };
}

/** From a refusal. */
export function needsOfRefusal(error: string, remedy: string | null): Needs {
  const text = `${error} ${remedy ?? ""}`;
  return { lostState: /--allow-lost-state|the job would lose/.test(text), late: /--allow-late|rows would be late/.test(text) };
}

/** A sign, a word and a class for a fate: colour is never all. */
export function fateSign(fate: string): [sign: string, name: string] {
  switch (fate) {
    case "kept":
      return ["✓", "kept"];
    case "handed-over":
      return ["⇢", "moved"];
    case "loaded":
      return ["⇄", "moved"];
    case "new":
      return ["+", "new"];
    case "lost":
      return ["✕", "lost"];
    case "gone":
      return ["−", "gone"];
    default:
      return ["•", ""];
  }
}

/** In the order of what matters most. */
export function byGravity(fates: FateLine[]): FateLine[] {
  const order = ["lost", "gone", "new", "loaded", "handed-over", "kept"];
  const rank = (line: FateLine) => (order.indexOf(line.fate) + order.length + 1) % (order.length + 1);
  return [...fates].sort((a, b) => rank(a) - rank(b));
}

/** `2 kept, 1 new`. */
export function counted(fates: FateLine[]): string {
  const counts = new Map<string, number>();
  for (const { fate } of byGravity(fates)) counts.set(fate, (counts.get(fate) ?? 0) + 1);
  return [...counts].map(([fate, number]) => `${number} ${fate.replace(/-/g, " ")}`).join(", ");
}
