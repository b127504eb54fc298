// Hash routes: `#/job/NAME/flow?stage=2`.
import { signal } from "@preact/signals";

export interface Route {
  /** Decoded parts of the path. */
  parts: string[];
  query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "");
  return { parts: parts.map(decodePart), query: new URLSearchParams(query) };
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a screen. Undefined values are left out. */
export function href(parts: string[], query: Record<string, string | number | null | undefined> = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const tail = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  return "#/" + parts.map(encodeURIComponent).join("/") + (tail === "" ? "" : "?" + tail);
}

export const route = signal<Route>(parseRoute(typeof location === "undefined" ? "" : location.hash));

export function followAddress(): void {
  route.value = parseRoute(location.hash);
  addEventListener("hashchange", () => (route.value = parseRoute(location.hash)));
}

export function go(to: string): void {
  location.hash = to;
}

/** Changes the query of the present screen without an entry in the browser's history. */
export function setQuery(changes: Record<string, string | number | null>): void {
  const query = new URLSearchParams(route.value.query);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) query.delete(key);
    else query.set(key, String(value));
  }
  const tail = query.toString();
  const to = "#/" + route.value.parts.map(encodeURIComponent).join("/") + (tail === "" ? "" : "?" + tail);
  history.replaceState(null, "", to);
  route.value = parseRoute(to);
}
