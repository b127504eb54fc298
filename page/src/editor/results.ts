// Rows of a preview: a table in which each row stays at its place, and a log of what has come. Both are bounded.

export interface Column {
  name: string;
  type: string;
  numeric: boolean;
}

export interface Change {
  weight: number;
  values: (string | null)[];
}

export interface Placed {
  place: number;
  values: (string | null)[];
}

export interface Logged extends Change {
  number: number;
}

/** Rows that are kept, of the table and of the log. */
export const KEPT = 500;
/** Rows that were taken back before they came. */
const MISSING_MAX = 5000;

export class Results {
  /** Changes that have come. */
  changes = 0;
  /** Some rows were taken back. */
  isUpdated = false;
  /** Rows are gone because there were too many. */
  forgets = false;
  private readonly labels: number[];
  private readonly at = new Map<number, Change["values"]>();
  private readonly places = new Map<string, number[]>();
  private readonly missing = new Map<string, number>();
  private log: Logged[] = [];
  private next = 0;

  constructor(columns: Column[]) {
    const found = columns.flatMap((column, at) => (column.numeric ? [] : [at]));
    // Columns that probably tell rows apart.
    this.labels = found.length > 0 ? found : [0];
  }

  /** The rows as they are now, in the order of their places. */
  rows(): Placed[] {
    const placed = [...this.at].map(([place, values]) => ({ place, values }));
    return placed.sort((a, b) => a.place - b.place);
  }

  /** The newest changes, oldest first. */
  logged(): Logged[] {
    return this.log.slice(-KEPT);
  }

  /** Takes changes that came together. A row takes the place of one that was taken back: of one with its label, else of any. */
  apply(changes: Change[]): void {
    if (changes.length > KEPT && this.missing.size === 0 && changes.every((change) => change.weight > 0)) {
      // Rows that only come: those that would be forgotten at once need no place.
      const skipped = changes.length - KEPT;
      this.changes += skipped;
      this.next += skipped;
      this.forgets = true;
      return this.apply(changes.slice(skipped));
    }
    const free = new Map<number, string>();
    const coming: Change["values"][] = [];
    for (const change of changes) {
      this.changes += 1;
      this.log.push({ ...change, number: this.changes });
      if (change.weight > 0) coming.push(change.values);
      else this.takeBack(change.values, free);
    }
    // Not with each change: that would copy the log each time.
    if (this.log.length > 2 * KEPT) this.log = this.log.slice(-KEPT);
    const others: Change["values"][] = [];
    for (const values of coming) {
      if (this.cancels(values)) continue;
      const label = this.label(values);
      const place = [...free].find(([, of]) => of === label)?.[0];
      if (place === undefined) others.push(values);
      else {
        free.delete(place);
        this.put(place, values);
      }
    }
    const rest = [...free.keys()].sort((a, b) => a - b);
    for (const values of others) this.put(rest.shift() ?? (this.next += 1), values);
    this.forget();
  }

  private takeBack(values: Change["values"], free: Map<number, string>): void {
    this.isUpdated = true;
    const key = JSON.stringify(values);
    const places = this.places.get(key);
    const place = places?.pop();
    if (places?.length === 0) this.places.delete(key);
    if (place !== undefined) {
      this.at.delete(place);
      free.set(place, this.label(values));
    } else if (!this.forgets && this.missing.size < MISSING_MAX) {
      this.missing.set(key, (this.missing.get(key) ?? 0) + 1);
    }
  }

  /** Whether the row was taken back already, so that nothing comes. */
  private cancels(values: Change["values"]): boolean {
    if (this.missing.size === 0) return false;
    const key = JSON.stringify(values);
    const times = this.missing.get(key) ?? 0;
    if (times > 1) this.missing.set(key, times - 1);
    else this.missing.delete(key);
    return times > 0;
  }

  private label(values: Change["values"]): string {
    return JSON.stringify(this.labels.map((column) => values[column] ?? null));
  }

  private put(place: number, values: Change["values"]): void {
    const key = JSON.stringify(values);
    const places = this.places.get(key);
    if (places === undefined) this.places.set(key, [place]);
    else places.push(place);
    this.at.set(place, values);
  }

  /** Rows beyond the bound go, those with the oldest places first. */
  private forget(): void {
    if (this.at.size <= KEPT) return;
    this.forgets = true;
    const oldest = [...this.at.keys()].sort((a, b) => a - b).slice(0, this.at.size - KEPT);
    for (const place of oldest) {
      const key = JSON.stringify(this.at.get(place));
      const places = this.places.get(key)?.filter((other) => other !== place) ?? [];
      if (places.length === 0) this.places.delete(key);
      else this.places.set(key, places);
      this.at.delete(place);
    }
  }
}

/** The changes in an event's text. What is not as it should be is left out. */
export function changesOf(data: unknown): Change[] {
  if (!Array.isArray(data)) return [];
  return data.flatMap((row: unknown) => {
    const { weight, values } = (row ?? {}) as { weight?: unknown; values?: unknown };
    if (!Array.isArray(values)) return [];
    const texts = values.map((value: unknown) => (value === null ? null : String(value)));
    return [{ weight: typeof weight === "number" ? weight : 1, values: texts }];
  });
}
