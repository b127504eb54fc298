// The changes that the server remembers, newest first.
import { useSignal } from "@preact/signals";
import type { ChangeRecord } from "../../docs";
import { duration, moment, words } from "../../format";
import { now } from "../../live";
import { OUTCOMES } from "../../job/fates";
import { ErrorBox } from "../../ui/error";
import { Fates } from "../../ui/fates";
import { Text } from "../../ui/text";
import { Difference } from "./differences";
import type { Session } from "./session";

const SHOWN = 20;

export function Changes({ session, mayEdit }: { session: Session; mayEdit: boolean }) {
  const all = useSignal(false);
  const list = session.list.value;
  const error = session.listError.value;
  const records = (list?.changes ?? []).toReversed();
  return (
    <section class="box" aria-labelledby="changes">
      <h2 id="changes">Changes so far</h2>
      {error !== null && <ErrorBox error={error} again={() => void session.loadList()} />}
      {list !== null && records.length === 0 && <p class="empty">There are no changes since this process runs the job.</p>}
      <ol class="plain">
        {records.slice(0, all.value ? undefined : SHOWN).map((record, at) => <Record key={records.length - at} record={record} session={session} mayEdit={mayEdit} />)}
      </ol>
      {records.length > SHOWN && !all.value && <button type="button" onClick={() => (all.value = true)}>Show all {records.length}</button>}
      <Texts session={session} mayEdit={mayEdit} />
    </section>
  );
}

function Record({ record, session, mayEdit }: { record: ChangeRecord; session: Session; mayEdit: boolean }) {
  const [sign, kind] = OUTCOMES[record.outcome] ?? ["•", "calm"];
  const text = record.version === null ? undefined : session.texts.value.get(record.version);
  const before = record.version === null ? undefined : textBefore(session.texts.value, record.version);
  return (
    <li>
      <details>
        <summary>
          <span class="dim">{moment(record.at_ms, now.peek())}</span> <span class={`verdict ${kind}`}><span aria-hidden="true">{sign} </span>{words(record.outcome)}</span>{" "}
          <Text of={record.request} max={80} /> {record.took_ms !== null && <span class="dim">{duration(record.took_ms)}</span>}
        </summary>
        <div class="stack">
          {record.reason !== null && <p class="note is-bad"><Text of={record.reason} max={2000} /></p>}
          {record.version !== null && <p class="said">Version {record.version} of the plan.</p>}
          {record.changes.length > 0 && <Fates changes={record.changes} label="What became of each part" />}
          {text !== undefined && before !== undefined && before !== text && <Difference before={before} after={text} label="Difference to the text before" />}
          {text !== undefined && mayEdit && text !== session.text.value && <button type="button" onClick={() => (session.text.value = text)}>Go back to this text</button>}
        </div>
      </details>
    </li>
  );
}

/** The text of the newest version before this one that the page knows. */
function textBefore(texts: ReadonlyMap<number, string>, version: number): string | undefined {
  const known = [...texts.keys()].filter((other) => other < version);
  return known.length === 0 ? undefined : texts.get(Math.max(...known));
}

/** Texts of no change in the list, such as the first one. Each is listed once. */
function Texts({ session, mayEdit }: { session: Session; mayEdit: boolean }) {
  const texts = session.texts.value;
  const listed = new Set((session.list.value?.changes ?? []).map((record) => texts.get(record.version ?? -1)).concat(session.base.value?.sql));
  const others: [number, string][] = [];
  for (const [version, text] of texts) {
    if (!listed.has(text)) others.push([version, text]);
    listed.add(text);
  }
  if (others.length === 0) return null;
  return (
    <ul class="plain">
      {others.map(([version, text]) => (
        <li key={version} class="bar">
          <span>Text of version {version}, seen by this page</span>
          {mayEdit && text !== session.text.value && <button type="button" onClick={() => (session.text.value = text)}>Go back to this text</button>}
        </li>
      ))}
    </ul>
  );
}
