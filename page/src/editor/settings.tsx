// A form for options of a job, as by SET.
import { useId } from "preact/hooks";
import { shown } from "../shown";

/** An option in the form. `was`: what it is without the form; null if it is not set. */
export interface Row {
  name: string;
  value: string;
  was: string | null;
  removed: boolean;
}

const NAMES = [
  "parallelism", "max-parallelism", "stage-parallelism", "checkpoint-interval", "checkpoint-timeout", "restart-attempts", "state-backend",
  "state-bytes", "buffer-timeout", "batch-rows", "channel-bytes", "execution.runtime-mode", "table.exec.state.ttl",
  "table.exec.source.idle-timeout", "table.exec.mini-batch.enabled", "table.local-time-zone", "scheduling", "autoscale",
  "autoscale-tasks-min", "autoscale-tasks-max",
];

export function rowsOf(settings: Record<string, string>): Row[] {
  return Object.entries(settings).map(([name, value]) => ({ name, value, was: value, removed: false }));
}

/** What the form changes: null removes an option. */
export function changedSettings(rows: Row[]): Record<string, string | null> {
  const changed = rows.filter((row) => row.name.trim() !== "" && (row.removed ? row.was !== null : row.value !== row.was));
  return Object.fromEntries(changed.map((row) => [row.name.trim(), row.removed ? null : row.value]));
}

/** The options that a job has with the form. */
export function allSettings(rows: Row[]): Record<string, string> {
  return Object.fromEntries(rows.filter((row) => row.name.trim() !== "" && !row.removed).map((row) => [row.name.trim(), row.value]));
}

export function SettingsForm({ rows, onChange, disabled = false }: { rows: Row[]; onChange: (rows: Row[]) => void; disabled?: boolean }) {
  const list = useId();
  const set = (at: number, change: Partial<Row>) => onChange(rows.map((row, other) => (other === at ? { ...row, ...change } : row)));
  return (
    <fieldset disabled={disabled} class="plain-fieldset">
      <datalist id={list}>{NAMES.map((name) => <option key={name} value={name} />)}</datalist>
      <div class="fields">
        {rows.map((row, at) => <Fields key={at} row={row} list={list} set={(change) => set(at, change)} drop={() => onChange(rows.filter((_, other) => other !== at))} />)}
      </div>
      <button type="button" onClick={() => onChange([...rows, { name: "", value: "", was: null, removed: false }])}>Add an option</button>
    </fieldset>
  );
}

function Fields({ row, list, set, drop }: { row: Row; list: string; set: (change: Partial<Row>) => void; drop: () => void }) {
  const isOwn = row.was === null;
  const name = shown(row.name);
  return (
    <>
      {isOwn ? (
        <input aria-label="Name of the option" list={list} placeholder="name" value={row.name} onInput={(event) => set({ name: event.currentTarget.value })} />
      ) : (
        <span class={row.removed ? "name gone" : "name"}>{name}{row.removed ? " (removed)" : row.value !== row.was ? " (changed)" : ""}</span>
      )}
      <input aria-label={`Value of ${name === "" ? "the option" : name}`} placeholder="value" value={row.value} disabled={row.removed} onInput={(event) => set({ value: event.currentTarget.value })} />
      {isOwn ? (
        <button type="button" aria-label={`Leave out ${name === "" ? "the option" : name}`} onClick={drop}>✕</button>
      ) : (
        <button type="button" aria-label={`${row.removed ? "Keep" : "Remove"} ${name}`} onClick={() => set({ removed: !row.removed })}>{row.removed ? "Keep" : "Remove"}</button>
      )}
    </>
  );
}
