// State: what does the job hold, and what does it hold for this key?
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { type ApiError, jobPath, request } from "../api";
import type { OperatorState, StateDocument, StateRows } from "../docs";
import { ago, bytes, dateTime, grouped, plural } from "../format";
import { shownNow, turn } from "../job/model";
import { past } from "../past";
import { toApiError, useResource } from "../resource";
import { cut, shown } from "../shown";
import { Empty, ErrorBox, Loading } from "../ui/error";
import { Text } from "../ui/text";

/** Rows that the server gives at most. */
const ROWS_MAX = 200;

export default function StateScreen({ name }: { name: string }) {
  const state = useResource<StateDocument>(past.value === null ? jobPath(name, "/state") : null, 5000, turn.value);
  return (
    <div class="screen">
      <h2>State</h2>
      {past.value !== null ? <Empty>State is read from the newest checkpoint. That of the past is not kept.</Empty> : state.data !== null ? <Operators name={name} state={state.data} /> : state.error === null ? <Loading what="the state" /> : state.error.status === 409 ? <None error={state.error} /> : <ErrorBox error={state.error} again={state.again} />}
    </div>
  );
}

/** The job keeps no checkpoints, or has none yet. */
function None({ error }: { error: ApiError }) {
  return <Empty><Text of={error.error} max={400} message />{error.remedy !== null && <>. <Text of={error.remedy} max={400} message /></>}</Empty>;
}

function Operators({ name, state }: { name: string; state: StateDocument }) {
  const most = Math.max(1, ...state.operators.map((operator) => operator.bytes));
  if (state.operators.length === 0) return <Empty>The job holds no state.</Empty>;
  return (
    <>
      <p class="lead">As of epoch {grouped(state.epoch)}, {ago(shownNow.value - state.completed_at_ms)}, in <Text of={state.place} max={200} />.</p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="State of the operators">
        <table class="data">
          <thead><tr><th scope="col">Operator</th><th scope="col" class="n">Rows</th><th scope="col" class="n">Bytes</th><th scope="col" class="wide-cell">Share of the largest</th><th scope="col" class="n">Files</th><th scope="col" class="n">Event time (UTC)</th></tr></thead>
          <tbody>
            {state.operators.map((operator) => (
              <tr key={operator.operator}>
                <th scope="row"><span class="node-id">{operator.operator}</span><Text of={operator.description} max={120} /></th>
                <td class="n">{grouped(operator.rows)}</td>
                <td class="n">{bytes(operator.bytes)}</td>
                <td><svg class="waterfall" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="share-none" width="100" height="8" /><rect class="share-busy" width={((operator.bytes / most) * 100).toFixed(2)} height="8" /></svg></td>
                <td class="n">{grouped(operator.files)}</td>
                <td class="n">{operator.watermark_ms === null ? "–" : dateTime(operator.watermark_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Lookup name={name} operators={state.operators} />
    </>
  );
}

/** Rows of one operator, or those with one value in a column. The columns are known once rows were seen. */
function Lookup({ name, operators }: { name: string; operators: OperatorState[] }) {
  const operator = useSignal(String(operators.find((one) => one.rows > 0)?.operator ?? operators[0]?.operator ?? ""));
  const column = useSignal("");
  const value = useRef<HTMLInputElement>(null);
  const columns = useSignal<string[]>([]);
  const found = useSignal<{ state: StateDocument; rows: StateRows } | null>(null);
  const error = useSignal<ApiError | null>(null);
  const busy = useSignal(false);
  const choose = (to: string): void => {
    operator.value = to;
    [column.value, columns.value, found.value, error.value] = ["", [], null, null];
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    busy.value = true;
    error.value = null;
    const asked = operator.peek();
    try {
      const query = new URLSearchParams({ operator: asked, ...(column.peek() === "" ? {} : { column: column.peek(), key: value.current?.value ?? "" }) });
      const state = (await request(jobPath(name, `/state?${query.toString()}`))) as StateDocument;
      if (operator.peek() === asked && state.rows !== null) {
        found.value = { state, rows: state.rows };
        if (state.rows.columns.length > 0) columns.value = state.rows.columns;
      }
    } catch (failure) {
      found.value = null;
      error.value = toApiError(failure);
    }
    busy.value = false;
  };
  return (
    <section>
      <h3>Look into it</h3>
      <form class="inline" onSubmit={(event) => void submit(event)}>
        <label>Operator{" "}
          <select value={operator.value} onChange={(event) => choose(event.currentTarget.value)}>
            {operators.map((one) => <option key={one.operator} value={String(one.operator)}>{one.operator} {cut(shown(one.description), 60)}</option>)}
          </select>
        </label>
        {columns.value.length > 0 && (
          <label>Column{" "}
            <select value={column.value} onChange={(event) => (column.value = event.currentTarget.value)}>
              <option value="">any</option>
              {columns.value.map((one) => <option key={one} value={one}>{cut(shown(one), 60)}</option>)}
            </select>
          </label>
        )}
        {column.value !== "" && <label>Value <input ref={value} autocomplete="off" /></label>}
        <button type="submit" disabled={busy.value}>{column.value === "" ? "Show rows" : "Show its rows"}</button>
      </form>
      {error.value !== null && <ErrorBox error={error.value} />}
      {found.value !== null && <Rows {...found.value} />}
    </section>
  );
}

function Rows({ state, rows: { columns, rows, notes } }: { state: StateDocument; rows: StateRows }) {
  return (
    <>
      <p class="dim" role="status">{rows.length === 0 ? "No row" : rows.length >= ROWS_MAX ? `The first ${ROWS_MAX} rows` : plural(rows.length, "row")} in epoch {grouped(state.epoch)}.</p>
      {notes.length > 0 && <ul class="plain">{notes.map((note, at) => <li key={at} class="hint"><Text of={note} max={500} message /></li>)}</ul>}
      {rows.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Rows of the operator">
          <table class="data">
            <thead><tr>{columns.map((column, at) => <th key={at} scope="col"><Text of={column} max={40} /></th>)}</tr></thead>
            <tbody>{rows.map((row, at) => <tr key={at}>{row.map((value, cell) => <td key={cell}>{value === null ? <span class="dim">NULL</span> : <Text of={value} max={200} />}</td>)}</tr>)}</tbody>
          </table>
        </div>
      )}
    </>
  );
}
