// The difference of two texts, line by line.

export interface Line {
  kind: "same" | "added" | "removed";
  text: string;
  /** Numbers of the line, from 1 on, in the text that has it. */
  before: number | null;
  after: number | null;
}

/** Lines that may differ. Beyond that, all that lies between the equal ends counts as replaced. */
const EDITS_MAX = 400;
/** Equal lines that are shown around those that differ. */
const AROUND = 3;

export function difference(before: string, after: string): Line[] {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const lines: Line[] = [];
  let [before_, after_] = [0, 0];
  const push = (kind: Line["kind"], text: string) => {
    if (kind !== "added") before_ += 1;
    if (kind !== "removed") after_ += 1;
    lines.push({ kind, text, before: kind === "added" ? null : before_, after: kind === "removed" ? null : after_ });
  };
  for (const text of a.slice(0, start)) push("same", text);
  for (const [kind, text] of edits(x, y)) push(kind, text);
  for (const text of a.slice(a.length - end)) push("same", text);
  return lines;
}

type Edit = [Line["kind"], string];

/** The shortest list of edits (Myers 1986), within a bound. */
function edits(a: string[], b: string[]): Edit[] {
  const whole = (): Edit[] => [...a.map((text): Edit => ["removed", text]), ...b.map((text): Edit => ["added", text])];
  if (a.length === 0 || b.length === 0) return whole();
  const reached = new Map<number, number>([[1, 0]]);
  const steps: Map<number, number>[] = [];
  for (let d = 0; d <= EDITS_MAX; d += 1) {
    steps.push(new Map(reached));
    for (let k = -d; k <= d; k += 2) {
      const [left, right] = [reached.get(k - 1) ?? -1, reached.get(k + 1) ?? -1];
      let x = k === -d || (k !== d && left < right) ? right : left + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reached.set(k, x);
      if (x >= a.length && x - k >= b.length) return traced(a, b, steps);
    }
  }
  return whole();
}

/** The edits, from the last one back. */
function traced(a: string[], b: string[], steps: Map<number, number>[]): Edit[] {
  const found: Edit[] = [];
  let [x, y] = [a.length, b.length];
  for (let d = steps.length - 1; d >= 0; d -= 1) {
    const reached = steps[d]!;
    const k = x - y;
    const [left, right] = [reached.get(k - 1) ?? -1, reached.get(k + 1) ?? -1];
    const from = k === -d || (k !== d && left < right) ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : (reached.get(from) ?? 0);
    const fromY = d === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      found.push(["same", a[x - 1]!]);
      [x, y] = [x - 1, y - 1];
    }
    if (d === 0) break;
    if (x > fromX) found.push(["removed", a[x - 1]!]);
    else found.push(["added", b[y - 1]!]);
    [x, y] = [fromX, fromY];
  }
  return found.reverse();
}

/** The lines that differ with those around them. A number stands for so many equal lines that are left out. */
export function shortened(lines: Line[]): (Line | number)[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const out: (Line | number)[] = [];
  lines.forEach((line, at) => {
    const last = out.at(-1);
    if (near[at] === 1) out.push(line);
    else if (typeof last === "number") out[out.length - 1] = last + 1;
    else out.push(1);
  });
  return out;
}
