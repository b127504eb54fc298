// Drafts of queries in the browser's storage: names and texts, nothing else.
import { signal } from "@preact/signals";
import { now } from "../live";

export interface Draft {
  name: string;
  text: string;
  /** By the server's clock; 0 if it was not known. */
  at_ms: number;
}

const DRAFTS = "anabranch-drafts";
const PRESENT = "anabranch-sql";
const DRAFTS_MAX = 50;
/** Characters of a text that is kept. */
const TEXT_MAX = 1 << 20;

/** Newest first. */
export const drafts = signal<Draft[]>(read());

function read(): Draft[] {
  try {
    return draftsOf(JSON.parse(localStorage.getItem(DRAFTS) ?? "[]"));
  } catch {
    return [];
  }
}

/** The drafts in what was stored, perhaps by another release. */
export function draftsOf(stored: unknown): Draft[] {
  if (!Array.isArray(stored)) return [];
  const found = stored.flatMap((draft: unknown) => {
    const { name, text, at_ms } = (draft ?? {}) as Record<string, unknown>;
    const isDraft = typeof name === "string" && name !== "" && typeof text === "string";
    return isDraft ? [{ name, text, at_ms: typeof at_ms === "number" ? at_ms : 0 }] : [];
  });
  return found.sort((a, b) => b.at_ms - a.at_ms).slice(0, DRAFTS_MAX);
}

/** The drafts with one more. It takes the place of that with its name. */
export function withDraft(list: Draft[], draft: Draft): Draft[] {
  return draftsOf([draft, ...list.filter((other) => other.name !== draft.name)]);
}

/** Returns why the browser does not keep them; null if it does. */
function write(list: Draft[]): string | null {
  try {
    localStorage.setItem(DRAFTS, JSON.stringify(list));
  } catch {
    return "The browser does not keep the draft: its storage is full or switched off. Delete drafts, or copy the text elsewhere.";
  }
  drafts.value = list;
  return null;
}

export function saveDraft(name: string, text: string): string | null {
  if (text.length > TEXT_MAX) return "The text is too long for a draft: at most 1 MB.";
  // Another tab may have saved one.
  return write(withDraft(read(), { name, text, at_ms: now.peek() }));
}

export function deleteDraft(name: string): string | null {
  return write(read().filter((draft) => draft.name !== name));
}

/** The text that was in the editor last. */
export function presentText(): string {
  try {
    return localStorage.getItem(PRESENT) ?? "";
  } catch {
    return "";
  }
}

export function keepPresentText(text: string): void {
  try {
    if (text.length <= TEXT_MAX) localStorage.setItem(PRESENT, text);
  } catch {
    // It stays in the editor only.
  }
}
