// What would become of each part, and what the user has to allow.
import type { Signal } from "@preact/signals";
import { counted } from "../../job/fates";
import { type Chosen, ForeseenGraph, ForeseenParts } from "../../job/foreseen";
import { ErrorBox } from "../../ui/error";
import { ErrorOf } from "../checking";
import type { Mark } from "../places";
import type { Session } from "./session";

interface Props {
  session: Session;
  chosen: Signal<Chosen | null>;
}

/** The graph of the newest dry run. It stays while another one is asked for. */
export function RehearsedGraph({ session, chosen }: Props) {
  const would = session.would.value;
  if (would === null) return null;
  return <div aria-busy={session.rehearsal.value.kind === "asking"}><ForeseenGraph would={would} chosen={chosen} /></div>;
}

/** The answer to the newest dry run. */
export function Rehearsed({ session, chosen, onGo }: Props & { onGo: (mark: Mark) => void }) {
  const rehearsal = session.rehearsal.value;
  const would = session.would.value;
  return (
    <section class="box" aria-labelledby="rehearsed">
      <h2 id="rehearsed">What would become of each part</h2>
      <div role="status" class="stack">
        {rehearsal.kind === "nothing" && <p class="said">Change the text or the options: then this says what the job keeps and what it loses. Nothing changes before you apply it.</p>}
        {rehearsal.kind === "asking" && <p class="said">Asking …</p>}
        {rehearsal.kind === "large" && <div class="bar"><p class="said">The text is large. No dry run is made while you type.</p><button type="button" onClick={() => session.rehearseNow()}>Dry run</button></div>}
        {rehearsal.kind === "refused" && (session.marks.value.length > 0 ? <p class="said"><ErrorOf error={rehearsal.error} mark={session.marks.value[0] ?? null} onGo={onGo} /></p> : <ErrorBox error={rehearsal.error} />)}
        {rehearsal.kind === "fates" && would !== null && <p class="said">{counted(would.changes)}</p>}
      </div>
      {would !== null && <ForeseenParts would={would} chosen={chosen} />}
      <Allow session={session} />
    </section>
  );
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
