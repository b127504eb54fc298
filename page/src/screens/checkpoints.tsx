// Checkpoints: could anything be lost, and why are they slow?
import { jobPath } from "../api";
import type { CheckpointPhases, CheckpointRecord, Checkpoints, Failure } from "../docs";
import { NONE, ago, bytes, duration, grouped, moment, timeOfDay } from "../format";
import { shownNow, turn, view } from "../job/model";
import { past } from "../past";
import { useResource } from "../resource";
import { Empty, ErrorBox, Loading } from "../ui/error";
import { Figure, Figures } from "../ui/figure";
import { Text } from "../ui/text";

/** A checkpoint, or a failure after which the tasks were started again. */
type Entry = CheckpointRecord | Failure;

const PHASES = [
  ["request", "until the last source has put the boundary into its stream"],
  ["alignment", "until the last task has taken its snapshot"],
  ["write", "until all files are written and acknowledged"],
  ["commit", "until the manifest is durable"],
] as const;

export default function CheckpointsScreen({ name }: { name: string }) {
  const doc = view.value;
  const answer = useResource<Checkpoints>(jobPath(name, "/checkpoints"), 2000, turn.value);
  if (doc === null) return null;
  const last = doc.checkpoints?.last ?? null;
  const found = answer.data;
  const until = past.value;
  const entries: Entry[] = [...(found?.history ?? []), ...(found?.failures ?? [])];
  const shown = entries.filter((entry) => until === null || entry.at_ms <= until).sort((a, b) => b.at_ms - a.at_ms);
  return (
    <div class="screen">
      <h2>Checkpoints</h2>
      {answer.error !== null && found === null && <ErrorBox error={answer.error} again={answer.again} />}
      {found !== null && found.place === null && <p class="banner warn"><span aria-hidden="true">▲ </span>This job takes no checkpoints: its state is lost when it ends. Set <code>checkpoint-directory</code> to keep it.</p>}
      <Figures label="Checkpoints of the job">
        <Figure name="Last" value={last === null ? "none yet" : ago(shownNow.value - last.completed_at_ms)} hint={last === null ? undefined : `${timeOfDay(last.completed_at_ms)} UTC`} />
        <Figure name="Took" value={duration(last?.took_ms)} />
        <Figure name="Size" value={bytes(last?.bytes)} />
        <Figure name="Epoch" value={grouped(last?.epoch)} />
        <Figure name="Completed" value={grouped(doc.checkpoints?.completed)} />
        <Figure name="Abandoned" value={grouped(doc.checkpoints?.abandoned)} />
        <Figure name="Restarts" value={grouped(doc.job.restarts)} />
      </Figures>
      {found?.place != null && <p class="dim">Kept in <Text of={found.place} max={200} /></p>}
      <h3>The last ones, and restarts</h3>
      {found === null && answer.error === null ? <Loading what="the checkpoints" /> : shown.length === 0 ? <Empty>None yet.</Empty> : <History entries={shown} />}
    </div>
  );
}

function History({ entries }: { entries: Entry[] }) {
  const most = Math.max(1e-9, ...entries.map((entry) => ("outcome" in entry ? (entry.took_ms ?? 0) : 0)));
  return (
    <>
      <p class="legend">{PHASES.map(([phase, text]) => <span key={phase} class="legend-item"><svg viewBox="0 0 14 8" aria-hidden="true"><rect class={`phase-${phase}`} width="14" height="8" /></svg>{phase}: {text}</span>)}</p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Checkpoints, the newest first">
        <table class="data">
          <thead>
            <tr><th scope="col" class="n">Epoch</th><th scope="col">Time (UTC)</th><th scope="col">Outcome</th><th scope="col" class="wide-cell">Where the time went</th><th scope="col" class="n">Took</th><th scope="col">Slowest task</th><th scope="col" class="n">Size</th></tr>
          </thead>
          <tbody>
            {entries.map((entry, index) => ("outcome" in entry ? <Checkpoint key={index} record={entry} most={most} /> : <Restart key={index} failure={entry} />))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Checkpoint({ record, most }: { record: CheckpointRecord; most: number }) {
  const { phases } = record;
  return (
    <tr>
      <th scope="row" class="n">{grouped(record.epoch)}</th>
      <td>{moment(record.at_ms, shownNow.value)}</td>
      <td>{record.outcome === "completed" ? <span class="verdict well"><span aria-hidden="true">● </span>completed</span> : <span class="verdict bad"><span aria-hidden="true">✕ </span><Text of={record.outcome} max={30} /></span>}</td>
      <td>{phases !== null && <PhaseBar phases={phases} most={most} />}</td>
      <td class="n">{duration(record.took_ms)}</td>
      <td>{phases !== null && <Slowest of={phases.slowest} />}</td>
      <td class="n">{bytes(record.bytes)}</td>
    </tr>
  );
}

function Restart({ failure }: { failure: Failure }) {
  return (
    <tr>
      <th scope="row" class="n">{NONE}</th>
      <td>{moment(failure.at_ms, shownNow.value)}</td>
      <td><span class="verdict bad"><span aria-hidden="true">↻ </span>restarted</span></td>
      <td colSpan={4}><Text of={failure.text} max={1000} message /></td>
    </tr>
  );
}

/** The phases as parts of one bar, which is as long as the longest checkpoint is. Each has its name and its figure below. */
function PhaseBar({ phases, most }: { phases: CheckpointPhases; most: number }) {
  const parts = PHASES.map(([phase]) => [phase, phases[`${phase}_ms` as const]] as const);
  const texts = parts.map(([phase, ms]) => `${phase} ${duration(ms)}`);
  let before = 0;
  return (
    <>
      <svg class="waterfall" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={texts.join(", ")}>
        <rect class="share-none" width="100" height="8" />
        {parts.map(([phase, ms]) => {
          const begin = before;
          before += (ms / most) * 100;
          return <rect key={phase} class={`phase-${phase}`} x={begin.toFixed(2)} width={(before - begin).toFixed(2)} height="8" />;
        })}
      </svg>
      <span class="phase-names" aria-hidden="true">{texts.map((text) => <span key={text}>{text}</span>)}</span>
    </>
  );
}

function Slowest({ of }: { of: CheckpointPhases["slowest"] }) {
  return (
    <>
      <span class="node-id">{of.stage}.{of.task}</span><Text of={of.stage_name} max={30} /> at <Text of={of.worker} max={30} />
      <br /><span class="dim">{of.phase} {duration(of.took_ms)}</span>
    </>
  );
}
