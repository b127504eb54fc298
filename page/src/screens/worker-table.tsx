// Workers as rows: who has how many tasks, and who was heard when.
import type { WorkerFields } from "../docs";
import { ago, grouped } from "../format";
import { now } from "../live";
import { Empty } from "../ui/error";
import { Text } from "../ui/text";

/** A worker that was not heard for so long has probably gone. */
const SILENT_MS = 5000;

interface Props {
  workers: Record<string, WorkerFields>;
  brief?: boolean;
  actions?: (name: string, worker: WorkerFields) => preact.ComponentChildren;
}

export function WorkerTable({ workers, brief = false, actions }: Props) {
  const names = Object.keys(workers).sort();
  if (names.length === 0) return <Empty>No worker is known.</Empty>;
  return (
    <table class="data cards">
      <caption class="visually-hidden">Workers</caption>
      <thead>
        <tr>
          <th scope="col">Worker</th><th scope="col" class="n">Tasks</th><th scope="col" class="n">Slots</th><th scope="col">Heard</th>
          {!brief && <><th scope="col">Address</th><th scope="col" class="n">Process</th><th scope="col">Labels</th></>}
          {actions !== undefined && <th scope="col">Actions</th>}
        </tr>
      </thead>
      <tbody>{names.map((name) => <Row key={name} name={name} worker={workers[name] as WorkerFields} brief={brief} actions={actions} />)}</tbody>
    </table>
  );
}

function Row({ name, worker, brief, actions }: { name: string; worker: WorkerFields; brief: boolean; actions: Props["actions"] }) {
  return (
    <tr>
      <th scope="row"><Text of={name} max={40} />{worker.drained && <span class="tag">drained</span>}</th>
      <td class="n" data-label="Tasks">{grouped(worker.tasks)}</td>
      <td class="n" data-label="Slots">{grouped(worker.slots)}</td>
      <td data-label="Heard"><Heard at={worker.last_heard_at_ms} /></td>
      {!brief && (
        <>
          <td data-label="Address"><Text of={worker.address} max={60} /></td>
          <td class="n" data-label="Process">{worker.pid}</td>
          <td data-label="Labels">{worker.labels.length === 0 ? "–" : <Text of={worker.labels.join(", ")} max={80} />}</td>
        </>
      )}
      {actions !== undefined && <td data-label="Actions">{actions(name, worker)}</td>}
    </tr>
  );
}

function Heard({ at }: { at: number | null | undefined }) {
  if (at == null) return <span>this process</span>;
  const silent = now.value - at;
  return silent > SILENT_MS ? <span class="verdict warn"><span aria-hidden="true">▲ </span>silent, {ago(silent)}</span> : <span>{ago(silent)}</span>;
}
