// What becomes of the parts of a job by a change: a sign, a word and the part.
import type { Fate } from "../docs";
import { Empty } from "./error";
import { Text } from "./text";

const FATES: Record<string, [string, string, string]> = {
  kept: ["=", "kept", "well"],
  new: ["+", "new", "calm"],
  lost: ["✕", "lost", "bad"],
  gone: ["−", "gone", "warn"],
};

export function Fates({ changes }: { changes: Fate[] }) {
  if (changes.length === 0) return <Empty>No part of the job changes.</Empty>;
  return (
    <ul class="fates">
      {changes.map((change, index) => {
        const [sign, word, kind] = FATES[change.fate] ?? ["•", change.fate, "calm"];
        return <li key={index}><span class={`fate ${kind}`}><span aria-hidden="true">{sign} </span>{word}</span> <Text of={change.what} max={300} /></li>;
      })}
    </ul>
  );
}
