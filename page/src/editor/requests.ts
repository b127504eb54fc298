// The requests of the editor's screens and what answers them.
import { request } from "../api";
import type { Plan } from "../docs";
import type { TextError } from "./places";

export interface Statement {
  line: number;
  kind: string;
  text: string;
}

export interface Checked {
  error: TextError | null;
  plan: Plan | null;
  statements: Statement[];
}

export interface TableOption {
  table: string;
  name: string;
  value: string;
}

/** The text by which a job runs. */
export interface RunningText {
  sql: string;
  settings: Record<string, string>;
  options: TableOption[];
  /** Of the plan that runs. */
  version: number;
}

export type Settings = Record<string, string>;

export async function check(input: { sql: string; settings: Settings }, signal: AbortSignal): Promise<Checked> {
  return (await request("/api/v1/sql/check", { method: "POST", body: input, signal })) as Checked;
}

export async function complete(sql: string, cursor: number, signal: AbortSignal): Promise<{ from: number; items: string[] }> {
  return (await request("/api/v1/sql/complete", { method: "POST", body: { sql, cursor }, signal })) as { from: number; items: string[] };
}

/** A text that no other order has: sent again under it, because an answer was lost, a job is taken once. */
export function newSubmission(): string {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The editor counts line ends as one character. */
export function plainLines(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}
