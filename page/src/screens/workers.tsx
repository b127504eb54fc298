// Workers: who runs how much; drain one before its machine is taken away.
import { useSignal } from "@preact/signals";
import { type ApiError, request } from "../api";
import { jobs } from "../jobs";
import { toApiError } from "../resource";
import { mayChange } from "../server";
import { Dialog } from "../ui/dialog";
import { ErrorBox, Loading, Stale } from "../ui/error";
import { Text } from "../ui/text";
import { WorkerTable } from "./worker-table";

interface Drained {
  worker: string;
  drained: boolean;
  jobs: { job: string; moved: boolean; error: string | null; remedy: string | null }[];
}

export default function Workers() {
  const draining = useSignal<string | null>(null);
  const doc = jobs.doc.value;
  const link = jobs.link.value;
  if (doc === null) return <div class="screen"><h1>Workers</h1>{link.kind === "broken" && link.error !== null ? <ErrorBox error={link.error} /> : <Loading what="the workers" />}</div>;
  const actions = (name: string, drained: boolean) =>
    drained ? <Undrain name={name} /> : <button type="button" class="small" onClick={() => (draining.value = name)}>Drain</button>;
  return (
    <div class="screen">
      <h1>Workers</h1>
      {link.kind === "broken" && <Stale error={link.error} />}
      <p class="lead">A worker is a process that runs tasks. A slot is room for one task of each stage.</p>
      <WorkerTable workers={doc.workers} {...(mayChange.value ? { actions: (name, worker) => actions(name, worker.drained) } : {})} />
      {draining.value !== null && <DrainDialog name={draining.value} onClose={() => (draining.value = null)} />}
    </div>
  );
}

function Undrain({ name }: { name: string }) {
  const error = useSignal<ApiError | null>(null);
  const undrain = (): void => {
    error.value = null;
    request(`/api/v1/workers/${encodeURIComponent(name)}/undrain`, { method: "POST" }).catch((failure: unknown) => (error.value = toApiError(failure)));
  };
  return <><button type="button" class="small" onClick={undrain}>Undrain</button>{error.value !== null && <ErrorBox error={error.value} />}</>;
}

function DrainDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const busy = useSignal(false);
  const error = useSignal<ApiError | null>(null);
  const done = useSignal<Drained | null>(null);
  const drain = async (): Promise<void> => {
    busy.value = true;
    error.value = null;
    try {
      done.value = (await request(`/api/v1/workers/${encodeURIComponent(name)}/drain`, { method: "POST" })) as Drained;
    } catch (failure) {
      error.value = toApiError(failure);
    }
    busy.value = false;
  };
  return (
    <Dialog title="Drain the worker" onClose={onClose}>
      <p><strong><Text of={name} max={80} /></strong></p>
      {done.value === null ? (
        <p>All tasks move away from this worker, one job after the other. It gets no further ones. If a job cannot do without it, nothing changes.</p>
      ) : (
        <div role="status">
          <p>{done.value.drained ? "The worker is drained. It gets no further tasks." : "The worker is not drained: a job cannot do without it."}</p>
          <ul class="plain">
            {done.value.jobs.map((job) => (
              <li key={job.job}><Text of={job.job} max={60} />: {job.moved ? "moved away" : <><Text of={job.error ?? "not moved"} max={500} /> <Text of={job.remedy} max={500} /></>}</li>
            ))}
          </ul>
        </div>
      )}
      {error.value !== null && <ErrorBox error={error.value} />}
      <footer>
        <button type="button" onClick={onClose}>Close</button>
        {done.value === null && <button type="button" class="primary" disabled={busy.value} onClick={() => void drain()}>{busy.value ? "Draining …" : "Drain"}</button>}
      </footer>
    </Dialog>
  );
}
