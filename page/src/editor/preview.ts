// The run of a preview: rows come as a stream, and the page is told of them four times a second at most.
import { signal } from "@preact/signals";
import { type ApiError, isAbort, stream, type StreamEvent } from "../api";
import { toApiError } from "../resource";
import type { TextError } from "./places";
import { changesOf, type Column, type Logged, type Placed, Results } from "./results";

/** Changes after which a preview ends, whatever the server does: no query can keep the page busy for long. */
const ROWS_MAX = 10_000;
const PUBLISH_MS = 250;

export interface End extends Partial<TextError> {
  reason: string;
  /** Why no row has come, if the server knows. */
  why?: string | null;
}

export interface Shown {
  state: "none" | "starting" | "running" | "ended";
  columns: Column[];
  rows: Placed[];
  log: Logged[];
  changes: number;
  isUpdated: boolean;
  forgets: boolean;
  end: End | null;
  failure: ApiError | null;
  elapsed_ms: number;
}

const NOTHING: Shown = {
  state: "none", columns: [], rows: [], log: [], changes: 0, isUpdated: false, forgets: false, end: null, failure: null, elapsed_ms: 0,
};

export class Preview {
  readonly shown = signal<Shown>(NOTHING);
  private running: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private columns: Column[] = [];
  private results = new Results([]);
  private end: End | null = null;
  private startedAt = 0;

  /** Ends the one before. */
  start(sql: string, seconds: number): void {
    this.stop();
    const running = new AbortController();
    this.running = running;
    [this.columns, this.results, this.end, this.startedAt] = [[], new Results([]), null, performance.now()];
    this.shown.value = { ...NOTHING, state: "starting" };
    const body = { sql, rows: ROWS_MAX, seconds };
    const take = (event: StreamEvent) => {
      if (this.running === running) this.take(event);
    };
    stream("/api/v1/sql/preview", { method: "POST", body, signal: running.signal, onEvent: take }).then(
      () => this.ended(running, null),
      (error: unknown) => this.ended(running, isAbort(error) ? null : toApiError(error)),
    );
  }

  /** Closes the connection: then the server ends the query. */
  stop(): void {
    const running = this.running;
    if (running === null) return;
    this.end ??= { reason: "stopped" };
    this.ended(running, null);
    running.abort();
  }

  private take(event: StreamEvent): void {
    let data: unknown;
    try {
      data = JSON.parse(event.data);
    } catch {
      return;
    }
    if (event.event === "columns") {
      this.columns = columnsOf(data);
      this.results = new Results(this.columns);
    } else if (event.event === "rows") this.results.apply(changesOf(data));
    else if (event.event === "end") this.end = data as End;
    if (this.results.changes >= ROWS_MAX && this.end === null) {
      this.end = { reason: "rows" };
      return this.stop();
    }
    // What comes within a quarter of a second is drawn at once.
    this.timer ??= setTimeout(() => this.publish("running", null), PUBLISH_MS);
  }

  private ended(running: AbortController, failure: ApiError | null): void {
    if (this.running !== running) return;
    this.running = null;
    if (failure === null) this.end ??= { reason: "broken" };
    this.publish("ended", failure);
  }

  private publish(state: Shown["state"], failure: ApiError | null): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { changes, isUpdated, forgets } = this.results;
    const elapsed_ms = performance.now() - this.startedAt;
    this.shown.value = {
      state, columns: this.columns, rows: this.results.rows(), log: this.results.logged(), changes, isUpdated, forgets,
      end: this.end, failure, elapsed_ms,
    };
  }
}

function columnsOf(data: unknown): Column[] {
  if (!Array.isArray(data)) return [];
  return data.map((column: unknown) => {
    const { name, type, numeric } = (column ?? {}) as Record<string, unknown>;
    return { name: String(name ?? ""), type: String(type ?? ""), numeric: numeric === true };
  });
}

/** Why a preview has ended, in a sentence. */
export function endOf(end: End | null): string {
  switch (end?.reason) {
    case "rows":
      return "It ended because enough rows had come.";
    case "time":
      return "Its time is over.";
    case "done":
      return "The query has ended: these are all rows.";
    case "stopped":
      return "It was stopped.";
    case "broken":
      return "The connection ended before the query did.";
    default:
      return "";
  }
}
