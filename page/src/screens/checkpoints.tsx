// Checkpoints: could anything be lost, and why are they slow?
import { jobPath } from "../api";
import type { CheckpointRecord, Checkpoints } from "../docs";
import { ago, bytes, duration, grouped, moment, timeOfDay } from "../format";
import { shownNow, turn, view } from "../job/model";
import { past } from "../past";
import { useResource } from "../resource";
import { Empty, ErrorBox, Loading } from "../ui/error";
import { Figure, Figures } from "../ui/figure";
import { Text } from "../ui/text";

export default function CheckpointsScreen({ name }: { name: string }) {
  const doc = view.value;
  const answer = useResource<Checkpoints>(jobPath(name, "/checkpoints"), 2000, turn.value);
  if (doc === null) return null;
  const last = doc.checkpoints?.last ?? null;
  const found = answer.data;
  const until = past.value;
  const history = (found?.history ?? []).filter((record) => until === null || record.at_ms <= until).toReversed();
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
      <h3>The last ones</h3>
      {found === null && answer.error === null ? <Loading what="the checkpoints" /> : history.length === 0 ? <Empty>None yet.</Empty> : <History records={history} />}
      {found !== null && found.failures.length > 0 && until === null && (
        <>
          <h3>Failures before the restarts</h3>
          <ol class="plain failures">{found.failures.toReversed().map((failure, index) => <li key={index}><Text of={failure} max={1000} message /></li>)}</ol>
        </>
      )}
    </div>
  );
}

function History({ records }: { records: CheckpointRecord[] }) {
  const most = Math.max(1e-9, ...records.map((record) => record.took_ms ?? 0));
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Checkpoints, the newest first">
      <table class="data">
        <thead>
          <tr><th scope="col" class="n">Epoch</th><th scope="col">Time (UTC)</th><th scope="col">Outcome</th><th scope="col" class="wide-cell">Duration</th><th scope="col" class="n">Took</th><th scope="col" class="n">Size</th></tr>
        </thead>
        <tbody>
          {records.map((record) => (
            <tr key={`${record.epoch} ${record.at_ms}`}>
              <th scope="row" class="n">{grouped(record.epoch)}</th>
              <td>{moment(record.at_ms, shownNow.value)}</td>
              <td>{record.outcome === "completed" ? <span class="verdict well"><span aria-hidden="true">● </span>completed</span> : <span class="verdict bad"><span aria-hidden="true">✕ </span><Text of={record.outcome} max={30} /></span>}</td>
              <td>{record.took_ms !== null && <Bar share={record.took_ms / most} />}</td>
              <td class="n">{duration(record.took_ms)}</td>
              <td class="n">{bytes(record.bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The figure is in the column beside it. */
function Bar({ share }: { share: number }) {
  return (
    <svg class="waterfall" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="share-none" width="100" height="8" />
      <rect class="share-busy" width={(share * 100).toFixed(2)} height="8" />
    </svg>
  );
}
