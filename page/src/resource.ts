// What is not live: fetched when a screen opens, and again at intervals while it is seen.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError, isAbort, request } from "./api";

export interface Resource<T> {
  data: T | null;
  error: ApiError | null;
  again: () => void;
}

/** Fetches `path` now and each `everyMs`; null fetches nothing. An older answer never replaces a newer one. */
export function useResource<T>(path: string | null, everyMs: number | null = null, key: unknown = null): Resource<T> {
  const data = useSignal<T | null>(null);
  const error = useSignal<ApiError | null>(null);
  const turn = useSignal(0);
  const of = useSignal<string | null>(null);
  useEffect(() => {
    if (of.peek() !== path) {
      data.value = null;
      error.value = null;
      of.value = path;
    }
    if (path === null) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const fetchOnce = async (): Promise<void> => {
      try {
        const answer = (await request(path, { signal: abort.signal })) as T;
        if (abort.signal.aborted) return;
        data.value = answer;
        error.value = null;
      } catch (failure) {
        if (isAbort(failure) || abort.signal.aborted) return;
        error.value = toApiError(failure);
      }
      if (everyMs !== null) timer = setTimeout(next, everyMs);
    };
    const next = (): void => {
      // A page that is not seen asks for nothing.
      if (document.visibilityState === "hidden") timer = setTimeout(next, 1000);
      else void fetchOnce();
    };
    void fetchOnce();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs, turn.value, key]);
  const isOf = of.value === path;
  return { data: isOf ? data.value : null, error: isOf ? error.value : null, again: () => (turn.value += 1) };
}

export function toApiError(failure: unknown): ApiError {
  return failure instanceof ApiError ? failure : new ApiError(0, failure instanceof Error ? failure.message : String(failure), null, null);
}
