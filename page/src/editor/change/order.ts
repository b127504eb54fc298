// What a change asks of the server, made from the text and the forms.
import type { Fate } from "../../docs";
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

/** What the user has to allow before the change can be made. */
export interface Needs {
  lostState: boolean;
  late: boolean;
}

/** From what a dry run says. Its words are those of docs/changing.md. */
export function needsOf(fates: readonly Pick<Fate, "fate" | "what">[]): Needs {
  const lostState = fates.some((line) => line.fate === "lost");
  const late = fates.some((line) => /its rows before that are late/.test(line.what));
  return { lostState, late };
}

/** From a refusal. */
export function needsOfRefusal(error: string, remedy: string | null): Needs {
  const text = `${error} ${remedy ?? ""}`;
  return { lostState: /--allow-lost-state|the job would lose/.test(text), late: /--allow-late|rows would be late/.test(text) };
}
