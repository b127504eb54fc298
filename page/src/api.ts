// Requests to the server. The token is only ever in the header `Authorization`.
import { signal } from "@preact/signals";
import { EventParser, type StreamEvent } from "./sse";

export type { StreamEvent } from "./sse";

/** The server's answer that something is wrong, or that there was no answer (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly error: string,
    readonly place: string | null,
    readonly remedy: string | null,
    /** The whole answer; some errors have further fields. */
    readonly answer: unknown = null,
  ) {
    super(error);
    this.name = "ApiError";
  }
}

export interface RequestOptions {
  method?: string;
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal;
}

export interface StreamOptions extends RequestOptions {
  onEvent: (event: StreamEvent) => void;
  /** Something arrived: an event or a comment. */
  onActivity?: () => void;
}

const TOKEN = "anabranch-token";

/** The form for the token is open. `wrong`: the server has refused one. */
export const tokenForm = signal<{ wrong: boolean } | null>(null);

let answerTokenForm: (() => void) | null = null;
let tokenGiven: Promise<void> | null = null;

/** Takes the token from the fragment of the address, and removes it there before anything else can see it. */
export function takeTokenFromAddress(): void {
  const found = /(?:^#|[#&?])token=([^&]*)/.exec(location.hash);
  if (found?.[1] === undefined) return;
  let token = found[1];
  try {
    token = decodeURIComponent(token);
  } catch {
    // It was not encoded.
  }
  const rest = location.hash.replace(found[0], "");
  history.replaceState(null, "", location.pathname + location.search + (rest.startsWith("#/") ? rest : "#/"));
  storeToken(token);
}

function storedToken(): string | null {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return memoryToken;
  }
}

// A browser may forbid the storage. Then the token lasts as long as the page.
let memoryToken: string | null = null;

function storeToken(token: string): void {
  memoryToken = token;
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // It stays in memory.
  }
}

/** The form's answer: requests that wait for a token go on. */
export function giveToken(token: string): void {
  storeToken(token);
  tokenForm.value = null;
  tokenGiven = null;
  answerTokenForm?.();
  answerTokenForm = null;
}

function askForToken(wrong: boolean): Promise<void> {
  if (tokenGiven === null) {
    tokenGiven = new Promise((resolve) => (answerTokenForm = resolve));
    tokenForm.value = { wrong };
  }
  return tokenGiven;
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    if (signal === undefined) return;
    const stop = () => reject(new DOMException("The request was aborted.", "AbortError"));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Sends a request. A 401 opens the form for the token, and the request is sent again with it. */
async function send(path: string, options: RequestOptions, accept: string): Promise<Response> {
  for (;;) {
    const token = storedToken();
    const headers: Record<string, string> = { Accept: accept };
    if (token !== null && token !== "") headers["Authorization"] = `Bearer ${token}`;
    const init: RequestInit = { method: options.method ?? "GET", headers, cache: "no-store", credentials: "omit", redirect: "error" };
    if (options.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(options.body);
    }
    if (options.signal !== undefined) init.signal = options.signal;
    let answer: Response;
    try {
      answer = await fetch(path, init);
    } catch (error) {
      if (isAbort(error)) throw error;
      throw new ApiError(0, "The server does not answer.", null, "Check that its process runs and that this machine can reach it.");
    }
    if (answer.status !== 401) {
      if (!answer.ok) throw await errorOf(answer);
      return answer;
    }
    // Another request may have brought the token meanwhile.
    if (storedToken() === token) await Promise.race([askForToken(token !== null), aborted(options.signal)]);
  }
}

function textOr(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

async function errorOf(answer: Response): Promise<ApiError> {
  let body: unknown = null;
  try {
    body = await answer.json();
  } catch {
    // Not JSON: the status has to do.
  }
  const fields = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const error = textOr(fields["error"]) ?? `The server answered with status ${answer.status}.`;
  return new ApiError(answer.status, error, textOr(fields["place"]), textOr(fields["remedy"]), body);
}

/** The answer's JSON, or null if it has no body. Throws an `ApiError`. */
export async function request(path: string, options: RequestOptions = {}): Promise<unknown> {
  const answer = await send(path, options, "application/json");
  const text = await answer.text();
  if (text === "") return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new ApiError(answer.status, `The answer to ${path} is not JSON.`, null, null);
  }
}

/** Reads server-sent events until the server ends the stream. Throws an `ApiError`, or an `AbortError` for the signal. */
export async function stream(path: string, options: StreamOptions): Promise<void> {
  const answer = await send(path, options, "text/event-stream");
  const reader = answer.body?.getReader();
  if (reader === undefined) return;
  const parser = new EventParser();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      options.onActivity?.();
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        options.onEvent(event);
        if (options.signal?.aborted) return;
      }
    }
  } catch (error) {
    if (isAbort(error) || options.signal?.aborted) throw new DOMException("The stream was closed.", "AbortError");
    if (error instanceof TypeError) throw new ApiError(0, "The connection to the server broke.", null, null);
    throw error;
  } finally {
    // Frees the connection also if an event's handler threw.
    reader.cancel().catch(() => undefined);
  }
}

/** `/api/v1/jobs/NAME/...` with the name encoded. */
export function jobPath(name: string, rest = ""): string {
  return `/api/v1/jobs/${encodeURIComponent(name)}${rest}`;
}
