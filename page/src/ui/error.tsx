// An error of the server: what is wrong, where, and what to do about it.
import type { ApiError } from "../api";
import { Text } from "./text";

export function ErrorBox({ error, again }: { error: ApiError; again?: () => void }) {
  return (
    <div class="error" role="alert">
      <p class="error-what"><span aria-hidden="true">✕ </span><Text of={error.error} max={2000} message /></p>
      {error.place !== null && <p><span class="label">Where: </span><Text of={error.place} max={2000} message /></p>}
      {error.remedy !== null && <p><span class="label">What to do: </span><Text of={error.remedy} max={2000} message /></p>}
      {again !== undefined && <button type="button" onClick={again}>Try again</button>}
    </div>
  );
}

/** While nothing is there yet. Screen readers are told once it takes long enough to matter. */
export function Loading({ what }: { what: string }) {
  return <p class="loading" role="status">Loading {what} …</p>;
}

/** The connection is broken, and there is something older to look at. `error`: why, as far as it is known. */
export function Stale({ error }: { error: ApiError | null }) {
  // A server that answers says itself what is wrong: another coordinator may have the jobs.
  if (error !== null && error.status !== 0) return <ErrorBox error={error} />;
  return <p class="banner bad"><span aria-hidden="true">✕ </span>The server is not heard. This is what it said last; the page tries to connect again.</p>;
}

export function Empty({ children }: { children: preact.ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
