// What the server is and allows, and whether this page is the one that it has.
import { computed, signal } from "@preact/signals";
import { request } from "./api";
import type { ServerInfo } from "./docs";
import { past } from "./past";

export const server = signal<ServerInfo | null>(null);

/** The server has another page, and loading again did not help. */
export const outdated = signal(false);

/** Whether this page may change anything now: never with a token that only reads, never while the past is shown. */
export const mayChange = computed(() => server.value !== null && !server.value.reads_only && past.value === null);

const RELOADED = "anabranch-reloaded-for";

/** Asks for the server's description. Loads the page again if the server has another one, at most once for each of them. */
export async function checkServer(signal?: AbortSignal): Promise<void> {
  const info = (await request("/api/v1/server", signal === undefined ? {} : { signal })) as ServerInfo;
  server.value = info;
  const own = document.querySelector('meta[name="anabranch-page"]')?.getAttribute("content") ?? "";
  if (typeof info.page !== "string" || info.page === "" || info.page === "none" || info.page === own) {
    outdated.value = false;
    return;
  }
  if (!rememberReload(info.page)) {
    outdated.value = true;
    return;
  }
  location.reload();
}

/** False if the page was loaded again for this build already, or that cannot be remembered. */
function rememberReload(build: string): boolean {
  try {
    if (sessionStorage.getItem(RELOADED) === build) return false;
    sessionStorage.setItem(RELOADED, build);
    return sessionStorage.getItem(RELOADED) === build;
  } catch {
    return false;
  }
}
