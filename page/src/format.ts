// Numbers, sizes, durations and times as text. The same rules everywhere, so that columns line up.

export const NONE = "–";

type Maybe = number | null | undefined;

/** Three significant digits, also of what is rounded up to the next power of ten: a column keeps its width as values change. */
function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** Of the smallest unit, whole numbers stay whole. */
function small(value: number): string {
  return Number.isInteger(value) ? value.toFixed(0) : digits(value);
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let unit = 0;
  let rest = value;
  // 999.95 would be shown as 1000 of the smaller unit.
  while (Math.abs(rest) >= base - base / 2000 && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  const name = units[unit] ?? "";
  return (unit === 0 ? small(rest) : digits(rest)) + (name === "" ? "" : "\u00a0" + name);
}

/** `1,234,567`. */
export function grouped(value: Maybe): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `12.3 k`. */
export function count(value: Maybe): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return scaled(Math.abs(value) < 1000 ? Math.round(value * 10) / 10 : value, 1000, ["", "k", "M", "G", "T"]);
}

/** `12.3 k/s`. */
export function rate(value: Maybe): string {
  const text = count(value);
  return text === NONE ? NONE : `${text}/s`;
}

/** `12.3 MB`; 1 KB has 1,024 bytes, as on the terminal. */
export function bytes(value: Maybe): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  return scaled(value, 1024, ["B", "KB", "MB", "GB", "TB"]);
}

/** `87 %`. */
export function percent(share: Maybe): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return NONE;
  return `${Math.round(share * 100)}\u00a0%`;
}

/** A duration: `0.12 ms`, `850 ms`, `3.20 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`. */
export function duration(ms: Maybe): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NONE;
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 999.5) return `${small(ms)}\u00a0ms`;
  if (ms < 59_950) return `${digits(ms / 1000)}\u00a0s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return two(Math.floor(seconds / 60), "min", seconds % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(minutes / 60);
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  const first = `${large}\u00a0${largeUnit}`;
  return small === 0 ? first : `${first}\u00a0${small}\u00a0${smallUnit}`;
}

/** How long ago, in whole units: `now`, `12 s ago`, `3 min ago`. */
export function ago(ms: Maybe): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NONE;
  if (ms < 1000) return "now";
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds}\u00a0s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}\u00a0min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}\u00a0h ago`;
  return `${Math.floor(seconds / 86_400)}\u00a0d ago`;
}

function pad(value: number, width = 2): string {
  return String(value).padStart(width, "0");
}

/** Time of day of the server's clock, in UTC: `03:12:07`. */
export function timeOfDay(ms: Maybe): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NONE;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return NONE;
  return `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}:${pad(at.getUTCSeconds())}`;
}

/** Date and time, in UTC: `2026-11-30 03:12:07`. */
export function dateTime(ms: Maybe): string {
  const time = timeOfDay(ms);
  if (time === NONE || ms === null || ms === undefined) return NONE;
  const at = new Date(ms);
  return `${at.getUTCFullYear()}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())} ${time}`;
}

/** Time of day if that is within 20 hours of `now`, else with the date. */
export function moment(ms: Maybe, now: number): string {
  if (ms === null || ms === undefined) return NONE;
  return Math.abs(now - ms) < 72_000_000 ? timeOfDay(ms) : dateTime(ms);
}

/** `1 task`, `2 tasks`. */
export function plural(value: number, one: string, many = one + "s"): string {
  return `${grouped(value)}\u00a0${value === 1 ? one : many}`;
}

/** A word of the server for people: `held-back-by-alignment` becomes `held back by alignment`. */
export function words(word: string): string {
  return word.replace(/-/g, " ");
}
