// The rows of a preview: as they are now, or each change as it came.
import { useSignal } from "@preact/signals";
import { duration, grouped, plural } from "../format";
import { shown as visible } from "../shown";
import { ErrorBox } from "../ui/error";
import { Text } from "../ui/text";
import { endOf, type Preview, type Shown } from "./preview";
import { type Column, KEPT } from "./results";

export function PreviewRows({ preview }: { preview: Preview }) {
  const asLog = useSignal(false);
  const shown = preview.shown.value;
  if (shown.state === "none") {
    return <p class="empty">Preview runs the last SELECT for a few seconds and shows its rows here. It writes to no table and takes no checkpoint.</p>;
  }
  return (
    <>
      <div class="bar">
        <Status shown={shown} />
        {shown.isUpdated && (
          <label class="push"><input type="checkbox" checked={asLog.value} onChange={(event) => (asLog.value = event.currentTarget.checked)} /> Show each change (+ and −)</label>
        )}
      </div>
      {shown.failure !== null && <ErrorBox error={shown.failure} />}
      <Failure shown={shown} />
      {shown.state === "ended" && shown.rows.length === 0 && typeof shown.end?.why === "string" && <p class="note"><Text of={shown.end.why} max={1000} /></p>}
      {shown.columns.length > 0 && (asLog.value ? <Log shown={shown} /> : <Table shown={shown} />)}
    </>
  );
}

function Status({ shown }: { shown: Shown }) {
  const rows = shown.rows.length;
  const isOver = shown.state === "ended";
  const state = shown.state === "starting" ? "The query starts …" : shown.state === "running" ? "The query runs." : shown.failure === null ? endOf(shown.end) : "It failed.";
  const count = rows === 0 ? (isOver ? "No row came." : "No row yet.") : `${plural(rows, "row")}${shown.forgets ? ` (the newest ${KEPT} are kept)` : ""}${shown.changes > rows ? `, ${plural(shown.changes, "change")}` : ""}.`;
  const parts = [state, count, isOver ? `It ran for ${duration(shown.elapsed_ms)}.` : ""];
  return (
    <>
      <p class="said">{parts.filter((part) => part !== "").join(" ")}</p>
      {/* Only the beginning and the end are told to screen readers, not each row. */}
      <span class="visually-hidden" role="status">{shown.state === "ended" ? `The preview has ended with ${plural(rows, "row")}.` : "The preview runs."}</span>
    </>
  );
}

function Failure({ shown }: { shown: Shown }) {
  const end = shown.end;
  if (end === null || (end.reason !== "error" && typeof end.error !== "string")) return null;
  return (
    <div class="error" role="alert">
      <p class="error-what"><span aria-hidden="true">✕ </span><Text of={end.error ?? "The query failed."} max={2000} /></p>
      {typeof end.place === "string" && <p><span class="label">Where: </span><Text of={end.place} max={2000} /></p>}
      {typeof end.remedy === "string" && <p><span class="label">What to do: </span><Text of={end.remedy} max={2000} /></p>}
    </div>
  );
}

function Head({ columns, sign }: { columns: Column[]; sign: boolean }) {
  return (
    <thead>
      <tr>
        {sign && <th scope="col">Change</th>}
        {columns.map((column, at) => (
          <th key={at} scope="col" class={column.numeric ? "number" : ""}><Text of={column.name} max={60} /><small><Text of={column.type} max={60} /></small></th>
        ))}
      </tr>
    </thead>
  );
}

function Cells({ values, columns }: { values: (string | null)[]; columns: Column[] }) {
  return (
    <>
      {columns.map((column, at) => {
        const value = values[at] ?? null;
        if (value === null) return <td key={at} class={column.numeric ? "number null" : "null"}>NULL</td>;
        const text = visible(value);
        return text.length > 40 ? <td key={at} title={text}>{text.slice(0, 300)}</td> : <td key={at} class={column.numeric ? "number" : ""}>{text}</td>;
      })}
    </>
  );
}

function Table({ shown }: { shown: Shown }) {
  return (
    <div class="rows" tabIndex={0} role="region" aria-label="Rows of the query">
      <table>
        <Head columns={shown.columns} sign={false} />
        <tbody>{shown.rows.map((row) => <tr key={row.place}><Cells values={row.values} columns={shown.columns} /></tr>)}</tbody>
      </table>
    </div>
  );
}

function Log({ shown }: { shown: Shown }) {
  return (
    <div class="rows" tabIndex={0} role="region" aria-label="Changes of the result, newest first">
      <table>
        <Head columns={shown.columns} sign />
        <tbody>
          {shown.log.toReversed().map((row) => (
            <tr key={row.number} class={row.weight < 0 ? "taken" : "came"}>
              <td class="sign" title={`change ${grouped(row.number)}`}>{row.weight < 0 ? "− taken back" : "+ came"}</td>
              <Cells values={row.values} columns={shown.columns} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
