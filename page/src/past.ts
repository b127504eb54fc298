// Which moment the screens of a job show. Of its own, because both the server's rights and the documents follow from it.
import { signal } from "@preact/signals";

/** Milliseconds since 1970 by the server's clock, or null for now. */
export const past = signal<number | null>(null);
