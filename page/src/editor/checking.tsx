// What the server says of a text: asked for when typing stops.
import { signal } from "@preact/signals";
import type { ApiError } from "../api";
import { plural } from "../format";
import { toApiError } from "../resource";
import { Text } from "../ui/text";
import { LARGE } from "./editor";
import { Latest } from "./latest";
import { lineOf, type Mark, markOf, type TextError } from "./places";
import { check, type Checked, type Settings } from "./requests";

const PAUSE_MS = 400;

export type Finding =
  | { kind: "empty" }
  | { kind: "checking" }
  | { kind: "large" }
  | { kind: "checked"; answer: Checked }
  | { kind: "failed"; failure: ApiError };

interface Asked {
  sql: string;
  settings: Settings;
}

/** The same object each time: the editor draws marks anew only if they are others. */
const NO_MARKS: Mark[] = [];

export class Checking {
  readonly finding = signal<Finding>({ kind: "empty" });
  readonly marks = signal<Mark[]>(NO_MARKS);
  /** The newest plan. It stays while a text is wrong. */
  readonly plan = signal<Checked["plan"]>(null);
  private readonly latest = new Latest<Asked, Checked>(
    check,
    (answer, asked) => this.take(answer, asked),
    (failure) => {
      this.finding.value = { kind: "failed", failure: toApiError(failure) };
      this.marks.value = NO_MARKS;
    },
  );

  /** The text has changed: checks it when it has been the same for a while. */
  changed(sql: string, settings: Settings): void {
    if (sql.trim() === "") {
      this.latest.stop();
      this.finding.value = { kind: "empty" };
      this.marks.value = NO_MARKS;
      this.plan.value = null;
    } else if (sql.length > LARGE) {
      this.latest.stop();
      if (this.finding.peek().kind !== "large") this.finding.value = { kind: "large" };
      this.marks.value = NO_MARKS;
    } else {
      if (this.finding.peek().kind === "empty") this.finding.value = { kind: "checking" };
      this.latest.after(PAUSE_MS, { sql, settings });
    }
  }

  now(sql: string, settings: Settings): void {
    this.finding.value = { kind: "checking" };
    this.latest.now({ sql, settings });
  }

  /** An error that another request has found in the text. */
  found(sql: string, error: TextError): void {
    const mark = markOf(sql, error);
    this.marks.value = mark === null ? NO_MARKS : [mark];
  }

  stop(): void {
    this.latest.stop();
  }

  private take(answer: Checked, { sql }: Asked): void {
    this.finding.value = { kind: "checked", answer };
    this.plan.value = answer.plan ?? (answer.error === null ? null : this.plan.peek());
    const mark = answer.error === null ? null : markOf(sql, answer.error);
    this.marks.value = mark === null ? NO_MARKS : [mark];
  }
}

interface FindingLineProps {
  checking: Checking;
  onCheck: () => void;
  onGo: (mark: Mark) => void;
}

/** One line below the editor. It is told to screen readers. */
export function FindingLine({ checking, onCheck, onGo }: FindingLineProps) {
  const finding = checking.finding.value;
  if (finding.kind === "large") {
    return (
      <div class="bar">
        <p class="said" role="status">The text is large. It is not checked while you type.</p>
        <button type="button" onClick={onCheck}>Check</button>
      </div>
    );
  }
  return <div class="said" role="status">{finding.kind === "checked" ? <Answer answer={finding.answer} checking={checking} onGo={onGo} /> : <Waiting finding={finding} />}</div>;
}

function Waiting({ finding }: { finding: Finding }) {
  if (finding.kind === "checking") return <span>Checking …</span>;
  if (finding.kind !== "failed") return null;
  const { error, remedy } = finding.failure;
  return <span class="bad"><span aria-hidden="true">✕ </span>The text was not checked: <Text of={error} max={500} /> {remedy !== null && <span class="remedy"><Text of={remedy} max={500} /></span>}</span>;
}

function Answer({ answer, checking, onGo }: { answer: Checked; checking: Checking; onGo: (mark: Mark) => void }) {
  if (answer.error !== null) return <ErrorOf error={answer.error} mark={checking.marks.value[0] ?? null} onGo={onGo} />;
  const tasks = (answer.plan?.stages ?? []).reduce((total, stage) => total + stage.parallelism, 0);
  const plan = answer.plan === null ? "It has no query that could run." : `Its plan has ${plural(answer.plan.stages.length, "stage")} with ${plural(tasks, "task")}.`;
  return <span><span class="well" aria-hidden="true">✓ </span>{plural(answer.statements.length, "statement")}, no error. {plan}</span>;
}

/** An error in a text: what is wrong, a button that goes there, and the remedy. */
export function ErrorOf({ error, mark, onGo }: { error: TextError; mark: Mark | null; onGo: (mark: Mark) => void }) {
  const place = lineOf(error);
  return (
    <span>
      <span class="bad"><span aria-hidden="true">✕ </span><Text of={error.error} max={2000} /></span>{" "}
      {mark !== null && place !== null && <button type="button" class="link" onClick={() => onGo(mark)}>Go to line {place.line}</button>}
      {typeof error.remedy === "string" && <span class="remedy">What to do: <Text of={error.remedy} max={2000} /></span>}
    </span>
  );
}
