// The forms of a change: options, numbers of tasks, places of tasks.
import { useSignal } from "@preact/signals";
import { plural } from "../../format";
import { plan } from "../../job/model";
import { useResource } from "../../resource";
import { cut, shown } from "../../shown";
import { SettingsForm } from "../settings";
import type { Session } from "./session";

const name = (text: string) => cut(shown(text), 60);

export function ChangeForms({ session, disabled }: { session: Session; disabled: boolean }) {
  return (
    <div class="stack">
      <details class="box" open={session.forms.peek().tasks.number !== ""}>
        <summary>Number of tasks</summary>
        <Tasks session={session} disabled={disabled} />
      </details>
      <details class="box">
        <summary>Options ({Object.keys(session.base.value?.settings ?? {}).length})</summary>
        <p class="hint">Options of checkpoints and epochs stay while a job runs.</p>
        <SettingsForm rows={session.forms.value.rows} onChange={(rows) => session.setForms({ rows })} disabled={disabled} />
        <TableOptions session={session} />
      </details>
      <details class="box">
        <summary>Move tasks to other workers</summary>
        <Moves session={session} disabled={disabled} />
      </details>
    </div>
  );
}

function Tasks({ session, disabled }: { session: Session; disabled: boolean }) {
  const stages = plan.value?.stages ?? [];
  const { stage, number } = session.forms.value.tasks;
  const set = (to: Partial<{ stage: number | null; number: string }>) => session.setForms({ tasks: { ...session.forms.peek().tasks, ...to } });
  const present = stages.find((one) => one.stage === stage)?.parallelism;
  const isWrong = number.trim() !== "" && !/^[1-9][0-9]{0,4}$/.test(number.trim());
  return (
    <div class="bar">
      <label>Stage{" "}
        <select disabled={disabled} value={stage === null ? "" : String(stage)} onChange={(event) => set({ stage: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}>
          <option value="">all parallel stages</option>
          {stages.map((one) => <option key={one.stage} value={String(one.stage)}>{one.stage} {name(one.name)}: {plural(one.parallelism, "task")}</option>)}
        </select>
      </label>
      <label>Tasks <input inputMode="numeric" size={6} disabled={disabled} value={number} placeholder={present === undefined ? "" : String(present)} aria-invalid={isWrong} onInput={(event) => set({ number: event.currentTarget.value })} /></label>
      {isWrong && <span role="alert" class="bad">Give a whole number from 1 on.</span>}
    </div>
  );
}

function TableOptions({ session }: { session: Session }) {
  const options = session.base.value?.options ?? [];
  if (options.length === 0) return null;
  return (
    <>
      <p class="hint">Options of tables that were given beside the text. They stay.</p>
      <ul class="plain">{options.map((option, at) => <li key={at}><code>{shown(option.table)}.{shown(option.name)}</code> = <code>{shown(option.value)}</code></li>)}</ul>
    </>
  );
}

interface WorkerList {
  workers: { name: string; slots: number }[];
}

function Moves({ session, disabled }: { session: Session; disabled: boolean }) {
  const workers = useResource<WorkerList>("/api/v1/workers").data?.workers ?? [];
  const [stage, task, to] = [useSignal("0"), useSignal("0"), useSignal("")];
  const stages = plan.value?.stages ?? [];
  const moves = session.forms.value.moves;
  if (workers.length < 2) return <p class="hint">All tasks of this job are in one process. Tasks can be moved only between workers.</p>;
  const tasks = stages.find((one) => String(one.stage) === stage.value)?.parallelism ?? 1;
  const add = (): void => {
    const move = { stage: Number(stage.value), task: Math.min(Number(task.value), tasks - 1), to: to.value };
    session.setForms({ moves: [...moves.filter((one) => one.stage !== move.stage || one.task !== move.task), move] });
  };
  return (
    <>
      <ul class="plain">
        {moves.map((move) => (
          <li key={`${move.stage}.${move.task}`} class="bar">
            Task {move.stage}.{move.task} to {name(move.to)}
            <button type="button" disabled={disabled} aria-label={`Do not move task ${move.stage}.${move.task}`} onClick={() => session.setForms({ moves: moves.filter((one) => one !== move) })}>✕</button>
          </li>
        ))}
      </ul>
      <div class="bar">
        <label>Stage <select disabled={disabled} value={stage.value} onChange={(event) => (stage.value = event.currentTarget.value)}>{stages.map((one) => <option key={one.stage} value={String(one.stage)}>{one.stage} {name(one.name)}</option>)}</select></label>
        <label>Task <select disabled={disabled} value={task.value} onChange={(event) => (task.value = event.currentTarget.value)}>{Array.from({ length: Math.min(tasks, 1000) }, (_, at) => <option key={at} value={String(at)}>{at}</option>)}</select></label>
        <label>Worker{" "}
          <select disabled={disabled} value={to.value} onChange={(event) => (to.value = event.currentTarget.value)}>
            <option value="">choose</option>
            {workers.map((worker) => <option key={worker.name} value={worker.name}>{name(worker.name)}</option>)}
          </select>
        </label>
        <button type="button" disabled={disabled || to.value === ""} onClick={add}>Add</button>
      </div>
    </>
  );
}
