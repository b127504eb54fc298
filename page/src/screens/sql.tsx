// Writing a query: it is checked while it is typed, its rows can be seen, and it becomes a job.
import { signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Checking, FindingLine } from "../editor/checking";
import { type Draft, keepPresentText, presentText } from "../editor/drafts";
import { Editor } from "../editor/editor";
import { EXAMPLES } from "../editor/examples";
import { format } from "../editor/formatter";
import type { Mark } from "../editor/places";
import { PlanView } from "../editor/plan";
import { Preview } from "../editor/preview";
import { complete, plainLines } from "../editor/requests";
import { PreviewRows } from "../editor/rows";
import { Drafts } from "../editor/saved";
import { allSettings, type Row } from "../editor/settings";
import { adoptSheet } from "../editor/sheet";
import { Submit } from "../editor/submit";
import { Tabs } from "../editor/tabs";
import { mayChange, server } from "../server";

const KEEP_MS = 500;
const SECONDS = [5, 10, 30, 60];

// They outlive the screen: whoever looks at a job and comes back finds them.
const text = signal(plainLines(presentText()));
const rows = signal<Row[]>([]);

type Tab = "rows" | "plan" | "submit";

export default function Sql() {
  const checking = useMemo(() => new Checking(), []);
  const preview = useMemo(() => new Preview(), []);
  const tab = useSignal<Tab>("rows");
  const selection = useSignal<Mark | null>(null);
  const said = useSignal("");
  const settings = useComputed(() => allSettings(rows.value));
  adoptSheet();

  useEffect(() => {
    checking.changed(text.value, settings.value);
    const timer = setTimeout(() => keepPresentText(text.value), KEEP_MS);
    return () => clearTimeout(timer);
  }, [text.value, settings.value]);
  useEffect(() => () => {
    keepPresentText(text.peek());
    checking.stop();
    preview.stop();
  }, []);

  const write = (to: string): void => {
    text.value = plainLines(to);
    said.value = "";
  };
  const run = (seconds: number): void => {
    tab.value = "rows";
    preview.start(text.peek(), seconds);
  };
  const takesJobs = mayChange.value && server.value?.takes_jobs === true;
  const tabs: [Tab, string][] = [["rows", "Rows"], ["plan", "Plan"], ...(takesJobs ? [["submit", "Submit as a job"] as [Tab, string]] : [])];
  const chosen = tabs.some(([one]) => one === tab.value) ? tab.value : "rows";
  return (
    <div class="screen q">
      <h1>SQL</h1>
      <Bar preview={preview} onRun={run} onSaid={(to) => (said.value = to)} onWrite={write} />
      {text.value.trim() === "" && <Examples onWrite={write} />}
      <Editor text={text.value} onChange={write} onSubmit={() => run(seconds.peek())} diagnostics={checking.marks.value} complete={complete} readOnly={false} label="SQL" selection={selection.value} />
      {said.value !== "" && <p class="said" role="status">{said.value}</p>}
      <FindingLine checking={checking} onCheck={() => checking.now(text.peek(), settings.peek())} onGo={(mark) => (selection.value = { ...mark })} />
      <Tabs label="What the text gives" tabs={tabs} chosen={chosen} onChoose={(to) => (tab.value = to)}>
        {chosen === "rows" && <PreviewRows preview={preview} />}
        {chosen === "plan" && <PlanTab checking={checking} />}
        {chosen === "submit" && <Submit sql={text.value} rows={rows.value} onRows={(to) => (rows.value = to)} onError={(error) => checking.found(text.peek(), error)} />}
      </Tabs>
    </div>
  );
}

/** For how long a preview runs at most. */
const seconds = signal(10);

interface BarProps {
  preview: Preview;
  onRun: (seconds: number) => void;
  onSaid: (said: string) => void;
  onWrite: (text: string) => void;
}

function Bar({ preview, onRun, onSaid, onWrite }: BarProps) {
  const open = useSignal(false);
  const runs = preview.shown.value.state === "starting" || preview.shown.value.state === "running";
  const tidy = (): void => {
    const formatted = format(text.peek());
    if (formatted === null) onSaid("The text was not formatted: it has a sign or an open quote that the page does not read for sure.");
    else onWrite(formatted);
  };
  const take = (draft: Draft): void => {
    open.value = false;
    onWrite(draft.text);
  };
  return (
    <div class="bar" role="group" aria-label="Actions">
      {runs ? (
        <button type="button" class="primary" onClick={() => preview.stop()}>■ Stop</button>
      ) : (
        <button type="button" class="primary" title="Ctrl-Enter" disabled={text.value.trim() === ""} onClick={() => onRun(seconds.value)}>▶ Preview</button>
      )}
      <label>for <select value={String(seconds.value)} onChange={(event) => (seconds.value = Number(event.currentTarget.value))}>{SECONDS.map((one) => <option key={one} value={String(one)}>{one} s</option>)}</select></label>
      <button type="button" onClick={tidy} disabled={text.value.trim() === ""}>Format</button>
      <button type="button" onClick={() => (open.value = true)}>Drafts</button>
      {open.value && <Drafts text={text.value} onOpen={take} onClose={() => (open.value = false)} />}
    </div>
  );
}

function Examples({ onWrite }: { onWrite: (text: string) => void }) {
  return (
    <div class="bar" role="group" aria-label="Examples">
      <span>Begin with an example:</span>
      {EXAMPLES.map((example) => <button key={example.name} type="button" onClick={() => onWrite(example.text)}>{example.name}</button>)}
    </div>
  );
}

function PlanTab({ checking }: { checking: Checking }) {
  const plan = checking.plan.value;
  const finding = checking.finding.value;
  const isOld = finding.kind === "checked" && finding.answer.error !== null;
  if (plan === null) return <p class="empty">The plan is shown here once the text has a query and no error.</p>;
  return (
    <>
      {isOld && <p class="note">The text has an error. This is the plan from before.</p>}
      <PlanView plan={plan} />
    </>
  );
}
