// What changed lately in all jobs: marks of their histories, the newest first.
import { useComputed } from "@preact/signals";
import { ago, moment, words } from "../format";
import { jobs } from "../jobs";
import { now } from "../live";
import { href } from "../route";
import { Empty } from "../ui/error";
import { Text } from "../ui/text";

export function Lately() {
  const list = useComputed(() => jobs.doc.value?.marks ?? []).value;
  if (list.length === 0) return <Empty>Nothing in the last hour.</Empty>;
  return (
    <ul class="events">
      {list.map((mark) => (
        <li key={`${mark.job} ${mark.at_ms} ${mark.kind} ${mark.text}`}>
          <span class="event-time" title={ago(now.value - mark.at_ms)}>{moment(mark.at_ms, now.value)}</span>
          <span class="event-what">
            <a href={href(["job", mark.job, "flow"], { at: mark.at_ms })}><Text of={mark.job} max={40} /></a> <span class={`kind ${mark.kind}`}>{words(mark.kind)}</span> <Text of={mark.text} max={200} message />
          </span>
        </li>
      ))}
    </ul>
  );
}
