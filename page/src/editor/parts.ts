// The parts of the SQL text that operators come from: the server counts lines and characters, the editor UTF-16 units. Pure.
import type { Plan, TextPlace, TextRange } from "../docs";
import { offsetOf } from "./places";

/** A part of a text, in UTF-16 units. */
export interface Span {
  from: number;
  to: number;
}

/** An operator with a part of the text that it comes from. */
export interface Origin extends Span {
  stage: number;
  name: string;
  operator: string;
}

export function spanOf(text: string, { from, to }: TextRange): Span | null {
  const [begin, end] = [offsetOf(text, from.line, from.column), offsetOf(text, to.line, to.column)];
  return begin === null || end === null || end <= begin ? null : { from: begin, to: end };
}

/** A part in one line. */
export function excerpt(text: string, range: TextRange): string | null {
  const span = spanOf(text, range);
  return span === null ? null : text.slice(span.from, span.to).replace(/\s+/g, " ");
}

/** A part in an address: `3:7-3:20`. */
export function rangeText({ from, to }: TextRange): string {
  return `${from.line}:${from.column}-${to.line}:${to.column}`;
}

export function rangeOf(text: string | null): TextRange | null {
  const numbers = /^(\d{1,9}):(\d{1,9})-(\d{1,9}):(\d{1,9})$/.exec(text ?? "")?.slice(1).map(Number);
  if (numbers === undefined) return null;
  const place = (at: number): TextPlace => ({ line: numbers[at] ?? 0, column: numbers[at + 1] ?? 0 });
  return { from: place(0), to: place(2) };
}

/** All operators of a plan with the parts of its text. */
export function originsOf(plan: Plan, text: string): Origin[] {
  return plan.stages.flatMap(({ stage, name, source, operators, sink, sql }) => {
    const all: [string | null, TextRange[]][] = [[source, sql.source], ...operators.map((operator, at): [string, TextRange[]] => [operator, sql.operators[at] ?? []]), [sink, sql.sink]];
    return all.flatMap(([operator, ranges]) => (operator === null ? [] : ranges.flatMap((range) => {
      const span = spanOf(text, range);
      return span === null ? [] : [{ ...span, stage, name, operator }];
    })));
  });
}

/** Those that come from a place: first those that come from the smallest part around it. */
export function originsAt(origins: readonly Origin[], at: number): Origin[] {
  const around = origins.filter((origin) => origin.from <= at && at <= origin.to).sort((a, b) => a.to - a.from - (b.to - b.from));
  // Of several parts of one operator, the smallest.
  return around.filter((one, place) => around.findIndex((other) => other.stage === one.stage && other.operator === one.operator) === place);
}
