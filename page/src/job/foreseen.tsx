// What a change would do: the graph of the new plan, and beside it the list of all parts, or of those of one stage.
import type { Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Fate, Reconfigured } from "../docs";
import { bytes, grouped } from "../format";
import { Fates } from "../ui/fates";
import { lazy } from "../ui/lazy";
import { markOf } from "./fates";
import { plan } from "./model";

const ChangeGraph = lazy(() => import("../graph/change-graph"));

/** The stage whose parts are listed alone. */
export interface Chosen {
  id: number;
  title: string;
  changes: Fate[];
}

interface Props {
  would: Reconfigured;
  chosen: Signal<Chosen | null>;
}

export function ForeseenGraph({ would, chosen }: Props) {
  // The parts of another dry run are others.
  useEffect(() => {
    chosen.value = null;
  }, [would]);
  if (would.ahead === null) return null;
  const choose = (id: number, changes: Fate[], title: string): void => {
    chosen.value = chosen.peek()?.id === id ? null : { id, changes, title };
  };
  return <ChangeGraph plan={would.ahead.plan} present={plan.value} changes={would.changes} chosen={chosen.value?.id ?? null} onChoose={choose} />;
}

export function ForeseenParts({ would, chosen }: Props) {
  const only = chosen.value;
  return (
    <>
      {only !== null && <p><span>{only.title}</span>{" "}<button type="button" class="small" onClick={() => (chosen.value = null)}>All parts</button></p>}
      {only !== null && only.changes.length === 0 ? <p class="empty">This stage keeps nothing.</p> : <Fates changes={only?.changes ?? would.changes} label="Parts of the job" />}
      <p class="hint">{moving(would)}</p>
    </>
  );
}

/** How much state moves, when, and how that is known. */
export function moving({ ahead, changes }: Reconfigured): string {
  if (ahead === null) return "";
  if (ahead.loads_ahead === null) return "The tasks of the job do not run now. Where they will be, and what moves, is decided when they begin.";
  const loaded = changes.filter((change) => markOf(change).kind === "loaded");
  if (loaded.length === 0) return "No state moves: what is kept stays in memory.";
  if (ahead.epoch === null) return "State moves. The job has no checkpoint yet, so its size is not known.";
  const size = bytes(loaded.reduce((sum, change) => sum + (change.loaded_bytes ?? 0), 0));
  const when = ahead.loads_ahead ? "It is loaded where it will be while the job runs as before." : "It is read while the tasks switch.";
  return `${size} of state move. ${when} Sizes are those of the checkpoint of epoch ${grouped(ahead.epoch)}.`;
}
