// The operators of a stage, each with the parts of the SQL text that it comes from.
import { jobPath } from "../api";
import type { PlanStage, TextRange } from "../docs";
import { excerpt, rangeText } from "../editor/parts";
import type { RunningText } from "../editor/requests";
import { jobName, shownPlan } from "../job/model";
import { useResource } from "../resource";
import { href } from "../route";
import { Text } from "../ui/text";

export function Operators({ stage }: { stage: PlanStage }) {
  const { source, operators, sink, sql } = stage;
  const name = jobName.value;
  const version = shownPlan.value?.version ?? null;
  const hasParts = [sql.source, ...sql.operators, sql.sink].some((parts) => parts.length > 0);
  const text = useResource<RunningText>(name !== null && hasParts ? jobPath(name, "/sql") : null, null, version).data;
  // The text of another version has other places.
  const shown = text !== null && text.version === version ? text : null;
  const parts = (ranges: TextRange[] | undefined) => (name === null || shown === null ? null : <Parts ranges={ranges ?? []} name={name} text={shown} />);
  return (
    <>
      <h3>Operators</h3>
      <ol class="operators">
        {source !== null && <li><Text of={source} max={400} />{parts(sql.source)}</li>}
        {operators.map((operator, index) => <li key={index}><Text of={operator} max={400} />{parts(sql.operators[index])}</li>)}
        {sink !== null && <li><Text of={sink} max={400} />{parts(sql.sink)}</li>}
      </ol>
    </>
  );
}

function Parts({ ranges, name, text }: { ranges: TextRange[]; name: string; text: RunningText }) {
  const links = ranges.flatMap((range) => {
    const part = excerpt(text.sql, range);
    return part === null ? [] : [{ part, range }];
  });
  if (links.length === 0) return null;
  return (
    <ul class="sql-parts" aria-label="In the SQL text">
      {links.map(({ part, range }) => (
        <li key={rangeText(range)}>
          <a href={href(["job", name, "change"], { part: rangeText(range), version: text.version })} title={`Line ${range.from.line}, column ${range.from.column} of the SQL text`}><Text of={part} max={160} /></a>
        </li>
      ))}
    </ul>
  );
}
