// A document that the server keeps up to date: whole at first, then merge patches, also across breaks of the connection.
import { type Signal, signal } from "@preact/signals";
import { ApiError, isAbort, stream, type StreamEvent } from "./api";
import { mergePatch } from "./patch";
import { checkServer } from "./server";

export interface Numbered {
  number: number;
  at_ms: number;
}

export type Link =
  | { kind: "connecting" }
  | { kind: "live" }
  /** `since_ms`: the server's time when it was last heard; null if it never was. */
  | { kind: "broken"; since_ms: number | null; error: ApiError | null }
  | { kind: "ended"; reason: string };

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 5000;
/** The server sends something each second, or each five if nothing changes. After this time the connection is taken for dead. */
const SILENCE_MS = 12_000;
/** A page that nobody sees gives its connection back: browsers and the server have few. */
const HIDDEN_MS = 20_000;

/** The server's time of the newest document, moved on by the time since, as long as the server is heard. */
export const now = signal(0);

let heardAt = 0;
let heardNow = 0;

function hearTime(at_ms: number | null): void {
  const here = performance.now();
  if (at_ms !== null) {
    heardNow = at_ms;
    heardAt = here;
  }
  if (heardNow > 0) now.value = Math.round(heardNow + (here - heardAt));
}

export class Live<T extends Numbered> {
  readonly doc: Signal<T | null> = signal(null);
  readonly link: Signal<Link> = signal({ kind: "connecting" });
  private path = "";
  private attempt: AbortController | null = null;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private waitMs = RETRY_FIRST_MS;
  private lastHeard = 0;
  /** Whether the document belongs to `path`, so that differences may go on from it. */
  private resumes = false;

  /** `onReconnect` is told of each new connection after a break, so that what is not live can be fetched again. */
  constructor(
    private readonly onReconnect: () => void = () => undefined,
    /** Asked when the server ends the stream: a job that has just begun may have no sample yet. */
    private readonly isGone: () => Promise<boolean> = () => Promise.resolve(true),
  ) {}

  /** Follows a document. The former one stays until the new one is there, if it is of the same thing. */
  open(path: string, keeps: boolean): void {
    if (path === this.path && this.attempt !== null) return;
    this.close();
    this.path = path;
    this.resumes = false;
    if (!keeps) this.doc.value = null;
    this.link.value = { kind: "connecting" };
    this.waitMs = RETRY_FIRST_MS;
    document.addEventListener("visibilitychange", this.onVisibility);
    addEventListener("online", this.wake);
    addEventListener("pageshow", this.wake);
    this.connect();
  }

  close(): void {
    this.stop();
    clearTimeout(this.hiding);
    document.removeEventListener("visibilitychange", this.onVisibility);
    removeEventListener("online", this.wake);
    removeEventListener("pageshow", this.wake);
  }

  private stop(): void {
    clearTimeout(this.retry);
    clearTimeout(this.watchdog);
    this.attempt?.abort();
    this.attempt = null;
  }

  private connect(): void {
    this.stop();
    const attempt = new AbortController();
    this.attempt = attempt;
    const last = this.resumes ? this.doc.peek()?.number : undefined;
    const path = last === undefined ? this.path : `${this.path}${this.path.includes("?") ? "&" : "?"}from=${last}`;
    this.watch(attempt);
    stream(path, {
      signal: attempt.signal,
      onEvent: (event) => {
        if (this.attempt === attempt) this.take(event);
      },
      onActivity: () => {
        if (this.attempt === attempt) this.heard(attempt);
      },
    }).then(
      () => this.broke(attempt, null),
      (error: unknown) => {
        if (!isAbort(error)) this.broke(attempt, error instanceof ApiError ? error : new ApiError(0, String(error), null, null));
      },
    );
  }

  private heard(attempt: AbortController): void {
    const isNew = this.link.peek().kind !== "live";
    const isAgain = this.link.peek().kind === "broken";
    this.lastHeard = performance.now();
    this.waitMs = RETRY_FIRST_MS;
    this.watch(attempt);
    if (isNew) this.link.value = { kind: "live" };
    if (isAgain) {
      // The server may be another release now.
      checkServer(attempt.signal).catch(() => undefined);
      this.onReconnect();
    }
    hearTime(null);
  }

  private take(event: StreamEvent): void {
    if (event.event === "end") {
      const { reason } = parse(event.data) as { reason?: unknown };
      void this.end(typeof reason === "string" ? reason : "The server ended the stream.");
      return;
    }
    const known = this.doc.peek();
    let next: T;
    if (event.event === "whole") next = parse(event.data) as T;
    else if (event.event === "difference" && known !== null && this.resumes) {
      // What the page has already, sent again.
      if (event.id !== "" && Number(event.id) <= known.number) return;
      next = mergePatch(known, parse(event.data)) as T;
    } else return;
    if (event.id !== "" && Number.isFinite(Number(event.id))) next.number = Number(event.id);
    this.resumes = true;
    hearTime(next.at_ms);
    this.doc.value = next;
  }

  private async end(reason: string): Promise<void> {
    const attempt = this.attempt;
    const gone = await this.isGone().catch(() => false);
    // The end of the response was handled meanwhile: then this is about the same stream if none was begun since.
    if (!gone || (this.attempt !== attempt && this.attempt !== null)) return;
    this.close();
    this.link.value = { kind: "ended", reason };
  }

  private broke(attempt: AbortController, error: ApiError | null): void {
    if (this.attempt !== attempt) return;
    this.stop();
    const link = this.link.peek();
    const since = link.kind === "broken" ? link.since_ms : this.doc.peek() === null ? null : now.peek();
    this.link.value = { kind: "broken", since_ms: since, error };
    // The job is not there (any more): its document cannot be continued, but it may come back under this name.
    if (error !== null && error.status === 404) this.resumes = false;
    this.retry = setTimeout(() => this.connect(), this.waitMs);
    this.waitMs = Math.min(RETRY_MOST_MS, this.waitMs * 2);
  }

  private watch(attempt: AbortController): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      this.broke(attempt, new ApiError(0, "The server has sent nothing for a while.", null, null));
    }, SILENCE_MS);
  }

  private readonly onVisibility = (): void => {
    clearTimeout(this.hiding);
    if (document.visibilityState === "hidden") {
      this.hiding = setTimeout(() => this.stop(), HIDDEN_MS);
      return;
    }
    this.wake();
  };

  /** After a sleep the connection may be dead without a sign: connect at once instead of waiting for the silence. */
  private readonly wake = (): void => {
    if (this.link.peek().kind === "ended" || document.visibilityState === "hidden") return;
    const silent = performance.now() - this.lastHeard > 2500;
    if (this.attempt === null || this.link.peek().kind === "broken" || silent) this.connect();
  };
}

function parse(text: string): unknown {
  return JSON.parse(text) as unknown;
}
