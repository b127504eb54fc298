// The operators that come from the place of the cursor in the running text, as links to their stages.
import { useMemo } from "preact/hooks";
import { plan } from "../../job/model";
import { href } from "../../route";
import { Text } from "../../ui/text";
import { originsAt, originsOf } from "../parts";
import type { Session } from "./session";

/** Operators that are named. */
const NAMED = 12;

export function Origins({ session, at }: { session: Session; at: number | null }) {
  const base = session.base.value;
  const running = plan.value;
  const isRunning = base !== null && running !== null && running.version === base.version && session.text.value === base.sql;
  const origins = useMemo(() => (isRunning ? originsOf(running, base.sql) : []), [isRunning, running, base]);
  if (!isRunning || origins.length === 0) return null;
  const here = at === null ? [] : originsAt(origins, at);
  return (
    <section class="stack" aria-label="Operators of the place of the cursor">
      {here.length === 0 ? <p class="hint">{at === null ? "Put the cursor into the text: the operators that come from there are named here." : "No operator comes from the place of the cursor."}</p> : (
        <ul class="plain">
          {here.slice(0, NAMED).map((origin) => (
            <li key={`${origin.stage} ${origin.operator}`}><a href={href(["job", session.job, "flow"], { stage: origin.stage })}>Stage {origin.stage}, <Text of={origin.name} max={40} /></a>: <Text of={origin.operator} max={160} /></li>
          ))}
        </ul>
      )}
    </section>
  );
}
