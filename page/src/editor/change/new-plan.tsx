// The plan that the text would have. It is planned when somebody looks.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { toApiError } from "../../resource";
import type { Plan } from "../../docs";
import { Text } from "../../ui/text";
import { Latest } from "../latest";
import { PlanView } from "../plan";
import { check, type Checked, type Settings } from "../requests";
import { allSettings } from "../settings";
import { LARGE, type Session } from "./session";

const PAUSE_MS = 600;

interface Asked {
  sql: string;
  settings: Settings;
}

export function NewPlan({ session }: { session: Session }) {
  const isOpen = useSignal(false);
  return (
    <details class="box" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>Plan of this text</summary>
      {isOpen.value && <Planned session={session} />}
    </details>
  );
}

function Planned({ session }: { session: Session }) {
  const plan = useSignal<Plan | null>(null);
  const error = useSignal("");
  const text = session.text.value;
  const rows = session.forms.value.rows;
  const latest = useMemo(
    () =>
      new Latest<Asked, Checked>(
        check,
        (answer) => {
          error.value = answer.error?.error ?? "";
          plan.value = answer.plan;
        },
        (failure) => (error.value = toApiError(failure).error),
      ),
    [],
  );
  useEffect(() => {
    const asked = { sql: text, settings: allSettings(rows) };
    if (plan.peek() === null && text.length <= LARGE) latest.now(asked);
    else if (text.length <= LARGE) latest.after(PAUSE_MS, asked);
    else error.value = "The text is too large to be planned while you type.";
  }, [text, rows]);
  useEffect(() => () => latest.stop(), []);
  return (
    <div class="stack">
      {(session.base.value?.options.length ?? 0) > 0 && <p class="hint">Without the options of tables that were given beside the text.</p>}
      {error.value !== "" ? <p class="said bad"><Text of={error.value} max={500} /></p> : plan.value === null ? <p class="said">Planning …</p> : <PlanView plan={plan.value} />}
    </div>
  );
}
