// What becomes of the parts of a job by a change: a sign, a word, the part, and what of it moves.
import type { Fate } from "../docs";
import { byGravity, markOf, placesOf, sizesOf } from "../job/fates";
import { shown } from "../shown";
import { Empty } from "./error";
import { Text } from "./text";

export function Fates({ changes, label = "What becomes of each part" }: { changes: readonly Fate[]; label?: string }) {
  if (changes.length === 0) return <Empty>No part of the job changes.</Empty>;
  return (
    <ul class="fates" aria-label={label}>
      {byGravity(changes).map((change, at) => {
        const { kind, sign, word } = markOf(change);
        const moved = [sizesOf(change), shown(placesOf(change))].filter((text) => text !== "").join(", ");
        return (
          <li key={at}>
            <span class={`fate ${kind}`}><span aria-hidden="true">{sign} </span>{word}</span>
            <span><Text of={change.what} max={1000} />{moved !== "" && <span class="dim"> ({moved})</span>}</span>
          </li>
        );
      })}
    </ul>
  );
}
