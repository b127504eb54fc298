// A change of the running job: first what it would do, then the change. Both are for the version of the plan that the user has seen.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type ApiError, jobPath, request } from "../api";
import type { Reconfigured } from "../docs";
import { bytes, duration, grouped } from "../format";
import { mayChange } from "../server";
import { toApiError } from "../resource";
import { Dialog } from "../ui/dialog";
import { ErrorBox, Loading } from "../ui/error";
import { Fates } from "../ui/fates";
import { Lines } from "../ui/text";
import { type Chosen, ForeseenGraph, ForeseenParts } from "./foreseen";
import { live } from "./model";

interface Props {
  name: string;
  title: string;
  /** A ReconfigureOrder without `dry_run` and `if_version`. */
  order: Record<string, unknown>;
  onClose: () => void;
}

export function ChangeDialog({ name, title, order, onClose }: Props) {
  const would = useSignal<Reconfigured | null>(null);
  const done = useSignal<Reconfigured | null>(null);
  const busy = useSignal<"dry" | "apply" | null>(null);
  const error = useSignal<ApiError | null>(null);
  const chosen = useSignal<Chosen | null>(null);
  const version = useSignal(live.doc.peek()?.job.plan_version);
  const send = async (dry: boolean): Promise<void> => {
    busy.value = dry ? "dry" : "apply";
    error.value = null;
    try {
      const body = { ...order, if_version: version.peek() };
      const answer = (await request(jobPath(name, "/reconfigure"), { method: "POST", body: dry ? { ...body, dry_run: true } : body })) as Reconfigured;
      if (dry) would.value = answer;
      else done.value = answer;
    } catch (failure) {
      error.value = toApiError(failure);
    }
    busy.value = null;
  };
  /** Somebody may have changed the job meanwhile: what the change would do now. */
  const again = (): void => {
    version.value = live.doc.peek()?.job.plan_version;
    would.value = null;
    void send(true);
  };
  useEffect(() => void send(true), []);
  return (
    <Dialog title={title} onClose={onClose} wide>
      <details class="order"><summary>The request</summary><Lines of={JSON.stringify({ ...order, if_version: version.value }, null, 2)} /></details>
      {done.value !== null ? (
        <div role="status">
          <p>{done.value.unchanged ? "Nothing was changed: the job runs so already." : `The change is settled after ${duration(done.value.took_ms)}. Version ${grouped(done.value.version)} of the plan runs. ${bytes(done.value.copied_bytes)} of state were copied.`}</p>
          <Fates changes={done.value.changes} />
        </div>
      ) : would.value !== null ? (
        <>
          <h3>What it would do</h3>
          <ForeseenGraph would={would.value} chosen={chosen} />
          <ForeseenParts would={would.value} chosen={chosen} />
        </>
      ) : busy.value === "dry" ? <Loading what="what it would do" /> : null}
      {error.value !== null && <ErrorBox error={error.value} again={again} />}
      <footer>
        <button type="button" onClick={onClose}>Close</button>
        {done.value === null && mayChange.value && (
          <button type="button" class="primary" disabled={busy.value !== null || would.value === null} onClick={() => void send(false)}>{busy.value === "apply" ? "Applying …" : "Apply"}</button>
        )}
      </footer>
    </Dialog>
  );
}
