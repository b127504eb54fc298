// Where an error is in a text: the server counts lines and characters, the editor UTF-16 units.

/** A mark in the text of an editor. */
export interface Mark {
  from: number;
  to: number;
  severity: "error" | "warning";
  message: string;
  remedy: string | null;
}

/** The server's answer about an error in a text. */
export interface TextError {
  error: string;
  place?: string | null;
  remedy?: string | null;
  line?: number | null;
  column?: number | null;
  length?: number | null;
}

/** The offset of a line and a column, both from 1 on. Columns count characters, not UTF-16 units. */
export function offsetOf(text: string, line: number, column: number): number | null {
  let start = 0;
  for (let at = 1; at < line; at += 1) {
    const end = text.indexOf("\n", start);
    if (end < 0) return null;
    start = end + 1;
  }
  return forward(text, start, column - 1);
}

/** The offset so many characters further, at most at the end of the line. */
function forward(text: string, from: number, characters: number): number {
  let at = from;
  for (let count = 0; count < characters && at < text.length && text[at] !== "\n"; count += 1) {
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  }
  return at;
}

const PLACE = /line (\d+), column (\d+)/;

/** The line and the column that an error has, as fields or in its words. */
export function lineOf(error: TextError): { line: number; column: number } | null {
  if (typeof error.line === "number") return { line: error.line, column: error.column ?? 1 };
  const found = PLACE.exec(error.place ?? "") ?? PLACE.exec(error.error);
  return found === null ? null : { line: Number(found[1]), column: Number(found[2]) };
}

/** The mark of an error, or null if it has no place in the text. */
export function markOf(text: string, error: TextError): Mark | null {
  const place = lineOf(error);
  const from = place === null ? null : offsetOf(text, place.line, place.column);
  if (from === null) return null;
  const length = error.length ?? 0;
  let to = length > 0 ? forward(text, from, length) : wordEnd(text, from);
  let start = from;
  // An empty mark cannot be seen: at the end of a line it is the character before.
  if (to <= start) {
    if (start < text.length && text[start] !== "\n") to = start + 1;
    else if (start > 0 && text[start - 1] !== "\n") start -= 1;
  }
  return { from: start, to: Math.max(to, start), severity: "error", message: error.error, remedy: error.remedy ?? null };
}

function wordEnd(text: string, from: number): number {
  const word = /[\p{L}\p{N}_$]+/uy;
  word.lastIndex = from;
  return from + (word.exec(text)?.[0].length ?? 0);
}
