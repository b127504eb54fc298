// Changing a running job: its text and its options, what would become of its parts, and how the change goes.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Difference } from "../editor/change/differences";
import { Rehearsed, RehearsedGraph } from "../editor/change/fates";
import { ChangeForms } from "../editor/change/forms";
import { NewPlan } from "../editor/change/new-plan";
import { Origins } from "../editor/change/origins";
import { Changes } from "../editor/change/past";
import { Progress, Result } from "../editor/change/progress";
import { type Session, sessionOf } from "../editor/change/session";
import { Editor } from "../editor/editor";
import { format } from "../editor/formatter";
import { rangeOf, type Span, spanOf } from "../editor/parts";
import type { Mark } from "../editor/places";
import { complete } from "../editor/requests";
import { adoptSheet } from "../editor/sheet";
import type { Chosen } from "../job/foreseen";
import { live } from "../job/model";
import { route, setQuery } from "../route";
import { mayChange, server } from "../server";
import { ErrorBox, Loading } from "../ui/error";
import { isOver } from "../verdict";

export default function Change({ name }: { name: string }) {
  const session = sessionOf(name);
  const selection = useSignal<Span | null>(null);
  adoptSheet();
  useEffect(() => session.open(), [session]);
  usePart(session, (span) => (selection.value = span));
  const state = live.doc.value?.job.state;
  const may = mayChange.value && state !== undefined && !isOver(state);
  const base = session.base.value;
  return (
    <div class="screen q">
      <h2 class="visually-hidden">Change the job</h2>
      {state !== undefined && isOver(state) && <p class="note">The job does not run. Submit it again to change it.</p>}
      {server.value !== null && !mayChange.value && <p class="note">Nothing can be changed here: this page may only read, or shows the past.</p>}
      <Progress session={session} mayChange={mayChange.value} />
      {session.error.value !== null && <ErrorBox error={session.error.value} again={() => void session.load()} />}
      {base === null && session.error.value === null && <Loading what="the running text" />}
      {base !== null && <Work session={session} may={may} selection={selection.value} onGo={(mark) => (selection.value = { ...mark })} />}
      <Changes session={session} mayEdit={may && base !== null} />
    </div>
  );
}

/** An address may name a part of the running text: it is selected once, if the editor has that text. */
function usePart(session: Session, select: (span: Span) => void): void {
  const { query } = route.value;
  const [part, version] = [query.get("part"), query.get("version")];
  const base = session.base.value;
  const runs = live.doc.value?.job.plan_version;
  useEffect(() => {
    const range = rangeOf(part);
    // The text that runs is fetched first.
    if (range === null || base === null || runs !== base.version) return;
    const span = session.text.peek() === base.sql && String(base.version) === version ? spanOf(base.sql, range) : null;
    if (span !== null) select(span);
    else session.said.value = "The part that was to be shown is of the text that ran then. The editor has another one.";
    setQuery({ part: null, version: null });
  }, [part, version, base, runs]);
}

interface WorkProps {
  session: Session;
  may: boolean;
  selection: Span | null;
  onGo: (mark: Mark) => void;
}

function Work({ session, may, selection, onGo }: WorkProps) {
  const isLocked = !may || session.applying.value;
  const chosen = useSignal<Chosen | null>(null);
  const cursor = useSignal<number | null>(null);
  return (
    <>
      <Meanwhile session={session} />
      {session.said.value !== "" && <p class="note is-calm" role="status">{session.said.value}</p>}
      <Secrets session={session} />
      <div class="two">
        <div class="stack">
          <Editor text={session.text.value} onChange={(to) => (session.text.value = to)} onSubmit={() => session.rehearseNow()} diagnostics={session.marks.value} complete={complete} readOnly={isLocked} label="SQL of the job" selection={selection} onCursor={(at) => (cursor.value = at)} />
          <Origins session={session} at={cursor.value} />
          <Bar session={session} isLocked={isLocked} />
          <Result session={session} />
          <RehearsedGraph session={session} chosen={chosen} />
        </div>
        <div class="stack">
          <Rehearsed session={session} chosen={chosen} onGo={onGo} />
          {may && <ChangeForms session={session} disabled={isLocked} />}
          <NewPlan session={session} />
        </div>
      </div>
    </>
  );
}

/** The buttons below the editor. */
function Bar({ session, isLocked }: { session: Session; isLocked: boolean }) {
  const differs = useSignal(false);
  const base = session.base.value;
  const order = session.order.value;
  const [needs, forms, rehearsal] = [session.needs.value, session.forms.value, session.rehearsal.value];
  const isAllowed = (!needs.lostState || forms.allowLostState) && (!needs.late || forms.allowLate);
  const isReady = rehearsal.kind === "fates" || (rehearsal.kind === "refused" && (needs.lostState || needs.late));
  const isTextNew = base !== null && base.sql !== session.text.value;
  const tidy = (): void => {
    session.text.value = format(session.text.peek()) ?? session.text.peek();
  };
  return (
    <>
      <div class="bar" role="group" aria-label="The change">
        <button type="button" class="primary" disabled={isLocked || order === null || !isReady || !isAllowed || session.other.value !== null} onClick={() => void session.apply()}>{session.applying.value ? "Changing …" : "Apply the change"}</button>
        <button type="button" disabled={isLocked || order === null} onClick={() => session.reset()}>Back to the running text</button>
        <button type="button" disabled={isLocked} onClick={tidy}>Format</button>
        {isTextNew && <button type="button" aria-expanded={differs.value} onClick={() => (differs.value = !differs.value)}>{differs.value ? "Hide the difference" : "Show the difference"}</button>}
      </div>
      {isReady && !isAllowed && <p class="hint">The change needs your permission: see the boxes.</p>}
      {isTextNew && differs.value && base !== null && <Difference before={base.sql} after={session.text.value} label="Difference to the running text" />}
    </>
  );
}

/** Somebody else has changed the job while this text was written. */
function Meanwhile({ session }: { session: Session }) {
  const other = session.other.value;
  const base = session.base.value;
  if (other === null || base === null) return null;
  return (
    <div class="note is-bad" role="alert">
      <p><strong>Somebody has changed the job meanwhile.</strong> It runs by version {other.version} of its plan now{other.sql === base.sql ? ", with other options" : ", with another text"}.</p>
      {other.sql !== base.sql && <Difference before={base.sql} after={other.sql} label="What was changed meanwhile" />}
      <div class="bar">
        <button type="button" onClick={() => session.takeNew()}>Take the new text</button>
        <button type="button" onClick={() => session.keepMine()}>Keep mine</button>
      </div>
      <p class="hint">If you keep yours and apply it, it takes the place of the other text.</p>
    </div>
  );
}

/** The server hides secrets, and puts them back where their marks are. */
function Secrets({ session }: { session: Session }) {
  if (!session.text.value.includes("***secret ")) return null;
  return (
    <p class="note is-calm" role="status">
      The server hides secrets. A mark such as <code>***secret 1***</code> stands for a secret of the running text: leave it, and the server puts the secret there. In an older text it may stand for another one: write the secret there.
    </p>
  );
}
