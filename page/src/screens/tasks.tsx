// The workers of a job: which task is where, and moves of tasks.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { jobPath } from "../api";
import type { Task } from "../docs";
import { duration, percent, plural, rate } from "../format";
import { ChangeDialog } from "../job/change-dialog";
import { turn } from "../job/model";
import { past } from "../past";
import { useResource } from "../resource";
import { href } from "../route";
import { mayChange } from "../server";
import { cut, shown } from "../shown";
import { Dialog } from "../ui/dialog";
import { Empty, ErrorBox, Loading } from "../ui/error";
import { Meter } from "../ui/figure";
import { Text } from "../ui/text";

interface Worker {
  name: string;
  slots: number;
  tasks: number;
  drained: boolean;
}

export default function TasksScreen({ name }: { name: string }) {
  const isNow = past.value === null;
  const tasks = useResource<{ tasks: Task[] }>(isNow ? jobPath(name, "/tasks") : null, 2000, turn.value);
  const workers = useResource<{ workers: Worker[] }>(isNow ? "/api/v1/workers" : null, 5000);
  const moving = useSignal<Task | null>(null);
  const order = useSignal<Record<string, unknown> | null>(null);
  if (!isNow) return <div class="screen"><h2>Workers</h2><Empty>Where tasks were is shown by the stages of the flow: open one.</Empty></div>;
  const byWorker = Map.groupBy(tasks.data?.tasks ?? [], (task) => task.worker);
  const others = (workers.data?.workers ?? []).filter((worker) => !worker.drained);
  const canMove = mayChange.value && others.length > 1;
  return (
    <div class="screen">
      <h2>Workers</h2>
      <p class="lead">The tasks of this job, by the worker that runs them. <a href={href(["workers"])}>All workers</a></p>
      {tasks.error !== null && tasks.data === null ? <ErrorBox error={tasks.error} again={tasks.again} /> : tasks.data === null ? <Loading what="the tasks" /> : byWorker.size === 0 ? <Empty>No task runs.</Empty> : null}
      {[...byWorker].sort(([a], [b]) => (a < b ? -1 : 1)).map(([worker, list]) => (
        <WorkerTasks key={worker} worker={worker} tasks={list} {...(canMove ? { onMove: (task: Task) => (moving.value = task) } : {})} />
      ))}
      {moving.value !== null && <MoveDialog task={moving.value} workers={others.map((one) => one.name)} onClose={() => (moving.value = null)} onChosen={(to) => { order.value = { moves: [{ stage: moving.value?.stage, task: moving.value?.task, to }] }; moving.value = null; }} />}
      {order.value !== null && <ChangeDialog name={name} title="Move a task" order={order.value} onClose={() => { order.value = null; tasks.again(); }} />}
    </div>
  );
}

function WorkerTasks({ worker, tasks, onMove }: { worker: string; tasks: Task[]; onMove?: (task: Task) => void }) {
  const busy = tasks.reduce((sum, task) => sum + (task.busy_share ?? 0), 0);
  return (
    <section>
      <h3><Text of={worker} max={60} /> <span class="dim">{plural(tasks.length, "task")}, {busy.toFixed(1)} cores busy</span></h3>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Tasks of the worker">
        <table class="data">
          <thead><tr><th scope="col">Task</th><th scope="col">Busy</th><th scope="col" class="n">In</th><th scope="col" class="n">Oldest queued</th><th scope="col" class="n">p99</th><th scope="col" class="n">Thread</th>{onMove !== undefined && <th scope="col">Actions</th>}</tr></thead>
          <tbody>
            {tasks.map((task) => (
              <tr key={`${task.stage}.${task.task}`}>
                <th scope="row"><span class="node-id">{task.stage}.{task.task}</span><Text of={task.stage_name} max={40} /></th>
                <td><Meter share={task.busy_share} label={`busy ${percent(task.busy_share)}`} /></td>
                <td class="n">{rate(task.rows_in_per_second)}</td>
                <td class="n">{duration(task.oldest_queued_ms)}</td>
                <td class="n">{task.latency.rows > 0 ? duration(task.latency.p99_ms) : "–"}</td>
                <td class="n">{task.thread ?? "–"}</td>
                {onMove !== undefined && <td><button type="button" class="small" aria-label={`Move task ${task.stage}.${task.task}`} onClick={() => onMove(task)}>Move</button></td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function MoveDialog({ task, workers, onClose, onChosen }: { task: Task; workers: string[]; onClose: () => void; onChosen: (to: string) => void }) {
  const to = useRef<HTMLSelectElement>(null);
  return (
    <Dialog title={`Move task ${task.stage}.${task.task}`} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); if (to.current !== null) onChosen(to.current.value); }}>
        <p><Text of={task.stage_name} max={60} /> is at <Text of={task.worker} max={60} />. Its state goes with it.</p>
        <label>To <select ref={to} autofocus>{workers.filter((worker) => worker !== task.worker).map((worker) => <option key={worker} value={worker}>{cut(shown(worker), 60)}</option>)}</select></label>
        <footer><button type="button" onClick={onClose}>Close</button><button type="submit" class="primary">Show what it would do</button></footer>
      </form>
    </Dialog>
  );
}
