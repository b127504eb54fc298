// Text from outside. All names, errors, rows and notices are drawn by these two, and so are only ever text nodes.
import { cut, shown, shownLines } from "../shown";

interface TextProps {
  of: string | null | undefined;
  max?: number;
  /** Messages may have several lines; a line end in a name is shown as a sign. */
  message?: boolean;
}

/** A name, a value or a message. What is cut is in the title. */
export function Text({ of, max = 120, message = false }: TextProps) {
  const text = message ? shownLines(of ?? "") : shown(of ?? "");
  const short = cut(text, max);
  const name = message ? "text message" : "text";
  return short === text ? <span class={name}>{text}</span> : <span class={name} title={text}>{short}</span>;
}

/** Several lines, as they are. */
export function Lines({ of, class: name = "" }: { of: string | null | undefined; class?: string }) {
  return <pre class={`lines ${name}`} tabIndex={0}>{shownLines(of ?? "")}</pre>;
}
