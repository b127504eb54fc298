// What would become of each part, and what the user has to allow.
import { bytes } from "../../format";
import { live } from "../../job/model";
import { ErrorBox } from "../../ui/error";
import { Text } from "../../ui/text";
import { ErrorOf } from "../checking";
import type { Mark } from "../places";
import { byGravity, counted, type FateLine, fateSign } from "./order";
import type { Session } from "./session";

export function FateList({ fates, label }: { fates: FateLine[]; label: string }) {
  return (
    <ul class="fates" aria-label={label}>
      {byGravity(fates).map((line, at) => {
        const [sign, kind] = fateSign(line.fate);
        return (
          <li key={at}>
            <span class={`fate ${kind}`}><span aria-hidden="true">{sign} </span><Text of={line.fate.replace(/-/g, " ")} max={30} /></span>
            <span><Text of={line.what} max={1000} />{typeof line.bytes === "number" && ` (${bytes(line.bytes)})`}</span>
          </li>
        );
      })}
    </ul>
  );
}

/** The answer to the newest dry run. */
export function Rehearsed({ session, onGo }: { session: Session; onGo: (mark: Mark) => void }) {
  const rehearsal = session.rehearsal.value;
  return (
    <section class="box" aria-labelledby="rehearsed">
      <h2 id="rehearsed">What would become of each part</h2>
      <div role="status" class="stack">
        {rehearsal.kind === "nothing" && <p class="said">Change the text or the options: then this says what the job keeps and what it loses. Nothing changes before you apply it.</p>}
        {rehearsal.kind === "asking" && <p class="said">Asking …</p>}
        {rehearsal.kind === "large" && <div class="bar"><p class="said">The text is large. No dry run is made while you type.</p><button type="button" onClick={() => session.rehearseNow()}>Dry run</button></div>}
        {rehearsal.kind === "refused" && (session.marks.value.length > 0 ? <p class="said"><ErrorOf error={rehearsal.error} mark={session.marks.value[0] ?? null} onGo={onGo} /></p> : <ErrorBox error={rehearsal.error} />)}
        {rehearsal.kind === "fates" && <p class="said">{counted(rehearsal.fates)}</p>}
      </div>
      {rehearsal.kind === "fates" && <FateList fates={rehearsal.fates} label="Parts of the job" />}
      {rehearsal.kind === "fates" && <Moving session={session} />}
      <Allow session={session} />
    </section>
  );
}

/** State that moves, which the server does not count before it does it. */
function Moving({ session }: { session: Session }) {
  const order = session.order.value;
  const last = live.doc.value?.checkpoints?.last?.bytes;
  if (order === null || typeof last !== "number") return null;
  const moves = order.moves !== undefined || order.parallelism !== undefined;
  const size = `The newest checkpoint has ${bytes(last)}.`;
  return <p class="hint">{moves ? `State of stages that get another number of tasks, and of tasks that move, is loaded where it will be. ${size} More than 4 MB is loaded ahead, while the job runs.` : `State whose keys stay at their tasks is handed over in memory. ${size}`}</p>;
}

function Allow({ session }: { session: Session }) {
  const needs = session.needs.value;
  const forms = session.forms.value;
  return (
    <>
      {needs.lostState && (
        <label class="check note is-bad">
          <input type="checkbox" checked={forms.allowLostState} onChange={(event) => session.setForms({ allowLostState: event.currentTarget.checked })} />{" "}
          Drop the state that is lost. It cannot be brought back without a savepoint.
        </label>
      )}
      {needs.late && (
        <label class="check note">
          <input type="checkbox" checked={forms.allowLate} onChange={(event) => session.setForms({ allowLate: event.currentTarget.checked })} />{" "}
          Allow that rows are late. Windows that have fired stay fired: rows before that are dropped and counted.
        </label>
      )}
    </>
  );
}
