// The plan that the job would go on by, as EXPLAIN prints it; the one that runs if nothing is changed.
import { plan } from "../../job/model";
import { Lines } from "../../ui/text";
import type { Session } from "./session";

export function NewPlan({ session }: { session: Session }) {
  const shown = session.would.value?.ahead?.plan ?? plan.value;
  if (shown === null) return null;
  return (
    <details class="box">
      <summary>Plan of this text</summary>
      <Lines of={shown.text} />
    </details>
  );
}
