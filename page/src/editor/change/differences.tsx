// The difference of two texts as a table of lines.
import { useMemo } from "preact/hooks";
import { plural } from "../../format";
import { shownLines } from "../../shown";
import { difference, shortened } from "../difference";

const SIGNS = { same: " ", added: "+", removed: "−" };
/** Lines that are drawn. */
const DRAWN = 2000;

export function Difference({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = useMemo(() => shortened(difference(before, after)), [before, after]);
  if (before === after) return <p class="said">Both texts are the same.</p>;
  return (
    <div class="difference" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead class="visually-hidden"><tr><th scope="col">line before</th><th scope="col">line after</th><th scope="col">change</th><th scope="col">text</th></tr></thead>
        <tbody>
          {lines.slice(0, DRAWN).map((line, at) =>
            typeof line === "number" ? (
              <tr key={at} class="left-out"><td colSpan={4}>{plural(line, "equal line")}</td></tr>
            ) : (
              <tr key={at} class={line.kind}>
                <td class="at">{line.before}</td><td class="at">{line.after}</td><td aria-label={line.kind}>{SIGNS[line.kind]}</td><td>{shownLines(line.text)}</td>
              </tr>
            ),
          )}
          {lines.length > DRAWN && <tr class="left-out"><td colSpan={4}>{plural(lines.length - DRAWN, "further line")}</td></tr>}
        </tbody>
      </table>
    </div>
  );
}
