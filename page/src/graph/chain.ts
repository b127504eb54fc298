// The cause and the chain to it, of what is shown.
import { computed } from "@preact/signals";
import type { ChainLink } from "../docs";
import { view } from "../job/model";
import { severity } from "../verdict";

const why = computed(() => view.value?.why ?? null);

/** The links by their stages. As long as the reason is the same, so is the map, and nothing is drawn again. */
export const chain = computed<{ links: ChainLink[]; of: Map<number, ChainLink>; cause: number | null; isCalm: boolean }>(() => {
  const links = why.value?.chain ?? [];
  const of = new Map(links.flatMap((link) => (link.stage === null || link.stage === undefined ? [] : [[link.stage, link] as const])));
  // The cause may be a partition or something outside: then the stage next to it is marked, with that one's reason.
  const cause = why.value?.stage ?? links.findLast((link) => link.stage != null)?.stage ?? null;
  const reason = links.find((link) => link.cause);
  if (cause !== null && reason !== undefined) of.set(cause, { ...reason, stage: cause, cause: true });
  return { links, of, cause: links.length === 0 ? null : cause, isCalm: severity(why.value?.verdict) === "calm" };
});
