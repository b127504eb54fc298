// What can be done with a job as a whole. Each action says what it does before it does it.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { type ApiError, jobPath, request } from "../api";
import { bytes, grouped } from "../format";
import { go } from "../route";
import { mayChange } from "../server";
import { toApiError } from "../resource";
import { Dialog } from "../ui/dialog";
import { ErrorBox } from "../ui/error";
import { Text } from "../ui/text";
import { isOver } from "../verdict";
import { live } from "./model";

type Action = "savepoint" | "stop" | "cancel" | "remove";

export function JobActions({ name }: { name: string }) {
  const open = useSignal<Action | null>(null);
  const state = live.doc.value?.job.state;
  if (!mayChange.value || state === undefined) return null;
  const over = isOver(state);
  const button = (action: Action, text: string) => <button type="button" onClick={() => (open.value = action)}>{text}</button>;
  const close = (): void => {
    open.value = null;
  };
  return (
    <div class="actions" role="group" aria-label="Actions">
      {!over && button("savepoint", "Savepoint")}
      {!over && button("stop", "Stop")}
      {!over && button("cancel", "Cancel")}
      {over && button("remove", "Remove")}
      {open.value === "savepoint" && <SavepointDialog name={name} onClose={close} />}
      {open.value === "stop" && <Confirm name={name} action="stop" title="Stop the job" verb="Stop" text="The job stops at the end of an epoch. All rows that were read are processed. Open windows stay open. The next start resumes from the newest checkpoint." onClose={close} />}
      {open.value === "cancel" && <Confirm name={name} action="cancel" title="Cancel the job" verb="Cancel the job" text="The job ends at once, as a crash would end it. Rows since the newest checkpoint are read again by the next start." onClose={close} />}
      {open.value === "remove" && <RemoveDialog name={name} resumes={state !== "ended"} onClose={close} />}
    </div>
  );
}

interface ConfirmProps {
  name: string;
  action: "stop" | "cancel";
  title: string;
  verb: string;
  text: string;
  onClose: () => void;
}

function useOrder(done: (answer: unknown) => void) {
  const error = useSignal<ApiError | null>(null);
  const busy = useSignal(false);
  const send = async (path: string, body?: unknown): Promise<void> => {
    busy.value = true;
    error.value = null;
    try {
      done(await request(path, body === undefined ? { method: "POST" } : { method: "POST", body }));
    } catch (failure) {
      error.value = toApiError(failure);
    }
    busy.value = false;
  };
  return { error, busy, send };
}

function Confirm({ name, action, title, verb, text, onClose }: ConfirmProps) {
  const { error, busy, send } = useOrder(onClose);
  return (
    <Dialog title={title} onClose={onClose}>
      <p><strong><Text of={name} max={80} /></strong></p>
      <p>{text}</p>
      {error.value !== null && <ErrorBox error={error.value} />}
      <footer>
        <button type="button" onClick={onClose} autofocus>Keep it running</button>
        <button type="button" class="danger" disabled={busy.value} onClick={() => void send(jobPath(name, `/${action}`))}>{verb}</button>
      </footer>
    </Dialog>
  );
}

interface Savepoint {
  place: string;
  epoch: number;
  files: number;
  rows: number;
  bytes: number;
}

function SavepointDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const taken = useSignal<Savepoint | null>(null);
  const { error, busy, send } = useOrder((answer) => (taken.value = answer as Savepoint));
  const submit = (event: Event): void => {
    event.preventDefault();
    void send(jobPath(name, "/savepoint"), { place: field.current?.value ?? "" });
  };
  const savepoint = taken.value;
  return (
    <Dialog title="Take a savepoint" onClose={onClose}>
      {savepoint !== null ? (
        <>
          <p role="status">The savepoint is complete: epoch {grouped(savepoint.epoch)}, {grouped(savepoint.rows)} rows of state, {bytes(savepoint.bytes)} in {grouped(savepoint.files)} files.</p>
          <p><Text of={savepoint.place} max={500} /></p>
          <footer><button type="button" class="primary" onClick={onClose}>Close</button></footer>
        </>
      ) : (
        <form onSubmit={submit}>
          <p>A savepoint is a copy of the job's state that you keep. New jobs can start from it. The job goes on meanwhile.</p>
          <label>Place <input ref={field} name="place" required autofocus placeholder="/var/lib/anabranch/before-upgrade" /></label>
          <p class="hint">An empty or new directory of the machine on which the job runs, or a place in an object store.</p>
          {error.value !== null && <ErrorBox error={error.value} />}
          <footer>
            <button type="button" onClick={onClose}>Close</button>
            <button type="submit" class="primary" disabled={busy.value}>{busy.value ? "Taking it …" : "Take the savepoint"}</button>
          </footer>
        </form>
      )}
    </Dialog>
  );
}

function RemoveDialog({ name, resumes, onClose }: { name: string; resumes: boolean; onClose: () => void }) {
  const discard = useSignal(false);
  const { error, busy, send } = useOrder(() => {
    onClose();
    go("#/");
  });
  return (
    <Dialog title="Remove the job" onClose={onClose}>
      <p><strong><Text of={name} max={80} /></strong></p>
      <p>The job disappears from the list, with its checkpoints. Its name is free then.</p>
      {resumes && (
        <label class="check">
          <input type="checkbox" checked={discard.value} onChange={(event) => (discard.value = event.currentTarget.checked)} />
          Discard its state. The job could resume from its newest checkpoint; that is lost.
        </label>
      )}
      {error.value !== null && <ErrorBox error={error.value} />}
      <footer>
        <button type="button" onClick={onClose} autofocus>Keep it</button>
        <button type="button" class="danger" disabled={busy.value || (resumes && !discard.value)} onClick={() => void send(jobPath(name, "/remove"), discard.value ? { discard_state: true } : {})}>Remove</button>
      </footer>
    </Dialog>
  );
}
