// Line breaks and the case of keywords of a text of SQL. The meaning stays: only white space beside white space or punctuation changes,
// and the case of words that can only be keywords where they stand. Comments, strings and names stay as they are.

import { type Token, tokens } from "./tokens";

/** Words that begin a statement. */
const STATEMENTS = words("SELECT INSERT CREATE DROP ALTER SET RESET EXPLAIN WITH USE SHOW DESCRIBE EXECUTE");
/** Words that follow an operand, and what comes before another one. */
const AFTER_OPERAND = words("SELECT WITH FROM WHERE HAVING LIMIT ON AND OR AS JOIN UNION GROUP ORDER LEFT RIGHT FULL INNER CROSS IS BETWEEN LIKE");
/** Words that can only be keywords behind those before the arrow. */
const AFTER_WORD: Record<string, Set<string>> = {
  GROUP: words("BY"), ORDER: words("BY"), UNION: words("ALL"), INSERT: words("INTO"),
  LEFT: words("JOIN OUTER"), RIGHT: words("JOIN OUTER"), FULL: words("JOIN OUTER"), INNER: words("JOIN"), CROSS: words("JOIN"),
  OUTER: words("JOIN"), ALL: words("SELECT"), CREATE: words("TABLE VIEW TEMPORARY FUNCTION"), TEMPORARY: words("TABLE VIEW FUNCTION"),
  IS: words("NOT NULL"), NOT: words("NULL"),
};
/** Words that are keywords only with one of these words behind them. */
const BEFORE_WORD: Record<string, Set<string>> = {
  GROUP: words("BY"), ORDER: words("BY"), UNION: words("ALL SELECT"), INSERT: words("INTO"),
  LEFT: words("JOIN OUTER"), RIGHT: words("JOIN OUTER"), FULL: words("JOIN OUTER"), INNER: words("JOIN"), CROSS: words("JOIN"),
  WITH: words("("),
};
/** Clauses that begin a line of their own. */
const CLAUSES = words("SELECT FROM WHERE HAVING LIMIT JOIN UNION GROUP ORDER LEFT RIGHT FULL INNER CROSS");

function words(list: string): Set<string> {
  return new Set(list.split(" "));
}

interface Level {
  /** What is in the parentheses: a query, a list with an element in each line, or anything else. */
  holds: "query" | "list" | "other";
  indent: number;
}

/** The text in another form, or null if that is not safe: then it has something that is not read here. */
export function format(text: string): string | null {
  const found = tokens(text);
  if (found === null) return null;
  const cased = withCase(found);
  const written = write(cased);
  return isSame(found, cased, written) ? written : null;
}

function isComment(token: Token | undefined): boolean {
  return token?.kind === "comment" || token?.kind === "line-comment";
}

function isOperandEnd(token: Token | undefined, wasKeyword: boolean): boolean {
  if (token === undefined) return false;
  if (token.kind === "word") return !wasKeyword || /^(?:NULL|END|TRUE|FALSE)$/i.test(token.text);
  return token.kind !== "sign" || token.text === ")" || token.text === "]" || token.text === "*";
}

/** Gives keywords capital letters where they can be nothing else. */
function withCase(found: Token[]): Token[] {
  const real = found.map((_, at) => at).filter((at) => !isComment(found[at]));
  const cased = [...found];
  const isKeyword = new Set<number>();
  real.forEach((at, place) => {
    const token = found[at]!;
    if (token.kind !== "word") return;
    const [before, after] = [real[place - 1], real[place + 1]];
    const upper = token.text.toUpperCase();
    const last = before === undefined ? undefined : found[before];
    const wasKeyword = before !== undefined && isKeyword.has(before);
    if (isKeywordHere(upper, last, wasKeyword, after === undefined ? undefined : found[after])) {
      isKeyword.add(at);
      cased[at] = { ...token, text: upper };
    }
  });
  return cased;
}

function isKeywordHere(upper: string, last: Token | undefined, wasKeyword: boolean, after: Token | undefined): boolean {
  // A name with a point, a call, an element of a list, or the left side of a comparison.
  const isName = after?.kind === "sign" && ".,)=<>;[".includes(after.text);
  if (last === undefined || last.text === ";") return STATEMENTS.has(upper) && !isName && after !== undefined;
  if (wasKeyword && AFTER_WORD[last.text.toUpperCase()]?.has(upper)) return upper === "NULL" || !isName;
  if (upper === "SELECT" && (last.text === "(" || (wasKeyword && last.text.toUpperCase() === "AS"))) return !isName && after?.text !== "(";
  if (!AFTER_OPERAND.has(upper) || isName || after === undefined || !isOperandEnd(last, wasKeyword)) return false;
  const [needed, next] = [BEFORE_WORD[upper], after.text.toUpperCase()];
  // Two keywords in a row: the first one may be an alias, as in SELECT a on FROM t.
  return needed === undefined ? !AFTER_OPERAND.has(next) : needed.has(next);
}

