// The tokens of a text of SQL, as the server divides it. Only what the formatter needs to know.

export type Kind = "word" | "quoted" | "string" | "number" | "line-comment" | "comment" | "sign";

export interface Token {
  kind: Kind;
  text: string;
  /** Line breaks in the white space before it; -1: there is no white space. */
  breaks: number;
}

const SPACE = /[ \t\r\n\f]+/y;
const WORD = /[\p{L}_][\p{L}\p{N}_$]*/uy;
const NUMBER = /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y;
const LINE_COMMENT = /--[^\n]*/y;
const COMMENT = /\/\*[^]*?\*\//y;
const STRING = /'(?:[^']|'')*'/y;
const QUOTED = /"(?:[^"]|"")*"|`(?:[^`]|``)*`/y;
/** Signs that begin something that is not read here. */
const UNKNOWN = /[#\\$?@{}]|\/\/|\/\*/y;

const KINDS: [Kind, RegExp][] = [
  ["line-comment", LINE_COMMENT],
  ["comment", COMMENT],
  ["string", STRING],
  ["quoted", QUOTED],
  ["number", NUMBER],
  ["word", WORD],
];

/** The tokens, or null if the text has something that is not read here for sure. */
export function tokens(text: string): Token[] | null {
  const found: Token[] = [];
  let [at, breaks] = [0, -1];
  while (at < text.length) {
    const space = match(SPACE, text, at);
    if (space !== null) {
      breaks = space.split("\n").length - 1;
      at += space.length;
      continue;
    }
    const token = next(text, at);
    if (token === null || isUnsure(token, found.at(-1), breaks)) return null;
    found.push({ ...token, breaks });
    at += token.text.length;
    breaks = -1;
  }
  return found;
}

function next(text: string, at: number): Omit<Token, "breaks"> | null {
  for (const [kind, pattern] of KINDS) {
    const found = match(pattern, text, at);
    if (found !== null) return { kind, text: found };
  }
  const sign = String.fromCodePoint(text.codePointAt(at) ?? 0);
  const isUnknown = match(UNKNOWN, text, at) !== null || `'"\``.includes(sign) || /\s/u.test(sign);
  return isUnknown ? null : { kind: "sign", text: sign };
}

/** Whether the server may divide the text otherwise: strings with a prefix such as E'', and comments within comments. */
function isUnsure(token: Omit<Token, "breaks">, before: Token | undefined, breaks: number): boolean {
  if (token.kind === "comment") return token.text.indexOf("/*", 2) >= 0;
  const touches = breaks < 0 && before !== undefined;
  if (token.kind === "string") return touches && (before.kind === "word" || before.text === "&");
  return touches && token.kind === "word" && before.kind === "number";
}

function match(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? null;
}
