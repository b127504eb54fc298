// The form for a new job.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { type ApiError, request } from "../api";
import { toApiError } from "../resource";
import { go, href } from "../route";
import { ErrorBox } from "../ui/error";
import { newSubmission, plainLines } from "./requests";
import { allSettings, type Row, SettingsForm } from "./settings";

interface SubmitProps {
  sql: string;
  rows: Row[];
  onRows: (rows: Row[]) => void;
  /** The server has found an error in the text. */
  onError: (error: ApiError) => void;
}

export function Submit({ sql, rows, onRows, onError }: SubmitProps) {
  const name = useSignal("");
  const busy = useSignal(false);
  const error = useSignal<ApiError | null>(null);
  // Sent again under the same text, because an answer was lost, the job is taken once.
  const sent = useRef<{ order: string; submission: string } | null>(null);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const order = { name: name.value.trim(), sql: plainLines(sql), settings: allSettings(rows) };
    const text = JSON.stringify(order);
    if (sent.current?.order !== text) sent.current = { order: text, submission: newSubmission() };
    busy.value = true;
    error.value = null;
    try {
      await request("/api/v1/jobs", { method: "POST", body: { ...order, submission: sent.current.submission } });
      sent.current = null;
      go(href(["job", order.name, "flow"]));
    } catch (failure) {
      const found = toApiError(failure);
      error.value = found;
      if (found.status === 400) onError(found);
    }
    busy.value = false;
  };

  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <p>All <code>INSERT INTO</code> statements of the text become one job. It goes on when this page is closed.</p>
      <label>Name of the job <input name="job" required autocomplete="off" maxLength={200} value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} /></label>
      <div role="group" aria-label="Options of the job">
        <p class="hint">Options override those that the text sets.</p>
        <SettingsForm rows={rows} onChange={onRows} disabled={busy.value} />
      </div>
      {error.value !== null && <ErrorBox error={error.value} />}
      <div class="bar"><button type="submit" class="primary" disabled={busy.value || sql.trim() === ""}>{busy.value ? "Submitting …" : "Submit the job"}</button></div>
    </form>
  );
}