/** Writes tokens with their white space. */
function write(list: Token[]): string {
  let out = "";
  const levels: Level[] = [{ holds: "query", indent: 0 }];
  let statement = "";
  list.forEach((token, at) => {
    const last = list[at - 1];
    const level = levels.at(-1)!;
    if (last === undefined || (last.text === ";" && levels.length === 1)) statement = token.text.toUpperCase();
    if (token.text === ")" && token.kind === "sign" && levels.length > 1) levels.pop();
    out += at === 0 ? "" : gap(list, at, level, levels.at(-1)!, statement);
    out += token.text;
    if (token.text === "(" && token.kind === "sign") levels.push(opened(list, at, levels.at(-1)!, statement, levels.length));
  });
  return out === "" ? out : `${out}\n`;
}

/** What the parentheses hold that begin here. */
function opened(list: Token[], at: number, outer: Level, statement: string, depth: number): Level {
  const [before, after] = [list[at - 1], list[at + 1]];
  const starts = after?.kind === "word" && after.text === "SELECT";
  if (starts) return { holds: "query", indent: outer.indent + 2 };
  // The columns and the options of CREATE TABLE.
  const isTable = statement === "CREATE" && depth === 1 && list.slice(Math.max(0, at - 8), at).some((token) => token.text === "TABLE" || token.text.toUpperCase() === "WITH");
  const isList = isTable && before !== undefined && (before.kind === "word" || before.kind === "quoted") && isLong(list, at);
  return { holds: isList ? "list" : "other", indent: outer.indent + 2 };
}

/** Whether the list that begins here has more than one element or is too long for a line. */
function isLong(list: Token[], at: number): boolean {
  let [depth, length, commas] = [0, 0, 0];
  for (const token of list.slice(at)) {
    if (token.text === "(" && token.kind === "sign") depth += 1;
    if (token.text === ")" && token.kind === "sign" && (depth -= 1) === 0) break;
    if (token.text === "," && depth === 1) commas += 1;
    if (isComment(token)) return true;
    length += token.text.length + 1;
  }
  return commas > 1 || length > 70;
}

/** The white space between a token and the one before it. */
function gap(list: Token[], at: number, inner: Level, outer: Level, statement: string): string {
  const [last, token] = [list[at - 1]!, list[at]!];
  const line = (indent: number, blank = false) => `\n${blank ? "\n" : ""}${" ".repeat(indent)}`;
  const isSign = (of: Token, text: string) => of.kind === "sign" && of.text === text;
  const isBlank = token.breaks > 1;
  const isTop = inner.indent === 0;
  if (isComment(token)) {
    if (token.breaks > 0) return line(inner.indent, isBlank);
    return token.breaks < 0 ? "" : " ";
  }
  if (isSign(last, ";") && isTop) return line(0, isBlank);
  if (isSign(token, ")") && (inner.holds === "list" || (inner.holds === "query" && outer !== inner))) return line(outer.indent);
  if (last.kind === "line-comment") return line(inner.indent, isBlank && isTop);
  if (inner.holds === "list" && (isSign(last, ",") || isSign(last, "("))) return line(inner.indent);
  if (inner.holds === "query" && isSign(last, "(")) return line(inner.indent);
  if (isSign(last, ",")) return token.breaks > 0 ? line(inner.indent + (inner.holds === "query" ? 2 : 0)) : " ";
  if (token.breaks < 0) return "";
  if (isComment(last) && token.breaks > 0) return line(inner.indent, isBlank && isTop);
  if (inner.holds === "query" && beginsLine(list, at, statement)) return line(inner.indent);
  if (token.breaks > 0 && inner.holds !== "list") return line(inner.indent + (inner.holds === "query" ? 2 : 0));
  return " ";
}

/** Whether a clause begins here. */
function beginsLine(list: Token[], at: number, statement: string): boolean {
  const [last, token] = [list[at - 1]!, list[at]!];
  if (token.kind !== "word" || !CLAUSES.has(token.text) || !/^(?:SELECT|INSERT|CREATE|WITH|EXPLAIN|EXECUTE)$/.test(statement)) return false;
  if (token.text === "FROM" && last.text.toUpperCase() === "DISTINCT") return false;
  if (token.text === "JOIN") return !/^(?:LEFT|RIGHT|FULL|INNER|CROSS|OUTER)$/.test(last.text);
  return token.text !== "SELECT" || last.text !== "EXPLAIN";
}

/** Whether both texts have the same tokens. */
function isSame(before: Token[], cased: Token[], written: string): boolean {
  const after = tokens(written);
  if (after === null || after.length !== before.length) return false;
  return after.every((token, at) => {
    const [old, now] = [before[at]!, cased[at]!];
    const isText = token.kind === old.kind && (token.text === old.text || (token.kind === "word" && token.text === now.text));
    // A space between two tokens, or none, may have a meaning where neither is a bracket, a comma or a semicolon.
    const next = token.kind === "sign" && ",;()".includes(token.text);
    const last = after[at - 1];
    const isFree = next || (last !== undefined && last.kind === "sign" && ",;()".includes(last.text)) || at === 0;
    return isText && (isFree || (token.breaks < 0) === (old.breaks < 0));
  });
}
