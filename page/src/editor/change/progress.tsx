// A change that is under way, by this page or by anybody else, and how one has ended.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ApiError } from "../../api";
import { bytes, duration } from "../../format";
import { live } from "../../job/model";
import { ErrorBox } from "../../ui/error";
import { Text } from "../../ui/text";
import type { Session } from "./session";

export function Progress({ session, mayChange }: { session: Session; mayChange: boolean }) {
  const error = useSignal<ApiError | null>(null);
  const busy = useSignal(false);
  const changing = live.doc.value?.job.changing;
  const list = session.list.value;
  const isUnderWay = session.applying.value || Boolean(changing) || list?.changing === true;
  useEffect(() => {
    if (!isUnderWay) error.value = null;
  }, [isUnderWay]);
  if (!isUnderWay) return null;
  const step = typeof changing === "string" ? changing : (list?.step ?? null);
  // Once the tasks switch, the server refuses to abort.
  const isSwitching = step?.startsWith("switching") === true;
  const abort = async (): Promise<void> => {
    busy.value = true;
    error.value = await session.abort();
    busy.value = false;
  };
  return (
    <div class="note" role="status">
      <p><strong>{session.applying.value ? "The change is being carried out" : "A change of this job is under way"}</strong>{step === null ? "." : <>: <Step text={step} /></>}</p>
      <p class="hint">{isSwitching ? "The tasks switch. Rows wait in their sources until then." : "The job runs as before meanwhile. If you leave this page, the change goes on."}</p>
      {error.value !== null && <ErrorBox error={error.value} />}
      {mayChange && !isSwitching && step !== null && <button type="button" disabled={busy.value} onClick={() => void abort()}>Abort the change</button>}
    </div>
  );
}

/** `preparing: 1048576 bytes of state, round 2`, with a size that can be read. */
function Step({ text }: { text: string }) {
  return <Text of={text.replace(/(\d+) bytes/, (_, size: string) => bytes(Number(size)).replace("\u00a0", " "))} max={200} />;
}

export function Result({ session }: { session: Session }) {
  const outcome = session.outcome.value;
  if (outcome === null) return null;
  if (outcome.kind === "failed") {
    const { error, undone } = outcome;
    return (
      <div class="stack">
        {undone && <p class="note is-bad" role="status"><strong>The change was undone.</strong> The job goes on by its former plan.</p>}
        {!undone && error.status === 0 && <p class="note is-bad" role="status">The connection broke. A change that has begun goes on: the list of changes has its outcome.</p>}
        <ErrorBox error={error} />
      </div>
    );
  }
  const { version, unchanged, took_ms, copied_bytes } = outcome.done;
  return (
    <p class="note is-well" role="status">
      <strong><span aria-hidden="true">✓ </span>{unchanged ? "The job is as it was" : `Settled after ${duration(took_ms)}`}.</strong>{" "}
      Version {version} of its plan runs.{copied_bytes > 0 && ` ${bytes(copied_bytes)} of state were loaded ahead.`}
    </p>
  );
}
